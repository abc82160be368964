#include "labelshift/report/verdict.hpp"

#include <fmt/format.h>

namespace labelshift {

Verdict judge(const Evidence& evidence) {
  const auto& [shift, fit, why_untested, needs_calibrated, unusable_source, level] = evidence;
  if (!unusable_source.empty())
    return {Finding::kWrongSource, fmt::format("nothing can be said of the label mix, since {}", unusable_source)};
  if (fit && fit->p_value < level)
    return {Finding::kDoesNotFit,
            fmt::format("the label-shift assumption does NOT fit ({}): more than the class mix has changed, a class is "
                        "new, or the classifier was trained on the source rows; do not trust the estimated mix",
                        p_value_text(fit->p_value))};
  if (shift.degrees_of_freedom == 0.0)
    return {Finding::kUntested, "there is too little data to say whether the label mix has moved"};
  const std::string p_value =
      p_value_text(shift.p_value) + (needs_calibrated ? ", if the probabilities are calibrated on the source" : "");
  const std::string fit_p_value = fit ? p_value_text(fit->p_value) : "";
  if (shift.p_value < level && fit && fit->p_value < Evidence::kVerdictLevel)
    return {Finding::kMoved,
            fmt::format("the label mix has moved ({}), and a label shift is not rejected at {} (fit {})", p_value,
                        level, fit_p_value)};
  if (shift.p_value < level)
    return {Finding::kMoved,
            fit ? fmt::format("the label mix has moved ({}), and nothing speaks against a label shift (fit {})",
                              p_value, fit_p_value)
                : fmt::format("the label mix has moved ({}), if nothing else has; that could not be tested, since {}",
                              p_value, why_untested)};
  if (shift.p_value < Evidence::kVerdictLevel || (fit && fit->p_value < Evidence::kVerdictLevel))
    return {Finding::kNotMoved,
            fmt::format("there is some evidence of a change ({}{}), but not enough for an alarm at {}", p_value,
                        fit ? ", fit " + fit_p_value : "", level)};
  return {Finding::kNotMoved,
          fit ? fmt::format("there is no evidence that the label mix has moved ({}) or anything else (fit {})", p_value,
                            fit_p_value)
              : fmt::format("there is no evidence that the label mix has moved ({}); whether anything else has could "
                            "not be tested, since {}",
                            p_value, why_untested)};
}

std::string to_string(Finding finding) {
  switch (finding) {
    case Finding::kWrongSource:
      return "wrong-source";
    case Finding::kDoesNotFit:
      return "does-not-fit";
    case Finding::kMoved:
      return "moved";
    case Finding::kNotMoved:
      return "not-moved";
    case Finding::kUntested:
      return "untested";
  }
  return "";
}

std::string p_value_text(double p_value) {
  return p_value < 1e-300 ? "p < 1e-300" : fmt::format("p = {:.2g}", p_value);
}

}  // namespace labelshift
