#include "labelshift/experiments/training_cost.hpp"

#include <fmt/format.h>

#include <chrono>
#include <map>

#include "labelshift/core/base/rng.hpp"
#include "labelshift/learning/methods.hpp"
#include "labelshift/learning/model_selection.hpp"

namespace labelshift {
namespace {

constexpr double kForwardShare = 1.0 / 3.0;  // of a training step's arithmetic

Dataset random_examples(const ExampleShape& shape, Index classes, Index examples) {
  Dataset data{.shape = shape};
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(examples * shape.size()));
  Rng rng(0);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(rng());
  data.values = std::move(bytes);
  for (Index c = 0; c < classes; ++c) data.class_names.push_back(std::to_string(c));
  for (Index i = 0; i < examples; ++i) data.labels.push_back(static_cast<int>(i % classes));
  return data;
}

/// Examples of all nodes, of one part of a data set with so many.
double used_examples(const DataSettings& data, Index classes, Index available, bool train) {
  const double size = data.fraction * static_cast<double>(available);
  Eigen::MatrixXd shares;  // (K, m)
  if (data.partition == "shares") {
    const auto& given = train ? data.train_shares : data.test_shares;
    shares.resize(std::ssize(given), classes);
    for (std::size_t k = 0; k < given.size(); ++k)
      for (Index c = 0; c < classes; ++c) shares(static_cast<Index>(k), c) = given[k][c];
  } else if (data.partition != "iid" && data.partition != "dirichlet") {
    const NodeTable& table = find_node_table(data.partition);
    shares = (train ? table.train_distributions() : table.test_distributions()).shares.cast<double>();
  } else {
    return size;
  }
  for (std::size_t k = 0; k < data.sizes.size(); ++k) shares.row(static_cast<Index>(k)) *= data.sizes[k];
  // The class that is asked for most is used up.
  return size / static_cast<double>(classes) * shares.sum() / shares.colwise().sum().maxCoeff();
}

double time_example(const NetChoice& net, const ExampleShape& shape, Index classes, Device device) {
  constexpr Index kFew = 4, kMany = 64;
  constexpr double kLong = 0.05;  // seconds of a step of few examples, whose number then makes no difference
  const Dataset data = random_examples(shape, classes, kMany);
  const std::vector<Index> rows = all_rows(kMany);
  const auto made = make_net({.name = net.name,
                              .settings = net.settings,
                              .shape = shape,
                              .classes = classes,
                              .normalisation = fit_normalisation(data, rows)},
                             0, device);
  const auto step = [&](Index examples) {
    const auto start = std::chrono::steady_clock::now();
    train_predictor(*made, {data, std::span(rows).first(examples), {}}, {.epochs = 1});
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  step(kFew);  // to warm up
  if (const double seconds = step(kFew); seconds > kLong) return seconds / kFew;
  step(kMany);
  double elapsed = 0.0;
  int steps = 0;
  for (; elapsed < 0.1; ++steps) elapsed += step(kMany);
  return elapsed / steps / kMany;
}

}  // namespace

ExampleShape shape_of(const KnownDataset& data) {
  return data.name.starts_with("cifar") ? ExampleShape{3, 32, 32} : ExampleShape{1, 28, 28};
}

double TrainingCost::per_example(const NetChoice& net, const ExampleShape& shape, Index classes) {
  std::string key = fmt::format("{} {} {} {} {}", net.name, shape.channels, shape.height, shape.width, classes);
  for (const auto& [name, value] : net.settings) key += fmt::format(" {}={}", name, value);
  const auto known = timed_.find(key);
  if (known != timed_.end()) return known->second;
  return timed_[key] = time_example(net, shape, classes, device_);
}

double TrainingCost::of_federation(const RunSettings& settings) {
  const FederationSettings& federation = settings.federation;
  const RatioSettings& ratio = federation.ratio;
  const LocalSettings& local = federation.local;
  const KnownDataset& data = find_known_dataset(settings.data.set);
  DataSettings all = settings.data;
  all.only_node = 0;
  const auto nodes = static_cast<double>(node_count(settings.data));
  const auto dealt_to = static_cast<double>(node_count(all));
  const double examples = used_examples(all, data.classes, data.train_size, /*train=*/true) / dealt_to;  // of a node
  const double tested = used_examples(all, data.classes, data.test_size, /*train=*/false) / dealt_to;
  const double cohort = federation.sampled > 0 ? static_cast<double>(federation.sampled) : nodes;
  const double seen =  // examples, by a node that takes part in every round
      static_cast<double>(iterations(federation, federation.rounds)) *
      (local.epochs > 0 ? local.epochs * examples : static_cast<double>(local.batch));
  const double evaluations = static_cast<double>(federation.rounds) / federation.evaluate_every;
  const double seconds = per_example(federation.model, shape_of(data), data.classes) *
                         (cohort * seen + kForwardShare * evaluations * nodes * tested);
  if (!ratio.estimated()) return seconds;
  const double trainings =
      find_method(ratio.method).chooses() ? static_cast<double>(SelectionSettings().zetas.size()) : 1.0;
  const double learners = ratio.goal_node > 0 ? 1.0 : nodes;
  const double predictor = ratio.predictor == PredictorScope::kFederated
                               ? ratio.rounds * cohort * static_cast<double>(local.batch)
                               : learners * examples * ratio.fraction * ratio.epochs;
  return seconds + per_example(ratio.net, shape_of(data), data.classes) * trainings * predictor;
}

}  // namespace labelshift
