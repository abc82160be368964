#pragma once

#include <optional>
#include <string>
#include <vector>

#include "labelshift/core/base/error.hpp"
#include "labelshift/experiments/comparison_tables.hpp"

namespace labelshift::cli {

/// The values of --show, in the order of ComparisonView.
inline const std::vector<std::string> kComparisonViews = {"average", "nodes", "spread"};

/// A comparison as text: the table, what the weights are, what was sent, notes, and where the files are.
std::string comparison_text(const Experiment& experiment, const ComparisonResult& result, ComparisonView view);

/// What to end with if some of the runs failed.
std::optional<Error> failure_of(const ComparisonResult& result);

/// Writes the first warnings of the runs to standard error, and where the others are.
void show_warnings(const ComparisonResult& result);

}  // namespace labelshift::cli
