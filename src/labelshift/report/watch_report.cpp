#include "labelshift/report/watch_report.hpp"

#include <fmt/format.h>

#include "labelshift/report/json_parts.hpp"
#include "labelshift/report/label_shift_report.hpp"

namespace labelshift {
namespace {

Table class_table(const WatchReport& report) {
  return mix_table(report.classes, report.source_prior, report.state.target_prior, report.state.intervals);
}

}  // namespace

bool WatchReport::is_alarm() const {
  return verdict.finding == Finding::kMoved || verdict.finding == Finding::kDoesNotFit;
}

WatchReport watch_report(const LabelShiftStream& stream, const std::vector<std::string>& classes, double alarm,
                         std::int64_t skipped_lines) {
  WatchReport report{.classes = classes,
                     .source_prior = stream.source_prior(),
                     .state = stream.current(),
                     .level = stream.level(),
                     .skipped_lines = skipped_lines};
  report.verdict = judge({.shift_test = report.state.shift_test,
                          .fit_test = report.state.fit_test,
                          .why_untested = why_fit_is_untested(stream.unseen(), classes),
                          .needs_calibrated = !stream.unseen().empty(),
                          .unusable_source = unusable_source(stream.source_evidence()),
                          .level = alarm});
  return report;
}

Table watch_table(const WatchReport& report) {
  Table table = class_table(report);
  const auto add = [&](std::size_t at, const Column& column, const Cell& cell) {
    table.columns.insert(table.columns.begin() + static_cast<std::ptrdiff_t>(at), column);
    for (auto& row : table.rows) row.insert(row.begin() + static_cast<std::ptrdiff_t>(at), cell);
  };
  const auto add_last = [&](const Column& column, const Cell& cell) { add(table.columns.size(), column, cell); };
  const auto& fit_test = report.state.fit_test;
  add(0, number_column("rows", "rows", 0), report.state.rows);
  add_last(significant_column("p-value", "p_value", 2), report.state.shift_test.p_value);
  add_last(significant_column("p-value of the fit", "fit_p_value", 2), fit_test ? Cell(fit_test->p_value) : Cell());
  add_last(text_column("verdict", "verdict"), to_string(report.verdict.finding));
  add_last(text_column("alarm", "alarm"), report.is_alarm() ? "true" : "false");
  add_last(count_column("bad lines skipped", "skipped_lines"), report.skipped_lines);
  return table;
}

std::string watch_text(const WatchReport& report) {
  const double rows = report.state.rows;
  const std::string skipped =
      report.skipped_lines == 0 ? "" : fmt::format(", bad lines skipped: {}", report.skipped_lines);
  return fmt::format("After {} row{}{}\n{}{}: {}.\n\n", rows, rows == 1.0 ? "" : "s", skipped,
                     table_text(class_table(report)), report.is_alarm() ? "ALARM" : "No alarm", report.verdict.text);
}

std::string watch_json(const WatchReport& report) {
  const IncrementalState& state = report.state;
  Json json;
  json["rows"] = static_cast<std::int64_t>(state.rows);
  json["skipped_lines"] = report.skipped_lines;
  json["effective_rows"] = json_number(state.effective_rows);
  json["classes"] = report.classes;
  json["source_prior"] = json_numbers(report.source_prior);
  json["target_prior"] = json_numbers(state.target_prior);
  json["target_prior_low"] = json_numbers(state.intervals.prior_low);
  json["target_prior_high"] = json_numbers(state.intervals.prior_high);
  json["level"] = report.level;
  json["shift_test"] = test_object(state.shift_test);
  json["fit_test"] = test_object(state.fit_test);
  json["verdict"] = to_string(report.verdict.finding);
  json["verdict_text"] = report.verdict.text;
  json["alarm"] = report.is_alarm();
  return json_line(json) + '\n';
}

PriorPlot watch_plot(const WatchReport& report) {
  return {
      .title = "Label mix of source and target",
      .subtitles = {fmt::format("After {} rows", report.state.rows), fmt::format("Verdict: {}.", report.verdict.text)},
      .classes = report.classes,
      .source_prior = report.source_prior,
      .target_prior = report.state.target_prior,
      .target_prior_low = report.state.intervals.prior_low,
      .target_prior_high = report.state.intervals.prior_high,
      .level = report.level};
}

}  // namespace labelshift
