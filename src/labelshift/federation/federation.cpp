#include "labelshift/federation/federation.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "labelshift/core/calibration.hpp"
#include "labelshift/core/error.hpp"
#include "labelshift/core/rng.hpp"
#include "labelshift/core/stopped.hpp"
#include "labelshift/engine/float_sums.hpp"
#include "labelshift/federation/algorithms.hpp"
#include "labelshift/federation/local_ratio.hpp"
#include "labelshift/federation/shared_weights.hpp"
#include "labelshift/federation/tasks.hpp"
#include "labelshift/learning/methods.hpp"
#include "labelshift/learning/model_selection.hpp"

namespace labelshift {
namespace {

using Eigen::VectorXd;

// Streams of the run's seed.
constexpr std::uint64_t kModelStream = 0x696e6974;
constexpr std::uint64_t kPredictorStream = 0x696e697470;
constexpr std::uint64_t kCohortStream = 0x636f686f7274;
constexpr std::uint64_t kPredictorCohortStream = 0x636f686f727470;

constexpr Index kNodesNamed = 10;  // in warnings of one kind
constexpr int kTemperatures = 41;  // tried for a federated predictor: scales from 1/10 to 10, evenly on a log scale

VectorXd vector_of(std::span<const double> values) {
  return Eigen::Map<const VectorXd>(values.data(), std::ssize(values));
}

std::vector<double> numbers_of(std::initializer_list<double> first, const VectorXd& rest) {
  std::vector<double> numbers(first);
  numbers.insert(numbers.end(), rest.begin(), rest.end());
  return numbers;
}

/// One coordinator and its conversation with the nodes.
class Coordinator {
 public:
  Coordinator(const FederationSettings& settings, const FederationTask& task, Engine& engine,
              const FederationObserver& observer, FederationState& state)
      : settings_(settings), task_(task), engine_(engine), observer_(observer), state_(state) {
    for (Index node = 0; node < engine.nodes(); ++node) all_.push_back(node);
  }

  void prepare() {
    join();
    const auto net = make_net(spec(settings_.model), Rng(settings_.seed, kModelStream)(), settings_.device);
    state_.parameters.assign(net->parameters().begin(), net->parameters().end());
    state_.buffers.assign(net->buffers().begin(), net->buffers().end());
    if (find_algorithm(settings_.algorithm).local_batch_norm)
      state_.warnings.push_back(
          SharedWeights(*net, /*batch_norms=*/false).local_size() == 0
              ? "the model has no batch norm, so fedbn is fedavg here"
              : "batch norms stay at their nodes: the saved model has those it started from, and needs a node's own");
    if (settings_.ratio.weighted()) ratios();
    state_.ready = true;
    if (observer_.checkpoint) observer_.checkpoint(state_);
  }

  void train() {
    const AlgorithmEntry& algorithm = find_algorithm(settings_.algorithm);
    const auto net = make_net(spec(settings_.model), /*seed=*/0, settings_.device);
    const SharedWeights shared(*net, !algorithm.local_batch_norm);
    ServerStep server(shared.parameters(), settings_.server);
    if (state_.round > 0) server.restore(state_.server);
    state_.server = server.state();
    if (algorithm.control_variates && state_.control.empty()) state_.control.resize(state_.parameters.size());
    if (state_.parameters.size() != net->parameters().size() || state_.buffers.size() != net->buffers().size() ||
        (algorithm.control_variates && state_.control.size() != state_.parameters.size()))
      throw Error(ErrorKind::kInput,
                  fmt::format("the saved model has {} weights, expected {}: the data or the model have changed since; "
                              "start anew in another folder",
                              state_.parameters.size(), net->parameters().size()));
    const int first = state_.round;
    Request request{.task = static_cast<std::uint32_t>(Task::kTrain),
                    .weights = shared.gather(state_.parameters, state_.buffers)};
    request.weights.insert(request.weights.end(), state_.control.begin(), state_.control.end());
    while (state_.round < settings_.rounds) {
      const int round = state_.round + 1;
      const std::vector<Index> cohort = cohort_of(round, kCohortStream);
      const auto done = static_cast<double>(round - 1 - first) / (settings_.rounds - first);
      request.round = static_cast<std::uint64_t>(round);
      const CohortAnswer answer =
          ask("training", request, cohort, {.numbers = 2, .weights = std::ssize(request.weights)}, done,
              1.0 / (settings_.rounds - first));
      check_loss(answer, round);
      server.exchange(state_.server);  // which has it between rounds
      apply_mean(answer, shared, server, request.weights);
      server.exchange(state_.server);
      shared.scatter(request.weights, state_.parameters, state_.buffers);
      // c <- c + |S| / K mean_S (change of c_k)
      for (std::size_t i = 0; i < state_.control.size(); ++i)
        state_.control[i] += static_cast<float>(answer.weights[shared.size() + i] / static_cast<double>(all_.size()));
      std::copy(state_.control.begin(), state_.control.end(), request.weights.begin() + shared.size());
      state_.round = round;
      if (round % settings_.evaluate_every == 0 || round == settings_.rounds) evaluate(shared);
      if (observer_.checkpoint) observer_.checkpoint(state_);
    }
  }

 private:
  Index classes() const { return static_cast<Index>(task_.class_names.size()); }

  NetSpec spec(const NetChoice& choice) const {
    return {.name = choice.name,
            .settings = choice.settings,
            .shape = task_.shape,
            .classes = classes(),
            .normalisation = state_.normalisation};
  }

  PhaseCost& phase(const std::string& name) {
    for (PhaseCost& cost : state_.phases)
      if (cost.name == name) return cost;
    return state_.phases.emplace_back(PhaseCost{.name = name});
  }

  /// How long the parts of an answer must be.
  struct Shape {
    Index numbers = 0;
    Index weights = 0;
    Index report = 0;  // at least
  };

  static void check_shape(const CohortAnswer& answer, const Shape& shape, std::size_t cohort) {
    bool good = std::ssize(answer.numbers) == shape.numbers && std::ssize(answer.weights) == shape.weights &&
                answer.reports.size() == cohort;
    for (const NodeReport& report : answer.reports) good = good && std::ssize(report.values) >= shape.report;
    if (!good)
      throw Error(
          ErrorKind::kPeer,
          fmt::format("nodes answered {} numbers and {} weights, expected {} and {}, and a report of {} or more; "
                      "do they all run this version with the same data columns and model?",
                      answer.numbers.size(), answer.weights.size(), shape.numbers, shape.weights, shape.report));
  }

  /// Runs a request on a cohort for a phase, of which `done` is behind and this is `share`.
  CohortAnswer ask(const std::string& name, const Request& request, std::span<const Index> cohort, const Shape& shape,
                   double done, double share) {
    const auto start = std::chrono::steady_clock::now();
    CohortAnswer answer = engine_.run(request, cohort, [&](double part) {
      return !observer_.progress || observer_.progress(name, done + share * part);
    });
    check_shape(answer, shape, cohort.size());
    PhaseCost& cost = phase(name);
    cost.rounds += 1;
    cost.traffic += answer.traffic;
    cost.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return answer;
  }
  CohortAnswer ask_all(const std::string& name, Task task, std::vector<double> numbers, const Shape& shape) {
    return ask(name, {.task = static_cast<std::uint32_t>(task), .numbers = std::move(numbers)}, all_, shape, 0.0, 1.0);
  }

  void join() {
    const Index m = classes();
    const bool table = task_.shape.channels == 1 && task_.shape.height == 1;
    const Index parts = table ? task_.shape.width : task_.shape.channels;
    const CohortAnswer answer = ask_all("join", Task::kJoin, {}, {.numbers = 3 * m + 1 + 2 * parts, .report = 2});
    std::span<const double> numbers = answer.numbers;
    const auto take = [&](Index count) {
      const auto part = numbers.first(count);
      numbers = numbers.subspan(count);
      return part;
    };
    holders_ = vector_of(take(m));
    const auto tested = take(m);
    const VectorXd counts = vector_of(take(m));
    pooled_prior_ = counts / counts.sum();
    for (Index c = 0; c < m; ++c) {
      if (holders_[c] > 0.0) continue;
      if (tested[c] > 0.0 || settings_.ratio.weighted())
        throw Error(
            ErrorKind::kInput,
            fmt::format("class {} has no training examples on any node; no weight can make up for it. Add some, "
                        "or leave the class out",
                        task_.class_names[c]));
    }
    const double count = take(1)[0];
    const auto sums = take(parts);
    const auto squares = take(parts);
    state_.normalisation = normalisation_of(
        {.count = count, .sum = {sums.begin(), sums.end()}, .squares = {squares.begin(), squares.end()}});
    Index incomplete = 0, untested = 0;
    for (const NodeReport& report : answer.reports) {
      tested_.push_back(report.values[1] > 0.0);
      if (!tested_.back() && ++untested <= kNodesNamed)
        state_.warnings.push_back(
            fmt::format("node {} has no test examples: it counts in training alone", report.node + 1));
      if (report.values.size() == 2 || !settings_.ratio.weighted() || ++incomplete > kNodesNamed) continue;
      std::vector<std::string> missing;
      for (Index c = 0; c < m; ++c)
        if (std::find(report.values.begin() + 2, report.values.end(), static_cast<double>(c)) != report.values.end())
          missing.push_back(task_.class_names[c]);
      const bool local = settings_.ratio.estimated() && settings_.ratio.predictor == PredictorScope::kLocal;
      state_.warnings.push_back(
          fmt::format("node {} has no training example of {}: other nodes carry that weight{}", report.node + 1,
                      missing.size() == 1 ? "class " + missing[0] : fmt::format("classes {}", fmt::join(missing, ", ")),
                      local ? ", and its own predictor cannot see it in its test data; a federated one can" : ""));
    }
    if (incomplete > kNodesNamed)
      state_.warnings.push_back(
          fmt::format("{} more nodes lack training examples of a class", incomplete - kNodesNamed));
    if (untested > kNodesNamed)
      state_.warnings.push_back(fmt::format("{} more nodes have no test examples", untested - kNodesNamed));
    std::vector<double> agreed(state_.normalisation.mean.begin(), state_.normalisation.mean.end());
    agreed.insert(agreed.end(), state_.normalisation.scale.begin(), state_.normalisation.scale.end());
    ask_all("join", Task::kAgree, std::move(agreed), {});
  }

  /// Phases 1 and 2 of Alg. 2.
  void ratios() {
    const RatioSettings& ratio = settings_.ratio;
    state_.ratios.resize(all_.size());
    for (Index node = 0; node < std::ssize(all_); ++node) state_.ratios[node].node = node;
    if (ratio.exchange == RatioExchange::kPairwise && ratio.estimated())
      pairwise();
    else
      summed();
    if (!(state_.target_sum.sum() > 0.0))
      throw Error(
          ErrorKind::kInput,
          "no node whose risk is the goal has test examples, so there is nothing to weight towards; add some, or "
          "train without ratios");
    std::vector<std::string> never;
    for (Index c = 0; c < classes(); ++c)
      if (state_.target_sum[c] == 0.0) never.push_back(task_.class_names[c]);
    if (!never.empty())
      state_.warnings.push_back(fmt::format("no weight is left for {}: {} no node will meet {}", fmt::join(never, ", "),
                                            ratio.estimated() ? "by the estimates" : "in these test data",
                                            never.size() == 1 ? "it" : "them"));
  }

  void note_estimates(const CohortAnswer& answer) {
    for (const NodeReport& report : answer.reports) {
      if (settings_.ratio.estimated()) state_.ratios[report.node].prior_error = report.values[0];
      state_.ratios[report.node].seconds += report.values[1];
    }
  }

  /// Where test labels tell.
  void note_target_error(std::span<const Index> goal) {
    if (!settings_.ratio.estimated() || std::any_of(goal.begin(), goal.end(), [&](Index node) {
          return tested_[node] && std::isnan(state_.ratios[node].prior_error);
        }))
      return;
    const VectorXd truth = vector_of(target("evaluation", TargetKind::kTruth, goal).numbers);
    state_.target_error = (state_.target_sum - truth).lpNorm<1>() / static_cast<double>(goal.size());
  }

  void note_weights(const CohortAnswer& answer) {
    for (const NodeReport& report : answer.reports) {
      NodeRatio& row = state_.ratios[report.node];
      row.largest = report.values[0];
      row.examples = report.values[1];
      row.effective_examples = report.values[2];
    }
  }

  /// Sum_j q_j, of all nodes or of the one whose risk is the goal; then every node divides by its own prior.
  void summed() {
    const RatioSettings& ratio = settings_.ratio;
    std::vector<Index> goal = all_;
    if (ratio.goal_node > 0) goal = {ratio.goal_node - 1};
    CohortAnswer answer;
    if (!ratio.goal_shift)
      answer = target("ratio", TargetKind::kSource, goal);
    else if (!ratio.estimated())
      answer = target("ratio", TargetKind::kTruth, goal);
    else if (ratio.predictor == PredictorScope::kFederated)
      answer = together(goal);
    else
      answer = target("ratio", state_.estimates_kept ? TargetKind::kKeptEstimate : TargetKind::kEstimate, goal);
    note_estimates(answer);
    state_.target_sum = vector_of(answer.numbers);
    note_target_error(goal);
    const auto nodes = static_cast<double>(all_.size());
    VectorXd values = state_.target_sum;
    RatioKind kind = RatioKind::kNumerator;
    if (settings_.weighting == Weighting::kPooled) {
      kind = RatioKind::kRatio;
      values = values.cwiseQuotient(pooled_prior_);
    } else {
      values.array() *= nodes / holders_.array();  // a class some nodes lack would carry K_c / K of its mass
    }
    note_weights(ask_all("ratio", Task::kRatio, numbers_of({static_cast<double>(kind)}, values), {.report = 3}));
  }

  CohortAnswer target(const std::string& name, TargetKind kind, std::span<const Index> cohort) {
    return ask(name, {.task = static_cast<std::uint32_t>(Task::kTarget), .numbers = {static_cast<double>(kind)}},
               cohort, {.numbers = classes(), .report = 2}, 0.0, 1.0);
  }

  /// App. D, corrected: predictor k goes to every node j, and ratio_k = sum_j r_kj.
  void pairwise() {
    const Index m = classes();
    const auto nodes = static_cast<double>(all_.size());
    const auto net = make_net(spec(settings_.ratio.net), /*seed=*/0, settings_.device);
    const SharedWeights predictor(*net, /*batch_norms=*/true);
    state_.target_sum = VectorXd::Zero(m);
    for (const Index k : all_) {
      const double done = static_cast<double>(k) / nodes;
      const std::vector<Index> one{k};
      const CohortAnswer shared = ask("ratio", {.task = static_cast<std::uint32_t>(Task::kShare)}, one,
                                      {.numbers = 3 * m, .weights = predictor.size(), .report = 1}, done, 0.5 / nodes);
      state_.ratios[k].seconds = shared.reports[0].values[0];
      const CohortAnswer sums = ask("ratio",
                                    {.task = static_cast<std::uint32_t>(Task::kAssess),
                                     .numbers = numbers_of({static_cast<double>(k)}, vector_of(shared.numbers)),
                                     .weights = {shared.weights.begin(), shared.weights.end()}},
                                    all_, {.numbers = m, .report = 1}, done + 0.5 / nodes, 0.5 / nodes);
      state_.ratios[k].prior_error = sums.reports[k].values[0];
      VectorXd sum = vector_of(sums.numbers);
      state_.target_sum += sum / nodes;  // the mean of what the predictors take it to be
      sum.array() *= nodes / holders_.array();
      note_weights(ask("ratio",
                       {.task = static_cast<std::uint32_t>(Task::kRatio),
                        .numbers = numbers_of({static_cast<double>(RatioKind::kNumerator)}, sum)},
                       one, {.report = 3}, done + 1.0 / nodes, 0.0));
    }
    note_target_error(all_);
  }

  /// A predictor that the nodes train together, those of a round drawn as for the model, every class counting the same;
  /// then every node estimates with it.
  CohortAnswer together(std::span<const Index> goal) {
    const RatioSettings& ratio = settings_.ratio;
    const Index m = classes();
    const auto nodes = static_cast<double>(all_.size());
    const VectorXd uniform = VectorXd::Constant(m, 1.0 / static_cast<double>(m));
    ask_all(
        "predictor", Task::kRatio,
        numbers_of({static_cast<double>(RatioKind::kBalance)}, (uniform.array() * nodes / holders_.array()).matrix()),
        {.report = 3});
    std::vector<double> zetas = SelectionSettings().zetas;
    if (ratio.method != "auto") zetas = {find_method(ratio.method).zeta};
    const bool calibrated = needs_held_out(ratio.method);
    std::vector<double> scales;
    for (int i = 0; i < kTemperatures; ++i) scales.push_back(std::pow(10.0, 2.0 * i / (kTemperatures - 1) - 1.0));
    double best_nll = std::numeric_limits<double>::infinity(), best_scale = 1.0;
    std::vector<float> best;
    for (std::size_t run = 0; run < zetas.size(); ++run) {
      std::vector<float> weights =
          train_together(zetas[run], static_cast<double>(run) / static_cast<double>(zetas.size()),
                         1.0 / static_cast<double>(zetas.size()));
      if (!calibrated) {
        best = std::move(weights);
        break;
      }
      std::vector<double> numbers;
      for (const double holders : holders_) numbers.push_back(1.0 / holders);
      numbers.insert(numbers.end(), scales.begin(), scales.end());
      const CohortAnswer judged = ask(
          "predictor",
          {.task = static_cast<std::uint32_t>(Task::kTemperature), .numbers = std::move(numbers), .weights = weights},
          all_, {.numbers = 1 + kTemperatures}, static_cast<double>(run + 1) / static_cast<double>(zetas.size()), 0.0);
      for (std::size_t i = 0; i < scales.size(); ++i)
        if (const double nll = judged.numbers[1 + i] / judged.numbers[0]; nll < best_nll) {
          best_nll = nll;
          best_scale = scales[i];
          best = weights;
        }
      if (best.empty()) best = std::move(weights);  // nobody had anything to hold out
    }
    return ask("ratio",
               {.task = static_cast<std::uint32_t>(Task::kTargetTogether),
                .numbers = numbers_of({best_scale}, uniform),
                .weights = std::move(best)},
               goal, {.numbers = m, .report = 2}, 0.0, 1.0);
  }

  std::vector<float> train_together(double zeta, double done, double share) {
    const RatioSettings& ratio = settings_.ratio;
    const auto net = make_net(spec(ratio.net), Rng(settings_.seed, kPredictorStream)(), settings_.device);
    const SharedWeights shared(*net, /*batch_norms=*/true);
    ServerStep server(shared.parameters(), {.learning_rate = ratio.learning_rate, .weight_decay = ratio.weight_decay});
    std::vector<float> weights = shared.gather(net->parameters(), net->buffers());
    for (int round = 1; round <= ratio.rounds; ++round) {
      const Request request{.task = static_cast<std::uint32_t>(Task::kTrainPredictor),
                            .round = static_cast<std::uint64_t>(round),
                            .numbers = {zeta},
                            .weights = weights};
      const double step = share / ratio.rounds;
      const CohortAnswer answer = ask("predictor", request, cohort_of(round, kPredictorCohortStream),
                                      {.numbers = 2, .weights = shared.size()}, done + step * (round - 1), step);
      check_loss(answer, round);
      apply_mean(answer, shared, server, weights);
    }
    return weights;
  }

  static void check_loss(const CohortAnswer& answer, int round) {
    if (!(answer.numbers[0] > 0.0)) throw Error(ErrorKind::kPeer, "the nodes of a round weigh nothing");
    if (!std::isfinite(answer.numbers[1]))
      throw Error(ErrorKind::kInput,
                  fmt::format("round {}: the loss is not finite; use a smaller learning rate", round));
  }

  /// The server's step along the mean update; buffers become their mean. `weights` are shared parameters and buffers.
  void apply_mean(const CohortAnswer& answer, const SharedWeights& shared, ServerStep& server,
                  std::vector<float>& weights) {
    mean_.resize(shared.size());
    divide_to_floats(std::span(answer.weights).first(mean_.size()), answer.numbers[0], mean_);
    server.step(std::span(weights).first(shared.parameters()), std::span(mean_).first(shared.parameters()));
    std::copy(mean_.begin() + shared.parameters(), mean_.end(), weights.begin() + shared.parameters());
  }

  /// The nodes that train in a round, in ascending order.
  std::vector<Index> cohort_of(int round, std::uint64_t stream) const {
    if (settings_.sampled == 0 || settings_.sampled == std::ssize(all_)) return all_;
    std::vector<Index> nodes = all_;
    Rng rng(Rng(settings_.seed, stream)(), static_cast<std::uint64_t>(round));
    for (Index i = 0; i < settings_.sampled; ++i) std::swap(nodes[i], nodes[i + rng.below(std::ssize(nodes) - i)]);
    nodes.resize(static_cast<std::size_t>(settings_.sampled));
    std::sort(nodes.begin(), nodes.end());
    return nodes;
  }

  void evaluate(const SharedWeights& shared) {
    const double done = static_cast<double>(state_.round) / settings_.rounds;
    const CohortAnswer answer = ask("evaluation",
                                    {.task = static_cast<std::uint32_t>(Task::kEvaluate),
                                     .round = static_cast<std::uint64_t>(state_.round),
                                     .weights = shared.gather(state_.parameters, state_.buffers)},
                                    all_, {.report = 7}, done, 0.0);
    for (const NodeReport& report : answer.reports) {
      const std::vector<double>& values = report.values;
      state_.history.push_back({.round = state_.round,
                                .node = report.node,
                                .examples = static_cast<Index>(values[0]),
                                .accuracy = values[1] / values[0],
                                .loss = values[2] / values[0],
                                .reweighted_accuracy = values[3],
                                .reweighted_low = values[4],
                                .reweighted_high = values[5],
                                .reweighted_examples = values[6]});
    }
  }

  const FederationSettings& settings_;
  const FederationTask& task_;
  Engine& engine_;
  const FederationObserver& observer_;
  FederationState& state_;
  std::vector<Index> all_;
  std::vector<bool> tested_;  // (K) whether a node has test examples
  VectorXd holders_;          // (m) K_c, how many nodes hold class c
  VectorXd pooled_prior_;     // (m)
  std::vector<float> mean_;   // of the last updates; memory to use again
};

}  // namespace

FederationState run_federation(const FederationSettings& settings, const FederationTask& task, Engine& engine,
                               const FederationObserver& observer, FederationState start) {
  check_settings(settings, engine.nodes());
  Coordinator coordinator(settings, task, engine, observer, start);
  if (!start.ready) coordinator.prepare();
  coordinator.train();
  return start;
}

std::unique_ptr<Net> global_model(const FederationSettings& settings, const FederationTask& task,
                                  const FederationState& state) {
  auto net = make_net({.name = settings.model.name,
                       .settings = settings.model.settings,
                       .shape = task.shape,
                       .classes = static_cast<Index>(task.class_names.size()),
                       .normalisation = state.normalisation},
                      /*seed=*/0, settings.device);
  std::copy(state.parameters.begin(), state.parameters.end(), net->parameters().begin());
  std::copy(state.buffers.begin(), state.buffers.end(), net->buffers().begin());
  return net;
}

double average_accuracy(const std::vector<NodeEvaluation>& history) {
  double sum = 0.0;
  int nodes = 0;
  for (auto row = history.rbegin(); row != history.rend() && row->round == history.back().round; ++row) {
    if (std::isnan(row->accuracy)) continue;
    sum += row->accuracy;
    ++nodes;
  }
  return nodes > 0 ? sum / nodes : kUnknown;
}

}  // namespace labelshift
