#include "labelshift/learning/model_selection.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/calibration/source_fit.hpp"
#include "labelshift/core/estimators/estimators.hpp"
#include "labelshift/core/likelihood/sample_summary.hpp"
#include "labelshift/data/datasets/shifts.hpp"
#include "labelshift/learning/checkpoint.hpp"
#include "labelshift/learning/evaluation.hpp"
#include "labelshift/learning/streams.hpp"
#include "labelshift/learning/weights.hpp"

namespace labelshift {
namespace {

RowMajorMatrix<float> rows_of(const RowMajorMatrix<float>& matrix, std::span<const Index> rows) {
  RowMajorMatrix<float> part(static_cast<Index>(rows.size()), matrix.cols());
  for (std::size_t i = 0; i < rows.size(); ++i) part.row(static_cast<Index>(i)) = matrix.row(rows[i]);
  return part;
}

std::vector<int> entries_of(std::span<const int> labels, std::span<const Index> rows) {
  std::vector<int> part;
  for (const Index row : rows) part.push_back(labels[row]);
  return part;
}

std::vector<int> looks(const TrainingSettings& training, const SelectionSettings& settings) {
  if (!settings.epochs.empty()) return settings.epochs;
  std::vector<int> epochs;
  for (const int part : {8, 4, 2, 1})
    if (const int epoch = training.epochs / part; epoch > 0 && (epochs.empty() || epoch > epochs.back()))
      epochs.push_back(epoch);
  return epochs;
}

/// The trainings of choose_predictor() in a folder: the last state of each zeta, and each state that is looked at.
class SelectionFolder {
 public:
  SelectionFolder(std::string folder, RunDescription run, Net& net)
      : folder_(std::move(folder)), run_(std::move(run)), net_(net) {}
  bool has(double zeta) const {
    std::error_code ignored;
    return !folder_.empty() && std::filesystem::exists(path(zeta), ignored);
  }
  TrainingState load(double zeta, std::optional<int> look = {}) {
    return load_checkpoint(path(zeta, look), run(zeta), net_);
  }
  /// What is looked at is written first: where the last state is, all looks before it are.
  void save(double zeta, const TrainingState& state, bool look) {
    if (folder_.empty()) return;
    if (look) save_checkpoint(path(zeta, static_cast<int>(std::ssize(state.cross_entropy))), run(zeta), net_, state);
    save_checkpoint(path(zeta), run(zeta), net_, state);
  }

 private:
  std::string path(double zeta, std::optional<int> look = {}) const {
    return look ? fmt::format("{}/zeta-{}-epoch-{}.safetensors", folder_, zeta, *look)
                : selection_checkpoint(folder_, zeta);
  }
  RunDescription run(double zeta) const {
    RunDescription run = run_;
    run["zeta"] = fmt::format("{}", zeta);
    return run;
  }
  std::string folder_;
  RunDescription run_;
  Net& net_;
};

}  // namespace

PriorTrials::PriorTrials(std::span<const int> labels, const Eigen::VectorXd& source_prior,
                         const SelectionSettings& settings, std::uint64_t seed)
    : labels_(labels.begin(), labels.end()), source_prior_(source_prior), estimator_(settings.estimator) {
  const Index m = source_prior.size();
  // Classes dealt out in turn: a class with two examples has one in each half.
  auto by_class = rows_by_class(labels, all_rows(std::ssize(labels)), m);
  std::size_t next = 0;
  for (std::size_t c = 0; c < by_class.size(); ++c) {
    auto& rows = by_class[c];
    Rng rng(stream_seed(seed, TrainingStream::kHalves), c);
    for (Index left = std::ssize(rows); left > 1; --left) std::swap(rows[left - 1], rows[rng.below(left)]);
    for (const Index row : rows) halves_[next++ % 2].rows.push_back(row);
  }
  std::uint64_t stream = 0;
  for (Half& half : halves_) {
    if (half.rows.empty())
      throw Error(ErrorKind::kInput,
                  fmt::format("{} examples are held out, expected at least 2 to judge predictors by; "
                              "hold out a larger fraction",
                              labels.size()));
    std::sort(half.rows.begin(), half.rows.end());
    const auto available = rows_by_class(labels, half.rows, m);
    for (const double alpha : settings.alphas)
      for (int i = 0; i < settings.priors; ++i) {
        Rng rng(stream_seed(seed, TrainingStream::kTrials), stream++);
        Eigen::VectorXd prior = dirichlet_prior(m, alpha, rng);
        for (Index c = 0; c < m; ++c)
          if (available[c].empty()) prior[c] = 0.0;
        if (!(prior.sum() > 0.0)) continue;  // all its mass was on classes that are not there
        ShiftedSample sample = draw_shifted(available, prior / prior.sum(), source_prior, std::ssize(half.rows), rng);
        half.trials.push_back({std::move(sample.rows), std::move(sample.ratio)});
      }
  }
}

PriorTrials::Score PriorTrials::score(const RowMajorMatrix<float>& logits, const std::string& calibration) const {
  const auto estimator = make_estimator(find_estimator(estimator_));
  double sum = 0.0;
  double squares = 0.0;
  double count = 0.0;
  for (const int judged : {0, 1}) {
    const std::vector<Index>& fitted = halves_[1 - judged].rows;
    const RowMajorMatrix<float> fit_logits = rows_of(logits, fitted);
    const std::vector<int> fit_labels = entries_of(labels_, fitted);
    const SourceFit fit =
        fit_source(find_calibration(calibration).kind, {{fit_logits, /*logits=*/true}, fit_labels, {}}, source_prior_);
    RowMajorMatrix<float> probs(logits.rows(), logits.cols());
    apply_calibration(fit.calibration, {logits, /*logits=*/true}, 0, probs);
    for (const Trial& trial : halves_[judged].trials) {
      const RowMajorMatrix<float> sample = rows_of(probs, trial.rows);
      const RatioEstimate estimate = estimator->estimate(fit.summary, {.probs = Probabilities::known(sample)});
      const double error = (estimate.ratio - trial.ratio).squaredNorm() / static_cast<double>(trial.ratio.size());
      sum += error;
      squares += error * error;
      count += 1.0;
    }
  }
  const double mean = sum / count;
  return {.error = mean, .standard_error = std::sqrt(std::max(squares / count - mean * mean, 0.0) / count)};
}

std::string selection_checkpoint(const std::string& folder, double zeta) {
  return fmt::format("{}/zeta-{}.safetensors", folder, zeta);
}

Selection choose_predictor(Net& net, const TrainingExamples& examples, std::span<const Index> held_out,
                           const TrainingSettings& training, const SelectionSettings& settings,
                           const Observer& observer, const std::string& checkpoint_folder) {
  const Dataset& data = examples.data;
  const std::vector<int> labels = labels_of(data, held_out);
  const Eigen::VectorXd prior =
      label_prior(labels_of(data, examples.rows), {}, data.classes(), /*smoothing=*/0.0, data.class_names);
  const PriorTrials trials(labels, prior, settings, training.seed);
  const std::vector<int> epochs = looks(training, settings);
  RunDescription run = describe_run(net.spec(), examples, training);
  run["epochs"] = fmt::format("{}", fmt::join(epochs, ", "));  // which decide what there is to look at
  run["stop-below"] = fmt::format("{}", training.stop_below);
  SelectionFolder folder(checkpoint_folder, std::move(run), net);
  const WeightSnapshot start(net);
  std::optional<WeightSnapshot> best;
  Selection selection;
  for (const double zeta : settings.zetas) {
    TrainingSettings one = training;
    one.zeta = zeta;
    one.epochs = epochs.back();
    const auto looked_at = [&](int epoch, double cross_entropy) {
      return cross_entropy < one.stop_below || std::find(epochs.begin(), epochs.end(), epoch) != epochs.end();
    };
    const auto look = [&](int epoch) {
      const RowMajorMatrix<float> logits = evaluate_logits(net, data, held_out);
      for (const std::string& calibration : settings.calibrations) {
        const PriorTrials::Score score = trials.score(logits, calibration);
        selection.candidates.push_back({zeta, epoch, calibration, score.error, score.standard_error});
        if (best && score.error >= selection.best().error) continue;
        selection.chosen = selection.candidates.size() - 1;
        best.emplace(net);
      }
    };
    start.restore(net);
    TrainingState state;
    if (folder.has(zeta)) {
      state = folder.load(zeta);
      for (int epoch = 1; epoch <= std::ssize(state.cross_entropy); ++epoch) {
        if (!looked_at(epoch, state.cross_entropy[epoch - 1])) continue;
        folder.load(zeta, epoch);
        look(epoch);
      }
      state = folder.load(zeta);
      selection.resumed_from += static_cast<int>(std::ssize(state.cross_entropy));
    }
    TrainingHooks hooks;
    hooks.progress = [&](std::string_view, double done) {
      return !observer || observer(fmt::format("training with zeta {}", zeta), done);
    };
    hooks.epoch = [&](const TrainingState& now) {
      const auto epoch = static_cast<int>(std::ssize(now.cross_entropy));
      const bool is_looked_at = looked_at(epoch, now.cross_entropy.back());
      if (is_looked_at) look(epoch);
      folder.save(zeta, now, is_looked_at);
    };
    const TrainingResult result = train_predictor(net, examples, one, hooks, std::move(state));
    selection.epochs += static_cast<int>(std::ssize(result.state.cross_entropy));
  }
  best->restore(net);
  const RowMajorMatrix<float> logits = evaluate_logits(net, data, held_out);
  selection.calibration =
      fit_source(find_calibration(selection.best().calibration).kind, {{logits, /*logits=*/true}, labels, {}}, prior);
  return selection;
}

}  // namespace labelshift
