#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/rng.hpp"
#include "labelshift/engine/in_process/in_process_engine.hpp"
#include "labelshift/federation/algorithms.hpp"
#include "labelshift/federation/federation.hpp"
#include "labelshift/federation/node_context.hpp"
#include "labelshift/federation/node_program.hpp"

namespace labelshift {

inline void PrintTo(const AlgorithmEntry& entry, std::ostream* out) {
  *out << entry.name;
}

using ClassCounts = std::vector<Index>;  // (m)

/// Examples of each class, around points on a circle of radius 2 with standard deviation 1: accuracy is about 0.9 with
/// three classes.
inline std::unique_ptr<Dataset> gaussian_examples(const ClassCounts& counts, std::uint64_t seed) {
  auto data = std::make_unique<Dataset>();
  data->shape = {1, 1, 2};
  std::vector<float> values;
  Rng rng(seed);
  for (std::size_t c = 0; c < counts.size(); ++c) {
    data->class_names.push_back(std::string(1, static_cast<char>('a' + c)));
    const double angle = 6.283185307179586 * static_cast<double>(c) / static_cast<double>(counts.size());
    for (Index i = 0; i < counts[c]; ++i) {
      values.push_back(static_cast<float>(2.0 * std::cos(angle) + rng.normal()));
      values.push_back(static_cast<float>(2.0 * std::sin(angle) + rng.normal()));
      data->labels.push_back(static_cast<int>(c));
    }
  }
  data->values = std::move(values);
  return data;
}

struct GaussianNode {
  ClassCounts train;
  ClassCounts test;
};

inline FederatedData gaussian_federation(const std::vector<GaussianNode>& nodes) {
  FederatedData data{.shape = {1, 1, 2}};
  std::uint64_t seed = 100;
  for (const GaussianNode& node : nodes) {
    NodeData has;
    data.sets.push_back(gaussian_examples(node.train, seed++));
    has.train = data.sets.back().get();
    has.train_rows = all_rows(has.train->size());
    data.class_names = has.train->class_names;
    data.sets.push_back(gaussian_examples(node.test, seed++));
    has.test = data.sets.back().get();
    has.test_rows = all_rows(has.test->size());
    data.nodes.push_back(std::move(has));
  }
  return data;
}

/// A checkpoint that looks at the state of every moment.
inline auto with_state(std::function<void(const FederationState& state)> look) {
  return [look = std::move(look)](const FederationMoment& moment) {
    look(moment.state());
    return true;
  };
}

/// A federation in this process, with a memory of its nodes that outlives the engine.
class LocalFederation {
 public:
  LocalFederation(FederationSettings settings, const FederatedData& data, unsigned workers = 2)
      : settings_(std::move(settings)),
        store_({.folder = testing::TempDir() + "labelshift-nodes"}),  // never made: all fits into memory
        engine_(make_in_process_engine(std::ssize(data.nodes), make_node_programs(settings_, data, store_),
                                       {.workers = workers})),
        task_{.shape = data.shape, .class_names = data.class_names} {}

  FederationState run(const FederationHooks& hooks = {}, FederationState start = {}) {
    return run_federation(settings_, task_, *engine_, hooks, std::move(start));
  }
  NodeStore& store() { return store_; }
  /// What a node remembers of phases 1 and 2 under a name, or empty.
  std::vector<float> numbers(Index node, const std::string& name) {
    const auto found = recall<ClassNumbers>(*store_.of(node), name);
    if (!found) return {};
    return {found->values.begin(), found->values.end()};
  }
  /// What a node kept of the last round that counts.
  NamedParts kept(const FederationState& state, Index node) {
    return recall_round(*store_.of(node), state.counted[static_cast<std::size_t>(node)]);
  }
  Engine& engine() { return *engine_; }
  const FederationTask& task() const { return task_; }

 private:
  FederationSettings settings_;
  NodeStore store_;
  std::unique_ptr<Engine> engine_;
  FederationTask task_;
};

/// Logistic regression, quick.
inline FederationSettings quick_settings() {
  FederationSettings settings;
  settings.model = {"logistic", {}};
  settings.rounds = 20;
  settings.evaluate_every = 10;
  settings.local.batch = 8;
  settings.server.learning_rate = 0.05;
  settings.ratio.net = {"logistic", {}};
  settings.ratio.epochs = 20;
  settings.ratio.learning_rate = 0.02;
  settings.ratio.rounds = 200;
  return settings;
}

inline FederationSettings weighted_settings(const std::string& method) {
  FederationSettings settings = quick_settings();
  settings.algorithm = "iw-erm";
  settings.ratio.method = method;
  return settings;
}

/// Settings that cannot be are refused with a sentence that has this part.
template <typename Act>
void expect_refused(const std::string& part, Act&& act) {
  try {
    act();
    ADD_FAILURE() << "expected an error with: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

/// Changes what an algorithm does not go with.
inline void suit_algorithm(FederationSettings& settings) {
  const std::string& name = settings.algorithm;
  settings.local.proximal = name == "fedprox" ? 0.1 : 0.0;
  if (name == "fedcom" || name == "fedcomgate") {
    settings.compression = {.codec = name == "fedcom" ? "random-k" : "qsgd", .levels = 15, .kept = 0.5};
    settings.server = {.optimiser = "sgd", .learning_rate = settings.server.learning_rate, .weight_decay = 0.0};
  }
  if (name == "fedcomgate" || name == "fafed" || name == "proxskip") settings.sampled = 0;
  if (name == "fafed") settings.server.weight_decay = 0.0;
  if (name == "fedpals") settings.ratio.method = "true";
  if (name == "proxskip") {
    settings.server = {.optimiser = "sgd", .learning_rate = 1.0, .weight_decay = 0.0};
    settings.local.steps = 1;
    settings.local.epochs = 0;
    settings.round_probability = 0.4;
  }
}

}  // namespace labelshift
