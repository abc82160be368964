#pragma once

#include "labelshift/engine/tasks.hpp"

// What the coordinator believes of a node: numbers that can be what the node says they are. The engine has every answer
// checked for its shape and for numbers that are not finite; each of these throws Error{kPeer} at what is impossible.

namespace labelshift {

/// Of Join, of `classes` classes: a node holds a class or does not, and counts nothing below 0.
void check_join(const Answer& answer, Index classes);

/// Of training: an answer weighs something.
void check_weight(const Answer& answer);

/// Of Temperature, where a node with nothing held out weighs nothing.
void check_judgement(const Answer& answer);

/// Of Target, Assess and TargetTogether: shares of classes, all 0 at a node without test examples, and an
/// EstimateReport.
void check_target(const Answer& answer);

/// Of Share: a predictor of so many weights and classes.
void check_predictor(const Answer& answer, Index weights, Index classes);

/// A calibration (m) that a predictor came with. Nodes check it too, of what a coordinator hands on.
void check_calibration(const Eigen::VectorXd& scale, const Eigen::VectorXd& bias);

/// Of Ratio.
void check_ratio(const Answer& answer);

/// Of Evaluate.
void check_evaluation(const Answer& answer);

}  // namespace labelshift
