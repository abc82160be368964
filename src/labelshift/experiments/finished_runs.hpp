#pragma once

#include <span>
#include <string>

#include "labelshift/experiments/comparison.hpp"

namespace labelshift {

/// A comparison as it was left in a folder, and what it is of.
struct FinishedComparison {
  Experiment experiment;
  ComparisonResult result;
};

/// Reads what run_comparison() or run_in_folder() left in a folder. Nothing is run, and no data are looked at. Throws
/// Error{kInput} if the folder has neither, or if something in it is damaged.
FinishedComparison read_finished(const std::string& folder);

/// Several next to each other. Rows of one name and the same settings become one row with the seeds of all; rows of one
/// name with other settings are told apart by their folders.
FinishedComparison joined(std::span<const FinishedComparison> comparisons);

/// A single run as a comparison.
FinishedComparison alone(const RunTask& task, const RunResult& run);

}  // namespace labelshift
