#pragma once

#include <Eigen/Core>
#include <vector>

#include "labelshift/core/base/matrix_view.hpp"

namespace labelshift {

/// What logistic regression is fitted to.
struct LogisticExamples {
  Eigen::MatrixXd inputs;   // (d, n) as the net sees them: normalised
  std::vector<int> labels;  // (n)
  Eigen::VectorXd weights;  // (n) what each counts for, such as r_k(y_i) / (K n_k) of an example of node k
  Index classes = 0;        // m
};

/// The minimum of a LogisticProblem, as closely as it was found.
struct LogisticOptimum {
  Eigen::VectorXd parameters;
  double value = 0.0;  // F there
  double gap = 0.0;    // F there minus the minimum, at most: |grad F|^2 / (2 lambda), since F is lambda-strongly convex
};

/// What nodes minimise together where the model is the net "logistic", in double:
///
///     F(w) = sum_i weight_i CE(h_w(x_i), y_i) + lambda / 2 |w|^2.
///
/// Parameters are laid out as in the net: weights (m, d), then biases (m).
class LogisticProblem {
 public:
  LogisticProblem(LogisticExamples examples, double lambda);

  Index parameters() const { return classes_ * inputs_.rows(); }
  double value(const Eigen::VectorXd& w) const;
  Eigen::VectorXd gradient(const Eigen::VectorXd& w) const;
  Eigen::MatrixXd hessian(const Eigen::VectorXd& w) const;  // the lower triangle alone

  /// beta of the loss: its Hessian is nowhere above this. That of cross-entropy at the outputs is at most 1/2.
  double smoothness() const { return smoothness_; }
  double lambda() const { return lambda_; }
  /// (beta + lambda) / lambda
  double condition() const { return (smoothness_ + lambda_) / lambda_; }

  /// By Newton's method, from `start`, or from 0 if that is empty.
  LogisticOptimum minimise(Eigen::VectorXd start = {}) const;

 private:
  Eigen::MatrixXd outputs(const Eigen::VectorXd& w) const;  // (m, n)
  Index place(Index c, Index j) const { return j + 1 < inputs_.rows() ? c * (inputs_.rows() - 1) + j : last_ + c; }

  Eigen::MatrixXd inputs_;  // (d + 1, n) with a 1 at the end
  std::vector<int> labels_;
  Eigen::VectorXd weights_;
  Index classes_, last_;
  double lambda_, smoothness_;
};

}  // namespace labelshift
