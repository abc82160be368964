#include "labelshift/core/inference/shift_hypothesis.hpp"

#include <fmt/format.h>

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "labelshift/core/base/distributions.hpp"
#include "labelshift/core/base/error.hpp"
#include "labelshift/core/likelihood/outer_products.hpp"

namespace labelshift {
namespace {

/// Adds one block, by way of its own moments about its own means: no cancellation, since the rows of a block are
/// centred before they are multiplied. The block's own scatter goes to `scatter`, and what its mean adds to the lower
/// triangle of moments.scatter; `t` is for its columns.
void add_block(const MatrixView& rows, std::span<const double> weights, double* t, OuterProducts& scatter,
               Moments& moments) {
  const Index m = rows.cols();
  const Index count = rows.rows();
  const bool weighted = !weights.empty();
  const Eigen::Map<const Eigen::ArrayXd> w(weights.data(), weighted ? count : 0);
  const double weight = weighted ? w.sum() : static_cast<double>(count);
  const double squared_weight = weighted ? w.square().sum() : static_cast<double>(count);
  if (!(squared_weight > 0.0)) return;
  load_rows(rows, t);
  Eigen::VectorXd mean(m), squared_mean(m);
  for (Index c = 0; c < m; ++c) {
    Eigen::Map<Eigen::ArrayXd> column(t + c * kBlockRows, count);
    mean[c] = (weighted ? (column * w).sum() : column.sum()) / weight;
    squared_mean[c] = weighted ? (column * w.square()).sum() / squared_weight : mean[c];
    column -= squared_mean[c];
    if (weighted) column *= w;
    std::fill_n(t + c * kBlockRows + count, kBlockRows - count, 0.0);
  }
  scatter.add_block(t);

  // Chan, Golub and LeVeque's merge of two groups: the scatter gains the spread between the groups' means.
  const double squared_total = moments.squared_weight + squared_weight;
  const Eigen::VectorXd apart = squared_mean - moments.squared_mean;
  moments.scatter.selfadjointView<Eigen::Lower>().rankUpdate(apart,
                                                             moments.squared_weight * squared_weight / squared_total);
  moments.squared_mean += apart * (squared_weight / squared_total);
  moments.squared_weight = squared_total;
  moments.weight += weight;
  moments.mean += (mean - moments.mean) * (weight / moments.weight);
}

void check_columns(Index found, Index expected) {
  if (found == expected) return;
  throw Error(ErrorKind::kInput,
              fmt::format("found rows with {} columns after rows with {}; expected one column a class "
                          "in all of them",
                          found, expected));
}

/// Hotelling's T^2 for a difference of means whose covariance is within / (spread_degrees * rows), where `within` is a
/// scatter matrix with that many degrees of freedom.
HypothesisTest hotelling(const Eigen::VectorXd& difference, double rows, const Eigen::MatrixXd& within,
                         double spread_degrees) {
  // Rows sum to 1, so `within` is singular, and small classes can make it nearly so. The directions to keep are taken
  // from the total scatter, which does not know which row is source and which is target (choosing them cannot favour
  // either outcome) and which contains the difference even where nothing varies within the samples. In terms of
  // u = rows d^T total^-1 d, T^2 / degrees = u / (1 - u).
  const Eigen::MatrixXd total = within + rows * difference * difference.transpose();
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(total);
  const auto& spread = solver.eigenvalues();  // increasing
  const Index m = difference.size();
  // Relative to the largest, and to what rounding alone does to probabilities in float32.
  const double least = std::max(1e-10 * spread[m - 1], 1e-12 * (rows + spread_degrees));
  const auto most = static_cast<Index>(std::max(0.0, spread_degrees / 3.0));  // so that T^2 is not mostly noise
  double explained = 0.0;
  Index directions = 0;
  for (Index k = m - 1; k >= 0 && directions < most && spread[k] > least; --k, ++directions)
    explained += rows * std::pow(solver.eigenvectors().col(k).dot(difference), 2) / spread[k];
  if (directions == 0) return {};

  const double d = static_cast<double>(directions);
  explained = std::min(explained, 1.0 - std::numeric_limits<double>::epsilon());
  const double odds = explained / (1.0 - explained);
  return {.statistic = spread_degrees * odds,
          .p_value = f_survival(odds * (spread_degrees - d + 1.0) / d, d, spread_degrees - d + 1.0),
          .degrees_of_freedom = d};
}

}  // namespace

void Moments::add(const MatrixView& rows, std::span<const double> weights) {
  assert(weights.empty() || static_cast<Index>(weights.size()) == rows.rows());
  const Index m = rows.cols();
  if (mean.size() == 0) {
    mean = squared_mean = Eigen::VectorXd::Zero(m);
    scatter = Eigen::MatrixXd::Zero(m, m);
  }
  check_columns(m, mean.size());
  OuterProducts within(m);
  AlignedDoubles t(m * kBlockRows);
  for (Index first = 0; first < rows.rows(); first += kBlockRows) {
    const Index count = std::min(kBlockRows, rows.rows() - first);
    add_block(
        rows.middle_rows(first, count),
        weights.empty() ? weights : weights.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)),
        t.data(), within, *this);
  }
  for (Index c = 0; c < m; ++c)
    for (Index d = 0; d <= c; ++d) scatter(c, d) += within(c, d);
  scatter.triangularView<Eigen::StrictlyUpper>() = scatter.transpose();
}

void Moments::scale(double factor) {
  assert(factor > 0.0);
  weight *= factor;
  squared_weight *= factor * factor;
  scatter *= factor * factor;
}

double Moments::effective_rows() const {
  return squared_weight > 0.0 ? weight * weight / squared_weight : 0.0;
}

Eigen::MatrixXd Moments::covariance() const {
  const Eigen::VectorXd apart = squared_mean - mean;
  return scatter / squared_weight + apart * apart.transpose();
}

HypothesisTest no_shift_test(const Moments& source, const Moments& target) {
  const double n = source.effective_rows();
  const double k = target.effective_rows();
  if (!(n > 0.0 && k > 0.0)) return {};
  check_columns(target.mean.size(), source.mean.size());
  return hotelling(target.mean - source.mean, n * k / (n + k), n * source.covariance() + k * target.covariance(),
                   n + k - 2.0);
}

HypothesisTest no_shift_test_exact(const Eigen::VectorXd& label_prior, const Moments& target) {
  const double n = target.effective_rows();
  if (!(n > 0.0)) return {};
  check_columns(target.mean.size(), label_prior.size());
  return hotelling(target.mean - label_prior, n, n * target.covariance(), n - 1.0);
}

}  // namespace labelshift
