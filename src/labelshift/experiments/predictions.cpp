#include "labelshift/experiments/predictions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/rng.hpp"
#include "labelshift/core/likelihood/sample_summary.hpp"
#include "labelshift/data/datasets/augmentation.hpp"
#include "labelshift/data/datasets/splits.hpp"
#include "labelshift/data/files/safetensors.hpp"
#include "labelshift/learning/checkpoint.hpp"
#include "labelshift/learning/evaluation.hpp"
#include "labelshift/learning/model_selection.hpp"

namespace labelshift {
namespace {

constexpr const char* kLogits = "logits";

}  // namespace

std::string PredictorRecipe::name() const {
  std::string text = data + "-" + net;
  for (const auto& [key, value] : settings) text += fmt::format("-{}{}", key, value);
  if (examples > 0) text += fmt::format("-n{}", examples);
  std::replace(text.begin(), text.end(), '/', '_');  // of a path
  return text + fmt::format("-h{:.4g}-e{}-lr{:g}-wd{:g}", held_out, epochs, learning_rate, weight_decay);
}

std::string zeta_text(const Zeta& zeta) {
  return zeta ? fmt::format("{:g}", *zeta) : "auto";
}

std::string PredictorKey::name() const {
  return fmt::format("{}-zeta-{}-{}", recipe.name(), zeta_text(zeta), number);
}

/// What a predictor is trained and calibrated on.
struct PredictorStore::Examples {
  const Dataset& train;
  HoldOut rows;
  std::uint64_t seed;      // of this predictor
  std::string data_print;  // of the data
};

const LoadedDataset& PredictorStore::data(const std::string& name) {
  const std::lock_guard lock(mutex_);
  auto found = data_.find(name);
  if (found == data_.end()) found = data_.emplace(name, load_dataset(name)).first;
  return found->second;  // nodes of a map stay where they are
}

PredictorStore::Examples PredictorStore::examples(const PredictorKey& key) {
  const Dataset& train = data(key.recipe.data).parts.train;
  const std::uint64_t seed = Rng(seed_, static_cast<std::uint64_t>(key.number))();
  std::vector<Index> rows = all_rows(train.size());
  if (key.recipe.examples > 0)
    rows = stratified_part(train.labels, rows, train.classes(), Count{key.recipe.examples}, seed);
  HoldOut split = hold_out(train.labels, rows, train.classes(), Fraction{key.recipe.held_out}, seed);
  std::string print = fingerprint(train, rows);
  return {train, std::move(split), seed, std::move(print)};
}

bool PredictorStore::has(const PredictorKey& key) const {
  return is_whole_safetensors(path(key));
}

void PredictorStore::train(const PredictorKey& key, const Observer& observer) {
  if (has(key)) return;
  const Examples from = examples(key);
  std::error_code ignored;
  std::filesystem::create_directories(folder_, ignored);
  const NetSpec spec{.name = key.recipe.net,
                     .settings = key.recipe.settings,
                     .shape = from.train.shape,
                     .classes = from.train.classes(),
                     .normalisation = fit_normalisation(from.train, from.rows.kept)};
  Predictor predictor{.net = make_net(spec, from.seed, device_), .class_names = from.train.class_names};
  TrainingSettings settings{
      .epochs = key.recipe.epochs,
      .adam = {.learning_rate = key.recipe.learning_rate, .weight_decay = key.recipe.weight_decay},
      .seed = from.seed};
  const TrainingExamples examples{from.train, from.rows.kept, {}};
  predictor.origin = {.data = from.data_print,
                      .calibration_fraction = key.recipe.held_out,
                      .seed = from.seed,
                      .zeta = key.zeta.value_or(0.0),
                      .epochs = key.recipe.epochs};
  if (key.zeta) {
    settings.zeta = *key.zeta;
    const RunDescription run = describe_run(spec, examples, settings);
    const std::string checkpoint = path(key) + ".checkpoint";
    TrainingState start;
    if (std::filesystem::exists(checkpoint, ignored)) start = load_checkpoint(checkpoint, run, *predictor.net);
    train_predictor(
        *predictor.net, examples, settings,
        {.progress = observer,
         .epoch = [&](const TrainingState& state) { save_checkpoint(checkpoint, run, *predictor.net, state); }},
        std::move(start));
    save_predictor(path(key), predictor);
    std::filesystem::remove(checkpoint, ignored);
  } else {
    const SelectionSettings candidates;
    double before = 0.0;  // trainings done
    std::string stage_before;
    const Selection selection = choose_predictor(*predictor.net, examples, from.rows.held_out, settings, candidates,
                                                 [&](std::string_view stage, double done) {
                                                   if (!stage_before.empty() && stage != stage_before) before += 1.0;
                                                   stage_before = stage;
                                                   const auto trainings = static_cast<double>(candidates.zetas.size());
                                                   return !observer || observer(stage, (before + done) / trainings);
                                                 });
    predictor.origin.zeta = selection.best().zeta;
    predictor.origin.epochs = selection.best().epochs;
    predictor.calibration = selection.calibration.calibration;
    save_predictor(path(key), predictor);
  }
}

Predictor PredictorStore::load(const PredictorKey& key, const Examples& from) const {
  Predictor predictor = load_predictor(path(key), {.device = device_});
  if (predictor.origin.data != from.data_print || predictor.origin.seed != from.seed)
    throw Error(ErrorKind::kInput,
                fmt::format("{} was trained on other examples; remove it, or choose another folder", path(key)),
                Remedy::kOutputFolder);
  return predictor;
}

bool PredictorStore::has_predicted(const PredictorKey& key, const std::string& augmentation) const {
  return is_whole_safetensors(logits_path(key, "held-out")) && is_whole_safetensors(logits_path(key, augmentation));
}

void PredictorStore::predict(const PredictorKey& key, const std::string& augmentation, const Observer& observer) {
  if (has_predicted(key, augmentation)) return;
  const Examples from = examples(key);
  const Predictor predictor = load(key, from);
  const auto ask = [&](const Dataset& about, std::span<const Index> rows, const std::string& what) {
    constexpr Index kRows = 4 * kEvaluationRows;
    if (is_whole_safetensors(logits_path(key, what))) return;
    RowMajorMatrix<float> logits(std::ssize(rows), about.classes());
    for (Index first = 0; first < std::ssize(rows); first += kRows) {
      tell(observer, "predicting", static_cast<double>(first) / static_cast<double>(rows.size()));
      const Index count = std::min(kRows, std::ssize(rows) - first);
      logits.middleRows(first, count) = evaluate_logits(*predictor.net, about, rows.subspan(first, count));
    }
    const NamedTensor tensor{
        kLogits, {logits.rows(), logits.cols()}, {logits.data(), static_cast<std::size_t>(logits.size())}};
    write_safetensors(logits_path(key, what), {&tensor, 1}, {});
  };
  ask(from.train, from.rows.held_out, "held-out");
  const Dataset& test = data(key.recipe.data).parts.test;
  const Dataset changed = augmented(test, find_augmentation(augmentation), from.seed);
  ask(changed, all_rows(changed.size()), augmentation);
}

Predictions PredictorStore::predictions(const PredictorKey& key, const std::string& augmentation) {
  const Examples from = examples(key);
  const Dataset& test = data(key.recipe.data).parts.test;
  const auto read = [&](const std::string& what, std::size_t rows) {
    try {
      const SafetensorsFile file(logits_path(key, what));
      file.require_sum();
      const std::span<const float> values = file.tensor(kLogits, {static_cast<Index>(rows), test.classes()});
      return RowMajorMatrix<float>(
          Eigen::Map<const RowMajorMatrix<float>>(values.data(), static_cast<Index>(rows), test.classes()));
    } catch (const Error& error) {
      throw Error(error.kind(), fmt::format("{}; remove it to make it again", error.what()));
    }
  };
  Predictions result{.held_out = read("held-out", from.rows.held_out.size()),
                     .held_out_labels = labels_of(from.train, from.rows.held_out),
                     .source_prior = label_prior(labels_of(from.train, from.rows.kept), {}, from.train.classes()),
                     .test = read(augmentation, test.labels.size())};
  if (!key.zeta) result.chosen = load(key, from).calibration;
  const Evaluation quality = evaluate(result.test, test.labels, Calibration::identity(test.classes()));
  result.accuracy = quality.accuracy;
  result.calibration_error = quality.quality.ece;
  return result;
}

}  // namespace labelshift
