#pragma once

#include <optional>
#include <string>
#include <vector>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/correction.hpp"
#include "labelshift/core/label_shift.hpp"
#include "labelshift/report/prior_plot.hpp"
#include "labelshift/report/table.hpp"
#include "labelshift/report/verdict.hpp"

namespace labelshift {

/// A result and what it was asked for with.
struct LabelShiftReport {
  LabelShiftOptions options;
  LabelShiftResult result;
  std::vector<std::string> classes;      // (m)
  std::vector<std::string> warnings;     // one sentence each
  std::optional<Adaptation> adaptation;  // what was made of the predictions, by a caller that corrects them
};

/// A row for each class: its share in the source, its share in the target with an interval and, if it is given, its
/// ratio with an interval.
Table mix_table(const std::vector<std::string>& classes, const Eigen::VectorXd& source_prior,
                const Eigen::VectorXd& target_prior, const Intervals& intervals,
                const Eigen::VectorXd* ratio = nullptr);

/// mix_table() of a report, whose notes say how the answer was found and what the tests say.
Table report_table(const LabelShiftReport& report);

/// The same as text.
std::string report_text(const LabelShiftReport& report);

/// Everything there is, for programs.
std::string report_json(const LabelShiftReport& report);

/// Source mix, target mix and intervals under the verdict.
PriorPlot report_plot(const LabelShiftReport& report);

/// How sure the numbers are, what the solver did, and which calibration was taken and why. The last is of a result that
/// has a calibration.
std::string interval_sentence(const LabelShiftReport& report);
std::string solver_sentence(const LabelShiftReport& report);
std::string calibration_sentence(const LabelShiftReport& report);

/// What the tests say together.
Verdict verdict_on(const LabelShiftResult& result, const std::vector<std::string>& classes);

/// The verdict as a sentence.
std::string verdict_line(const LabelShiftReport& report);

/// Whether the label-shift assumption was tested and was not rejected: predictions can be corrected.
bool label_shift_fits(const LabelShiftReport& report);

/// Warnings about the result itself and what was made of it: what makes it worth little, and what to do about it.
std::vector<Warning> result_warnings(const LabelShiftReport& report);

/// Why there is no test of the label-shift assumption, though there are source examples; goes on from "since". `unseen`
/// are the classes that none of them has.
std::string why_fit_is_untested(const std::vector<Index>& unseen, const std::vector<std::string>& classes);

/// Why the source examples tell nothing, to go on from "since"; empty if they do.
std::string unusable_source(const SourceEvidence& evidence);
/// The same as a warning, with what to check.
std::optional<std::string> source_warning(const SourceEvidence& evidence, const std::vector<std::string>& classes);

}  // namespace labelshift
