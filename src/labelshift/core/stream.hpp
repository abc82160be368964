#pragma once

#include <Eigen/Core>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "labelshift/core/calibration/calibration.hpp"
#include "labelshift/core/inference/incremental.hpp"
#include "labelshift/core/label_shift.hpp"

namespace labelshift {

struct StreamOptions {
  IncrementalOptions incremental;  // prior_is_estimated is found out
  std::string calibration = kAutoCalibration;
  double smoothing = 0.0;  // added to each class count of the source
};

/// Everything about the label mix of a stream of target rows: calibrates the source once, as analyse_label_shift does,
/// and feeds an IncrementalEstimator.
class LabelShiftStream {
 public:
  /// `source_prior` is the mix that the classifier was trained on, where that is known; `class_names` is for messages
  /// and may be empty. The source is not needed afterwards. Throws Error{kInput} or Error{kUsage} for what it cannot
  /// work with, Stopped if the observer says so.
  LabelShiftStream(SourceExamples source, const std::optional<Eigen::VectorXd>& source_prior,
                   std::span<const std::string> class_names, const StreamOptions& options,
                   const Observer& observer = {});

  /// Throws Error{kInput}, and has then added none of them, if the rows have not one column a class.
  void add(const Scores& rows);

  IncrementalState current() const { return estimator_->current(); }
  double rows() const { return estimator_->rows(); }
  double level() const { return level_; }  // of the intervals
  const Eigen::VectorXd& source_prior() const { return source_prior_; }
  const std::vector<Index>& unseen() const { return unseen_; }  // classes without a source example
  const SourceEvidence& source_evidence() const { return evidence_; }

 private:
  double level_;
  std::vector<Index> unseen_;
  Eigen::VectorXd source_prior_;
  SourceEvidence evidence_;
  Calibration calibration_;
  std::optional<IncrementalEstimator> estimator_;
};

}  // namespace labelshift
