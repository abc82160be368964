#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "labelshift/cli/commands.hpp"
#include "labelshift/cli/input.hpp"
#include "labelshift/cli/result_output.hpp"
#include "labelshift/cli/terminal.hpp"
#include "labelshift/core/error.hpp"
#include "labelshift/core/probabilities.hpp"
#include "labelshift/data/matrix_writer.hpp"

namespace labelshift::cli {
namespace {

struct AdaptOptions {
  InputOptions input;
  EstimatorOptions estimator;
  std::uint64_t seed = 0;
  std::string output_probs;
  std::string output_labels;
};

/// Rows corrected at a time, so that memory does not grow with the file.
constexpr Index kRows = 4096;

struct Adapted {
  Index rows = 0;
  Index changed = 0;  // rows whose most probable class is another than before
};

bool is_float32(const MatrixView& values) {
  return values.visit([](const auto* data, Index, Index) { return sizeof *data == sizeof(float); });
}

/// p_te(y | x) of every target row into the files asked for.
Adapted write_adapted(const AdaptOptions& options, const Input& input, const LabelShiftResult& result,
                      Progress& progress) {
  const Scores target = input.target->scores();
  const Index n = target.values.rows();
  const Index m = target.values.cols();
  const Calibration calibration =
      result.calibration_fit ? result.calibration_fit->calibration : Calibration::identity(m);
  const DeferInterrupt interrupt;  // outlives the writer, which takes a half-written file away
  std::optional<MatrixWriter> writer;
  if (!options.output_probs.empty())
    writer.emplace(options.output_probs,
                   MatrixWriter::Layout{
                       .rows = n, .cols = m, .float32 = is_float32(target.values), .column_names = input.class_names});
  Adapted adapted{.rows = n};
  std::vector<int> labels;
  if (!options.output_labels.empty()) labels.reserve(static_cast<std::size_t>(n));
  RowMajorMatrix<double> calibrated(kRows, m);
  RowMajorMatrix<double> corrected(kRows, m);
  for (Index first = 0; first < n && !interrupt.requested(); first += kRows) {
    const Index count = std::min(kRows, n - first);
    progress.show("correcting", static_cast<double>(first) / static_cast<double>(n));
    apply_calibration(calibration, target, first, calibrated.topRows(count));
    adapt_rows(calibrated, result.estimate.ratio, 0, corrected.topRows(count));
    if (writer) writer->append(MatrixView(corrected).middle_rows(0, count));
    for (Index i = 0; i < count; ++i) {
      const int label = arg_max(corrected, i);
      if (label != arg_max(calibrated, i)) ++adapted.changed;
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

std::string summary(const AdaptOptions& options, const Input& input, const LabelShiftResult& result,
                    const Adapted& adapted) {
  Index most = 0;
  (result.target_prior - result.source_prior).cwiseAbs().maxCoeff(&most);
  std::string text = fmt::format(
      "Corrected {} rows for the class mix found by {}; {} predictions changed ({:.1f} %).\n"
      "Most moved: {}, from {:.4f} to {:.4f}.\n",
      adapted.rows, options.estimator.estimator, adapted.changed,
      100.0 * static_cast<double>(adapted.changed) / static_cast<double>(adapted.rows),
      input.shown_names()[static_cast<std::size_t>(most)], result.source_prior[most], result.target_prior[most]);
  if (!options.output_probs.empty()) text += fmt::format("Probabilities: {}\n", options.output_probs);
  if (!options.output_labels.empty()) text += fmt::format("Labels: {}\n", options.output_labels);
  return text;
}

void adapt(const AdaptOptions& options) {
  const auto& [input_options, estimator, seed, output_probs, output_labels] = options;
  if (output_probs.empty() && output_labels.empty())
    throw Error(ErrorKind::kUsage, "nothing to write; give --output-probs, --output-labels or both");
  if (same_file(output_probs, output_labels))
    throw Error(ErrorKind::kUsage, "--output-probs and --output-labels are the same file; give each its own");
  check_writable(output_probs);
  check_writable(output_labels);
  std::optional<Progress> progress(std::in_place);
  const LabelShiftOptions analysis = label_shift_options(estimator, seed);
  const Input input = read_input(input_options, estimator, *progress);
  const LabelShiftResult result = analyse_label_shift(
      input.problem(), analysis, [&](std::string_view stage, double done) { progress->show(stage, done); });
  const Adapted adapted = write_adapted(options, input, result, *progress);
  progress.reset();
  for (const std::string& warning : input.warnings) warn(warning);
  for (const std::string& warning : result_warnings(analysis, result)) warn(warning);
  // Rows that went to standard output must stay the only thing there.
  if (output_probs != "/dev/stdout" && output_labels != "/dev/stdout") print(summary(options, input, result, adapted));
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
  const char* group = "Output (.npy, .csv, .tsv, .csv.gz)";
  command.add_option("--output-probs", options->output_probs, "Write the corrected probabilities here")
      ->type_name("FILE")
      ->group(group);
  command.add_option("--output-labels", options->output_labels, "Write the most probable class of each row here")
      ->type_name("FILE")
      ->group(group);
  command.footer(R"(Example:
  labelshift adapt --source-probs examples/tiny/source_probs.csv \
    --source-labels examples/tiny/source_labels.csv \
    --target-probs examples/tiny/target_probs.csv --calibration bcts \
    --output-probs corrected.csv --output-labels labels.csv)");
  command.callback([options] { adapt(*options); });
}

}  // namespace labelshift::cli
