#pragma once

#include <optional>
#include <string>

#include "labelshift/core/base/error.hpp"
#include "labelshift/report/label_shift_report.hpp"

namespace labelshift {

/// What became of the predictions, which class has moved most and the verdict, in a sentence on a line each. The report
/// has an adaptation.
std::string adaptation_text(const LabelShiftReport& report);

/// What is to be said of a correction that the tests do not support, or that was not made.
std::optional<Warning> adaptation_warning(const LabelShiftReport& report);

}  // namespace labelshift
