#include "labelshift/experiments/study_pages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "labelshift/experiments/convergence_report.hpp"
#include "labelshift/experiments/ratio_report.hpp"

namespace labelshift {
namespace {

Facts facts_of(const Provenance& provenance, std::vector<Fact> settings, std::uint64_t seed) {
  Facts facts{{{"Command", provenance.command}}};
  facts.facts.insert(facts.facts.end(), settings.begin(), settings.end());
  for (const Fact& fact : {Fact{"Seed", fmt::format("{}", seed)}, Fact{"Version", "labelshift " + provenance.version},
                           Fact{"Machine", provenance.machine}})
    facts.facts.push_back(fact);
  return facts;
}

/// Which method of a panel has the least error, and by how much, as far as intervals tell.
std::string best_method(const PanelSummary& panel) {
  const auto best = std::min_element(
      panel.methods.begin(), panel.methods.end(),
      [](const MethodSummary& a, const MethodSummary& b) { return a.geometric_mean < b.geometric_mean; });
  std::string text =
      fmt::format("{}: {} has the least error, an MSE of {:.3g}", panel.title, best->method, best->geometric_mean);
  for (const MethodSummary& method : panel.methods) {
    if (&method == &*best || method.method != panel.methods.front().method) continue;
    text += fmt::format("; {} has {:.3g} times that", method.method, method.geometric_mean / best->geometric_mean);
  }
  return text + ".";
}

/// How many of the judged slopes came out how.
struct Verdicts {
  std::size_t held = 0, failed = 0, open = 0;
};

Verdicts verdicts_of(const std::vector<ConvergencePanelResult>& panels) {
  Verdicts found;
  const auto add = [&](SlopeVerdict verdict) {
    found.held += verdict == SlopeVerdict::kAsPredicted || verdict == SlopeVerdict::kLess;
    found.failed += verdict == SlopeVerdict::kMore;
    found.open += verdict == SlopeVerdict::kNotMeasured || verdict == SlopeVerdict::kOpen;
  };
  for (const ConvergencePanelResult& panel : panels) {
    for (const ConvergenceLine& line : panel.lines) add(line.verdict);
    if (panel.ratio) add(panel.ratio->verdict);
  }
  return found;
}

}  // namespace

Page ratio_page(const RatioFigure& figure, const FigureScale& scale, const StudyResult& result,
                const Provenance& provenance) {
  Page page{.title = figure.title, .subtitle = figure.summary + "."};
  page.add({Heading{"What is tested, and what came of it"}});
  page.add({Banner{Tone::kNeutral, figure.claim}});
  List best;
  for (const PanelSummary& panel : result.panels) best.items.push_back(best_method(panel));
  page.add({std::move(best)});

  page.add({Heading{"The figure"}});
  LinePlot plot = ratio_plot(figure, scale, result);
  for (const LinePanel& panel : plot.panels)
    for (const LineSeries& series : panel.series)
      if (std::find(plot.names.begin(), plot.names.end(), series.name) == plot.names.end())
        plot.names.push_back(series.name);
  page.add({Paragraph{plot.subtitle}});
  page.add({Charts{charts_of(plot)}});
  page.add({Paragraph{
      "The paper's figure is a picture of curves, without the numbers behind them, so it cannot be drawn beside "
      "this one: its claim stands at the top in its place."}});

  page.add({Heading{"The numbers"}});
  for (Table& table : ratio_tables(result)) page.add({std::move(table)});

  page.add({Heading{"How to get it again"}});
  page.add({facts_of(provenance, {{"Trials", fmt::format("{} at each point, for each predictor", scale.trials)}},
                     scale.seed)});
  return page;
}

Page convergence_page(std::span<const ConvergenceFigure> figures, const ConvergenceSettings& settings,
                      const ConvergenceResult& result, const Provenance& provenance) {
  Page page{.title = "The convergence theorems, measured",
            .subtitle = fmt::format("Slopes that the paper's theorems predict, next to what {} seeds of {} gave.",
                                    settings.seeds, settings.data)};
  page.add({Paragraph{
      "A theorem bounds a slope from above. It holds here where the measured slope is at most the predicted one."}});
  for (std::size_t f = 0; f < figures.size() && f < result.figures.size(); ++f) {
    const std::vector<ConvergencePanelResult>& panels = result.figures[f];
    const Verdicts found = verdicts_of(panels);
    page.add({Heading{figures[f].title}});
    page.add({Banner{found.failed > 0                    ? Tone::kBad
                     : found.open > 0 || found.held == 0 ? Tone::kDoubtful
                                                         : Tone::kGood,
                     fmt::format("Of {} predicted slopes {} hold, {} do not, and {} could not be judged.",
                                 found.held + found.failed + found.open, found.held, found.failed, found.open)}});
    Table table = convergence_table(figures[f], panels);
    table.title = "Predicted and measured slopes";
    page.add({std::move(table)});
    LinePlot plot = convergence_plot(figures[f], panels, settings.seeds);
    plot.subtitle.clear();
    page.add({Charts{charts_of(plot)}});
  }
  page.add({Heading{"How to get it again"}});
  page.add({facts_of(provenance,
                     {{"Data", settings.data}, {"Seeds", fmt::format("{}, made from the seed below", settings.seeds)}},
                     settings.seed)});
  return page;
}

}  // namespace labelshift
