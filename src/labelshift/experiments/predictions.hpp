#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "labelshift/core/base/observer.hpp"
#include "labelshift/core/calibration/calibration.hpp"
#include "labelshift/data/datasets/known_datasets.hpp"
#include "labelshift/learning/predictor.hpp"

namespace labelshift {

/// How a predictor is made, but for zeta and the seed.
struct PredictorRecipe {
  std::string data;                             // a known data set
  std::string net;                              // a row of nets()
  std::map<std::string, std::string> settings;  // of the net
  Index examples = 0;                           // a stratified part of the training set; 0: all of it
  double held_out = 0.1;                        // fraction of these examples kept for calibration
  int epochs = 10;
  double learning_rate = 1e-3;
  double weight_decay = 1e-6;

  /// Different recipes have different names; for files.
  std::string name() const;
};

/// zeta of Eq. (4), or nothing: chosen by choose_predictor().
using Zeta = std::optional<double>;

/// "auto", "1", "0.3"
std::string zeta_text(const Zeta& zeta);

/// One of several predictors that differ in their seeds.
struct PredictorKey {
  PredictorRecipe recipe;
  Zeta zeta;
  int number = 0;

  std::string name() const;
};

/// What a predictor says, and all that a trial needs of it.
struct Predictions {
  RowMajorMatrix<float> held_out;     // (n, m) logits of source examples it was not trained on
  std::vector<int> held_out_labels;   // (n)
  Eigen::VectorXd source_prior;       // (m) of the examples it was trained on
  RowMajorMatrix<float> test;         // (n, m) logits of the whole test set
  std::optional<Calibration> chosen;  // by choose_predictor(); only where zeta is chosen
  double accuracy = 0.0;              // on the test set
  double calibration_error = 0.0;     // ECE on the test set, uncalibrated
};

/// Predictors trained on demand and kept in a folder with what they said, so that no experiment does either twice, also
/// after a stop. Several threads may ask for different keys at once.
class PredictorStore {
 public:
  PredictorStore(std::string folder, std::uint64_t seed, Device device = Device::kCpu)
      : folder_(std::move(folder)), seed_(seed), device_(device) {}

  /// Trains the predictor unless the folder has it. A training that was stopped goes on after its last whole epoch; a
  /// choice of zeta starts again.
  void train(const PredictorKey& key, const Observer& observer = {});
  bool has(const PredictorKey& key) const;

  /// Asks the predictor about its held-out examples and about test images changed by `augmentation`, unless the folder
  /// has the answers.
  void predict(const PredictorKey& key, const std::string& augmentation, const Observer& observer = {});
  bool has_predicted(const PredictorKey& key, const std::string& augmentation) const;

  /// What predict() found.
  Predictions predictions(const PredictorKey& key, const std::string& augmentation);

  /// A known data set, read once.
  const LoadedDataset& data(const std::string& name);

 private:
  struct Examples;
  Examples examples(const PredictorKey& key);
  Predictor load(const PredictorKey& key, const Examples& from) const;
  std::string path(const PredictorKey& key) const { return folder_ + "/" + key.name() + ".safetensors"; }
  std::string logits_path(const PredictorKey& key, const std::string& what) const {
    return folder_ + "/" + key.name() + "-" + what + ".safetensors";
  }
  std::string folder_;
  std::uint64_t seed_;
  Device device_;
  std::mutex mutex_;
  std::map<std::string, LoadedDataset> data_;
};

}  // namespace labelshift
