#include "labelshift/federation/ratio_phase.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/calibration/pooled_calibration.hpp"
#include "labelshift/core/estimators/estimators.hpp"
#include "labelshift/core/estimators/shared_prior.hpp"
#include "labelshift/engine/float_loops.hpp"
#include "labelshift/federation/answer_checks.hpp"
#include "labelshift/federation/mixture_weights.hpp"
#include "labelshift/federation/server_step.hpp"
#include "labelshift/learning/methods.hpp"
#include "labelshift/learning/model_selection.hpp"

namespace labelshift {
namespace {

using Eigen::VectorXd;
using Place = Conversation::Place;

constexpr Index kPredictorsAtOnce = 16;  // held by the coordinator in the pairwise exchange

class RatioPhase {
 public:
  RatioPhase(const FederationSettings& settings, const FederationTask& task, const Census& census,
             std::optional<double> mixture, Conversation& conversation, FederationState& state)
      : settings_(settings),
        task_(task),
        census_(census),
        mixture_(mixture),
        conversation_(conversation),
        state_(state) {}

  void run() {
    const RatioSettings& ratio = settings_.ratio;
    begin();
    if (ratio.exchange == RatioExchange::kPairwise && ratio.estimated())
      pairwise();
    else
      summed();
    if (doubtful_ > 0) state_.warnings.push_back(doubt_of_estimates(doubtful_, std::ssize(goal_nodes()), /*when=*/""));
    check_sum();
  }

  /// With the model, after so many rounds.
  void refresh(std::vector<float> model, int round) {
    place_of_predictor_ = place_of_ratio_ = phase::kRefresh;
    round_ = static_cast<std::uint64_t>(round);
    begin();
    const std::vector<Index> goal = goal_nodes();
    // Its own posteriors are those of the mix that its weights made of the examples it was trained on, which nobody
    // knows well. Calibrated on classes that count the same they are those of an even mix, whatever it was trained on,
    // as long as the calibration has biases.
    const Method& method = find_method(settings_.ratio.method);
    const bool likelihood = find_estimator(method.estimator).family == EstimatorFamily::kLikelihood;
    const auto path = likelihood ? pooled_path() : path_of(method);
    take_together(estimate_with(calibrate_together(path, AskedNet::kModel, std::move(model), 0.0), goal), goal);
    check_sum();
  }

  Index doubtful() const { return doubtful_; }

 private:
  void begin() {
    const RatioSettings& ratio = settings_.ratio;
    if (const auto& out = conversation_.left_out(); std::binary_search(out.begin(), out.end(), ratio.goal_node - 1))
      throw Error(ErrorKind::kUsage,
                  fmt::format("the goal is the risk of node {}, which is left out; choose another goal, or let it in",
                              ratio.goal_node));
    state_.ratios.assign(static_cast<std::size_t>(conversation_.nodes()), {});
    for (std::size_t node = 0; node < state_.ratios.size(); ++node) state_.ratios[node].node = static_cast<Index>(node);
  }

  void check_sum() {
    const RatioSettings& ratio = settings_.ratio;
    if (!(state_.target_sum.sum() > 0.0) && census_.withheld == std::ssize(conversation_.all()))
      throw Error(ErrorKind::kInput,
                  "every node keeps its label mix to itself, having fewer examples of some class than it asks for, so "
                  "there is nothing to weight towards; have nodes ask for fewer, or train without ratios");
    if (!(state_.target_sum.sum() > 0.0))
      throw Error(
          ErrorKind::kInput,
          "no node whose risk is the goal has test examples, so there is nothing to weight towards; add some, or "
          "train without ratios");
    if (mixture_) return weigh_nodes();
    note_trained_mix();
    std::vector<std::string> never;
    const VectorXd goal = weighed_target();
    for (Index c = 0; c < classes(); ++c)
      if (goal[c] == 0.0) never.push_back(task_.class_names[c]);
    if (!never.empty())
      state_.warnings.push_back(fmt::format("no weight is left for {}: {} no node will meet {}", fmt::join(never, ", "),
                                            ratio.estimated() ? "by the estimates" : "in these test data",
                                            never.size() == 1 ? "it" : "them"));
  }

  Index classes() const { return std::ssize(task_.class_names); }
  double nodes() const { return static_cast<double>(conversation_.all().size()); }
  TargetSums target_shape() const { return {VectorXd::Zero(classes())}; }

  template <typename Task>
  void note_estimates(const TaskOutcome<Task>& outcome) {
    for (const auto& [node, report] : outcome.contributed) {
      NodeRatio& row = state_.ratios[node];
      row.seconds += report.seconds;
      if (!settings_.ratio.estimated()) continue;
      row.prior_error = report.prior_error.value_or(kUnknown);
      note_mix(report, row);
    }
  }

  /// The mix of the weighted examples of all nodes, sum_k w_k(c) p_k(c): of class c that is q(c) summed over all nodes,
  /// whether they count the same (w_k p_k = K / K_c sum q at the K_c nodes that hold c) or by their examples
  /// (n_k p_k sum q / p, whose sum is n sum q). In the pairwise exchange a predictor that lacks c makes its part of the
  /// sum 0 there, and nobody makes up for it in `target_sum`. Weights that nodes cut are known to them alone.
  void note_trained_mix() {
    state_.trained_mix.resize(0);
    if (settings_.ratio.max_ratio) return;
    const bool pairwise = settings_.ratio.exchange == RatioExchange::kPairwise && settings_.ratio.estimated();
    const VectorXd mix = pairwise ? made_up(state_.target_sum) : weighed_target();
    state_.trained_mix = mix / mix.sum();
  }

  /// What a node says of its own mix, in a simulation.
  static void note_mix(const EstimateReport& report, NodeRatio& row) {
    if (!report.details) return;
    row.estimate = report.details->estimate;
    row.low = report.details->low;
    row.high = report.details->high;
    row.truth = report.details->truth;
    row.p_value = report.details->p_value.value_or(kUnknown);
  }

  /// Where test labels tell.
  void note_target_error(std::span<const Index> goal) {
    if (!settings_.ratio.estimated() || std::any_of(goal.begin(), goal.end(), [&](Index node) {
          return census_.tested[node] && std::isnan(state_.ratios[node].prior_error);
        }))
      return;
    const VectorXd truth = target(phase::kEvaluation, Target::Kind::kTruth, goal).sums.target;
    state_.target_error = (state_.target_sum - truth).lpNorm<1>() / static_cast<double>(goal.size());
  }

  /// Gives every node its weight among the nodes.
  void weigh_nodes() {
    const VectorXd goal = state_.target_sum / state_.target_sum.sum();
    MixtureSearch search(goal, census_.examples, *mixture_);
    while (!search.done()) {
      const Request request = request_for<Mixture>(search.question());
      const auto outcome = conversation_.ask_everybody<Mixture>({phase::kRatio, 1.0, 0.0},
                                                                {.request = request,
                                                                 .nodes = conversation_.all(),
                                                                 .sums = Mixture::MixtureSums::zero(classes()),
                                                                 .check = check_mixture});
      search.take(outcome.sums);
    }
    constexpr double kFar = 0.1;
    if (const double left = (search.mix() - goal).lpNorm<1>(); left > kFar)
      state_.warnings.push_back(
          fmt::format("with the weights of nodes that were found the mix of their data still is {:.2f} (L1) from the "
                      "target: no weights bring it nearer, or the penalty on uneven ones is too large",
                      left));
  }

  /// Gives every node what its weights are made of.
  void give_ratios(Ratio::Kind kind, const Place& place, const std::function<VectorXd(Index node)>& values) {
    if (mixture_ && kind != Ratio::Kind::kBalance) return;
    const Request request = request_for<Ratio>({kind}, round_);
    const auto outcome =
        conversation_.ask_everybody<Ratio>(place, {.request = request,
                                                   .nodes = conversation_.all(),
                                                   .own = [&](Index node) { return Ratio::Own{values(node)}; },
                                                   .check = check_ratio});
    if (kind == Ratio::Kind::kBalance) return;
    const auto& sums = outcome.sums;
    state_.effective_share = sums.examples > 0.0 ? sums.effective_examples / sums.examples : kUnknown;
    state_.largest_weight = 0.0;
    for (const auto& [node, report] : outcome.contributed) {
      NodeRatio& row = state_.ratios[node];
      row.largest = report.details ? report.details->largest : kUnknown;
      row.examples = report.details ? static_cast<double>(report.details->examples) : kUnknown;
      row.effective_examples = report.details ? report.details->effective_examples : kUnknown;
      state_.largest_weight = report.details ? std::max(state_.largest_weight, row.largest) : kUnknown;
    }
  }

  TaskOutcome<Target> target(const char* phase, Target::Kind kind, std::span<const Index> of) {
    const Request request = request_for<Target>({kind});
    return conversation_.ask_everybody<Target>(
        {phase}, {.request = request, .nodes = of, .sums = target_shape(), .check = check_target});
  }

  /// A class some nodes lack would carry K_c / K of its mass.
  VectorXd made_up(const VectorXd& sum) const { return sum.array() * nodes() / census_.holders.array(); }

  /// Of all nodes, or of the one whose risk is the goal.
  std::vector<Index> goal_nodes() const {
    if (settings_.ratio.goal_node > 0) return {settings_.ratio.goal_node - 1};
    return {conversation_.all().begin(), conversation_.all().end()};
  }

  /// What weights aim at. A class that they leave out is not trained on, and a model that is not trained on a class
  /// does not find it in test data either. So where the model estimates, no class is left out.
  VectorXd weighed_target() const {
    const VectorXd& sum = state_.target_sum;
    if (!settings_.ratio.refreshed()) return sum;
    const double floor = settings_.ratio.floor;
    return (1.0 - floor) * sum + floor * sum.sum() * census_.pooled_prior;
  }

  /// Sum_j q_j; then every node divides by its own prior.
  void summed() {
    const RatioSettings& ratio = settings_.ratio;
    const std::vector<Index> goal = goal_nodes();
    if (ratio.goal_shift && ratio.estimated() && ratio.predictor == PredictorScope::kFederated) {
      take_together(together(goal), goal);
    } else {
      const Target::Kind kind = !ratio.goal_shift       ? Target::Kind::kSource
                                : !ratio.estimated()    ? Target::Kind::kTruth
                                : state_.estimates_kept ? Target::Kind::kKeptEstimate
                                                        : Target::Kind::kEstimate;
      take_target(target(place_of_ratio_, kind, goal), goal);
    }
  }

  void take_together(const TaskOutcome<TargetTogether>& outcome, std::span<const Index> goal) {
    if (settings_.ratio.shared_prior)
      take_target(share_prior(outcome, goal), goal);
    else
      take_target(outcome, goal);
  }

  template <typename Task>
  void take_target(const TaskOutcome<Task>& outcome, std::span<const Index> goal) {
    note_estimates(outcome);
    state_.target_sum = outcome.sums.target;
    note_target_error(goal);
    if (settings_.weighting == Weighting::kPooled) {
      const VectorXd values = weighed_target().cwiseQuotient(census_.pooled_prior);
      give_ratios(Ratio::Kind::kRatio, {place_of_ratio_}, [&](Index) { return values; });
    } else {
      const VectorXd values = made_up(weighed_target());
      give_ratios(Ratio::Kind::kNumerator, {place_of_ratio_}, [&](Index) { return values; });
    }
  }

  /// App. D, corrected: predictor k goes to every node j, and ratio_k = sum_j r_kj.
  void pairwise() {
    const std::span<const Index> all = conversation_.all();
    const Request share = request_for<Share>({});
    std::vector<VectorXd> numerators(state_.ratios.size());
    state_.target_sum = VectorXd::Zero(classes());
    for (Index first = 0; first < std::ssize(all); first += kPredictorsAtOnce) {
      const auto some = all.subspan(first, std::min(kPredictorsAtOnce, std::ssize(all) - first));
      const double done = static_cast<double>(first) / nodes(), part = static_cast<double>(some.size()) / nodes();
      auto shared = conversation_.ask_everybody<Share>(
          {phase::kRatio, done, 0.5 * part},
          {.request = share,
           .nodes = some,
           .report = (1 << 16) + static_cast<std::size_t>(conversation_.facts().predictor_weights) * sizeof(float)});
      for (std::size_t i = 0; i < some.size(); ++i) {
        auto& [k, report] = shared.contributed[i];
        state_.ratios[k].seconds = report.seconds;
        const Request assess =
            request_for<Assess>({.whose = k, .predictor = report.predictor}, 0, std::move(report.weights));
        const double step = 0.5 * part / static_cast<double>(some.size());
        const auto sums = conversation_.ask_everybody<Assess>(
            {phase::kRatio, done + 0.5 * part + step * static_cast<double>(i), step},
            {.request = assess, .nodes = all, .sums = target_shape(), .check = check_target});
        for (const auto& [node, estimate] : sums.contributed)
          if (node == k) {
            state_.ratios[k].prior_error = estimate.prior_error.value_or(kUnknown);
            note_mix(estimate, state_.ratios[k]);
          }
        state_.target_sum += sums.sums.target / nodes();  // the mean of what the predictors take it to be
        numerators[static_cast<std::size_t>(k)] = made_up(sums.sums.target);
      }
    }
    give_ratios(Ratio::Kind::kNumerator, {phase::kRatio, 1.0, 0.0},
                [&](Index node) { return numerators[static_cast<std::size_t>(node)]; });
    note_target_error(all);
  }

  /// A net that all trained, and what is known of it from what nobody trained it on.
  struct Calibrated {
    AskedNet net = AskedNet::kPredictor;
    std::vector<float> weights;
    PooledFit fit;
    bool biases_wanted = false;     // where classes have the examples for it
    VectorXd examples;              // (m) held out, of each class; empty if there are none
    Eigen::MatrixXd conditional;    // (m, m) [j, c] which share of the examples of class c is taken for class j
    Eigen::MatrixXd conditional_f;  // (m, m) [j, c] the mean of f_j over the examples of class c
  };

  /// A predictor that the nodes train together, those of a round drawn as for the model, every class counting the same;
  /// then every node estimates with it.
  TaskOutcome<TargetTogether> together(std::span<const Index> goal) {
    const RatioSettings& ratio = settings_.ratio;
    const VectorXd balance = made_up(uniform());
    give_ratios(Ratio::Kind::kBalance, {place_of_predictor_}, [&](Index) { return balance; });
    const Method& method = find_method(ratio.method);
    const std::vector<double> zetas = method.zeta ? std::vector{*method.zeta} : SelectionSettings().zetas;
    Calibrated best;
    double best_nll = std::numeric_limits<double>::infinity();
    const double part = 1.0 / static_cast<double>(zetas.size());
    for (std::size_t run = 0; run < zetas.size(); ++run) {
      std::vector<float> weights = predictor_of_all(zetas[run], static_cast<double>(run) * part, part);
      if (!method.needs_held_out()) {
        best.weights = std::move(weights);
        break;
      }
      Calibrated found = calibrate_together(path_of(method), AskedNet::kPredictor, std::move(weights),
                                            static_cast<double>(run + 1) * part);
      if (const double nll = found.fit.judgement(); run == 0 || nll < best_nll) {
        best_nll = nll;
        best = std::move(found);
      }
    }
    return estimate_with(std::move(best), goal);
  }

  VectorXd uniform() const { return VectorXd::Constant(classes(), 1.0 / static_cast<double>(classes())); }

  TaskOutcome<TargetTogether> estimate_with(Calibrated best, std::span<const Index> goal) {
    const PooledFit& fit = best.fit;
    if (!fit.converged)
      state_.warnings.push_back(fmt::format(
          "the calibration of the {} on all nodes' held-out examples stopped before its optimum and is used "
          "as it stands: estimates may be further off than their intervals say; compare with method = "
          "\"mlls-confusion\", which needs none",
          best.net == AskedNet::kModel ? "model" : "predictor"));
    warn_of_classes_without_bias(best);
    const bool fitted = fit.covariance.size() > 0;
    TargetTogether::Request body{.net = best.net,
                                 .prior = uniform(),
                                 .scale = VectorXd::Ones(classes()),
                                 .bias = VectorXd::Zero(classes()),
                                 .examples = best.examples,
                                 .conditional = best.conditional.reshaped(),
                                 .conditional_f = best.conditional_f.reshaped()};
    if (fitted) {
      body.scale = fit.calibration.scale;
      body.bias = fit.calibration.bias;
      body.mixing = fit.calibration.mixing.reshaped();
      body.covariance = fit.covariance.reshaped();
    }
    const Request request = request_for<TargetTogether>(body, round_, std::move(best.weights));
    auto outcome = conversation_.ask_everybody<TargetTogether>(
        {place_of_ratio_},
        {.request = request, .nodes = goal, .sums = {target_shape(), 0.0}, .check = check_target_together});
    doubtful_ = static_cast<Index>(std::llround(outcome.sums.doubtful));
    return outcome;
  }

  /// The prior that all nodes' mixes share, and their mixes under it. Checks by predicted labels stay those of what
  /// nodes estimated alone.
  TaskOutcome<SharedTarget> share_prior(const TaskOutcome<TargetTogether>& alone, std::span<const Index> all) {
    const Index m = classes();
    const auto ask = [&](SharedMix::Kind kind, int step, const VectorXd& values) {
      const bool shares = kind == SharedMix::Kind::kShares;
      const Request request = request_for<SharedMix>({kind, static_cast<std::uint32_t>(step), values}, round_);
      auto sums =
          conversation_
              .ask_everybody<SharedMix>({place_of_ratio_}, {.request = request,
                                                            .nodes = all,
                                                            .sums = {.shares = VectorXd::Zero(shares ? m : 0),
                                                                     .products = VectorXd::Zero(shares ? m * m : 0),
                                                                     .logs = VectorXd::Zero(shares ? 0 : m)},
                                                            .check = check_shared_mix})
              .sums;
      const double each = 1.0 / std::max(sums.nodes, 1.0);
      sums.shares *= each;
      sums.products *= each;
      sums.logs *= each;
      return sums;
    };
    PooledMix pooled(m);
    while (const auto mix = pooled.next()) {
      const auto mean = ask(SharedMix::Kind::kShares, 0, *mix);
      pooled.take({mean.shares, mean.products.reshaped(m, m)});
    }
    VectorXd alpha = first_prior(pooled.mix());
    for (int step = 0; step < kPriorSteps; ++step)
      alpha = fit_dirichlet(ask(SharedMix::Kind::kLogs, step, alpha).logs, alpha);
    const Request request = request_for<SharedTarget>({alpha}, round_);
    auto outcome = conversation_.ask_everybody<SharedTarget>(
        {place_of_ratio_}, {.request = request, .nodes = all, .sums = target_shape(), .check = check_target});
    for (std::size_t i = 0; i < outcome.contributed.size(); ++i) {
      EstimateReport& report = outcome.contributed[i].report;
      const EstimateReport& before = alone.contributed[i].report;
      report.seconds += before.seconds;
      if (report.details && before.details) report.details->p_value = before.details->p_value;
    }
    return outcome;
  }

  /// Nobody holds out an example of a class that each of its nodes has one of (data/datasets/splits.hpp).
  void warn_of_classes_without_bias(const Calibrated& net) {
    if (!net.biases_wanted) return;
    std::vector<std::string> lacking;
    for (Index c = 0; c < net.examples.size(); ++c)
      if (net.examples[c] == 0.0) lacking.push_back(task_.class_names[c]);
    if (lacking.empty()) return;
    state_.warnings.push_back(fmt::format(
        "no node has a held-out example of {} {}, so the calibration of the {} is one temperature for all classes, "
        "without a bias for each, and estimates may be several times further off; give a node two training examples "
        "or more of {}",
        lacking.size() == 1 ? "class" : "the classes", fmt::join(lacking, ", "),
        net.net == AskedNet::kModel ? "model" : "predictor", lacking.size() == 1 ? "it" : "each"));
  }

  /// Calibrates a net on the held-out examples of all nodes, of which nobody sees more than sums.
  Calibrated calibrate_together(const std::vector<PooledCandidate>& path, AskedNet net, std::vector<float> weights,
                                double done) {
    const Index m = classes();
    const VectorXd square = VectorXd::Zero(m * m);
    const Place place{place_of_predictor_, done, 0.0};
    const Request ask_held_out = request_for<HeldOut>({net}, round_, weights);
    const auto held_out = conversation_.ask_everybody<HeldOut>(
        place, {.request = ask_held_out,
                .nodes = conversation_.all(),
                .sums = {.of_fold = VectorXd::Zero(m * kPooledFolds), .predicted = square, .soft = square},
                .check = check_held_out});
    Calibrated result{.net = net, .weights = std::move(weights)};
    const Eigen::MatrixXd counts = Join::kCountUnit * held_out.sums.of_fold.reshaped(m, kPooledFolds);
    if (counts.sum() > 0.0) {
      result.examples = counts.rowwise().sum();
      const VectorXd each = Join::kCountUnit * result.examples.cwiseMax(1.0).cwiseInverse();
      result.conditional = held_out.sums.predicted.reshaped(m, m) * each.asDiagonal();
      result.conditional_f = held_out.sums.soft.reshaped(m, m) * each.asDiagonal();
    }
    if (path.empty()) return result;
    PooledCalibration calibration(counts, path);
    while (const auto question = calibration.next()) {
      const Request request = request_for<Calibrate>({.examples = question->examples,
                                                      .weights = question->weights.reshaped(),
                                                      .left_out = question->left_out,
                                                      .parameters = question->parameters.reshaped(),
                                                      .curvature = question->curvature,
                                                      .noise = question->noise},
                                                     round_);
      PooledSums sums = PooledSums::zero(m, *question);
      const auto answered =
          conversation_.ask_everybody<Calibrate>(place, {.request = request,
                                                         .nodes = conversation_.all(),
                                                         .sums = {.values = sums.values,
                                                                  .held_out = sums.held_out,
                                                                  .gradients = sums.gradients.reshaped(),
                                                                  .curvature = sums.curvature,
                                                                  .noise = sums.noise},
                                                         .check = check_losses});
      sums.values = answered.sums.values;
      sums.held_out = answered.sums.held_out;
      sums.gradients.reshaped() = answered.sums.gradients;
      sums.curvature = answered.sums.curvature;
      sums.noise = answered.sums.noise;
      calibration.take(sums);
    }
    result.fit = calibration.result();
    if (!result.fit.calibration.scale.allFinite() || !result.fit.calibration.bias.allFinite() ||
        !result.fit.covariance.allFinite())
      throw Error(ErrorKind::kPeer,
                  "what the nodes together say of held-out examples leads to a calibration that is not finite; one of "
                  "them runs another version, or does not tell the truth");
    if (!has_variances(result.fit.covariance))
      throw Error(ErrorKind::kPeer,
                  "what the nodes together say of held-out examples leads to a calibration of negative variance; one "
                  "of them runs another version, or does not tell the truth");
    result.biases_wanted = path.front().kind != CalibrationKind::kTemperature;
    return result;
  }

  /// Where a node alone would fit BCTS, all together choose between that and matrix scaling; nothing: none is fitted.
  static std::vector<PooledCandidate> path_of(const Method& method) {
    if (method.chooses()) return pooled_path();
    const CalibrationKind kind = find_calibration(method.calibration).kind;
    if (kind == CalibrationKind::kBiasCorrected) return pooled_path();
    return kind == CalibrationKind::kNone ? std::vector<PooledCandidate>() : std::vector<PooledCandidate>{{kind}};
  }

  /// The weights of a predictor that all nodes train with this zeta, or have trained before.
  std::vector<float> predictor_of_all(double zeta, double done, double share) {
    const FederationHooks& hooks = conversation_.hooks();
    const bool everybody = conversation_.left_out().empty();
    PhaseCost& cost = conversation_.cost_of(place_of_predictor_);
    if (everybody && hooks.known_predictor)
      if (auto known = hooks.known_predictor(zeta)) {
        cost.rounds += known->cost.rounds;
        cost.traffic += known->cost.traffic;
        cost.seconds += known->cost.seconds;
        return std::move(known->weights);
      }
    const PhaseCost before = cost;
    TrainedTogether trained{train_together(zeta, done, share), conversation_.cost_of(place_of_predictor_)};
    trained.cost.rounds -= before.rounds;
    trained.cost.traffic.up -= before.traffic.up;
    trained.cost.traffic.down -= before.traffic.down;
    trained.cost.seconds -= before.seconds;
    if (everybody && hooks.keep_predictor) hooks.keep_predictor(zeta, trained);
    return std::move(trained.weights);
  }

  std::vector<float> train_together(double zeta, double done, double share) {
    const RatioSettings& ratio = settings_.ratio;
    const auto net = make_net(net_spec(ratio.net, task_, state_.normalisation),
                              stream_seed(settings_.seed, Stream::kFederatedPredictor), settings_.device);
    const SharedWeights shared(*net, /*batch_norms=*/true);
    const auto parameters = static_cast<std::size_t>(shared.parameters());
    ServerStep server(parameters, {.learning_rate = ratio.learning_rate, .weight_decay = ratio.weight_decay});
    Request request = request_for<TrainPredictor>({zeta}, 0, shared.gather(net->parameters(), net->buffers()));
    std::vector<float>& weights = request.weights;
    std::vector<float> mean(weights.size());
    const double step = share / ratio.rounds;
    for (int round = 1; round <= ratio.rounds; ++round) {
      request.round = static_cast<std::uint64_t>(round);
      const std::vector<Index> cohort = sample_nodes(settings_, Stream::kPredictorCohort, round, conversation_.all());
      const auto outcome = conversation_.ask_everybody<TrainPredictor>(
          {phase::kPredictor, done + step * (round - 1), step},
          {.request = request, .nodes = cohort, .sums = {.parts = std::vector<double>(weights.size())}});
      divide_to_floats(outcome.sums.parts, outcome.sums.weight, mean);
      server.step(std::span(weights).first(parameters), std::span(mean).first(parameters));
      std::copy(mean.begin() + shared.parameters(), mean.end(), weights.begin() + shared.parameters());
    }
    return std::move(request.weights);
  }

  const FederationSettings& settings_;
  const FederationTask& task_;
  const Census& census_;
  const std::optional<double> mixture_;
  Conversation& conversation_;
  FederationState& state_;
  const char* place_of_predictor_ = phase::kPredictor;
  const char* place_of_ratio_ = phase::kRatio;
  std::uint64_t round_ = 0;  // under which nodes keep what comes of it
  Index doubtful_ = 0;
};

}  // namespace

NetSpec net_spec(const NetChoice& choice, const FederationTask& task, const Normalisation& normalisation) {
  return {.name = choice.name,
          .settings = choice.settings,
          .shape = task.shape,
          .classes = std::ssize(task.class_names),
          .normalisation = normalisation};
}

std::vector<Index> sample_nodes(const FederationSettings& settings, Stream stream, int round,
                                std::span<const Index> all) {
  std::vector<Index> nodes(all.begin(), all.end());
  if (settings.sampled == 0 || settings.sampled >= std::ssize(all)) return nodes;
  Rng rng(stream_seed(settings.seed, stream), static_cast<std::uint64_t>(round));
  for (Index i = 0; i < settings.sampled; ++i) std::swap(nodes[i], nodes[i + rng.below(std::ssize(nodes) - i)]);
  nodes.resize(static_cast<std::size_t>(settings.sampled));
  std::sort(nodes.begin(), nodes.end());
  return nodes;
}

void run_ratio_phase(const FederationSettings& settings, const FederationTask& task, const Census& census,
                     std::optional<double> mixture, Conversation& conversation, FederationState& state) {
  RatioPhase phase(settings, task, census, mixture, conversation, state);
  phase.run();
  if (!settings.ratio.refreshed()) return;
  if (state.weighings.empty()) state.weighings.emplace_back();
  Weighing& first = state.weighings.front();  // also where it is done again, before any refresh
  first.target_error = state.target_error;
  first.doubtful = phase.doubtful();
}

void refresh_ratios(const FederationSettings& settings, const FederationTask& task, const Census& census,
                    Conversation& conversation, std::vector<float> model, int round, FederationState& state) {
  FederationState found;
  RatioPhase phase(settings, task, census, /*mixture=*/{}, conversation, found);
  phase.refresh(std::move(model), round);
  state.target_sum = std::move(found.target_sum);
  state.trained_mix = std::move(found.trained_mix);
  state.target_error = found.target_error;
  state.ratios = std::move(found.ratios);
  state.largest_weight = found.largest_weight;
  state.effective_share = found.effective_share;
  for (std::string& warning : found.warnings)
    if (std::find(state.warnings.begin(), state.warnings.end(), warning) == state.warnings.end())
      state.warnings.push_back(std::move(warning));
  std::erase_if(state.weighings, [&](const Weighing& one) { return one.round == round; });  // that was skipped
  state.weighings.push_back({.round = round, .target_error = found.target_error, .doubtful = phase.doubtful()});
}

std::string doubt_of_estimates(Index doubtful, Index nodes, const std::string& when) {
  return fmt::format(
      "{}at {} of {} nodes the predicted labels do not bear out the estimated mix (at a level of 1 % for all nodes "
      "together): the predictor is not calibrated for their test data, or more than the mix has changed there; compare "
      "with method = \"mlls-confusion\"",
      when, doubtful, nodes);
}

}  // namespace labelshift
