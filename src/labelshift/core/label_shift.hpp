#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "labelshift/core/base/observer.hpp"
#include "labelshift/core/base/settings.hpp"
#include "labelshift/core/calibration/calibration.hpp"
#include "labelshift/core/calibration/calibration_choice.hpp"
#include "labelshift/core/calibration/source_fit.hpp"
#include "labelshift/core/estimators/ratio_estimator.hpp"
#include "labelshift/core/inference/error_bound.hpp"
#include "labelshift/core/inference/hypothesis.hpp"
#include "labelshift/core/inference/intervals.hpp"

namespace labelshift {

/// What is known: source examples, or the source prior, or both (then the prior is the known one), and the target. The
/// examples must not be those the classifier was trained on.
struct LabelShiftProblem {
  std::optional<SourceExamples> source;
  std::optional<Eigen::VectorXd> source_prior;  // (m)
  Scores target;                                // (n, m)
  std::span<const double> target_weights;       // (n) or empty
  std::span<const std::string> class_names;     // (m) or empty; for messages
};

struct LabelShiftOptions {
  std::string estimator = "mlls-sqp";
  Settings settings;                           // of the estimator
  std::string calibration = kAutoCalibration;  // or a row of calibrations(); without source examples auto is none
  double level = 0.95;                         // of the intervals
  int bootstrap = 0;                           // replicates, at least kLeastReplicates; 0 means asymptotic intervals
  std::uint64_t seed = 0;                      // of the bootstrap
  double smoothing = 0.0;                      // added to each class count of the source
  bool bound_terms = false;                    // compute the plug-in terms of Thm. 5.1
};

/// How much the classifier's scores say of the source's labels. Labels of other rows, or columns in another order, say
/// nothing.
struct SourceEvidence {
  double accuracy = 0.0;       // share of the rows whose largest score is their label's
  double nll = 0.0;            // of the labels given the calibrated scores, cross-validated, a mean over rows
  double nll_error = 0.0;      // its standard error
  double prior_entropy = 0.0;  // what `nll` would be if the label mix were all that is known
  /// Two or more classes, where columns look permuted: rows whose largest score is that of one class mostly have the
  /// label of the next, and those of the last the first.
  std::vector<Index> permuted;

  /// Two standard errors.
  bool says_labels() const { return nll + 2.0 * nll_error < prior_entropy; }
};

/// `choice` was made on the same source.
SourceEvidence source_evidence(const SourceExamples& source, const CalibrationChoice& choice);

struct LabelShiftResult {
  Eigen::VectorXd source_prior;     // (m) p_tr
  std::vector<Index> unseen;        // classes without a source example, where there are source examples
  bool source_is_weighted = false;  // since its examples have another mix than the source prior that was given
  double target_rows = 0.0;         // effective
  Eigen::VectorXd target_prior;     // (m) q = p_tr r, sums to 1
  RatioEstimate estimate;
  Intervals intervals;
  std::optional<CalibrationFit> calibration_fit;        // where there were source examples to fit or judge it on
  std::optional<CalibrationChoice> calibration_choice;  // likewise: what was cross-validated, and which kind that chose
  std::optional<SourceEvidence> source_evidence;        // where there were source examples
  HypothesisTest shift_test;                            // of "no label shift"
  std::optional<HypothesisTest> fit_test;  // of the label-shift assumption; needs source examples of every class
  std::optional<ErrorBoundTerms> bound_terms;
};

/// Throws Error{kInput} if labels or weights do not fit the scores.
void check_source(const SourceExamples& source);

/// Throws Error{kUsage} if so much cannot be added to the class counts of the source.
void check_smoothing(double smoothing, bool prior_is_given);

/// `calibration`, or "none" for "auto" where the source has no example of a class: no kind can be judged there.
std::string possible_calibration(const std::string& calibration, std::span<const Index> unseen);

/// Throws Error{kInput} if a calibration or an estimator would have to know the examples of a class that the source has
/// none of. What is left, without calibration, is a likelihood estimator with the mix that the classifier was trained
/// on.
void check_unseen(std::span<const Index> unseen, std::span<const std::string> class_names,
                  const std::string& calibration, const std::string& estimator);

/// Everything about a label shift in one call: calibrates, estimates, and says how sure the answer is. Throws
/// Error{kInput} or Error{kUsage} for what it cannot work with, Stopped if the observer says so.
LabelShiftResult analyse_label_shift(const LabelShiftProblem& problem, const LabelShiftOptions& options,
                                     const Observer& observer = {});

/// Rows [first, first + out.rows()) of p_te(y | x), which is proportional to f_y(x) r_y; `probs` are calibrated.
/// A row whose classes the target's prior rules out altogether (f . r = 0) says nothing of the others and gets that
/// prior, which is what the formula gives as f nears the source prior ever so little.
void adapt_rows(const MatrixView& probs, const Eigen::VectorXd& ratio, const Eigen::VectorXd& target_prior, Index first,
                Eigen::Ref<RowMajorMatrix<double>> out);

}  // namespace labelshift
