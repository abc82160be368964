#include "labelshift/experiments/comparison_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>

#include "labelshift/experiments/comparison_figures.hpp"
#include "labelshift/experiments/comparison_tables.hpp"
#include "labelshift/report/series_style.hpp"

namespace labelshift {
namespace {

constexpr std::size_t kMostNodes = 12;    // that have a chart each
constexpr std::size_t kMostClasses = 30;  // in one chart
constexpr double kNormal95 = 1.959964;

std::string percent(double share) {
  return fmt::format("{:.1f} %", 100.0 * share);
}

std::string counted(std::size_t count, const char* one, const char* many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

const RunResult* first_run(const ComparisonResult& result) {
  for (const RowResult& row : result.rows)
    if (!row.runs.empty()) return &row.runs.front();
  return nullptr;
}

bool is_estimated(const ComparedRun& run) {
  return run.settings.federation.ratio.estimated();
}
bool is_true(const ComparedRun& run) {
  return run.settings.federation.ratio.method == "true";
}
bool is_unweighted(const ComparedRun& run) {
  return !run.settings.federation.ratio.weighted();
}

/// The row with the best accuracy among those for which `belongs`.
template <typename Belongs>
std::optional<std::size_t> best_row(const Experiment& experiment, const ComparisonResult& result, Belongs&& belongs) {
  std::optional<std::size_t> best;
  for (std::size_t r = 0; r < result.rows.size(); ++r) {
    const double accuracy = result.rows[r].accuracy.mean;
    if (std::isnan(accuracy) || !belongs(experiment.runs[r])) continue;
    if (!best || accuracy > result.rows[*best].accuracy.mean) best = r;
  }
  return best;
}

/// How much more accurate one row is than another: seed by seed where they have two in common.
MeanInterval difference_of(const Experiment& experiment, const RowResult& row, const RowResult& other) {
  std::vector<double> differences;
  for (const RunResult& a : row.runs)
    for (const RunResult& b : other.runs)
      if (a.seed == b.seed) {
        const double difference = judged_accuracy(experiment, a) - judged_accuracy(experiment, b);
        if (!std::isnan(difference)) differences.push_back(difference);
      }
  if (differences.size() > 1) return mean_interval(differences);
  const MeanInterval one = accuracy_interval(experiment, row), two = accuracy_interval(experiment, other);
  const double mean = one.mean - two.mean;
  const double half = std::hypot(one.high - one.low, two.high - two.low) / 2.0;
  return {.mean = mean, .low = mean - half, .high = mean + half};
}

std::string whose_accuracy(const Experiment& experiment, const ComparisonResult& result) {
  const RunResult* run = first_run(result);
  if (experiment.report_node > 0 && run)
    return fmt::format("the test examples of {}", run->name_of(experiment.report_node - 1));
  return "the nodes' test examples, averaged over nodes";
}

/// "from 79.1 % at the worst node to 88.0 % at the best"
std::string range_text(const RowResult& row) {
  if (std::isnan(row.worst.mean) || row.nodes.size() < 2) return "";
  return fmt::format(", from {} at the worst node to {} at the best", percent(row.worst.mean), percent(row.best.mean));
}

Banner judged_verdict(const Experiment& experiment, const ComparisonResult& result) {
  const auto estimated = best_row(experiment, result, is_estimated);
  const auto bound = best_row(experiment, result, is_true);
  const auto plain = best_row(experiment, result, is_unweighted);
  const auto any = best_row(experiment, result, [](const ComparedRun&) { return true; });
  const std::string whose = whose_accuracy(experiment, result);
  const auto weighted = estimated ? estimated : bound;
  if (!weighted || !plain) {
    const RowResult& row = result.rows[*any];
    std::string text =
        fmt::format("{} is right on {} of {}{}.", row.name, percent(row.accuracy.mean), whose, range_text(row));
    if (result.rows.size() > 1) text = "The best row: " + text;
    return {Tone::kNeutral, text};
  }
  const RowResult& row = result.rows[*weighted];
  const RowResult& other = result.rows[*plain];
  const MeanInterval more = difference_of(experiment, row, other);
  const bool better = more.low > 0.0, worse = more.high < 0.0;
  std::string text = better ? "It worked: " : worse ? "It did not work: " : "No clear difference: ";
  text += fmt::format(
      "with weights ({}) the model is right on {} of {}{}. Without ({}) it is right on {}. The difference is {:.1f} "
      "points (95 % interval {:.1f} to {:.1f}).",
      row.name, percent(row.accuracy.mean), whose, range_text(row), other.name, percent(other.accuracy.mean),
      100.0 * more.mean, 100.0 * more.low, 100.0 * more.high);
  if (estimated && bound)
    text += fmt::format(" With the true label mixes ({}) it is {}.", result.rows[*bound].name,
                        percent(result.rows[*bound].accuracy.mean));
  return {better ? Tone::kGood : worse ? Tone::kBad : Tone::kDoubtful, text};
}

Banner verdict(const Experiment& experiment, const ComparisonResult& result) {
  Banner banner;
  if (result.is_judged()) {
    banner = judged_verdict(experiment, result);
  } else {
    std::string stand_in;
    for (const RowResult& row : result.rows)
      if (!std::isnan(row.reweighted_accuracy.mean))
        stand_in +=
            fmt::format("{}{} has {}", stand_in.empty() ? " " : ", ", row.name, percent(row.reweighted_accuracy.mean));
    banner = {Tone::kDoubtful,
              "The target has no labels, so no test accuracy is known." +
                  (stand_in.empty()
                       ? std::string()
                       : " In its place stands the reweighted source accuracy, which is as right as the estimated "
                         "label mix is:" +
                             stand_in + " on average over nodes.")};
  }
  if (!result.failures.empty()) {
    if (banner.tone == Tone::kGood) banner.tone = Tone::kDoubtful;
    banner.text += fmt::format(" {} failed; see below.", counted(result.failures.size(), "run", "runs"));
  }
  return banner;
}

/// average_table() with an interval beside each accuracy.
Table accuracy_table(const Experiment& experiment, const ComparisonResult& result) {
  Table table = average_table(experiment, result);
  table.title = "Accuracy of each method";
  constexpr std::ptrdiff_t kAt = 2;  // after the accuracy
  table.columns.insert(table.columns.begin() + kAt, interval_column("95 % interval", "accuracy"));
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    const MeanInterval interval = accuracy_interval(experiment, result.rows[r]);
    table.rows[r].insert(table.rows[r].begin() + kAt,
                         std::isnan(interval.low) ? Cell() : Cell(IntervalEnds{interval.low, interval.high}));
  }
  table.notes.push_back(experiment.seeds.size() > 1 ? "Intervals are Student's, over seeds."
                                                    : "Intervals say how much other test examples would change the "
                                                      "accuracy; one seed says nothing of other seeds.");
  return table;
}

DotPlot range_chart(const Experiment& experiment, const ComparisonResult& result) {
  DotPlot plot = spread_plot(experiment, result);
  plot.title = "Average, worst and best node";
  plot.subtitle = "Whiskers of the average are 95 % intervals.";
  for (DotSeries& series : plot.series) {
    series.low.clear();
    series.high.clear();
  }
  DotSeries paper{.name = "paper's average", .on_bar = false};
  bool any_paper = false;
  for (const RowResult& row : result.rows) {
    if (row.runs.empty()) continue;
    if (experiment.report_node == 0) {
      const MeanInterval interval = accuracy_interval(experiment, row);
      plot.series[0].low.push_back(interval.low);
      plot.series[0].high.push_back(interval.high);
    }
    paper.values.push_back(row.paper.accuracy.value_or(kUnknown));
    any_paper = any_paper || row.paper.accuracy;
  }
  if (any_paper && experiment.report_node == 0) plot.series.push_back(std::move(paper));
  return plot;
}

/// The paper's figure of best, average and worst node, where its tables say what every node has.
std::optional<DotPlot> paper_range_chart(const ComparisonResult& result) {
  DotPlot plot{.title = "The paper's",
               .subtitle = "As its tables have every node.",
               .row_label = "run",
               .x_label = "accuracy (share of test examples)",
               .series = {{.name = "average"}, {.name = "worst node"}, {.name = "best node"}},
               .joined = true,
               .shown = {.low = 0.0, .high = 1.0}};
  for (const RowResult& row : result.rows) {
    const std::vector<double>& nodes = row.paper.nodes;
    if (row.runs.empty() || nodes.empty()) continue;
    plot.rows.push_back(row.name);
    plot.series[0].values.push_back(row.paper.accuracy.value_or(mean_deviation(nodes).mean));
    plot.series[1].values.push_back(*std::min_element(nodes.begin(), nodes.end()));
    plot.series[2].values.push_back(*std::max_element(nodes.begin(), nodes.end()));
  }
  if (plot.rows.empty()) return std::nullopt;
  return plot;
}

void add_table(Table table, const char* title, std::vector<Block>& blocks) {
  if (table.rows.empty()) return;
  if (title[0] != '\0') table.title = title;
  blocks.push_back({std::move(table)});
}

void add_outcome(const Experiment& experiment, const ComparisonResult& result, Page& page) {
  page.add({Heading{"Did it work?"}});
  page.add({verdict(experiment, result)});
  if (!experiment.claim.empty()) page.add({Paragraph{"The paper's claim that this tests: " + experiment.claim}});
  if (result.is_judged()) {
    page.add({accuracy_table(experiment, result)});
    Charts charts{{chart_of(range_chart(experiment, result))}};
    if (auto paper = paper_range_chart(result)) {
      charts.charts[0].title = "Average, worst and best node: ours";
      charts.charts.push_back(chart_of(std::move(*paper)));
    }
    page.add({std::move(charts)});
    if (!result.rows.empty() && first_run(result) && first_run(result)->last().size() > 1)
      add_table(node_table(result), "Accuracy of each node", page.blocks);
    add_table(paired_table(experiment, result), "Differences, seed by seed", page.blocks);
  }
  add_table(reweighted_table(result), "Reweighted source accuracy, where test data have no labels", page.blocks);
}

// --- why
// ------------------------------------------------------------------------------------------------------------------

/// Counts as shares; empty where there are none.
Eigen::VectorXd shares_of(const std::vector<Index>& counts) {
  Eigen::VectorXd shares(std::ssize(counts));
  for (Index c = 0; c < shares.size(); ++c) shares[c] = static_cast<double>(counts[static_cast<std::size_t>(c)]);
  const double sum = shares.sum();
  return sum > 0.0 ? Eigen::VectorXd(shares / sum) : Eigen::VectorXd();
}

/// What is known of one node's label mixes; an empty vector is not known.
struct KnownMixes {
  Index node = 0;
  Eigen::VectorXd train, test;          // (m)
  Eigen::VectorXd estimate, low, high;  // (m)
};

std::vector<KnownMixes> mixes_of(const RunResult& run) {
  std::vector<KnownMixes> nodes(std::max(run.mixes.size(), run.state.ratios.size()));
  for (std::size_t k = 0; k < nodes.size(); ++k) nodes[k].node = static_cast<Index>(k);
  for (std::size_t k = 0; k < run.mixes.size(); ++k) {
    nodes[k].train = shares_of(run.mixes[k].train);
    nodes[k].test = shares_of(run.mixes[k].test);
  }
  for (const NodeRatio& ratio : run.state.ratios) {
    if (ratio.node < 0 || ratio.node >= std::ssize(nodes)) continue;
    KnownMixes& node = nodes[static_cast<std::size_t>(ratio.node)];
    node.estimate = ratio.estimate;
    if (ratio.low.size() == ratio.estimate.size() && ratio.high.size() == ratio.estimate.size()) {
      node.low = ratio.low;
      node.high = ratio.high;
    }
    if (ratio.truth.size() > 0) node.test = ratio.truth;  // of those test examples that ratios are estimated on
  }
  return nodes;
}

double share_at(const Eigen::VectorXd& shares, Index c) {
  return c < shares.size() ? shares[c] : kUnknown;
}

/// All classes in their order, or if there are too many those whose shares differ most.
std::vector<Index> shown_classes(const KnownMixes& node) {
  const Index classes = std::max({node.train.size(), node.test.size(), node.estimate.size()});
  std::vector<Index> shown(static_cast<std::size_t>(classes));
  std::iota(shown.begin(), shown.end(), Index{0});
  if (shown.size() <= kMostClasses) return shown;
  const auto spread = [&](Index c) {
    ValueRange range;
    for (const Eigen::VectorXd* shares : {&node.train, &node.test, &node.estimate})
      if (c < shares->size()) range.add((*shares)[c]);
    return range.empty() ? 0.0 : range.high - range.low;
  };
  std::stable_sort(shown.begin(), shown.end(), [&](Index a, Index b) { return spread(a) > spread(b); });
  shown.resize(kMostClasses);
  return shown;
}

struct WhatIsKnown {
  bool train = false, test = false, estimate = false;
};

DotPlot node_chart(const RunResult& run, const KnownMixes& node, const WhatIsKnown& known) {
  DotPlot plot{.title = run.name_of(node.node),
               .row_label = "class",
               .x_label = "share of the node's examples (1 is all)",
               .shown = {.low = 0.0, .high = 1.0}};
  const auto add = [&](const char* name, const Eigen::VectorXd& shares) -> DotSeries& {
    DotSeries& series = plot.series.emplace_back(DotSeries{.name = name});
    for (const Index c : shown_classes(node)) series.values.push_back(share_at(shares, c));
    return series;
  };
  for (const Index c : shown_classes(node)) plot.rows.push_back(run.class_name(c));
  if (known.estimate) {
    DotSeries& series = add("test, estimated", node.estimate);
    for (const Index c : shown_classes(node)) {
      series.low.push_back(share_at(node.low, c));
      series.high.push_back(share_at(node.high, c));
    }
  }
  if (known.test) add("test, true", node.test);
  if (known.train) add("training", node.train);
  return plot;
}

/// A chart for each node of a run.
Charts node_charts(const RunResult& run, const std::vector<KnownMixes>& nodes) {
  WhatIsKnown known;
  for (const KnownMixes& node : nodes) {
    known.train = known.train || node.train.size() > 0;
    known.test = known.test || node.test.size() > 0;
    known.estimate = known.estimate || node.estimate.size() > 0;
  }
  Charts charts;
  if (!known.train && !known.test && !known.estimate) return charts;
  for (const KnownMixes& node : nodes)
    if (node.train.size() + node.test.size() + node.estimate.size() > 0)
      charts.charts.push_back(chart_of(node_chart(run, node, known)));
  return charts;
}

std::string most_frequent(const RunResult& run, const Eigen::VectorXd& shares) {
  if (shares.size() == 0) return "";
  Index c = 0;
  const double share = shares.maxCoeff(&c);
  return fmt::format("{} ({})", run.class_name(c), percent(share));
}

Table data_table(const RunResult& run, const std::vector<KnownMixes>& nodes) {
  Table table{
      .title = "What each node has",
      .columns = {text_column("node", "node"), count_column("training examples", "training_examples"),
                  count_column("test examples", "test_examples"),
                  text_column("most frequent in training", "most_frequent_in_training"),
                  text_column("most frequent at test", "most_frequent_at_test"),
                  number_column("distance of the mixes", "distance", 2)},
      .notes = {
          "The distance is the sum over classes of |share at test - share in training|: 0 if both mixes are the same, "
          "2 if they have no class in common."}};
  for (std::size_t k = 0; k < run.mixes.size() && k < nodes.size(); ++k) {
    const auto total = [](const std::vector<Index>& counts) {
      return std::accumulate(counts.begin(), counts.end(), Index{0});
    };
    const KnownMixes& node = nodes[k];
    const Index tests = total(run.mixes[k].test);
    table.rows.push_back({run.name_of(node.node), std::int64_t{total(run.mixes[k].train)},
                          tests > 0 ? Cell(std::int64_t{tests}) : Cell(), most_frequent(run, node.train),
                          most_frequent(run, node.test),
                          node.train.size() > 0 && node.train.size() == node.test.size()
                              ? Cell((node.test - node.train).cwiseAbs().sum())
                              : Cell()});
  }
  return table;
}

/// How the weights of each node of a run turned out.
Table node_weight_table(const RowResult& row, const RunResult& run) {
  Table table{.title = fmt::format("Weights at each node: {}", row.name),
              .columns = {text_column("node", "node"), significant_column("largest weight, r_max", "largest_weight", 3),
                          number_column("training examples", "examples", 0),
                          number_column("effective sample size", "effective_examples", 1),
                          number_column("error of q", "prior_error", 3), number_column("p-value of q", "p_value", 3)}};
  for (const NodeRatio& ratio : run.state.ratios)
    table.rows.push_back({run.name_of(ratio.node), ratio.largest, ratio.examples, ratio.effective_examples,
                          ratio.prior_error, ratio.p_value});
  const auto unknown = [&](std::size_t column) {
    return std::all_of(table.rows.begin(), table.rows.end(),
                       [&](const std::vector<Cell>& line) { return std::isnan(std::get<double>(line[column])); });
  };
  for (std::size_t column = table.columns.size(); column-- > 1;) {
    if (!unknown(column)) continue;
    table.columns.erase(table.columns.begin() + static_cast<std::ptrdiff_t>(column));
    for (auto& line : table.rows) line.erase(line.begin() + static_cast<std::ptrdiff_t>(column));
  }
  if (table.columns.size() == 1) table.rows.clear();
  table.notes = {
      "q is the node's estimated test mix. Its error is the sum over classes of |estimate - truth|, where test labels "
      "tell. A small "
      "p-value says that predicted labels do not bear the estimate out."};
  return table;
}

void add_warnings(const ComparisonResult& result, Page& page) {
  constexpr std::size_t kMostShown = 5;
  if (result.warnings.empty()) return page.add({Paragraph{"Nothing gave a warning."}});
  List shown, more;
  for (const std::string& warning : result.warnings)
    (shown.items.size() < kMostShown ? shown : more).items.push_back("Warning: " + warning + ".");
  page.add({std::move(shown)});
  if (const std::size_t count = more.items.size(); count > 0)
    page.add({Folded{counted(count, "more warning", "more warnings"), {{std::move(more)}}}});
}

void add_reasons(const Experiment& experiment, const ComparisonResult& result, Page& page) {
  page.add({Heading{"Why?"}});
  add_warnings(result, page);
  Table weights = weight_table(result);
  weights.columns[1].name = "largest weight, r_max";
  weights.notes = {
      "The effective examples are (sum of weights)^2 / (sum of squared weights), as a part of all training examples: "
      "the "
      "more weights differ, the fewer. q is a node's estimated test mix, and an error is the sum over classes of "
      "|estimate - "
      "truth|, 2 at most."};
  add_table(std::move(weights), "Importance weights", page.blocks);

  bool data_shown = false, first = true;
  const auto scatter = mix_plot(experiment, result);
  for (const RowResult& row : result.rows) {
    if (row.runs.empty()) continue;
    const RunResult& run = row.runs.front();
    const std::vector<KnownMixes> nodes = mixes_of(run);
    const bool estimated =
        std::any_of(nodes.begin(), nodes.end(), [](const KnownMixes& node) { return node.estimate.size() > 0; });
    if (!data_shown && !run.mixes.empty()) {
      page.add({data_table(run, nodes)});
      data_shown = true;
    }
    if (!estimated) continue;
    std::vector<Block> blocks;
    if (nodes.size() <= kMostNodes) blocks.push_back({node_charts(run, nodes)});
    add_table(node_weight_table(row, run), "", blocks);
    if (first) {
      page.add(
          {Paragraph{fmt::format("The label mix of each node, in training and at test, as {} estimated it{}. Whiskers "
                                 "are 95 % intervals, where "
                                 "held-out examples tell their width.",
                                 row.name, row.runs.size() > 1 ? fmt::format(" with seed {}", run.seed) : "")}});
      for (Block& block : blocks) page.add(std::move(block));
    } else if (!blocks.empty()) {
      page.add({Folded{fmt::format("The same as {} estimated it", row.name), std::move(blocks)}});
    }
    first = false;
    if (nodes.size() > kMostNodes && scatter) {
      for (const LinePanel& panel : scatter->panels) {
        if (panel.title != row.name) continue;
        page.add({Charts{charts_of({.title = fmt::format("Estimated against true shares: {}", row.name),
                                    .subtitle = scatter->subtitle,
                                    .panels = {panel}})}});
        break;
      }
    }
  }
  if (first)  // nobody estimated anything: the data alone
    if (const RunResult* run = first_run(result)) {
      const std::vector<KnownMixes> nodes = mixes_of(*run);
      if (nodes.size() <= kMostNodes)
        if (Charts charts = node_charts(*run, nodes); !charts.charts.empty()) page.add({std::move(charts)});
    }
}

// --- how it went
// ----------------------------------------------------------------------------------------------------------

/// A line for each node of a single run, where they can be told apart.
LinePlot node_progress(const RunResult& run, double NodeEvaluation::*number, const std::string& label) {
  LinePlot plot{.panels = {{.x_label = "rounds of training",
                            .y_label = label,
                            .x_scale = AxisScale::kLinear,
                            .y_scale = AxisScale::kLinear}}};
  for (Index node = 0; node < std::ssize(run.last()); ++node) {
    LineSeries line{.name = run.name_of(node)};
    for (const NodeEvaluation& one : run.state.history) {
      if (one.node != node) continue;
      line.x.push_back(one.round);
      line.y.push_back(one.*number);
    }
    plot.names.push_back(line.name);
    if (std::any_of(line.y.begin(), line.y.end(), has_value)) plot.panels[0].series.push_back(std::move(line));
  }
  return plot;
}

/// Leaves at most so many points of each line, evenly spread and with the last. Returns whether that took any away.
bool thin_out(LinePanel& panel) {
  constexpr std::size_t kMostPoints = 400;
  bool thinned = false;
  for (LineSeries& line : panel.series) {
    const std::size_t n = line.x.size();
    const std::size_t every = (n + kMostPoints - 1) / kMostPoints;
    if (every < 2) continue;
    thinned = true;
    for (std::vector<double>* values : {&line.x, &line.y, &line.low, &line.high}) {
      if (values->size() != n) continue;  // there is no band
      std::vector<double> kept;
      for (std::size_t i = (n - 1) % every; i < n; i += every) kept.push_back((*values)[i]);
      *values = std::move(kept);
    }
  }
  return thinned;
}

/// Names that are the same would share a look.
bool all_differ(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  return std::adjacent_find(names.begin(), names.end()) == names.end();
}

void add_progress(const Experiment& experiment, const ComparisonResult& result, Page& page) {
  const bool single = result.rows.size() == 1 && result.rows[0].runs.size() == 1;
  const RunResult* run = first_run(result);
  const bool by_node = single && run->last().size() <= kMaxSeriesStyles && run->last().size() > 1;
  Charts charts;
  struct Measured {
    const char* title;
    double NodeEvaluation::*number;
    const char* label;
  };
  const std::string whose = by_node                      ? ", a line for each node"
                            : experiment.report_node > 0 ? ""
                                                         : ", averaged over nodes";
  for (const Measured& one :
       {Measured{"Accuracy by round", &NodeEvaluation::accuracy, "accuracy (share of test examples)"},
        Measured{"Loss by round", &NodeEvaluation::loss, "loss on test examples (nats)"},
        Measured{"Reweighted source accuracy by round", &NodeEvaluation::reweighted_accuracy,
                 "reweighted source accuracy"}}) {
    if (one.number == &NodeEvaluation::reweighted_accuracy && result.is_judged()) continue;
    LinePlot plot =
        by_node ? node_progress(*run, one.number, one.label) : progress_plot(experiment, result, one.number, one.label);
    if (plot.panels[0].series.empty() || !all_differ(plot.names)) continue;
    plot.title = one.title + whose;
    if (thin_out(plot.panels[0])) plot.subtitle += " Some of the evaluations; rounds.csv of each run has all.";
    for (Chart& chart : charts_of(plot)) charts.charts.push_back(std::move(chart));
  }
  if (!charts.charts.empty()) page.add({std::move(charts)});
  if (result.rows.size() > kMaxSeriesStyles)
    page.add(
        {Paragraph{fmt::format("The charts show the first {} of {} rows.", kMaxSeriesStyles, result.rows.size())}});
}

void add_participation(const Experiment& experiment, const ComparisonResult& result, Page& page) {
  Table absences{.title = "Rounds without a node",
                 .columns = {text_column("run", "run"), count_column("seed", "seed"), text_column("node", "node"),
                             count_column("rounds missed", "rounds"), text_column("why, the last time", "why")}};
  std::size_t nodes = 0;
  std::set<int> rounds, sampled;
  for (std::size_t r = 0; r < result.rows.size(); ++r)
    for (const RunResult& run : result.rows[r].runs) {
      nodes = std::max(nodes, run.last().size());
      rounds.insert(run.state.round);
      sampled.insert(static_cast<int>(experiment.runs[r].settings.federation.sampled));
      for (const NodeAbsence& absence : run.state.absences)
        absences.rows.push_back({result.rows[r].name, static_cast<std::int64_t>(run.seed), run.name_of(absence.node),
                                 std::int64_t{absence.rounds}, absence.why});
    }
  std::string asked = counted(nodes, "node", "nodes");
  if (sampled.size() == 1 && *sampled.begin() > 0)
    asked = fmt::format("{} of {} nodes, drawn anew each time,", *sampled.begin(), nodes);
  else if (sampled.size() > 1)
    asked = fmt::format("some or all of {} nodes, as the settings of each row say,", nodes);
  else if (nodes > 1)
    asked = fmt::format("all {} nodes", nodes);
  const std::string how_many = rounds.size() == 1 ? fmt::format("{} rounds", *rounds.begin())
                                                  : fmt::format("{} to {} rounds", *rounds.begin(), *rounds.rbegin());
  page.add({Paragraph{fmt::format("In each of {} of training {} took part{}", how_many, asked,
                                  absences.rows.empty() ? ", and every one of them answered." : ", but for these:")}});
  if (!absences.rows.empty()) page.add({std::move(absences)});
  if (result.failures.empty()) return;
  Table failures{.title = "Runs that failed",
                 .columns = {text_column("run", "run"), count_column("seed", "seed"), text_column("why", "why")}};
  for (const RunFailure& failure : result.failures)
    failures.rows.push_back({failure.row, static_cast<std::int64_t>(failure.seed), std::string(failure.error.what())});
  page.add({std::move(failures)});
}

/// In the order of the protocol.
constexpr std::string_view kPhases[] = {phase::kJoin,     phase::kPredictor, phase::kRatio,
                                        phase::kTraining, phase::kRefresh,   phase::kEvaluation};

/// What each phase of the protocol cost, of the first seed of each row.
Table phase_table(const ComparisonResult& result) {
  Table table{.title = "What each phase took",
              .columns = {text_column("run", "run"), text_column("phase", "phase"), number_column("time", "seconds", 1),
                          count_column("rounds of messages", "rounds"), number_column("sent by a node", "sent", 1),
                          number_column("received by a node", "received", 1)},
              .notes = {"Times are those of the first seed, and of the coordinator: what nodes do side by side counts "
                        "once. A kB is 1,000 "
                        "bytes, headers included."}};
  table.columns[2].unit = "s";
  table.columns[4].unit = table.columns[5].unit = "kB";
  for (const RowResult& row : result.rows) {
    if (row.runs.empty()) continue;
    const RunResult& run = row.runs.front();
    const auto nodes = static_cast<double>(std::max<std::size_t>(run.last().size(), 1));
    std::vector<PhaseCost> phases = run.state.phases;
    const auto place = [&](const PhaseCost& phase) {
      return std::find(std::begin(kPhases), std::end(kPhases), phase.name) - std::begin(kPhases);
    };
    std::stable_sort(phases.begin(), phases.end(),
                     [&](const PhaseCost& a, const PhaseCost& b) { return place(a) < place(b); });
    for (const PhaseCost& phase : phases)
      table.rows.push_back({row.name, phase.name, phase.seconds, std::int64_t{phase.rounds},
                            static_cast<double>(phase.traffic.up) / nodes / 1e3,
                            static_cast<double>(phase.traffic.down) / nodes / 1e3});
  }
  return table;
}

// --- how to get it again
// --------------------------------------------------------------------------------------------------

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

void add_recipe(const Experiment& experiment, const ComparisonResult& result, Page& page) {
  page.add({Heading{"How to get it again"}});
  std::vector<std::string> commands, machines, versions, seeds;
  const auto add = [](std::vector<std::string>& list, const std::string& text) {
    if (!text.empty() && std::find(list.begin(), list.end(), text) == list.end()) list.push_back(text);
  };
  for (const RowResult& row : result.rows)
    for (const RunResult& run : row.runs) {
      add(commands, run.provenance.command);
      add(machines, run.provenance.machine);
      add(versions, run.provenance.version);
      add(seeds, fmt::format("{}", run.seed));
    }
  Facts facts;
  const auto unless_none = [&](const char* name, const std::vector<std::string>& list, const char* none) {
    if (list.empty())
      facts.facts.push_back({name, none});
    else
      for (const std::string& one : list) facts.facts.push_back({name, one});
  };
  constexpr const char* kOlder = "not known: an older version made the runs";
  unless_none("Command", commands, kOlder);
  facts.facts.push_back({seeds.size() == 1 ? "Seed" : "Seeds", joined(seeds)});
  facts.facts.push_back({"Version", "labelshift " + joined(versions)});
  unless_none("Machine", machines, kOlder);
  page.add({std::move(facts)});

  if (const std::vector<DifferingKey> keys = differing_keys(experiment.runs); !keys.empty()) {
    Table table{.title = "Settings in which rows differ", .columns = {text_column("setting", "setting")}};
    for (const ComparedRun& run : experiment.runs) table.columns.push_back(text_column(run.name, run.name));
    for (const DifferingKey& one : keys) {
      std::vector<Cell>& line = table.rows.emplace_back(std::vector<Cell>{one.key});
      for (const std::string& value : one.values) line.push_back(value.empty() ? Cell() : Cell(value));
    }
    page.add({std::move(table)});
  }
  add_table(tuning_table(result), "Settings that were tuned", page.blocks);
  for (std::size_t r = 0; r < result.rows.size(); ++r) {
    const RowResult& row = result.rows[r];
    if (row.runs.empty()) continue;
    page.add({Folded{
        fmt::format("All settings of {}", row.name),
        {{Paragraph{
             "As a file, labelshift run repeats this run from it. On the same type of processor and with the same "
             "libraries it ends in the same bits."}},
         {Verbatim{write_experiment(experiment, experiment.runs[r], row.runs.front().seed)}}}}});
  }
}

}  // namespace

MeanInterval accuracy_interval(const Experiment& experiment, const RowResult& row) {
  if (row.runs.size() > 1) {
    std::vector<double> values;
    for (const RunResult& run : row.runs)
      if (const double accuracy = judged_accuracy(experiment, run); !std::isnan(accuracy)) values.push_back(accuracy);
    if (values.size() > 1) return mean_interval(values);
  }
  MeanInterval interval{.mean = row.accuracy.mean, .low = kUnknown, .high = kUnknown};
  if (row.runs.empty() || std::isnan(row.accuracy.mean)) return interval;
  const std::vector<NodeEvaluation> last = row.runs.front().last();
  const bool one_alone = experiment.report_node > 0 && last.size() > 1;
  double variance = 0.0, nodes = 0.0;
  for (const NodeEvaluation& node : last) {
    if (std::isnan(node.accuracy) || node.examples == 0 || (one_alone && node.node != experiment.report_node - 1))
      continue;
    // As Agresti and Coull have it, so that no accuracy of 1 looks exact.
    const auto n = static_cast<double>(node.examples) + 4.0;
    const double p = (node.accuracy * static_cast<double>(node.examples) + 2.0) / n;
    variance += p * (1.0 - p) / n;
    nodes += 1.0;
  }
  const double half = kNormal95 * std::sqrt(variance) / nodes;
  interval.low = std::max(0.0, interval.mean - half);
  interval.high = std::min(1.0, interval.mean + half);
  return interval;
}

Page comparison_page(const Experiment& experiment, const ComparisonResult& result) {
  const RunResult* run = first_run(result);
  const std::size_t nodes = run ? run->last().size() : 0;
  Page page{.title = experiment.title};
  const bool alone = result.rows.size() == 1;
  page.subtitle =
      fmt::format("{}, {}, {}{}.", alone ? result.rows[0].name : counted(result.rows.size(), "method", "methods"),
                  counted(nodes, "node", "nodes"), counted(experiment.seeds.size(), "seed", "seeds"),
                  run && !run->class_names.empty() ? fmt::format(", {} classes", run->class_names.size()) : "");
  add_outcome(experiment, result, page);
  add_reasons(experiment, result, page);
  page.add({Heading{"How did it go?"}});
  add_progress(experiment, result, page);
  add_participation(experiment, result, page);
  add_table(phase_table(result), "", page.blocks);
  if (!result.notes.empty()) page.add({List{result.notes}});
  add_recipe(experiment, result, page);
  return page;
}

}  // namespace labelshift
