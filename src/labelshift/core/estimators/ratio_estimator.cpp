#include "labelshift/core/estimators/ratio_estimator.hpp"

namespace labelshift {

std::string to_string(StopReason reason) {
  switch (reason) {
    case StopReason::kTolerance:
      return "tolerance";
    case StopReason::kIterationLimit:
      return "iteration-limit";
    case StopReason::kRounding:
      return "rounding";
    case StopReason::kClosedForm:
      return "closed-form";
  }
  return "";
}

}  // namespace labelshift
