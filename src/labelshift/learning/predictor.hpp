#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "labelshift/core/calibration/calibration.hpp"
#include "labelshift/learning/net.hpp"

namespace labelshift {

/// How a predictor came about: enough to find the examples again that were held out of its training.
struct PredictorOrigin {
  std::string data;                   // fingerprint() of all examples it was made from
  double calibration_fraction = 0.0;  // of them held out; 0: none
  std::uint64_t seed = 0;
  double zeta = 0.0;
  int epochs = 0;
};

/// f: a trained net, and the calibration of what it says.
struct Predictor {
  std::unique_ptr<Net> net;
  std::vector<std::string> class_names;    // (m)
  std::vector<std::string> column_names;   // of the table it was trained on; empty if nothing names them
  std::optional<Calibration> calibration;  // fitted on source examples it was not trained on
  /// (m) The mix of classes that its probabilities are right under, which is the one that it was trained on; empty
  /// where that is not known, as of a file of an older version.
  Eigen::VectorXd prior = {};
  PredictorOrigin origin;
};

/// Writes a predictor as one safetensors file, whole or not at all: weights under the names of PyTorch's state_dict,
/// all the rest as JSON in its metadata. A TorchScript net stays in its own file, which is named by its path from the
/// folder of the predictor, so that both can be moved together, and by its SHA-256.
void save_predictor(const std::string& path, const Predictor& predictor);

struct LoadOptions {
  Device device = Device::kCpu;
  std::string net;  // where a TorchScript net is now; empty: where the predictor says
};

/// Throws Error{kInput} if the file is not a whole predictor, its version cannot be read, or the file of its net is
/// missing or another; Error{kUsage} if its net cannot be made here.
Predictor load_predictor(const std::string& path, const LoadOptions& options = {});

}  // namespace labelshift
