#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <optional>

#include "labelshift/cli/commands.hpp"
#include "labelshift/cli/input.hpp"
#include "labelshift/cli/terminal.hpp"
#include "labelshift/core/base/error.hpp"
#include "labelshift/data/datasets/known_datasets.hpp"
#include "labelshift/data/datasets/splits.hpp"
#include "labelshift/data/files/text_lines.hpp"
#include "labelshift/experiments/training_report.hpp"
#include "labelshift/learning/checkpoint.hpp"
#include "labelshift/learning/evaluation.hpp"
#include "labelshift/learning/model_selection.hpp"
#include "labelshift/learning/predictor.hpp"
#include "labelshift/learning/training_threads.hpp"

namespace labelshift::cli {
namespace {

constexpr const char* kAuto = "auto";

struct TrainOptions {
  DataInput input;
  std::string model = "mlp";
  std::vector<std::string> settings;  // of the model, NAME=VALUE
  std::string zeta = kAuto;
  int epochs = TrainingSettings().epochs;
  double stop_below = 0.0;
  std::optional<double> learning_rate;
  std::optional<double> weight_decay;
  std::string calibration = kAutoCalibration;
  double calibration_fraction = 0.1;
  std::uint64_t seed = 0;
  std::string device = "cpu";
  std::string output = "predictor.safetensors";
  std::string checkpoint;
  bool resume = false;
  bool show_search = false;
  std::string format = "table";

  bool automatic() const { return zeta == kAuto; }
};

/// What came of it.
struct Trained : TrainingReport {
  std::string interruption;  // what to say if there was one
};

void check_options(const TrainOptions& options) {
  const auto bad = [](const std::string& message) { throw Error(ErrorKind::kUsage, message); };
  double zeta = 0.0;
  if (!options.automatic() && (!parse_number(options.zeta, zeta) || !(zeta >= 0.0 && zeta <= 1e6)))
    bad(fmt::format("--zeta: found {}, expected a number from 0 to 1e6, or auto", excerpt(options.zeta)));
  if (options.calibration_fraction == 0.0 && options.automatic())
    bad("--zeta auto needs held-out examples to judge by; give a --calibration-fraction above 0, or a --zeta");
  if (options.calibration_fraction == 0.0 && options.calibration != "none" && options.calibration != kAutoCalibration)
    bad(
        fmt::format("--calibration {} needs held-out examples; give a --calibration-fraction above 0, or --calibration "
                    "none",
                    options.calibration));
  if (options.resume && options.checkpoint.empty()) bad("--resume needs --checkpoint");
  if (options.show_search && !options.automatic())
    bad("--show-search: with a --zeta that is given there is no search to show; leave one of the two out");
}

TrainingSettings training_settings(const TrainOptions& options) {
  TrainingSettings settings{.epochs = options.epochs,
                            .stop_below = options.stop_below,
                            .adam = adam_settings_for(options.model),
                            .seed = options.seed};
  if (!options.automatic()) parse_number(options.zeta, settings.zeta);
  if (options.learning_rate) settings.adam.learning_rate = *options.learning_rate;
  if (options.weight_decay) settings.adam.weight_decay = *options.weight_decay;
  return settings;
}

/// The names of the first columns.
std::string excerpt_of(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 5;
  std::vector<std::string> shown;
  for (std::size_t c = 0; c < std::min(kMost, names.size()); ++c) shown.push_back(excerpt(names[c]));
  return fmt::format("{}{}", fmt::join(shown, ", "), names.size() > kMost ? ", ..." : "");
}

void check_trainable(const Dataset& data, const std::string& name) {
  if (data.labels.empty())
    throw Error(
        ErrorKind::kInput,
        data.column_names.empty()
            ? fmt::format("{} has no labels; say which column holds them with --label-column, or give --labels", name)
            : fmt::format(
                  "{} has no column \"label\", only {}; name the one that holds the labels with --label-column, or "
                  "give --labels",
                  name, excerpt_of(data.column_names)));
  const std::vector<Index> counts = class_counts(data.labels, all_rows(data.size()), data.classes());
  const auto held = std::count_if(counts.begin(), counts.end(), [](Index count) { return count > 0; });
  if (held < 2) throw Error(ErrorKind::kInput, fmt::format("{} has {} class, expected at least 2", name, held));
}

HoldOut split(const Dataset& data, const TrainOptions& options) {
  std::vector<Index> rows = all_rows(data.size());
  if (options.calibration_fraction == 0.0) return {.kept = std::move(rows)};
  const std::vector<Index> counts = class_counts(data.labels, rows, data.classes());
  const auto lone = std::find(counts.begin(), counts.end(), 1);
  if (lone != counts.end())
    throw Error(
        ErrorKind::kInput,
        fmt::format("{} has 1 example of class {}, expected at least 2, one to train on and one to hold out; add "
                    "some, leave the class out, or hold nothing out: --zeta 1 --calibration-fraction 0",
                    options.input.data, data.class_names[static_cast<std::size_t>(lone - counts.begin())]));
  return hold_out(data.labels, rows, data.classes(), Fraction{options.calibration_fraction}, options.seed);
}

NetSpec net_spec(const TrainOptions& options, const Dataset& data, std::span<const Index> rows) {
  // A predictor names the file of its net by a path that holds from everywhere.
  std::error_code ignored;
  const bool file = std::filesystem::is_regular_file(options.model, ignored);
  return {.name = file ? std::filesystem::absolute(options.model).string() : options.model,
          .settings = parse_settings(options.settings),
          .shape = data.shape,
          .classes = data.classes(),
          .normalisation = fit_normalisation(data, rows)};
}

/// Makes the folder of --checkpoint. Whether what a training keeps in `path` there is to be gone on from.
bool prepare_checkpoint(const TrainOptions& options, const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(options.checkpoint, error);
  check_writable(path);
  if (!std::filesystem::exists(path, error)) return false;
  if (!options.resume)
    throw Error(
        ErrorKind::kUsage,
        fmt::format("{} is there already; go on from it with --resume, or give another --checkpoint folder", path));
  return true;
}

/// "; the checkpoint of epoch 3 is intact", or nothing.
std::string intact(std::size_t epochs) {
  return epochs > 0 ? fmt::format("; the checkpoint of epoch {} is intact", epochs) : "";
}

/// Trains with one zeta. Throws Stopped if an interrupt ended it.
void train_one(const TrainOptions& options, const TrainingExamples& examples, Net& net, const DeferInterrupt& interrupt,
               Progress& progress, Trained& trained) {
  const TrainingSettings settings = training_settings(options);
  const std::string path = options.checkpoint.empty() ? "" : options.checkpoint + "/checkpoint.safetensors";
  const RunDescription run = describe_run(net.spec(), examples, settings);
  TrainingState start;
  if (!path.empty() && prepare_checkpoint(options, path)) start = load_checkpoint(path, run, net);
  std::size_t saved = start.cross_entropy.size();
  if (static_cast<Index>(saved) > settings.epochs)
    throw Error(ErrorKind::kUsage,
                fmt::format("{} is of {} epochs already, more than --epochs {}; ask for as many, or give another "
                            "--checkpoint folder",
                            path, saved, settings.epochs));
  trained.resumed_from = static_cast<int>(saved);
  const double before = static_cast<double>(trained.resumed_from) / settings.epochs;
  TrainingHooks hooks;
  hooks.progress = [&](std::string_view stage, double done) {
    return showing(progress, interrupt)(stage, (done - before) / (1.0 - before));  // from here on, for the time left
  };
  if (!path.empty())
    hooks.epoch = [&](const TrainingState& state) {
      save_checkpoint(path, run, net, state);
      saved = state.cross_entropy.size();
    };
  try {
    TrainingResult result = train_predictor(net, examples, settings, hooks, std::move(start));
    trained.zeta = settings.zeta;
    trained.cross_entropy = std::move(result.state.cross_entropy);
    trained.epochs = static_cast<int>(std::ssize(trained.cross_entropy));
    trained.stopped_by = result.stopped_by == TrainingStop::kThreshold ? "threshold" : "epochs";
  } catch (const Stopped&) {
    if (!path.empty()) trained.interruption = "interrupted" + intact(saved);
    throw;
  } catch (const Error& error) {
    throw error.reworded(error.what() + intact(saved));
  }
}

/// Trains with several zetas and keeps the best. Throws Stopped if an interrupt ended it.
void train_several(const TrainOptions& options, const TrainingExamples& examples, std::span<const Index> held_out,
                   Net& net, const DeferInterrupt& interrupt, Progress& progress, Trained& trained) {
  SelectionSettings selection;
  if (options.calibration != kAutoCalibration) selection.calibrations = {options.calibration};
  if (!options.checkpoint.empty())
    prepare_checkpoint(options, selection_checkpoint(options.checkpoint, selection.zetas[0]));
  try {
    trained.selection = choose_predictor(net, examples, held_out, training_settings(options), selection,
                                         showing(progress, interrupt), options.checkpoint);
  } catch (const Stopped&) {
    if (!options.checkpoint.empty()) trained.interruption = "interrupted";
    if (!options.checkpoint.empty() &&
        std::filesystem::exists(selection_checkpoint(options.checkpoint, selection.zetas[0])))
      trained.interruption += fmt::format("; the checkpoints in {} are intact", options.checkpoint);
    throw;
  }
  trained.resumed_from = trained.selection->resumed_from;
  const Candidate& best = trained.selection->best();
  trained.zeta = best.zeta;
  trained.epochs = best.epochs;
  trained.calibration = best.calibration;
  trained.stopped_by = "choice";
}

void judge(const char* name, Net& net, const Dataset& data, std::span<const Index> rows, const Calibration& calibration,
           Trained& trained) {
  if (rows.empty() || data.labels.empty()) return;
  const RowMajorMatrix<float> logits = evaluate_logits(net, data, rows);
  const std::vector<int> labels = labels_of(data, rows);
  trained.parts.push_back({name, rows.size(), evaluate(logits, labels, Calibration::identity(logits.cols())),
                           evaluate(logits, labels, calibration)});
}

/// `calibration` may be kAutoCalibration, and is what was chosen then. `prior` is the mix that the net was trained on.
Calibration fit(std::string& calibration, Net& net, const Dataset& data, std::span<const Index> rows,
                const Eigen::VectorXd& prior) {
  if (rows.empty()) {
    calibration = "none";
    return Calibration::identity(data.classes());
  }
  const RowMajorMatrix<float> logits = evaluate_logits(net, data, rows);
  const std::vector<int> labels = labels_of(data, rows);
  const SourceExamples source{{logits, /*logits=*/true}, labels, {}};
  if (calibration != kAutoCalibration) return fit_source(find_calibration(calibration).kind, source, prior).calibration;
  const CalibrationChoice choice =
      choose_calibration(calibration_kinds(calibration), source.scores, source.labels, source.weights);
  calibration = to_string(choice.for_estimate().kind);
  return fit_candidate(choice.for_estimate(), source).calibration;
}

Eigen::VectorXd mix_of(const Dataset& data, std::span<const Index> rows) {
  const std::vector<Index> counts = class_counts(data.labels, rows, data.classes());
  Eigen::VectorXd mix(data.classes());
  for (Index c = 0; c < mix.size(); ++c)
    mix[c] = static_cast<double>(counts[static_cast<std::size_t>(c)]) / static_cast<double>(rows.size());
  return mix;
}

void train(const TrainOptions& options) {
  check_options(options);
  check_outputs(std::array{OptionFile{"--output", options.output}},
                std::array{OptionFile{"--data", options.input.data}, OptionFile{"--model", options.model},
                           OptionFile{"--labels", options.input.labels.file}});
  check_writable(options.output);
  std::optional<Progress> progress(std::in_place);
  progress->show("reading " + options.input.data);
  const LoadedDataset loaded = load_examples(options.input.data, options.input.labels);
  const TrainAndTest& data = loaded.parts;
  check_trainable(data.train, options.input.data);
  const HoldOut rows = split(data.train, options);
  Trained trained;
  trained.data = options.input.data;
  trained.model = options.model;
  trained.seed = options.seed;
  trained.examples = rows.kept.size();
  trained.calibration = options.calibration;
  trained.predictor = options.output;

  const DeferInterrupt interrupt;  // before LibTorch starts threads, which take its mask over
  use_one_torch_thread();
  keep_freed_memory();
  flush_denormals_on_this_thread();
  Predictor predictor{.net = make_net(net_spec(options, data.train, rows.kept), options.seed,
                                      options.device == "cuda" ? Device::kCuda : Device::kCpu),
                      .class_names = data.train.class_names,
                      .column_names = data.train.column_names};
  Net& net = *predictor.net;
  const TrainingExamples examples{data.train, rows.kept, {}};
  try {
    if (options.automatic())
      train_several(options, examples, rows.held_out, net, interrupt, *progress, trained);
    else
      train_one(options, examples, net, interrupt, *progress, trained);
  } catch (const Stopped&) {
    progress.reset();
    if (!trained.interruption.empty()) warn(trained.interruption);
    throw;
  }
  progress->show("evaluating");
  predictor.prior = mix_of(data.train, rows.kept);
  const Calibration calibration = fit(trained.calibration, net, data.train, rows.held_out, predictor.prior);
  if (trained.calibration != "none") predictor.calibration = calibration;
  judge("held out", net, data.train, rows.held_out, calibration, trained);
  judge("test", net, data.test, all_rows(data.test.size()), calibration, trained);
  predictor.origin = {.data = fingerprint(data.train, all_rows(data.train.size())),
                      .calibration_fraction = options.calibration_fraction,
                      .seed = options.seed,
                      .zeta = trained.zeta,
                      .epochs = trained.epochs};
  save_predictor(options.output, predictor);
  progress.reset();
  if (!loaded.note.empty()) warn(loaded.note);
  if (options.format == "json")
    print_json(training_json(trained));
  else
    print(training_text(trained, {.listed = options.show_search, .hint = "; --show-search lists them all"}));
}

std::string model_names() {
  std::string names;
  for (const NetEntry& entry : nets()) names += std::string(entry.name) + ", ";
  return names;
}

}  // namespace

void add_train(CLI::App& app) {
  const auto options = std::make_shared<TrainOptions>();
  CLI::App& command =
      *app.add_subcommand("train", "Train a predictor f(x) by Eq. (4) and calibrate it on examples it has not seen");
  const char* group = "Data and model";
  add_data_options(command, options->input, group);
  command.add_option("--model", options->model, "One of " + model_names() + "or the path of a TorchScript file")
      ->type_name("NAME|FILE")
      ->capture_default_str()
      ->group(group);
  command.add_option("--set", options->settings, "A setting of the model, such as width=16; may be repeated")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false)
      ->group(group);
  group = "Training";
  command
      .add_option(
          "--zeta", options->zeta,
          "How much the training rewards uncertain predictions. auto tries several values and chooses the zeta, "
          "the number of epochs and the calibration that find known class mixes best")
      ->type_name("NUMBER|auto")
      ->capture_default_str()
      ->group(group);
  command.add_option("--epochs", options->epochs, "Passes over the examples, at most")
      ->type_name("COUNT")
      ->transform(whole_number({.from = 1, .to = 1'000'000}))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--stop-below", options->stop_below,
                  "Stop after an epoch whose mean cross-entropy is below this; 0: never")
      ->type_name("NUMBER")
      ->check(not_negative())
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--learning-rate", options->learning_rate,
                  "Learning rate of Adam; by default 0.001, or 0.0001 for resnet18")
      ->type_name("NUMBER")
      ->check(above_0())
      ->group(group);
  command
      .add_option("--weight-decay", options->weight_decay,
                  "Weight decay of Adam; by default 1e-6, or 1e-4 for resnet18")
      ->type_name("NUMBER")
      ->check(not_negative())
      ->group(group);
  add_choice(command, "--calibration", options->calibration, "calibration", calibration_choices(),
             "What to fit on the held-out examples; auto chooses, together with --zeta auto, or else by "
             "cross-validation. It is none where nothing is held out")
      ->group(group);
  command
      .add_option("--calibration-fraction", options->calibration_fraction,
                  "The part of the training examples that is held out, to choose and calibrate by")
      ->type_name("NUMBER")
      ->check(from_0_to_below_1())
      ->capture_default_str()
      ->group(group);
  add_seed_option(command, options->seed);
  command.get_option("--seed")->group(group);
  add_choice(command, "--device", options->device, "device", {"cpu", "cuda"}, "Where to compute")->group(group);
  group = "Output";
  command.add_option("--output", options->output, "Write the predictor here, as safetensors")
      ->type_name("FILE")
      ->check(no_dash())
      ->capture_default_str()
      ->group(group);
  command.add_option("--checkpoint", options->checkpoint, "Keep the state after every epoch in this folder")
      ->type_name("DIR")
      ->group(group);
  command.add_flag("--resume", options->resume, "Go on from the checkpoint, if there is one")->group(group);
  command
      .add_flag("--show-search", options->show_search,
                "With --zeta auto: print every zeta, number of epochs and calibration that was tried; JSON always has "
                "them")
      ->group(group);
  add_choice(command, "--format", options->format, "format", {"table", "json"}, "How to print the result")
      ->group(group);
  command.footer(R"(Example:
  labelshift train --data examples/small-fashion-mnist --model logistic --output clothes.safetensors)");
  command.callback([options] { train(*options); });
}

}  // namespace labelshift::cli
