#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <string>
#include <vector>

#include "labelshift/core/stream.hpp"
#include "labelshift/report/prior_plot.hpp"
#include "labelshift/report/table.hpp"
#include "labelshift/report/verdict.hpp"

namespace labelshift {

/// What one look at a stream of target rows shows.
struct WatchReport {
  std::vector<std::string> classes;  // (m)
  Eigen::VectorXd source_prior;      // (m)
  IncrementalState state;
  Verdict verdict;
  double level = IncrementalOptions().level;  // of the intervals
  std::int64_t skipped_lines = 0;

  /// Whether the verdict says that anything has changed.
  bool is_alarm() const;
};

/// A look at a stream now. `alarm` is the level of both tests.
WatchReport watch_report(const LabelShiftStream& stream, const std::vector<std::string>& classes, double alarm,
                         std::int64_t skipped_lines = 0);

/// A row for each class, with all that is known of this look in every row, so that the tables of several looks can
/// follow each other.
Table watch_table(const WatchReport& report);

/// The mix under the number of rows, and the verdict.
std::string watch_text(const WatchReport& report);

/// Everything there is in one line, for programs.
std::string watch_json(const WatchReport& report);

/// Source mix, target mix and intervals under the verdict.
PriorPlot watch_plot(const WatchReport& report);

}  // namespace labelshift
