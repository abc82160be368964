#pragma once

#include <span>
#include <string>

#include "labelshift/core/label_shift.hpp"

namespace labelshift {

/// A way from labelled source data to a ratio: how the predictor is trained, how it is calibrated on source examples it
/// was not trained on, and which estimator looks at what it says of the target.
struct MethodEntry {
  const char* name;
  const char* summary;
  double zeta;              // of Eq. (4)
  const char* calibration;  // a row of calibrations()
  const char* estimator;    // a row of estimators()
};

/// Every method with a name. `labelshift estimators` and shared tests walk these rows; figures name theirs.
std::span<const MethodEntry> methods();

/// The row called `name`. Throws Error{kUsage} with a suggestion if there is none.
const MethodEntry& find_method(const std::string& name);

/// The second and third part of a method, for a predictor trained with its zeta: calibrates on `source`, then
/// estimates. `source_prior` is p_tr, of the examples the predictor was trained on.
RatioEstimate estimate_ratio(const MethodEntry& method, const SourceExamples& source,
                             const Eigen::VectorXd& source_prior, const Scores& target);

}  // namespace labelshift
