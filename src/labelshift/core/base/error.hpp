#pragma once

#include <stdexcept>
#include <string>

namespace labelshift {

/// What has to be mended: the command, the data, another node, the machine.
enum class ErrorKind { kUsage, kInput, kPeer, kSystem };

/// What a caller can do about an error or a warning. The library does not know how its caller is told to do it: a
/// message names no option of a command, and the command adds what to type.
enum class Remedy {
  kNone,                 // what the message says is all
  kLogits,               // say that the scores are logits
  kLogitsOrRenormalise,  // say that the scores are logits, or have rows divided by their sums
  kLogitsOrColumns,      // say that the scores are logits, or which columns hold scores
  kColumns,              // say which columns hold scores
  kTrainingPrior,        // give the class mix that the classifier was trained on
  kOwnLabels,            // do not say where the labels are
  kDatasetSource,        // say where the files of a data set are
  kGetDataset,           // get a data set that is not there
  kCpu,                  // compute on the CPU
  kMovedNet,             // say where the net of a predictor is now
  kOutputFolder,         // write to another folder
  kResume,               // go on with what was stopped, or write to another folder
  kTolerance,            // ask for another tolerance
  kIterations,           // allow more iterations, or ask for another tolerance
  kEstimator,            // choose another estimator
  kCalibration,          // choose another calibration
  kCorrectIfFits,        // have predictions corrected only where the label-shift assumption fits
  kCorrectAnyway,        // have predictions corrected whether the label-shift assumption fits or not
};

/// What a user should know of a result that is there all the same.
struct Warning {
  std::string sentence;  // without its end
  Remedy remedy = Remedy::kNone;
};

/// Something a user or a peer can cause. The message is one sentence: the place, what was found, what was expected.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message, Remedy remedy = Remedy::kNone)
      : std::runtime_error(message), kind_(kind), remedy_(remedy) {}
  ErrorKind kind() const { return kind_; }
  Remedy remedy() const { return remedy_; }
  /// The same error in the words of somebody who knows more of its place.
  Error reworded(const std::string& message) const { return {kind_, message, remedy_}; }

 private:
  ErrorKind kind_;
  Remedy remedy_;
};

}  // namespace labelshift
