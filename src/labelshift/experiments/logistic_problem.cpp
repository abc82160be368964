#include "labelshift/experiments/logistic_problem.hpp"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

#include "labelshift/core/base/blas.hpp"

namespace labelshift {

LogisticProblem::LogisticProblem(LogisticExamples examples, double lambda)
    : inputs_(examples.inputs.rows() + 1, examples.inputs.cols()),
      labels_(std::move(examples.labels)),
      weights_(std::move(examples.weights)),
      classes_(examples.classes),
      last_(classes_ * examples.inputs.rows()),
      lambda_(lambda) {
  assert(lambda > 0.0 && inputs_.cols() == std::ssize(labels_) && weights_.size() == inputs_.cols());
  inputs_ << examples.inputs, Eigen::RowVectorXd::Ones(inputs_.cols());
  const Eigen::MatrixXd moments = inputs_ * weights_.asDiagonal() * inputs_.transpose();
  smoothness_ =
      0.5 * Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd>(moments, Eigen::EigenvaluesOnly).eigenvalues().maxCoeff();
}

Eigen::MatrixXd LogisticProblem::outputs(const Eigen::VectorXd& w) const {
  const Index d = inputs_.rows() - 1;
  Eigen::MatrixXd layer(d + 1, classes_);
  layer << Eigen::Map<const Eigen::MatrixXd>(w.data(), d, classes_), w.tail(classes_).transpose();
  Eigen::MatrixXd result = Eigen::MatrixXd::Zero(classes_, inputs_.cols());
  add_product(layer, inputs_, result);
  return result;
}

double LogisticProblem::value(const Eigen::VectorXd& w) const {
  const Eigen::MatrixXd z = outputs(w);
  double sum = 0.0;
  for (Index i = 0; i < z.cols(); ++i) {
    const double most = z.col(i).maxCoeff();
    sum += weights_[i] * (most + std::log((z.col(i).array() - most).exp().sum()) - z(labels_[i], i));
  }
  return sum + 0.5 * lambda_ * w.squaredNorm();
}

/// Columns become softmax of what they are.
static void softmax_columns(Eigen::MatrixXd& z) {
  z.rowwise() -= z.colwise().maxCoeff().eval();
  z = z.array().exp();
  z.array().rowwise() /= z.array().colwise().sum().eval();
}

Eigen::VectorXd LogisticProblem::gradient(const Eigen::VectorXd& w) const {
  Eigen::MatrixXd slopes = outputs(w);
  softmax_columns(slopes);
  for (Index i = 0; i < slopes.cols(); ++i) slopes(labels_[i], i) -= 1.0;
  const Eigen::MatrixXd layer = inputs_ * weights_.asDiagonal() * slopes.transpose();  // (d + 1, m)
  Eigen::VectorXd result = lambda_ * w;
  for (Index c = 0; c < classes_; ++c)
    for (Index j = 0; j < inputs_.rows(); ++j) result[place(c, j)] += layer(j, c);
  return result;
}

Eigen::MatrixXd LogisticProblem::hessian(const Eigen::VectorXd& w) const {
  // The block of classes c and c' is sum_i weight_i (phi_c [c = c'] - phi_c phi_c') x x^T. Both factors are symmetric,
  // so one product of all pairs of classes with all pairs of inputs has every number once.
  constexpr Index kBlock = 256;  // of examples
  const Index inputs = inputs_.rows(), m = classes_;
  Eigen::MatrixXd phi = outputs(w);
  softmax_columns(phi);
  Eigen::MatrixXd sums = Eigen::MatrixXd::Zero(m * (m + 1) / 2, inputs * (inputs + 1) / 2);
  for (Index first = 0; first < inputs_.cols(); first += kBlock) {
    const Index size = std::min(kBlock, inputs_.cols() - first);
    const Eigen::MatrixXd x = inputs_.middleCols(first, size).transpose(), f = phi.middleCols(first, size).transpose();
    const auto weight = weights_.segment(first, size).array();
    Eigen::MatrixXd classes(size, sums.rows()), products(size, sums.cols());
    for (Index c = 0, at = 0; c < m; ++c)
      for (Index other = 0; other <= c; ++other, ++at)
        classes.col(at) = c == other ? (weight * f.col(c).array() * (1.0 - f.col(c).array())).eval()
                                     : (-weight * f.col(c).array() * f.col(other).array()).eval();
    for (Index j = 0, at = 0; j < inputs; ++j)
      for (Index other = 0; other <= j; ++other, ++at) products.col(at) = x.col(j).array() * x.col(other).array();
    add_product(classes, products, sums);
  }
  Eigen::MatrixXd result = Eigen::MatrixXd::Zero(parameters(), parameters());
  for (Index c = 0, row = 0; c < m; ++c)
    for (Index other_c = 0; other_c <= c; ++other_c, ++row)
      for (Index j = 0, at = 0; j < inputs; ++j)
        for (Index other_j = 0; other_j <= j; ++other_j, ++at)
          for (const auto& [a, b] :
               {std::pair{place(c, j), place(other_c, other_j)}, std::pair{place(c, other_j), place(other_c, j)}})
            result(std::max(a, b), std::min(a, b)) = sums(row, at);
  result.diagonal().array() += lambda_;
  return result;
}

LogisticOptimum LogisticProblem::minimise(Eigen::VectorXd start) const {
  constexpr int kSteps = 100;
  constexpr double kGap = 1e-12;    // of the value
  constexpr double kArmijo = 1e-4;  // of the decrease that the slope promises
  constexpr double kLeast = 1e-10;  // a step that is shorter is rounding
  LogisticOptimum best{.parameters = start.size() > 0 ? std::move(start) : Eigen::VectorXd::Zero(parameters())};
  best.value = value(best.parameters);
  for (int step = 0;; ++step) {
    const Eigen::VectorXd slope = gradient(best.parameters);
    best.gap = slope.squaredNorm() / (2.0 * lambda_);
    if (best.gap <= kGap * best.value || step == kSteps) return best;
    Eigen::MatrixXd curvature = hessian(best.parameters);
    Eigen::MatrixXd direction = slope;
    if (!solve_positive_definite(curvature, direction)) return best;
    const double promised = slope.dot(direction.col(0));
    double length = 1.0;
    for (; length > kLeast; length *= 0.5) {
      const Eigen::VectorXd next = best.parameters - length * direction;
      if (const double lower = value(next); lower <= best.value - kArmijo * length * promised) {
        best.parameters = next;
        best.value = lower;
        break;
      }
    }
    if (length <= kLeast) return best;
  }
}

}  // namespace labelshift
