#pragma once

#include <optional>
#include <span>
#include <string>

namespace labelshift {

/// A way from labelled source data to a ratio: how the predictor is trained, how it is calibrated on source examples it
/// was not trained on, and which estimator looks at what it says of the target. The second and third part are
/// core/calibration/source_fit.hpp, whoever runs the method.
struct Method {
  const char* name;
  const char* summary;
  std::optional<double> zeta;  // of Eq. (4); nothing: it is chosen, with epochs and calibration, see choose_predictor()
  const char* calibration;     // a row of calibrations(), unless it is chosen
  const char* estimator;       // a row of estimators()

  bool chooses() const { return !zeta; }
  /// Whether it needs source examples that its predictor was not trained on.
  bool needs_held_out() const;
};

/// Every method with a name. `labelshift estimators` and shared tests walk these rows; figures name theirs.
std::span<const Method> methods();

/// The row called `name`. Throws Error{kUsage} with a suggestion if there is none.
const Method& find_method(const std::string& name);

}  // namespace labelshift
