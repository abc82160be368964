#include "labelshift/cli/comparison_output.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "labelshift/cli/terminal.hpp"

namespace labelshift::cli {
namespace {

constexpr std::size_t kMostWarnings = 10;  // on a screen

}  // namespace

void show_warnings(const ComparisonResult& result) {
  for (std::size_t i = 0; i < result.warnings.size() && i < kMostWarnings; ++i) warn(result.warnings[i]);
  if (result.warnings.size() > kMostWarnings)
    warn(fmt::format("{} more like these are in {}", result.warnings.size() - kMostWarnings, result.summary));
}

std::optional<Error> failure_of(const ComparisonResult& result) {
  if (result.failures.empty()) return std::nullopt;
  const RunFailure& first = result.failures.front();
  std::size_t runs = result.failures.size();
  for (const RowResult& row : result.rows) runs += row.runs.size();
  return first.error.reworded(fmt::format("{} of {} runs failed, the first: {}, seed {}: {}", result.failures.size(),
                                          runs, first.row, first.seed, first.error.what()));
}

std::string comparison_text(const Experiment& experiment, const ComparisonResult& result, ComparisonView view) {
  std::string text = experiment.title + "\n\n";
  for (const Table& table : comparison_tables(experiment, result, view)) text += table_text(table) + "\n";
  for (const std::string& note : result.notes) text += "Note: " + note + "\n";
  const auto was_there = [](const RunResult& run) { return run.was_there; };
  for (const RunFailure& failure : result.failures)
    text += fmt::format("Failed: {}, seed {}: {}\n", failure.row, failure.seed, failure.error.what());
  if (result.failures.empty() && std::all_of(result.rows.begin(), result.rows.end(), [&](const RowResult& row) {
        return std::all_of(row.runs.begin(), row.runs.end(), was_there);
      }))
    text += fmt::format("Note: all of this was in {} already and nothing was run; another --output runs it again.\n",
                        result.folder);
  if (!result.figure.empty() && view != ComparisonView::kSpread) text += "Figure:  " + result.figure + "\n";
  if (!result.spread_figure.empty() && view == ComparisonView::kSpread)
    text += "Figure:  " + result.spread_figure + "\n";
  text += fmt::format("Summary: {}\nNodes:   {}\n", result.summary, result.table);
  if (result.rows.size() == 1 && result.rows[0].runs.size() == 1)
    text += fmt::format("Run:     {}\n", result.rows[0].runs[0].folder);
  return text;
}

}  // namespace labelshift::cli
