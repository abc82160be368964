#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>

#include "labelshift/cli/commands.hpp"
#include "labelshift/cli/input.hpp"
#include "labelshift/cli/terminal.hpp"
#include "labelshift/core/base/error.hpp"
#include "labelshift/core/label_shift.hpp"
#include "labelshift/core/likelihood/sample_summary.hpp"
#include "labelshift/data/datasets/known_datasets.hpp"
#include "labelshift/data/datasets/splits.hpp"
#include "labelshift/data/files/class_mix_file.hpp"
#include "labelshift/data/files/matrix_writer.hpp"
#include "labelshift/data/files/text_lines.hpp"
#include "labelshift/learning/checkpoint.hpp"
#include "labelshift/learning/evaluation.hpp"
#include "labelshift/learning/predictor.hpp"
#include "labelshift/learning/training_threads.hpp"

namespace labelshift::cli {
namespace {

struct PredictOptions {
  std::string predictor;
  std::string model;
  DataInput input;
  std::string part;  // empty: test if there is one, else train
  bool logits = false;
  bool raw = false;
  std::string prior;         // the mix to correct for; empty: none
  std::string source_prior;  // the mix of training, if not as the predictor says
  std::string output;
  std::string labels_output;
  std::string device = "cpu";
};

/// Rows predicted at a time, so that memory does not grow with the output.
constexpr Index kRows = 8 * kEvaluationRows;

struct Part {
  const Dataset& data;
  std::vector<Index> rows;
};

Part find_part(const PredictOptions& options, const TrainAndTest& data, const PredictorOrigin& origin) {
  const std::vector<Index> all = all_rows(data.train.size());
  if (options.part == "test" || (options.part.empty() && data.test.size() > 0)) {
    if (data.test.size() == 0)
      throw Error(ErrorKind::kUsage, fmt::format("{} has one part only; leave --part out", options.input.data));
    return {data.test, all_rows(data.test.size())};
  }
  if (options.part != "calibration") return {data.train, all};
  if (origin.calibration_fraction == 0.0)
    throw Error(ErrorKind::kUsage,
                fmt::format("{} was trained with nothing held out; --part calibration has no rows", options.predictor));
  if (fingerprint(data.train, all) != origin.data)
    throw Error(ErrorKind::kInput,
                fmt::format("{} is not the data that {} was trained on, so it cannot be told which of its rows were "
                            "held out; expected the same examples in the same order",
                            options.input.data, options.predictor));
  return {data.train,
          hold_out(data.train.labels, all, data.train.classes(), Fraction{origin.calibration_fraction}, origin.seed)
              .held_out};
}

void check_classes(const PredictOptions& options, const Predictor& predictor, const Dataset& data) {
  if (data.labels.empty()) return;
  if (data.classes() != std::ssize(predictor.class_names))
    throw Error(ErrorKind::kInput, fmt::format("{} has {} classes, expected {} as in {}", options.input.data,
                                               data.classes(), predictor.class_names.size(), options.predictor));
  check_same_classes(data.class_names, options.input.data, predictor.class_names, options.predictor, /*advice=*/"");
}

void check_columns(const PredictOptions& options, const Predictor& predictor, const Dataset& data) {
  const auto& found = data.column_names;
  const auto& expected = predictor.column_names;
  if (found.size() != expected.size() || found == expected) return;  // other numbers of columns do not fit the net
  const auto differ = std::mismatch(found.begin(), found.end(), expected.begin());
  throw Error(ErrorKind::kInput,
              fmt::format("{}: found the column {} where {} was trained on {}; expected the same columns in the same "
                          "order",
                          options.input.data, excerpt(*differ.first), options.predictor, excerpt(*differ.second)));
}

/// Throws Error{kInput} naming the example if the net gives it a score that is no number.
void check_finite(const PredictOptions& options, std::span<const Index> rows, const RowMajorMatrix<float>& logits) {
  for (Index i = 0; i < logits.rows(); ++i)
    if (!logits.row(i).allFinite())
      throw Error(ErrorKind::kInput,
                  fmt::format("{}, example {}: the net gives it a score that is not finite; look for extreme values in "
                              "the example, or train the predictor again with a smaller learning rate",
                              options.input.data, rows[static_cast<std::size_t>(i)] + 1));
}

/// What rows are corrected by, so that they are right for another mix of classes.
struct Correction {
  Eigen::VectorXd ratio;   // (m)
  Eigen::VectorXd target;  // (m)
};

/// Nothing if no mix is asked for.
std::optional<Correction> find_correction(const PredictOptions& options, const Predictor& predictor) {
  if (options.prior.empty()) return std::nullopt;
  const std::vector<std::string>& names = predictor.class_names;
  Correction result{.ratio = {}, .target = read_class_mix(options.prior, names)};
  const Eigen::VectorXd source =
      options.source_prior.empty() ? predictor.prior : read_class_mix(options.source_prior, names);
  if (source.size() == 0)
    throw Error(ErrorKind::kUsage,
                fmt::format("{} does not say which mix of classes it was trained on, from which --prior goes on; give "
                            "that mix with --source-prior",
                            options.predictor));
  result.ratio.resize(source.size());
  for (Index c = 0; c < source.size(); ++c) {
    if (source[c] < kLeastPrior && result.target[c] > 0.0)
      throw Error(
          ErrorKind::kInput,
          fmt::format("{} was trained without examples of {}, to which {} gives the share {:.6g}; no "
                      "correction makes it see them, so train on some, or give the class 0",
                      options.predictor, excerpt(names[static_cast<std::size_t>(c)]), options.prior, result.target[c]));
    result.ratio[c] = result.target[c] > 0.0 ? result.target[c] / source[c] : 0.0;
  }
  return result;
}

/// Returns false if an interrupt ended it, and then leaves no file behind.
bool write_predictions(const PredictOptions& options, Predictor& predictor, const Part& part,
                       const std::optional<Correction>& correction, Progress& progress,
                       const DeferInterrupt& interrupt) {
  const auto n = static_cast<Index>(part.rows.size());
  const auto m = static_cast<Index>(predictor.class_names.size());
  const Calibration calibration =
      predictor.calibration && !options.raw ? *predictor.calibration : Calibration::identity(m);
  MatrixWriter writer(options.output, {.rows = n, .cols = m, .float32 = true, .column_names = predictor.class_names});
  RowMajorMatrix<float> probs;
  RowMajorMatrix<double> corrected;
  for (Index first = 0; first < n && !interrupt.requested(); first += kRows) {
    progress.show("predicting", static_cast<double>(first) / static_cast<double>(n));
    const Index count = std::min(kRows, n - first);
    const auto rows = std::span(part.rows).subspan(first, count);
    const RowMajorMatrix<float> logits = evaluate_logits(*predictor.net, part.data, rows);
    check_finite(options, rows, logits);
    if (!options.logits) {
      probs.resize(count, m);
      apply_calibration(calibration, Scores::known(logits, /*logits=*/true), 0, probs);
    }
    if (correction) {
      corrected.resize(count, m);
      adapt_rows(probs, correction->ratio, correction->target, 0, corrected);
      probs = corrected.cast<float>();
    }
    writer.append(options.logits ? logits : probs);
  }
  if (interrupt.requested()) return false;
  // Both files are on the disk before the first takes its name, so that a full disk leaves neither.
  writer.finish();
  std::optional<LabelWriter> label_writer;
  if (!options.labels_output.empty())
    label_writer.emplace(options.labels_output, labels_of(part.data, part.rows), predictor.class_names);
  writer.commit();
  if (label_writer) label_writer->commit();
  return true;
}

Predictor load(const PredictOptions& options) {
  const DeferInterrupt interrupt;  // LibTorch's threads, if it starts any, take its mask over for good
  use_one_torch_thread();
  return load_predictor(options.predictor,
                        {.device = options.device == "cuda" ? Device::kCuda : Device::kCpu, .net = options.model});
}

std::string summary(const PredictOptions& options, const Predictor& predictor, std::size_t rows) {
  const char* what = options.logits                          ? "logits"
                     : predictor.calibration && !options.raw ? "calibrated probabilities"
                                                             : "probabilities";
  const std::string corrected = options.prior.empty() ? "" : ", corrected for another mix of classes,";
  std::string text = fmt::format("Wrote the {}{} of {} examples: {}\n", what, corrected, rows, options.output);
  if (!options.labels_output.empty()) text += fmt::format("Labels: {}\n", options.labels_output);
  return text;
}

void predict(const PredictOptions& options) {
  if (options.logits && !options.prior.empty())
    throw Error(ErrorKind::kUsage,
                "--prior corrects probabilities, and --logits writes none; leave one of the two out");
  check_outputs(
      std::array{OptionFile{"--output", options.output}, OptionFile{"--labels-output", options.labels_output}},
      std::array{OptionFile{"--predictor", options.predictor}, OptionFile{"--model", options.model},
                 OptionFile{"--data", options.input.data}, OptionFile{"--labels", options.input.labels.file},
                 OptionFile{"--prior", options.prior}, OptionFile{"--source-prior", options.source_prior}});
  check_writable(options.output);
  check_writable(options.labels_output);
  std::optional<Progress> progress(std::in_place);
  progress->show("reading " + options.input.data);
  Predictor predictor = load(options);
  const std::optional<Correction> correction = find_correction(options, predictor);
  LabelOptions labels = options.input.labels;
  labels.class_names = predictor.class_names;  // the data need not have an example of each
  const LoadedDataset loaded = load_examples(options.input.data, labels);
  const TrainAndTest& data = loaded.parts;
  const Part part = find_part(options, data, predictor.origin);
  check_classes(options, predictor, part.data);
  check_columns(options, predictor, part.data);
  if (!options.labels_output.empty() && part.data.labels.empty())
    throw Error(ErrorKind::kUsage, fmt::format("{} has no labels for --labels-output", options.input.data));
  const DeferInterrupt interrupt;  // outlives the writers, which take half-written files away
  const bool whole = write_predictions(options, predictor, part, correction, *progress, interrupt);
  progress.reset();
  if (!whole) return;  // to nobody: the signal ends the process first
  if (!loaded.note.empty()) warn(loaded.note);
  // Rows that went to standard output must stay the only thing there.
  if (options.output != "/dev/stdout" && options.labels_output != "/dev/stdout")
    print(summary(options, predictor, part.rows.size()));
}

}  // namespace

void add_predict(CLI::App& app) {
  const auto options = std::make_shared<PredictOptions>();
  CLI::App& command = *app.add_subcommand(
      "predict", "Write what a trained predictor says of data, for labelshift estimate and adapt to read");
  command.add_option("--predictor", options->predictor, "The predictor, as labelshift train wrote it")
      ->type_name("FILE")
      ->check(no_dash())
      ->required();
  command
      .add_option("--model", options->model,
                  "The TorchScript file of the predictor's net, if it was moved without the predictor")
      ->type_name("FILE")
      ->check(no_dash());
  add_data_options(command, options->input, "Options");
  add_choice(command, "--part", options->part, "part", {"train", "test", "calibration"},
             "Which part of the data; calibration is the part that the training held out");
  add_choice(command, "--device", options->device, "device", {"cpu", "cuda"}, "Where to compute");
  const char* mix = "Another mix of classes";
  CLI::Option* prior =
      command
          .add_option("--prior", options->prior,
                      "Correct the probabilities for data with this mix of classes: 0.2,0.3,0.5 in the predictor's "
                      "order, a file with such numbers or with a class and its share in each row, or what labelshift "
                      "estimate writes as JSON or CSV")
          ->type_name("FILE|NUMBERS")
          ->check(no_dash())
          ->group(mix);
  command
      .add_option("--source-prior", options->source_prior,
                  "The mix that the predictor was trained on, in the same forms; needed where its file does not say it")
      ->type_name("FILE|NUMBERS")
      ->check(no_dash())
      ->needs(prior)
      ->group(mix);
  const char* group = "Output (.npy, .csv, .tsv, .csv.gz; - is standard output, as CSV)";
  command.add_option("--output", options->output, "Write the probabilities here, as float32")
      ->type_name("FILE")
      ->transform(standard_output())
      ->required()
      ->group(group);
  command
      .add_flag("--logits", options->logits, "Write the net's outputs, whose softmax are uncalibrated probabilities")
      ->group(group);
  command.add_flag("--raw", options->raw, "Write uncalibrated probabilities")->group(group);
  command.add_option("--labels-output", options->labels_output, "Write the labels of the same examples here")
      ->type_name("FILE")
      ->transform(standard_output())
      ->group(group);
  command.footer(R"(Example:
  labelshift train --data examples/small-fashion-mnist --model logistic --output clothes.safetensors
  labelshift predict --predictor clothes.safetensors --data examples/small-fashion-mnist --output test_probs.npy
  labelshift predict --predictor clothes.safetensors --data examples/small-fashion-mnist --part calibration \
    --output source_probs.npy --labels-output source_labels.csv
  labelshift estimate --source-probs source_probs.npy --source-labels source_labels.csv \
    --target-probs test_probs.npy --classes examples/small-fashion-mnist/classes.txt --output mix.json
  labelshift predict --predictor clothes.safetensors --data examples/small-fashion-mnist --prior mix.json \
    --output corrected_probs.npy)");
  command.callback([options] { predict(*options); });
}

}  // namespace labelshift::cli
