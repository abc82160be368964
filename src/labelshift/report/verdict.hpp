#pragma once

#include <optional>
#include <string>

#include "labelshift/core/inference/hypothesis.hpp"

namespace labelshift {

/// What the test of "no label shift" and the test of the label-shift assumption say.
struct Evidence {
  HypothesisTest shift_test;
  std::optional<HypothesisTest> fit_test;
  std::string why_untested;       // why there is no fit test, if there is none; goes on from "since"
  bool needs_calibrated = false;  // whether the shift test holds only for calibrated probabilities
  std::string unusable_source;    // why the source tells nothing, if it does not; goes on from "since"
  double level = kVerdictLevel;   // a test whose p-value is below this rejects
  static constexpr double kVerdictLevel = 0.05;
};

enum class Finding { kWrongSource, kDoesNotFit, kMoved, kNotMoved, kUntested };

/// One verdict from both tests. Where a label shift does not fit, the mix itself says nothing, moved or not.
struct Verdict {
  Finding finding = Finding::kUntested;
  std::string text;  // one sentence without its end, to go on from "Verdict: "
};

Verdict judge(const Evidence& evidence);

/// "wrong-source", "does-not-fit", "moved", "not-moved", "untested"
std::string to_string(Finding finding);

/// "p = 0.031"
std::string p_value_text(double p_value);

}  // namespace labelshift
