#pragma once

#include "labelshift/engine/tasks.hpp"

// Weights of nodes that bring the mix of their training data to the target, as FedPALS has them (Listo Zec et al.
// 2024): alpha on the simplex that minimises
//
//   |sum_k alpha_k p_k - t|^2 + lambda sum_k alpha_k^2 / n_k,
//
// p_k being the mix of node k's n_k training examples and t that of the target. Nobody has to know the mix of another.
// Where the gradient is 0, with n = sum_k n_k,
//
//   alpha_k = n_k / n max(0, level - price . p_k),   price = n / lambda (sum_k alpha_k p_k - t),   sum_k alpha_k = 1,
//
// so that a node makes its weight of 1 + m numbers, and the search for these needs sums over nodes alone.

namespace labelshift {

/// What a node weighs whose alpha is 0: an answer must weigh something.
inline constexpr double kLeastMixtureWeight = 0x1p-60;

/// No node answers with more. No alpha is above 1 where the search ends exactly, but it ends where their sum is 1 but
/// for rounding, and that grows with n / lambda: a node may then weigh 1 + 1e-5. A bound beyond all solutions changes
/// none, and keeps sums small.
inline constexpr double kMostMixtureWeight = 2.0;

/// What a node answers that has (m) training examples by class; its alpha is `weight`.
Mixture::MixtureSums mixture_sums(const Mixture::Request& question, const Eigen::VectorXd& counts);

/// The coordinator's search, by Newton's method on the dual, which is concave and quadratic in pieces. A step that goes
/// beyond the top of its line is cut. The smaller lambda is, the more pieces lie on the way, so the first steps are for
/// a large one.
class MixtureSearch {
 public:
  /// The target (m) sums to 1; `examples` is n.
  MixtureSearch(Eigen::VectorXd target, double examples, double lambda);

  /// What all nodes are to be asked.
  const Mixture::Request& question() const { return question_; }
  /// Takes what they answered. Throws Error{kPeer} where no weights are found after many questions.
  void take(const Mixture::MixtureSums& sums);
  /// Whether the last question gave every node its weight.
  bool done() const { return done_; }
  /// (m) sum_k alpha_k p_k of the last answer.
  const Eigen::VectorXd& mix() const { return mix_; }
  int questions() const { return questions_; }

 private:
  Eigen::VectorXd point() const;                                     // (1 + m) of the question: level, price
  Eigen::VectorXd gradient(const Mixture::MixtureSums& sums) const;  // (1 + m) of the dual there
  void ask(const Eigen::VectorXd& point);

  const Eigen::VectorXd target_;  // (m)
  const double goal_;             // n / lambda
  double scale_;                  // the same, of the lambda that a step is for
  Mixture::Request question_;
  Eigen::VectorXd mix_;          // (m)
  Eigen::VectorXd from_, step_;  // (1 + m) the line that is searched: from_ + s step_
  double slope_ = 0.0;           // of the dual along it, at s = 0
  double s_ = 0.0;               // of the question
  int questions_ = 0;
  bool done_ = false;
};

}  // namespace labelshift
