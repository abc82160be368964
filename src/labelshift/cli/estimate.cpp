#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <memory>

#include "labelshift/cli/advice.hpp"
#include "labelshift/cli/commands.hpp"
#include "labelshift/cli/input.hpp"
#include "labelshift/cli/terminal.hpp"
#include "labelshift/core/base/error.hpp"
#include "labelshift/core/inference/bootstrap.hpp"
#include "labelshift/report/label_shift_page.hpp"
#include "labelshift/report/label_shift_report.hpp"

namespace labelshift::cli {
namespace {

struct EstimateOptions {
  InputOptions input;
  EstimatorOptions estimator;
  double level = LabelShiftOptions().level;
  int bootstrap = 0;
  std::uint64_t seed = 0;
  bool bound = false;
  std::string format = kFormats.front();
  std::string output;
  std::string plot;
  std::string report;
};

LabelShiftReport make_report(const EstimateOptions& options) {
  Progress progress;
  LabelShiftOptions analysis = label_shift_options(options.estimator, options.seed);
  analysis.level = options.level;
  analysis.bootstrap = options.bootstrap;
  analysis.bound_terms = options.bound;
  const Input input = read_input(options.input, options.estimator, progress);
  LabelShiftReport report{.options = analysis, .classes = input.shown_names(), .warnings = input.warnings};
  report.result = analyse_label_shift(input.problem(), analysis, showing(progress));
  add_warnings(report);
  return report;
}

void estimate(const EstimateOptions& options) {
  check_outputs(std::array{OptionFile{"--output", options.output}, OptionFile{"--plot", options.plot},
                           OptionFile{"--report", options.report}},
                input_files(options.input));
  if (options.plot == "/dev/stdout" && options.output.empty())
    throw Error(ErrorKind::kUsage, "--plot is standard output, where the result goes too; give --output a file");
  // A name without ending, such as /dev/stdout, promises nothing.
  if (const auto ending = std::filesystem::path(options.plot).extension(); !ending.empty() && ending != ".svg")
    throw Error(ErrorKind::kUsage,
                fmt::format("--plot: cannot draw {}, pictures are SVG only; use .svg", options.plot));
  if (const auto ending = std::filesystem::path(options.report).extension();
      !ending.empty() && ending != ".html" && ending != ".htm")
    throw Error(ErrorKind::kUsage,
                fmt::format("--report: cannot write {}, reports are HTML only; use .html", options.report));
  check_writable(options.output);
  check_writable(options.plot);
  check_writable(options.report);
  const LabelShiftReport report = make_report(options);
  for (const std::string& warning : report.warnings) warn(warning);
  // A CSV file has no place for a verdict.
  if (const Verdict verdict = verdict_on(report.result, report.classes);
      options.format == "csv" && verdict.finding == Finding::kDoesNotFit)
    warn(verdict.text);
  if (!options.plot.empty()) write_whole(options.plot, prior_plot(report_plot(report)));
  if (!options.report.empty()) write_whole(options.report, page_html(label_shift_page(report, provenance_here())));
  const std::string text = options.format == "json"  ? report_json(report)
                           : options.format == "csv" ? table_csv(report_table(report))
                                                     : report_text(report);
  if (options.output.empty())
    options.format == "table" ? print(text) : options.format == "json" ? print_json(text) : print_data(text);
  else
    write_whole(options.output, text);
}

}  // namespace

void add_estimate(CLI::App& app) {
  const auto options = std::make_shared<EstimateOptions>();
  CLI::App& command = *app.add_subcommand(
      "estimate", "Estimate the class mix of new, unlabelled data from what a classifier says of it");
  add_source_options(command, options->input);
  add_target_options(command, options->input);
  add_estimator_options(command, options->estimator);
  add_level_option(command, options->level);
  command
      .add_option("--bootstrap", options->bootstrap,
                  fmt::format("Intervals from this many resamplings of source and target: {} or more, since fewer say "
                              "nothing about the ends of an interval; 0 for none",
                              kLeastReplicates))
      ->type_name("COUNT")
      ->transform(whole_number({.from = kLeastReplicates, .to = 1'000'000, .or_zero = true}))
      ->group("Estimation");
  add_seed_option(command, options->seed);
  const char* group = "Output; - as a file is standard output";
  const CLI::Option* format = add_choice(command, "--format", options->format, "format", kFormats,
                                         "How to print the result; by default as the ending of --output says")
                                  ->group(group);
  command.add_option("--output", options->output, "Write the result here rather than to standard output")
      ->type_name("FILE")
      ->transform(standard_output())
      ->group(group);
  command.add_option("--plot", options->plot, "Draw source mix, target mix and intervals here, as .svg")
      ->type_name("FILE")
      ->transform(standard_output())
      ->group(group);
  command
      .add_option("--report", options->report,
                  "Write a report to be looked at in a browser here, as .html: verdict, mixes, tests and calibration")
      ->type_name("FILE")
      ->check(no_dash())
      ->group(group);
  command.add_flag("--bound", options->bound, "Also print the terms of Thm. 5.1 that can be computed")
      ->disable_flag_override()
      ->group(group);
  command.footer(R"(Example:
  labelshift estimate --source-probs examples/tiny/source_probs.csv \
    --source-labels examples/tiny/source_labels.csv \
    --target-probs examples/tiny/target_probs.csv --plot mix.svg)");
  command.callback([options, format] {
    const std::string ending = std::filesystem::path(options->output).extension();
    if (format->count() == 0 && (ending == ".json" || ending == ".csv")) options->format = ending.substr(1);
    estimate(*options);
  });
}

}  // namespace labelshift::cli
