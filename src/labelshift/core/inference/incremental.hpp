#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "labelshift/core/base/rng.hpp"
#include "labelshift/core/base/settings.hpp"
#include "labelshift/core/estimators/bbse.hpp"
#include "labelshift/core/estimators/confusion_estimator.hpp"
#include "labelshift/core/estimators/estimators.hpp"
#include "labelshift/core/inference/fit_hypothesis.hpp"
#include "labelshift/core/inference/hypothesis.hpp"
#include "labelshift/core/inference/intervals.hpp"
#include "labelshift/core/inference/shift_hypothesis.hpp"

namespace labelshift {

struct IncrementalOptions {
  std::string estimator = "mlls-sqp";  // one that can_be_fed_row_by_row
  Settings settings = {};
  double half_life = 0.0;          // rows after which a row counts half; 0 means that nothing is forgotten
  double level = 0.95;             // of the intervals
  bool prior_is_estimated = true;  // from source.examples labels (if not 0), so that its noise belongs in the intervals
};

/// Whether the estimator can follow a stream: the BBSE family can, and of the likelihood estimators mlls-sqp. The other
/// unpenalised ones differ from it only in how they search Eq. (3), for which a stream has one way, and a penalty fades
/// as rows come in.
bool can_be_fed_row_by_row(const EstimatorEntry& entry);

/// What is known after the rows seen so far.
struct IncrementalState {
  RatioEstimate estimate;
  Eigen::VectorXd target_prior;  // (m) q = p_tr r, sums to 1
  Intervals intervals;
  HypothesisTest shift_test;               // of "no label shift"
  std::optional<HypothesisTest> fit_test;  // of the label-shift assumption; empty without a LabelShiftFitTest, or too
                                           // few rows for it
  double rows = 0.0;                       // seen
  double effective_rows = 0.0;             // (sum w)^2 / sum w^2 with the weights that forgetting leaves them
  Eigen::MatrixXd curvature;  // (m, m) mean of s s^T as in LikelihoodValue, over all rows; empty for the BBSE family
};

/// Follows the label mix of a stream of target rows: feed batches, ask at any time. Memory is
/// O(max_rows_held() m + m^2) however many rows were seen, and how rows are cut into batches changes nothing, not even
/// rounding.
///
/// The confusion-matrix estimators (bbse, bbse-soft, rlls) want m sums of the target, so their answer is that of the
/// same estimator on all rows. (Their mean_log_likelihood is that of the rows held.)
///
/// Eq. (3) has no finite sufficient statistic. The newest rows are held as they are; an older row x_j is folded at the
/// estimate q_j of its time into a quadratic: with u = a_j . q / a_j . q_j,
///     log(a_j . q) = log(a_j . q_j) + (u - 1) - (u - 1)^2 / 2 + remainder(u).
/// The quadratics add up to m x m numbers, and the sum of the remainders is estimated from a sample of the folded rows
/// that prefers rows of rare classes. In random order the remainders are of third order: at 1e5 rows every q_c is
/// within a few hundredths of a standard error of the batch answer at m = 10 (up to a few tenths for the rarest classes
/// at m = 50). In adversarial order (sorted by class, say, with nothing forgotten) rows are folded far from the final
/// q, so that their quadratics say little; they are then believed less, and the answer is only as exact as the sample:
/// a few to a few tens of standard errors of the batch answer at 1e5 rows, which the intervals do not know of.
class IncrementalEstimator {
 public:
  /// The shift test compares with `source_moments`, those of f in the source before any calibration; without them with
  /// the source prior, as no_shift_test_exact. `fit_test` knows the source, before any calibration too, and no target
  /// row yet. Throws Error{kUsage} for options and Error{kInput} for a source it cannot work with.
  IncrementalEstimator(SourceSummary source, std::optional<Moments> source_moments, IncrementalOptions options,
                       std::optional<LabelShiftFitTest> fit_test = {});

  /// Rows of f(x), calibrated as the source was, and the same rows as they were before: those the tests compare,
  /// since a calibration fitted on the source fits the source better than the target, which would look like a shift.
  /// Throws Error{kInput}, and has then added none of them, if either have not one column a class or are not as many.
  void add(const Probabilities& target_probs, const Probabilities& uncalibrated);
  /// Rows that need no calibration.
  void add(const Probabilities& target_probs) { add(target_probs, target_probs); }

  /// The current answer. A pass or a few over the rows held, so cheap enough to ask after every batch. Throws
  /// Error{kInput} before the first row.
  ///
  /// The intervals hold the noise of the target and of the source prior; those of the BBSE family that of the confusion
  /// matrix as well (of a soft one, an upper bound). f is taken to be calibrated. The mean log-likelihood and the gap
  /// of a likelihood estimate are those of Eq. (3) as folded.
  IncrementalState current() const;

  double rows() const { return static_cast<double>(seen_); }
  Index rows_held() const { return static_cast<Index>(time_.size()); }  // never more than max_rows_held()
  Index max_rows_held() const { return held_.rows(); }                  // max(8192, 16 m)

 private:
  /// A weighted sum over rows of their quadratics, constant + linear . q - q^T quadratic q / 2.
  struct Quadratics {
    double constant = 0.0;
    Eigen::VectorXd linear;     // (m)
    Eigen::MatrixXd quadratic;  // (m, m)
  };
  struct Maximum;

  double decay(double time) const;
  Index newest() const { return static_cast<Index>(time_.size()) - sampled_; }
  Probabilities held_rows() const;
  Probabilities newest_rows() const;
  Probabilities newest_uncalibrated() const;
  std::vector<double> held_weights() const;
  /// Something that adds up rows, of all rows: `folded` as it is now, and the newest.
  template <typename Sums>
  Sums with_newest(Sums folded, const Probabilities& newest) const;
  Eigen::VectorXd votes() const;  // (m) weighted counts of argmax f over all rows
  void fold();
  void keep_sample();
  void weigh_sample();
  double control(const Eigen::VectorXd& q) const;
  Maximum maximise(double tolerance) const;
  void set_likelihood_intervals(const Eigen::VectorXd& gradient, const Eigen::MatrixXd& curvature,
                                IncrementalState& state) const;
  void set_confusion_intervals(const ConfusionEstimator& estimator, const Moments& target,
                               const Eigen::VectorXd& predicted, IncrementalState& state) const;

  SourceSummary source_;
  std::optional<Moments> source_moments_;
  std::optional<LabelShiftFitTest> folded_fit_test_;  // of the folded rows, as everything that is called folded
  IncrementalOptions options_;
  EstimatorFamily family_;
  std::unique_ptr<RatioEstimator> estimator_;
  double tolerance_;
  int max_iterations_;
  double rate_;  // halvings of a weight per row
  Rng rng_{0};   // of the sample of folded rows

  std::int64_t seen_ = 0;
  RowMajorMatrix<double> held_;          // (max_rows_held, m) the sample of folded rows, then the newest rows
  RowMajorMatrix<double> uncalibrated_;  // (max_rows_held / 2, m) the newest rows before calibration
  Index sampled_ = 0;                    // how many rows the sample has
  std::vector<double> time_;             // of each row held: how many rows came before it
  std::vector<double> size_;             // of each sampled row, log2: the larger, the more likely it is kept
  std::vector<double> priority_;         // of each sampled row, log2 of size / U, drawn when it was folded
  std::vector<double> mixture_;          // of each sampled row: a . q where it was folded
  std::vector<double> sample_weight_;    // of each sampled row, at the time of the last fold
  double threshold_;                     // log2 of the largest priority that was not kept; minus infinity before that

  // The rest is about the folded rows, with their weights at the time of the last fold.
  std::int64_t folded_ = 0;     // how many
  double folded_weight_ = 0.0;  // sum of their weights
  Quadratics quadratics_;       // of all of them
  Quadratics excess_;           // quadratics_ less what the sample says of it
  Moments folded_moments_;
  Moments folded_uncalibrated_;
  Eigen::VectorXd folded_votes_;  // (m) weighted counts of argmax f
  Eigen::VectorXd target_prior_;  // (m) the estimate, to start from
};

}  // namespace labelshift
