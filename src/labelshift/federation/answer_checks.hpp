#pragma once

#include <optional>
#include <span>

#include "labelshift/engine/tasks.hpp"
#include "labelshift/federation/parts.hpp"

// What the coordinator believes of a node: numbers that can be what the node says they are. The engine has every answer
// checked for its shape and for numbers that are not finite; each of these throws Error{kPeer} at what is impossible.
//
// Those that take sums hold for one node and for several. Under masks only the sum of all can be read: what one node
// says then passes as long as the others make up for it, and who is to blame for what does not pass is not known.

namespace labelshift {

/// Of Join: a node holds a class or does not, and counts nothing below 0.
void check_join(const Join::JoinSums& sums, Index nodes);
/// The same, of `classes` classes.
void check_join_report(const Answer& answer, Index classes);

/// Of Agree: the largest |x|^2 of a node's examples.
void check_agree_report(const Answer& answer);

/// What a node can weigh among the others.
enum class NodeWeight {
  kOne,       // all count the same
  kExamples,  // how many it has for training
  kMixture,   // what brings the mix of their data to the target, see mixture_weights.hpp
};

/// No number of a sane answer is larger, for a node that weighs 1. The square of such a number fits into a float, and
/// so does the mean of any nodes; so one answer can make neither the model nor an adaptive server's squares infinite.
inline constexpr double kLargestAnswer = 1e18;

/// The numbers of an answer in training, by their names; nothing where there are more or fewer of them.
std::optional<TrainingSums<double>> training_numbers(const Answer& answer);

/// What a node asks of its own update before it answers: throws Error{kInput} where its training has run away, that is
/// where check_training() would refuse it.
void check_own_training(const TrainingSums<float>& sums);

/// Of training: an answer weighs what it can, and has no value beyond kLargestAnswer times that.
void check_training(const Answer& answer, NodeWeight weight);

/// Of weights: none of these runs has a number below 0.
void check_never_negative(std::span<const float> weights, std::span<const PartLayout::Part> runs);

/// Of HeldOut: counts of examples, by fold and by predicted label, that go together.
void check_held_out(const HeldOut::HeldOutSums& sums, Index nodes);

/// Of Calibrate: neither losses nor sums of squares are below 0.
void check_losses(const Calibrate::CalibrationSums& sums, Index nodes);

/// Of Target, Assess, TargetTogether and SharedTarget: shares of classes, all 0 at a node without test examples.
void check_target(const TargetSums& sums, Index nodes);
/// The same, and a count of nodes.
void check_target_together(const TargetTogether::TogetherSums& sums, Index nodes);
/// The same: an EstimateReport of `classes` classes.
void check_estimate_report(const Answer& answer, Index classes);

/// Of SharedMix: shares and products of shares of the rows of some nodes, or logarithms of shares.
void check_shared_mix(const SharedMix::SharedMixSums& sums, Index nodes);

/// Of Mixture: weights, and mixes that add up to what they are of.
void check_mixture(const Mixture::MixtureSums& sums, Index nodes);

/// Of Share: a predictor of so many weights and classes.
void check_predictor(const Answer& answer, Index weights, Index classes,
                     std::span<const PartLayout::Part> never_negative);

/// A calibration, (m) and perhaps (m m), that a predictor came with. Nodes check it too, of what a coordinator hands
/// on.
void check_calibration(const Eigen::VectorXd& scale, const Eigen::VectorXd& bias, const Eigen::VectorXd& mixing = {});

/// Whether (p, p) numbers can be a covariance: none of them is a variance below 0, but for rounding. Nodes check it
/// too.
bool has_variances(const Eigen::MatrixXd& covariance);

/// Of Ratio.
void check_ratio(const Ratio::RatioSums& sums, Index nodes);
void check_ratio_report(const Answer& answer);

/// Of Evaluate.
void check_evaluation(const Answer& answer);

}  // namespace labelshift
