#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>

#include "labelshift/cli/advice.hpp"
#include "labelshift/cli/commands.hpp"
#include "labelshift/cli/input.hpp"
#include "labelshift/cli/terminal.hpp"
#include "labelshift/core/base/error.hpp"
#include "labelshift/core/likelihood/probabilities.hpp"
#include "labelshift/data/files/matrix_writer.hpp"
#include "labelshift/report/label_shift_report.hpp"

namespace labelshift::cli {
namespace {

struct AdaptOptions {
  InputOptions input;
  EstimatorOptions estimator;
  std::uint64_t seed = 0;
  std::string output_probs;
  std::string output_labels;
  std::string report;
  bool if_fits = false;
};

/// Rows corrected at a time, so that memory does not grow with the file.
constexpr Index kRows = 4096;

bool is_float32(const MatrixView& values) {
  return values.visit([](const auto* data, Index, Index) { return sizeof *data == sizeof(float); });
}

/// Every target row into the files asked for: p_te(y | x), or what the classifier says if it is not to be corrected.
Adaptation write_rows(const AdaptOptions& options, const Input& input, const LabelShiftResult& result, bool correct,
                      Progress& progress) {
  const Scores target = input.target->scores();
  const Index n = target.rows();
  const Index m = target.cols();
  const Calibration calibration =
      correct && result.calibration_fit ? result.calibration_fit->calibration : Calibration::identity(m);
  const DeferInterrupt interrupt;  // outlives the writer, which takes a half-written file away
  std::optional<MatrixWriter> writer;
  if (!options.output_probs.empty())
    writer.emplace(
        options.output_probs,
        MatrixWriter::Layout{.rows = n, .cols = m, .float32 = is_float32(target), .column_names = input.class_names});
  Adaptation adapted{.corrected = correct, .rows = n};
  std::vector<int> labels;
  if (!options.output_labels.empty()) labels.reserve(static_cast<std::size_t>(n));
  RowMajorMatrix<double> calibrated(kRows, m);
  RowMajorMatrix<double> corrected(kRows, m);
  for (Index first = 0; first < n && !interrupt.requested(); first += kRows) {
    const Index count = std::min(kRows, n - first);
    progress.show("correcting", static_cast<double>(first) / static_cast<double>(n));
    apply_calibration(calibration, target, first, calibrated.topRows(count));
    if (correct) adapt_rows(calibrated, result.estimate.ratio, 0, corrected.topRows(count));
    const MatrixView rows = MatrixView(correct ? corrected : calibrated).middle_rows(0, count);
    if (writer) writer->append(rows);
    for (Index i = 0; i < count; ++i) {
      const int label = arg_max(rows, i);
      const int said = arg_max(target, first + i);
      if (label != said) ++adapted.changed;
      if (arg_max(calibrated, i) != said) ++adapted.changed_by_calibration;
      if (!options.output_labels.empty()) labels.push_back(label);
    }
  }
  if (interrupt.requested()) return adapted;  // to nobody: the signal ends the process first
  // Both files are on the disk before the first takes its name, so that a full disk leaves neither.
  if (writer) writer->finish();
  std::optional<LabelWriter> label_writer;
  if (!options.output_labels.empty()) label_writer.emplace(options.output_labels, labels, input.class_names);
  if (writer) writer->commit();
  if (label_writer) label_writer->commit();
  return adapted;
}

std::string summary(const AdaptOptions& options, const LabelShiftReport& report) {
  const LabelShiftResult& result = report.result;
  const Adaptation& adapted = *report.adaptation;
  Index most = 0;
  (result.target_prior - result.source_prior).cwiseAbs().maxCoeff(&most);
  const char* rows = adapted.rows == 1 ? "row" : "rows";
  const std::string by_calibration =
      adapted.changed_by_calibration > 0
          ? fmt::format("; the calibration alone changes {}", adapted.changed_by_calibration)
          : "";
  std::string text =
      adapted.corrected
          ? fmt::format("Corrected {} {} for the class mix found by {}; {} predictions changed ({:.1f} %){}.\n",
                        adapted.rows, rows, options.estimator.estimator, adapted.changed,
                        100.0 * static_cast<double>(adapted.changed) / static_cast<double>(adapted.rows),
                        by_calibration)
          : fmt::format("Left {} {} as the classifier gave them, not calibrated either.\n", adapted.rows, rows);
  if (adapted.corrected && verdict_on(result, report.classes).finding == Finding::kMoved)
    text += fmt::format("Most moved: {}, from {:.4f} to {:.4f}.\n", report.classes[static_cast<std::size_t>(most)],
                        result.source_prior[most], result.target_prior[most]);
  text += verdict_line(report) + '\n';
  if (!options.output_probs.empty()) text += fmt::format("Probabilities: {}\n", options.output_probs);
  if (!options.output_labels.empty()) text += fmt::format("Labels: {}\n", options.output_labels);
  if (!options.report.empty()) text += fmt::format("Report: {}\n", options.report);
  return text;
}

/// What is to be said of a correction that the tests do not support.
std::optional<std::string> doubt(const LabelShiftReport& report) {
  const Finding finding = verdict_on(report.result, report.classes).finding;
  if (!report.adaptation->corrected && finding == Finding::kWrongSource)
    return "the source tells nothing, so the predictions were left alone";
  if (!report.adaptation->corrected)
    return report.result.fit_test
               ? "the label-shift assumption does NOT fit, so the predictions were left alone"
               : "the label-shift assumption could not be tested, so the predictions were left alone; drop --if-fits "
                 "to have them corrected anyway";
  if (finding == Finding::kWrongSource)
    return "the source tells nothing, so the corrected predictions are likely worse than the classifier's own; "
           "--if-fits leaves them alone then";
  if (finding != Finding::kDoesNotFit) return std::nullopt;
  return fmt::format(
      "the label-shift assumption does NOT fit ({}), so the corrected predictions may be worse than the "
      "classifier's own; --if-fits leaves them alone then",
      p_value_text(report.result.fit_test->p_value));
}

void check_options(const AdaptOptions& options) {
  if (options.output_probs.empty() && options.output_labels.empty())
    throw Error(ErrorKind::kUsage, "nothing to write; give --output-probs, --output-labels or both");
  const std::array outputs{OptionFile{"--output-probs", options.output_probs},
                           OptionFile{"--output-labels", options.output_labels},
                           OptionFile{"--report", options.report}};
  check_outputs(outputs, input_files(options.input));
  if (options.if_fits && options.input.source_probs.empty())
    throw Error(ErrorKind::kUsage, "--if-fits needs a test of the fit; give --source-probs and --source-labels too");
  for (const OptionFile& output : outputs) check_writable(output.path);
}

void adapt(const AdaptOptions& options) {
  check_options(options);
  std::optional<Progress> progress(std::in_place);
  const Input input = read_input(options.input, options.estimator, *progress);
  LabelShiftReport report{.options = label_shift_options(options.estimator, options.seed),
                          .classes = input.shown_names(),
                          .warnings = input.warnings};
  report.result = analyse_label_shift(input.problem(), report.options, showing(*progress));
  const Finding finding = verdict_on(report.result, report.classes).finding;
  const bool fits = report.result.fit_test && finding != Finding::kDoesNotFit && finding != Finding::kWrongSource;
  report.adaptation = write_rows(options, input, report.result, fits || !options.if_fits, *progress);
  progress.reset();
  for (const Warning& warning : result_warnings(report))
    report.warnings.push_back(warning.sentence + advice(warning.remedy));
  if (const auto warning = doubt(report)) report.warnings.push_back(*warning);
  for (const std::string& warning : report.warnings) warn(warning);
  if (!options.report.empty()) write_whole(options.report, report_json(report));
  // Rows that went to standard output must stay the only thing there.
  for (const std::string& path : {options.output_probs, options.output_labels, options.report})
    if (path == "/dev/stdout") return;
  print(summary(options, report));
}

}  // namespace

void add_adapt(CLI::App& app) {
  const auto options = std::make_shared<AdaptOptions>();
  CLI::App& command = *app.add_subcommand(
      "adapt", "Correct a classifier's probabilities for the class mix of new data: p_te(y | x) ~ f_y(x) r_y");
  add_source_options(command, options->input);
  add_target_options(command, options->input);
  add_estimator_options(command, options->estimator);
  add_seed_option(command, options->seed);
  const char* group = "Output (.npy, .csv, .tsv, .csv.gz; - is standard output, as CSV)";
  command.add_option("--output-probs", options->output_probs, "Write the corrected probabilities here")
      ->type_name("FILE")
      ->transform(standard_output())
      ->group(group);
  command.add_option("--output-labels", options->output_labels, "Write the most probable class of each row here")
      ->type_name("FILE")
      ->transform(standard_output())
      ->group(group);
  command.add_option("--report", options->report, "Write what was found and done here, as JSON")
      ->type_name("FILE")
      ->transform(standard_output())
      ->group("Output");
  command
      .add_flag("--if-fits", options->if_fits,
                "Leave the predictions alone unless the test of the label-shift assumption passes")
      ->disable_flag_override()
      ->group("Output");
  command.footer(R"(Example:
  labelshift adapt --source-probs examples/tiny/source_probs.csv \
    --source-labels examples/tiny/source_labels.csv \
    --target-probs examples/tiny/target_probs.csv \
    --output-probs corrected.csv --output-labels labels.csv)");
  command.callback([options] { adapt(*options); });
}

}  // namespace labelshift::cli
