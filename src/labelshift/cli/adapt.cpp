#include <fmt/format.h>

#include <fmt/ranges.h>
#include <filesystem>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>

#include "labelshift/cli/advice.hpp"
#include "labelshift/cli/commands.hpp"
#include "labelshift/cli/input.hpp"
#include "labelshift/cli/terminal.hpp"
#include "labelshift/core/base/error.hpp"
#include "labelshift/core/correction.hpp"
#include "labelshift/core/likelihood/sample_summary.hpp"
#include "labelshift/data/files/matrix_writer.hpp"
#include "labelshift/data/files/text_lines.hpp"
#include "labelshift/report/adaptation_report.hpp"

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
  const Correction correction = correct ? Correction::of(result) : Correction::none(m);
  const DeferInterrupt interrupt;  // outlives the writer, which takes a half-written file away
  std::optional<MatrixWriter> writer;
  if (!options.output_probs.empty())
    writer.emplace(
        options.output_probs,
        MatrixWriter::Layout{.rows = n, .cols = m, .float32 = is_float32(target), .column_names = input.class_names});
  Adaptation adapted;
  std::vector<int> labels;
  if (!options.output_labels.empty()) labels.reserve(static_cast<std::size_t>(n));
  RowMajorMatrix<double> corrected(kRows, m);
  for (Index first = 0; first < n && !interrupt.requested(); first += kRows) {
    const Index count = std::min(kRows, n - first);
    progress.show("correcting", static_cast<double>(first) / static_cast<double>(n));
    correction.apply(target, first, corrected.topRows(count), adapted);
    const MatrixView rows = MatrixView(corrected).middle_rows(0, count);
    if (writer) writer->append(rows);
    for (Index i = 0; i < count && !options.output_labels.empty(); ++i) labels.push_back(arg_max(rows, i));
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

/// Where the files are.
std::string file_lines(const AdaptOptions& options) {
  std::string text;
  if (!options.output_probs.empty()) text += fmt::format("Probabilities: {}\n", options.output_probs);
  if (!options.output_labels.empty()) text += fmt::format("Labels: {}\n", options.output_labels);
  if (!options.report.empty()) text += fmt::format("Report: {}\n", options.report);
  return text;
}

void check_options(const AdaptOptions& options) {
  if (options.output_probs.empty() && options.output_labels.empty())
    throw Error(ErrorKind::kUsage, "nothing to write; give --output-probs, --output-labels or both");
  const std::array outputs{OptionFile{"--output-probs", options.output_probs},
                           OptionFile{"--output-labels", options.output_labels},
                           OptionFile{"--report", options.report}};
  check_outputs(outputs, input_files(options.input));
  if (const auto ending = std::filesystem::path(options.report).extension(); ending == ".html" || ending == ".htm")
    throw Error(ErrorKind::kUsage,
                fmt::format("--report: adapt writes JSON, and {} is the name of a page; use .json, and "
                            "labelshift estimate --report for a page",
                            options.report));
  if (options.if_fits && options.input.source_probs.empty())
    throw Error(ErrorKind::kUsage, "--if-fits needs a test of the fit; give --source-probs and --source-labels too");
  for (const OptionFile& output : outputs) check_writable(output.path);
}

/// What is to be said of class names that a header cannot hold, since they would be read as numbers.
std::optional<std::string> warning_of_names(const AdaptOptions& options, const Input& input) {
  const std::vector<std::string>& names = input.class_names;
  if (options.output_probs.empty() || names.empty() || is_header(names)) return std::nullopt;
  bool in_order = true;
  for (std::size_t c = 0; c < names.size(); ++c) in_order = in_order && names[c] == std::to_string(c);
  if (in_order) return std::nullopt;
  return fmt::format(
      "the classes are named by numbers, which would be read as a row, so {} has no header: its columns are {}, in "
      "this "
      "order; give the classes other names",
      options.output_probs, fmt::join(names, ", "));
}

void adapt(const AdaptOptions& options) {
  check_options(options);
  std::optional<Progress> progress(std::in_place);
  const Input input = read_input(options.input, options.estimator, *progress);
  LabelShiftReport report{.options = label_shift_options(options.estimator, options.seed),
                          .classes = input.shown_names(),
                          .warnings = input.warnings};
  if (const auto warning = warning_of_names(options, input)) report.warnings.push_back(*warning);
  report.result = analyse_label_shift(input.problem(), report.options, showing(*progress));
  const bool is_wanted = !options.if_fits || label_shift_fits(report);
  report.adaptation = write_rows(options, input, report.result, is_wanted, *progress);
  progress.reset();
  add_warnings(report);
  for (const std::string& warning : report.warnings) warn(warning);
  if (!options.report.empty()) write_whole(options.report, report_json(report));
  // Rows that went to standard output must stay the only thing there.
  for (const std::string& path : {options.output_probs, options.output_labels, options.report})
    if (path == "/dev/stdout") return;
  print(adaptation_text(report) + file_lines(options));
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
