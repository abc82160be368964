#include "labelshift/report/label_shift_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "labelshift/report/series_style.hpp"

namespace labelshift {
namespace {

constexpr std::size_t kMostClasses = 30;  // in one chart
constexpr std::size_t kMostMoved = 5;

Tone tone_of(Finding finding) {
  switch (finding) {
    case Finding::kWrongSource:
    case Finding::kDoesNotFit:
      return Tone::kBad;
    case Finding::kMoved:
    case Finding::kUntested:
      return Tone::kDoubtful;
    case Finding::kNotMoved:
      return Tone::kGood;
  }
  return Tone::kNeutral;
}

std::string sentence(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text + ".";
}

/// What a reader does next.
std::string advice_on(Finding finding) {
  switch (finding) {
    case Finding::kWrongSource:
      return "Nothing below can be used before the source probabilities and labels are put in order.";
    case Finding::kDoesNotFit:
      return "The mix below is the best guess if only the mix had changed, which the test rules out; look at the new "
             "data before anything is corrected.";
    case Finding::kMoved:
      return "labelshift adapt corrects the predictions for the new mix.";
    case Finding::kNotMoved:
      return "Nothing needs to be corrected.";
    case Finding::kUntested:
      return "More rows are needed.";
  }
  return "";
}

/// A share with as many digits as are worth reading.
std::string percent(double share) {
  const double value = 100.0 * share;
  if (value == 0.0) return "0 %";
  if (value < 0.05) return "below 0.1 %";
  return value < 9.95 ? fmt::format("{:.1f} %", value) : fmt::format("{:.0f} %", value);
}

double move_of(const LabelShiftResult& result, Index c) {
  return result.target_prior[c] - result.source_prior[c];
}

/// All classes, those that moved most first.
std::vector<Index> by_move(const LabelShiftResult& result) {
  std::vector<Index> order(static_cast<std::size_t>(result.target_prior.size()));
  std::iota(order.begin(), order.end(), Index{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](Index a, Index b) { return std::abs(move_of(result, a)) > std::abs(move_of(result, b)); });
  return order;
}

DotPlot mix_chart(const LabelShiftReport& report) {
  const LabelShiftResult& result = report.result;
  const Intervals& intervals = result.intervals;
  std::vector<Index> shown = by_move(result);
  const std::size_t all = shown.size();
  if (all > kMostClasses)
    shown.resize(kMostClasses);
  else
    std::sort(shown.begin(), shown.end());
  DotPlot plot{.title = "Label mix",
               .subtitle = fmt::format("Whiskers are {:.4g} % intervals of the target, each on its own.",
                                       100.0 * report.options.level),
               .row_label = "class",
               .x_label = "share of examples (1 is all)",
               .series = {{.name = "target, estimated"}, {.name = "source"}}};
  if (shown.size() < all) plot.subtitle += fmt::format(" Of {} classes the {} that moved most.", all, shown.size());
  for (const Index c : shown) {
    plot.rows.push_back(report.classes[static_cast<std::size_t>(c)]);
    plot.series[0].values.push_back(result.target_prior[c]);
    plot.series[0].low.push_back(intervals.prior_low[c]);
    plot.series[0].high.push_back(intervals.prior_high[c]);
    plot.series[1].values.push_back(result.source_prior[c]);
  }
  return plot;
}

LineSeries reliability_line(const std::string& name, const std::vector<ConfidenceBin>& bins) {
  LineSeries line{.name = name};
  for (const ConfidenceBin& bin : bins) {
    if (!line.x.empty() && bin.confidence <= line.x.back()) continue;  // by rounding
    line.x.push_back(bin.confidence);
    line.y.push_back(bin.accuracy);
  }
  return line;
}

LinePlot reliability_chart(const CalibrationFit& fit) {
  LinePanel panel{.x_label = "confidence: largest probability of a row",
                  .y_label = "accuracy: share of rows that are right",
                  .x_scale = AxisScale::kLinear,
                  .y_scale = AxisScale::kLinear};
  const bool calibrated = fit.kind != CalibrationKind::kNone;
  panel.series = {reliability_line(calibrated ? "before" : "as it is", fit.bins_before)};
  if (calibrated) panel.series.push_back(reliability_line("after", fit.bins_after));
  panel.series.push_back({.name = "confidence = accuracy", .x = {0.0, 1.0}, .y = {0.0, 1.0}});
  return {
      .title = "Reliability on the source",
      .subtitle =
          "A point is the rows of one fifteenth of the confidence scale. Below the diagonal the classifier is surer "
          "than it is right.",
      .panels = {panel}};
}

Table reliability_table(const CalibrationFit& fit) {
  Table table{.title = "Rows behind each point",
              .columns = {text_column("calibration", "calibration"), number_column("confidence", "confidence", 3),
                          number_column("accuracy", "accuracy", 3), count_column("rows", "rows")}};
  const auto add = [&](const char* name, const std::vector<ConfidenceBin>& bins) {
    for (const ConfidenceBin& bin : bins)
      table.rows.push_back({name, bin.confidence, bin.accuracy, std::int64_t{bin.rows}});
  };
  add(fit.kind == CalibrationKind::kNone ? "none" : "before", fit.bins_before);
  if (fit.kind != CalibrationKind::kNone) add("after", fit.bins_after);
  return table;
}

Table candidate_table(const CalibrationChoice& choice) {
  Table table{.title = "Calibrations that were tried",
              .columns = {text_column("calibration", "calibration"), number_column("cross-validated NLL", "nll"),
                          number_column("more than the best", "excess"),
                          number_column("its standard error", "excess_error"), text_column("used for", "used_for")}};
  for (std::size_t i = 0; i < choice.candidates.size(); ++i) {
    const CalibrationCandidate& one = choice.candidates[i];
    std::string use;
    if (i == choice.chosen)
      use = i == choice.largest ? "estimate and intervals" : "estimate";
    else if (i == choice.largest)
      use = "intervals";
    table.rows.push_back({to_string(one.kind), one.nll, one.excess, one.excess_error, use});
  }
  table.notes = {
      "NLL is the mean of -log p(label), in nats, of rows that the calibration was not fitted to; less is better. "
      "Chosen is the simplest kind that is at most one standard error above the best."};
  return table;
}

Table test_table(const LabelShiftReport& report) {
  const LabelShiftResult& result = report.result;
  Column p_column = significant_column("p-value", "p_value", 2);
  Table table{.columns = {text_column("question", "question"), text_column("answer", "answer"), p_column,
                          significant_column("statistic", "statistic", 4),
                          significant_column("degrees of freedom", "degrees_of_freedom", 3)}};
  const HypothesisTest& shift = result.shift_test;
  const bool testable = shift.degrees_of_freedom > 0.0;
  const char* moved = !testable                                 ? "too little data"
                      : shift.p_value < Evidence::kVerdictLevel ? "yes"
                                                                : "no evidence of it";
  table.rows.push_back({"Has the label mix moved?", moved, testable ? Cell(shift.p_value) : Cell(),
                        testable ? Cell(shift.statistic) : Cell(), testable ? Cell(shift.degrees_of_freedom) : Cell()});
  const char* question = "Can a change of the mix alone explain the target?";
  if (const auto& fit = result.fit_test)
    table.rows.push_back({question, fit->p_value < Evidence::kVerdictLevel ? "no" : "nothing speaks against it",
                          fit->p_value, fit->statistic, fit->degrees_of_freedom});
  else
    table.rows.push_back({question, "not tested", Cell(), Cell(), Cell()});
  table.notes = {
      fmt::format("Each test is at the {:g} % level: where nothing has changed, each says otherwise so often.",
                  100.0 * Evidence::kVerdictLevel)};
  if (!result.fit_test)
    table.notes.push_back(fmt::format("The second could not be tested, since {}.",
                                      result.calibration_fit ? why_fit_is_untested(result.unseen, report.classes)
                                                             : "there are no source probabilities and labels"));
  return table;
}

void add_calibration(const LabelShiftReport& report, Page& page) {
  const auto& fit = report.result.calibration_fit;
  page.add({Heading{"Calibration"}});
  if (!fit) {
    page.add({Paragraph{
        "There are no source examples to calibrate the classifier on, so its probabilities are taken as they are."}});
    return;
  }
  page.add({Paragraph{calibration_sentence(report)}});
  if (!fit->bins_before.empty()) page.add({Charts{charts_of(reliability_chart(*fit))}});
  if (const auto& choice = report.result.calibration_choice; choice && choice->candidates.size() > 1)
    page.add({candidate_table(*choice)});
  page.add({Folded{"Rows behind each point of the reliability diagram", {{reliability_table(*fit)}}}});
}

}  // namespace

std::vector<std::string> moved_classes(const LabelShiftReport& report, std::size_t most) {
  const LabelShiftResult& result = report.result;
  std::vector<std::string> sentences;
  for (const Index c : by_move(result)) {
    const double source = result.source_prior[c], target = result.target_prior[c];
    const double low = result.intervals.prior_low[c], high = result.intervals.prior_high[c];
    if (sentences.size() == most) break;
    if (low <= source && source <= high) continue;
    const std::string interval =
        fmt::format("{:.4g} % interval {} to {}", 100.0 * report.options.level, percent(low), percent(high));
    std::string times;
    if (target > source && source > 0.0)
      times = fmt::format(", {:.2g} times as common", target / source);
    else if (target > 0.0 && source > 0.0)
      times = fmt::format(", {:.2g} times as rare", source / target);
    sentences.push_back(fmt::format("{} {} from {} to {}{} ({}).", report.classes[static_cast<std::size_t>(c)],
                                    target > source ? "rose" : "fell", percent(source), percent(target), times,
                                    interval));
  }
  return sentences;
}

Page label_shift_page(const LabelShiftReport& report, const Provenance& provenance) {
  const LabelShiftResult& result = report.result;
  const Verdict verdict = verdict_on(result, report.classes);
  Page page{.title = "Has the label mix moved?",
            .subtitle = fmt::format("An estimate of the mix of {} classes in {:.6g} rows of new, unlabelled data.",
                                    report.classes.size(), result.target_rows)};
  page.add({Banner{tone_of(verdict.finding), sentence(verdict.text) + " " + advice_on(verdict.finding)}});
  if (!report.warnings.empty()) {
    List warnings;
    for (const std::string& warning : report.warnings) warnings.items.push_back("Warning: " + sentence(warning));
    page.add({std::move(warnings)});
  }

  page.add({Heading{"What moved"}});
  if (const std::vector<std::string> moved = moved_classes(report, kMostMoved); moved.empty()) {
    page.add({Paragraph{"No class has moved by more than its interval."}});
  } else {
    page.add(
        {Paragraph{verdict.finding == Finding::kDoesNotFit
                       ? "If only the mix had changed, these classes would have moved most, of those whose interval "
                         "leaves the source share out:"
                       : "The classes that moved most, of those whose interval leaves the source share out:"}});
    page.add({List{moved}});
  }
  page.add({Charts{{chart_of(mix_chart(report))}}});
  Table mix =
      mix_table(report.classes, result.source_prior, result.target_prior, result.intervals, &result.estimate.ratio);
  mix.title = "Shares and ratios";
  mix.notes = {interval_sentence(report) + " The ratio is the target share by the source share."};
  page.add({std::move(mix)});

  page.add({Heading{"The two tests"}});
  page.add({test_table(report)});

  add_calibration(report, page);

  page.add({Heading{"How to get it again"}});
  Facts facts;
  const auto add = [&](const char* name, std::string value) {
    if (!value.empty()) facts.facts.push_back({name, std::move(value)});
  };
  add("Command", provenance.command);
  add("Estimator", report.options.estimator + ". " + solver_sentence(report));
  add("Calibration asked for", report.options.calibration);
  add("Intervals", report.options.bootstrap > 0 ? fmt::format("{} bootstrap replicates", report.options.bootstrap)
                                                : "by asymptotic theory");
  add("Seed", fmt::format("{}", report.options.seed));
  add("Version", "labelshift " + provenance.version);
  add("Machine", provenance.machine);
  page.add({std::move(facts)});
  return page;
}

}  // namespace labelshift
