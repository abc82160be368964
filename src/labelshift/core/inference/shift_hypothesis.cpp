#include "labelshift/core/inference/shift_hypothesis.hpp"

#include <fmt/format.h>

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <vector>

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
    moments.squares[c] += weighted ? (column.square() * w).sum() : column.square().sum();
    moments.cubes[c] += weighted ? (column.cube() * w).sum() : column.cube().sum();
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

/// What the difference of two means is like in one class whose predictions are rare events: a Poisson number of them,
/// `expected` in the mean, each of which moves the difference by `step`.
struct RareEvents {
  double expected = std::numeric_limits<double>::infinity();
  double step = 0.0;
};

/// By the variance and the skewness of a class's predictions in both samples together. Events of size s at a rate of
/// rho have the variance rho s^2 and the third moment rho s^3; in the difference of the means of n and k rows these
/// are multiplied by 1/n + 1/k and 1/n^2 - 1/k^2. So it takes samples of unequal size: in equal ones skewness cancels.
std::vector<RareEvents> rare_events(const Moments& source, const Moments& target) {
  const double n = source.effective_rows();
  const double k = target.effective_rows();
  const double share = k / (n + k);  // of the target among all rows
  std::vector<RareEvents> result(static_cast<std::size_t>(source.mean.size()));
  if (source.cubes.size() == 0 || target.cubes.size() == 0) return result;
  const auto pooled = [&](double of_source, double of_target) {
    return (1.0 - share) * of_source / source.weight + share * of_target / target.weight;
  };
  for (Index c = 0; c < source.mean.size(); ++c) {
    const double mean = (1.0 - share) * source.mean[c] + share * target.mean[c];
    const double square = pooled(source.squares[c], target.squares[c]);
    const double variance = square - mean * mean;
    const double third = pooled(source.cubes[c], target.cubes[c]) - 3.0 * mean * square + 2.0 * mean * mean * mean;
    if (!(variance > 1e-12)) continue;  // what rounding to float32 does
    const double step = third / variance * (1.0 / k - 1.0 / n);
    if (step == 0.0) continue;
    result[static_cast<std::size_t>(c)] = {.expected = variance * (1.0 / n + 1.0 / k) / (step * step), .step = step};
  }
  return result;
}

/// Two-sided: how likely a Poisson number is to be as far out as the difference of means says, between whole numbers
/// by the gamma law that joins them.
double rare_events_p_value(const RareEvents& events, double difference) {
  const double found = std::max(0.0, events.expected + difference / events.step);
  const double upper = poisson_survival(found, events.expected);
  const double lower = 1.0 - poisson_survival(found + 1.0, events.expected);
  return std::min(1.0, 2.0 * std::min(upper, lower));
}

/// Below this number of events to be expected in the smaller sample, a mean is not near enough to normal.
constexpr double kFewEvents = 5.0;

/// The part of the level that rare classes have where others are compared too.
constexpr double kLevelOfRare = 0.2;

}  // namespace

void Moments::add(const MatrixView& rows, std::span<const double> weights) {
  assert(weights.empty() || static_cast<Index>(weights.size()) == rows.rows());
  const Index m = rows.cols();
  if (mean.size() == 0) {
    mean = squared_mean = squares = cubes = Eigen::VectorXd::Zero(m);
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
  squares *= factor;
  cubes *= factor;
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
  const Eigen::VectorXd difference = target.mean - source.mean;
  const Eigen::MatrixXd within = n * source.covariance() + k * target.covariance();
  const auto compare = [&](const std::vector<Index>& classes) {
    return hotelling(difference(classes), n * k / (n + k), within(classes, classes), n + k - 2.0);
  };

  const std::vector<RareEvents> events = rare_events(source, target);
  std::vector<Index> common, rare;
  const auto expected = [&](Index c) { return events[static_cast<std::size_t>(c)].expected; };
  for (Index c = 0; c < difference.size(); ++c) (expected(c) < kFewEvents ? rare : common).push_back(c);
  if (rare.empty()) return compare(common);
  // The common classes sum to 1 minus the rare ones: that sum is as rare. Without one of them it is no direction.
  double together = 0.0;
  for (const Index c : rare) together += expected(c);
  if (together < kFewEvents && !common.empty()) common.erase(std::ranges::min_element(common, {}, expected));

  HypothesisTest result;
  if (!common.empty()) result = compare(common);
  const double level_of_rare = result.degrees_of_freedom > 0.0 ? kLevelOfRare : 1.0;
  if (result.degrees_of_freedom > 0.0) result.p_value = std::min(1.0, result.p_value / (1.0 - kLevelOfRare));
  for (const Index c : rare) {
    const double p_value = std::min(1.0, rare_events_p_value(events[static_cast<std::size_t>(c)], difference[c]) *
                                             static_cast<double>(rare.size()) / level_of_rare);
    if (result.degrees_of_freedom > 0.0 && p_value >= result.p_value) continue;
    const double z = normal_quantile(0.5 * std::max(p_value, std::numeric_limits<double>::min()));
    result = {.statistic = z * z, .p_value = p_value, .degrees_of_freedom = 1.0};
  }
  return result;
}

HypothesisTest no_shift_test_exact(const Eigen::VectorXd& label_prior, const Moments& target) {
  const double n = target.effective_rows();
  if (!(n > 0.0)) return {};
  check_columns(target.mean.size(), label_prior.size());
  return hotelling(target.mean - label_prior, n, n * target.covariance(), n - 1.0);
}

}  // namespace labelshift
