#pragma once

#include <Eigen/Core>
#include <atomic>
#include <memory>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/calibration/source_fit.hpp"
#include "labelshift/federation/federation_settings.hpp"
#include "labelshift/learning/net.hpp"

namespace labelshift {

/// What part of a node's training examples its predictor sees.
struct PredictorRows {
  std::vector<Index> train;
  std::vector<Index> held_out;  // empty where nothing needs any; a class with one example has none here
};

/// A pure function of the settings, the examples and the seed.
PredictorRows predictor_rows(const Dataset& data, std::span<const Index> rows, const RatioSettings& settings,
                             std::uint64_t seed);

/// f_k of Alg. 2, for the classes its node holds.
struct LocalPredictor {
  std::unique_ptr<Net> net;
  Eigen::VectorXd source_prior;  // (m) of the examples it was trained on; 0 for a class the node does not hold
  SourceFit fit;  // of the classes it holds, in order; with confusion matrices where examples were held out
  RowMajorMatrix<float> held_out;    // logits of examples it was not trained on, for these classes
  std::vector<int> held_out_labels;  // numbered among these classes
};

/// A node's label mix, as its own predictor sees it.
struct LocalEstimate {
  Eigen::VectorXd prior;      // (m) q_k
  Eigen::VectorXd low, high;  // (m) 95 % intervals; empty where a class has no held-out example to tell their width
};

/// Alg. 2 line 3: trains the method's predictor on one node's examples. Throws Stopped if `cancelled` is set.
LocalPredictor train_local_predictor(const RatioSettings& settings, const NetSpec& spec, const Dataset& data,
                                     std::span<const Index> rows, std::uint64_t seed, Device device,
                                     const std::atomic<bool>& cancelled);

/// An error that knows classes by number, with their names.
Error naming_classes(const Error& error, std::span<const std::string> names);

/// Calls `use`, and adds the names of the classes to an error.
template <typename Use>
auto with_class_names(std::span<const std::string> names, Use&& use) {
  try {
    return use();
  } catch (const Error& error) {
    throw naming_classes(error, names);
  }
}

/// A fit without examples: this calibration, of the classes of positive prior, and their prior.
SourceFit known_fit(const Calibration& calibration, const Eigen::VectorXd& source_prior);

/// Alg. 2 line 4: q (m), the prior of these unlabelled examples among the classes of positive source prior. `fit` is of
/// those. Throws Error{kInput} if the estimator needs confusion matrices and the fit has none.
Eigen::VectorXd estimate_target_prior(Net& net, const Eigen::VectorXd& source_prior, const SourceFit& fit,
                                      const std::string& estimator, const Dataset& target, std::span<const Index> rows);

/// The same by the node's own predictor, with intervals.
LocalEstimate estimate_locally(const LocalPredictor& predictor, const std::string& estimator, const Dataset& target,
                               std::span<const Index> rows);

}  // namespace labelshift
