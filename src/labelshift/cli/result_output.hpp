#pragma once

#include <optional>
#include <string>
#include <vector>

#include "labelshift/cli/verdict.hpp"
#include "labelshift/core/label_shift.hpp"

namespace labelshift::cli {

/// The values of --format.
inline const std::vector<std::string> kFormats = {"table", "json", "csv"};

/// What became of the target's predictions.
struct Adaptation {
  bool corrected = true;  // else they were left alone
  Index rows = 0;
  Index changed = 0;                 // rows whose most probable class is another than the classifier's
  Index changed_by_calibration = 0;  // rows where it would be another after the calibration alone
};

/// A result and what it was asked for with.
struct Report {
  LabelShiftOptions options;
  LabelShiftResult result;
  std::vector<std::string> classes;      // (m)
  std::vector<std::string> warnings;     // one sentence each
  std::optional<Adaptation> adaptation;  // what was made of the predictions, by a command that corrects them
};

/// The report in one of kFormats.
std::string format_report(const Report& report, const std::string& format);

/// Why the source examples tell nothing, to go on from "since"; empty if they do.
std::string unusable_source(const SourceEvidence& evidence);
/// The same as a warning, with what to check.
std::optional<std::string> source_warning(const SourceEvidence& evidence, const std::vector<std::string>& classes);

/// What the tests say together.
Verdict verdict_on(const LabelShiftResult& result, const std::vector<std::string>& classes);

/// The verdict as a line of text.
std::string verdict_line(const Report& report);

/// Warnings about the result itself: what makes it worth little, and what to do about it.
std::vector<std::string> result_warnings(const Report& report);

/// A cell of a CSV file, quoted if it has to be.
std::string csv_cell(const std::string& text);

/// Columns of printable text as wide as they need to be: the first aligned left, the others right.
std::string aligned(std::vector<std::vector<std::string>> rows);

/// Decimals that show a probability among this many classes.
int prior_decimals(std::size_t classes);

}  // namespace labelshift::cli
