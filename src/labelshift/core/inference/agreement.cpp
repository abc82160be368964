#include "labelshift/core/inference/agreement.hpp"

#include <Eigen/Eigenvalues>
#include <vector>

#include "labelshift/core/base/distributions.hpp"

namespace labelshift {
namespace {

constexpr double kLeastExpected = 5.0;  // rows of a predicted label, for normal theory
constexpr double kFlat = 1e-9;          // of the largest variance: no variance at all

/// (cells, m) which predicted labels are looked at together.
Eigen::MatrixXd cells_of(const Eigen::VectorXd& expected) {
  const Index m = expected.size();
  std::vector<Index> own, together;
  for (Index j = 0; j < m; ++j) (expected[j] >= kLeastExpected ? own : together).push_back(j);
  Eigen::MatrixXd cells = Eigen::MatrixXd::Zero(std::ssize(own) + (together.empty() ? 0 : 1), m);
  for (std::size_t i = 0; i < own.size(); ++i) cells(static_cast<Index>(i), own[i]) = 1.0;
  for (const Index j : together) cells(cells.rows() - 1, j) = 1.0;
  return cells;
}

}  // namespace

Agreement prediction_agreement(const PredictedLabels& labels, const Eigen::VectorXd& label_prior,
                               const Probabilities& target, std::span<const int> predicted,
                               const PooledUncertainty& uncertainty) {
  const Eigen::MatrixXd& p = labels.conditional;
  const Eigen::VectorXd& q = uncertainty.prior.prior;
  const Index m = q.size();
  const Index n = target.rows();
  for (Index c = 0; c < m; ++c)  // P q has nothing of such a class, which is no contradiction
    if (!(labels.examples[c] > 0.0) && !is_absent(q[c], static_cast<double>(n))) return {};
  const Eigen::MatrixXd cells = cells_of(static_cast<double>(n) * (p * q));
  if (cells.rows() < 2) return {};

  // Row j moves b by its predicted label, and P q by what its score s_j does to q; at the optimum the mean of the
  // scores moves nothing on the face of the simplex where q > 0.
  const Eigen::MatrixXd answer = p * uncertainty.prior.response;  // (m, m)
  Eigen::MatrixXd rows(n, m);
  for (Index j = 0; j < n; ++j) {
    Eigen::VectorXd score(m);
    for (Index c = 0; c < m; ++c) score[c] = target(j, c) / label_prior[c];
    score /= score.dot(q);
    rows.row(j) = -(answer * score).transpose();
    rows(j, predicted[static_cast<std::size_t>(j)]) += 1.0;
  }
  const Eigen::RowVectorXd mean = rows.colwise().mean();
  rows.rowwise() -= mean;
  Eigen::MatrixXd covariance = rows.transpose() * rows / (static_cast<double>(n) * static_cast<double>(n));
  covariance += p * uncertainty.of_calibration * p.transpose() + labels.covariance(q);
  Eigen::VectorXd shares = Eigen::VectorXd::Zero(m);
  for (const int label : predicted) shares[label] += 1.0 / static_cast<double>(n);

  const Eigen::VectorXd difference = cells * (shares - p * q);
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> directions(cells * covariance * cells.transpose());
  const double largest = directions.eigenvalues().tail<1>()[0];
  Agreement result;
  for (Index i = 0; i < cells.rows(); ++i) {
    const double variance = directions.eigenvalues()[i];
    if (!(variance > kFlat * largest)) continue;
    const double along = directions.eigenvectors().col(i).dot(difference);
    result.statistic += along * along / variance;
    ++result.degrees;
  }
  if (result.degrees > 0) result.p_value = chi_squared_survival(result.statistic, result.degrees);
  return result;
}

}  // namespace labelshift
