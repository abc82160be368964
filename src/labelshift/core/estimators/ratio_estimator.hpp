#pragma once

#include <Eigen/Core>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "labelshift/core/base/observer.hpp"
#include "labelshift/core/likelihood/scores.hpp"

namespace labelshift {

/// Labelled examples of the source: row i of `probs` is f(x_i), labels[i] in {0, ..., m - 1} is y_i.
struct SourceSample {
  Probabilities probs;              // (n, m)
  std::span<const int> labels;      // (n)
  std::span<const double> weights;  // (n) or empty, which means all ones
};

/// Unlabelled examples of the target.
struct TargetSample {
  Probabilities probs;              // (n, m)
  std::span<const double> weights;  // (n) or empty, which means all ones
};

/// What an estimator may know of the source side: m and m x m numbers, no examples, so it may leave a node.
struct SourceSummary {
  Eigen::VectorXd label_prior;                    // (m)    p_tr(y), every entry > 0, sums to 1
  std::optional<Eigen::MatrixXd> confusion;       // (m, m) [j, c] = p_tr(argmax f = j, y = c), for bbse and rlls
  std::optional<Eigen::MatrixXd> soft_confusion;  // (m, m) [j, c] = E_tr[f_j 1(y = c)], for bbse-soft
  double examples = 0.0;                          // effective number behind the confusion matrices, for rlls
};

enum class StopReason { kTolerance, kIterationLimit, kRounding, kClosedForm };

struct RatioEstimate {
  Eigen::VectorXd ratio;             // (m) r(y) = p_te(y) / p_tr(y); label_prior . ratio = 1
  double mean_log_likelihood = 0.0;  // the value of Eq. (3) at `ratio`
  std::optional<double> gap;         // how far the solver's own objective can be from its optimum, at most
  int iterations = 0;
  StopReason stopped_by = StopReason::kIterationLimit;  // not converging is an outcome, not an error
};

/// What observers of an estimator are told.
inline constexpr std::string_view kEstimating = "estimating";

class RatioEstimator {
 public:
  virtual ~RatioEstimator() = default;
  /// Row j of target.probs is f(x_j). Throws Error{kInput} if the source and the target do not fit each other, Stopped
  /// if the observer says so, which is told at every pass over the rows.
  virtual RatioEstimate estimate(const SourceSummary& source, const TargetSample& target,
                                 const Observer& observer = {}) const = 0;
};

/// "tolerance", "iteration-limit", "rounding" or "closed-form".
std::string to_string(StopReason reason);

}  // namespace labelshift
