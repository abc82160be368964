#pragma once

#include <map>
#include <string>

#include "labelshift/data/datasets/known_datasets.hpp"
#include "labelshift/experiments/experiment.hpp"

namespace labelshift {

/// The shape of a data set that need not be there.
ExampleShape shape_of(const KnownDataset& data);

/// What trainings take on one thread of this machine, by the time of a few steps on random examples. Every net is timed
/// once.
class TrainingCost {
 public:
  explicit TrainingCost(Device device) : device_(device) {}

  /// Seconds for each example of a training step.
  double per_example(const NetChoice& net, const ExampleShape& shape, Index classes);

  /// Seconds of a federation on a known data set: training, predictors and evaluation.
  double of_federation(const RunSettings& settings);

 private:
  Device device_;
  std::map<std::string, double> timed_;  // by net, shape and classes
};

}  // namespace labelshift
