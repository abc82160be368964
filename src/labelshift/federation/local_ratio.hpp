#pragma once

#include <Eigen/Core>
#include <atomic>
#include <memory>

#include "labelshift/core/calibration.hpp"
#include "labelshift/federation/federation_settings.hpp"
#include "labelshift/learning/net.hpp"

namespace labelshift {

/// What part of a node's training examples its predictor sees.
struct PredictorRows {
  std::vector<Index> train;
  std::vector<Index> held_out;  // empty where the method needs none; a class with one example has none here
};

/// A pure function of the settings, the examples and the seed.
PredictorRows predictor_rows(const Dataset& data, std::span<const Index> rows, const RatioSettings& settings,
                             std::uint64_t seed);

/// Whether a method needs source examples that its predictor was not trained on.
bool needs_held_out(const std::string& method);

/// The estimator of a method; the default one of "auto".
std::string estimator_of(const std::string& method);

/// f_k of Alg. 2, for the classes its node holds.
struct LocalPredictor {
  std::unique_ptr<Net> net;
  Eigen::VectorXd source_prior;  // (m) of the examples it was trained on; 0 for a class the node does not hold
  Calibration calibration;       // of the classes it holds, in order
  std::vector<Index> held_out;   // rows
};

/// Alg. 2 line 3: trains the method's predictor on one node's examples. Throws Stopped if `cancelled` is set.
LocalPredictor train_local_predictor(const RatioSettings& settings, const NetSpec& spec, const Dataset& data,
                                     std::span<const Index> rows, std::uint64_t seed, Device device,
                                     const std::atomic<bool>& cancelled);

/// Alg. 2 line 4: q (m), the prior of these unlabelled examples among the classes of positive source prior.
/// `held_out` are source examples for estimators with a confusion matrix.
struct TargetProblem {
  const Dataset& target;
  std::span<const Index> target_rows;
  const Dataset* source = nullptr;
  std::span<const Index> held_out;
};
Eigen::VectorXd estimate_target_prior(Net& net, const Eigen::VectorXd& source_prior, const Calibration& calibration,
                                      const std::string& estimator, const TargetProblem& problem);

}  // namespace labelshift
