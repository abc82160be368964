#pragma once

#include <string>
#include <vector>

#include "labelshift/core/label_shift.hpp"

namespace labelshift::cli {

/// The values of --format.
inline const std::vector<std::string> kFormats = {"table", "json", "csv"};

/// A result and what it was asked for with.
struct Report {
  LabelShiftOptions options;
  LabelShiftResult result;
  std::vector<std::string> classes;   // (m)
  std::vector<std::string> warnings;  // one sentence each
};

/// The report in one of kFormats.
std::string format_report(const Report& report, const std::string& format);

/// What the two tests say in words, one line each.
std::vector<std::string> verdict_lines(const Report& report);

/// Warnings about the result itself: what did not converge and what to do about it.
std::vector<std::string> result_warnings(const LabelShiftOptions& options, const LabelShiftResult& result);

/// "p = 0.031"
std::string p_value_text(double p_value);

/// A cell of a CSV file, quoted if it has to be.
std::string csv_cell(const std::string& text);

/// Columns of printable text as wide as they need to be: the first aligned left, the others right.
std::string aligned(std::vector<std::vector<std::string>> rows);

/// Decimals that show a probability among this many classes.
int prior_decimals(std::size_t classes);

}  // namespace labelshift::cli
