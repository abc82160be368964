#include "labelshift/federation/federation.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/inference/wilson.hpp"
#include "labelshift/federation/algorithms.hpp"
#include "labelshift/federation/answer_checks.hpp"
#include "labelshift/federation/model_schema.hpp"
#include "labelshift/federation/ratio_phase.hpp"
#include "labelshift/federation/step_size.hpp"

namespace labelshift {
namespace {

constexpr Index kNodesNamed = 10;  // in warnings of one kind
constexpr int kMostRepeats = 100;  // of a round that needs everybody
// What there is to say of the label mix of a node that is left out.
constexpr std::string_view kInGoal = "; its label mix stays in the goal";
constexpr std::string_view kNotInGoal = "; its label mix is not in the goal";

/// One coordinator.
class Coordinator {
 public:
  Coordinator(const FederationSettings& settings, const FederationTask& task, Engine& engine,
              const FederationHooks& hooks, FederationState& state)
      : settings_(settings),
        task_(task),
        hooks_(hooks),
        state_(state),
        conversation_(engine, answer_facts(settings, task, engine.nodes()), hooks, state) {}

  void run() {
    const bool goes_on = state_.ready;
    with_everybody(
        [&] {  // who was left out of phases 1 and 2 comes in between two rounds
          return state_.ready ? all_of(left_out_now(), state_.left_out) : left_out_now();
        },
        [&] {
          hello(all());
          if (!state_.ready) prepare();
        });
    if (goes_on)
      for (const Index node : difference(conversation_.left_out(), state_.left_out)) warn_of_leaving(node);
    train();
  }

 private:
  Index classes() const { return std::ssize(task_.class_names); }
  std::span<const Index> all() const { return conversation_.all(); }
  std::string who(Index node) const {
    return task_.node_names.empty() ? fmt::format("node {}", node + 1)
                                    : task_.node_names[static_cast<std::size_t>(node)];
  }
  NetSpec model_spec() const { return net_spec(settings_.model, task_, state_.normalisation); }

  std::vector<Index> left_out_now() const { return hooks_.left_out ? hooks_.left_out() : std::vector<Index>(); }

  /// Does what needs every node that is not left out: again where it fails and the operator leaves out others by then.
  void with_everybody(const std::function<std::vector<Index>()>& left_out, const std::function<void()>& work) {
    for (;;) {
      conversation_.leave_out(left_out());
      if (all().empty()) throw Error(ErrorKind::kUsage, "every node is left out; let some in");
      try {
        return work();
      } catch (const Error&) {
        if (left_out() == conversation_.left_out()) throw;
      }
    }
  }

  void hello(std::span<const Index> nodes) {
    const Request request = request_for<Hello>({.run = task_.run,
                                                .settings = state_.settings,
                                                .class_names = task_.class_names,
                                                .channels = task_.shape.channels,
                                                .height = task_.shape.height,
                                                .width = task_.shape.width,
                                                .nodes = conversation_.nodes()});
    conversation_.ask_everybody<Hello>({phase::kJoin}, {.request = request, .nodes = nodes});
  }

  TaskOutcome<Agree> agree(const std::string& schema, std::span<const Index> nodes) {
    const Request request =
        request_for<Agree>({.mean = state_.normalisation.mean, .scale = state_.normalisation.scale, .schema = schema});
    return conversation_.ask_everybody<Agree>({phase::kJoin}, {.request = request, .nodes = nodes});
  }

  void prepare() {
    state_.warnings.clear();  // of what failed before
    const TaskOutcome<Join> joined = join();
    check_theorem_step(settings_, conversation_.nodes(), joined.sums.counts.sum() * Join::kCountUnit);
    state_.normalisation = task_.start ? task_.start->net->spec().normalisation : normalisation_of_all(joined.sums);
    const auto net = make_net(model_spec(), stream_seed(settings_.seed, Stream::kModel), settings_.device);
    Net& first = task_.start ? *task_.start->net : *net;
    if (!have_same_tensors(first, *net))
      throw Error(ErrorKind::kInput,
                  "the model to start from is of another net than the one that is trained; give [model] its net and "
                  "net-settings, or start from another");
    state_.parameters.assign(first.parameters().begin(), first.parameters().end());
    state_.buffers.assign(first.buffers().begin(), first.buffers().end());
    const auto algorithm = make_algorithm({settings_, *net, conversation_.nodes()});
    warn_of_nodes(joined);
    for (const Index node : conversation_.left_out())
      warn(fmt::format("{} was left out by the operator in phase 1{}", who(node), kNotInGoal));
    for (std::string& warning : algorithm->warnings()) warn(std::move(warning));
    if (settings_.patience.quorum > 0 && algorithm->when_missing() == MissingNodes::kRepeat)
      warn(
          fmt::format("{} needs every node in every round, so a round waits for those that are away, whatever the "
                      "quorum",
                      settings_.algorithm));
    if (settings_.ratio.refresh >= settings_.rounds)
      warn(
          fmt::format("weights are never refreshed, since training has {} rounds and ratio.refresh is {}; the examples "
                      "that nodes hold out for it are not trained on all the same",
                      settings_.rounds, settings_.ratio.refresh));
    const TaskOutcome<Agree> agreed = agree(model_schema(*net, *algorithm), all());
    weigh(*algorithm, joined);
    if (const AnswerFacts& facts = conversation_.facts(); facts.codec)
      state_.compression_variance = facts.codec->variance(facts.parameters);
    if (settings_.step.rule == StepRule::kTheorem) state_.step = step_of_theorem(joined, agreed);
    state_.left_out = conversation_.left_out();
    state_.ready = true;
    tell_checkpoint([this]() -> const FederationState& { return state_; });
  }

  TheoremStep step_of_theorem(const TaskOutcome<Join>& joined, const TaskOutcome<Agree>& agreed) const {
    StepFacts facts{.largest_weight = settings_.ratio.weighted() ? state_.largest_weight : 1.0,
                    .compression_variance = conversation_.facts().codec ? state_.compression_variance : 0.0,
                    .nodes = static_cast<double>(sample_nodes(settings_, Stream::kCohort, 1, all()).size()),
                    .largest_square = 0.0,
                    .whole_batches = takes_whole_batches(settings_, joined.sums.counts.sum() * Join::kCountUnit)};
    for (const auto& [node, report] : agreed.contributed)
      facts.largest_square = report.largest_square && facts.largest_square
                                 ? std::optional(std::max(*facts.largest_square, *report.largest_square))
                                 : std::nullopt;
    return theorem_step(settings_, facts);
  }

  /// The settings with the step that a theorem gives.
  FederationSettings settings_with_step() const {
    FederationSettings settings = settings_;
    if (state_.step)
      (settings.local.sends_gradient() ? settings.server.learning_rate : settings.local.learning_rate) =
          state_.step->rate;
    return settings;
  }

  /// What nodes are told of their steps in a round.
  Train::Request steps_of(int round) const {
    Train::Request steps;
    if (const auto draw_steps = algorithm_of(settings_).draw_steps)
      steps.steps = draw_steps(settings_, static_cast<std::uint64_t>(round));
    if (state_.step && !settings_.local.sends_gradient()) steps.rate = state_.step->rate;
    return steps;
  }

  /// Phases 1 and 2, where there are any.
  void weigh(const FederatedAlgorithm& algorithm, const TaskOutcome<Join>& joined) {
    if (settings_.ratio.weighted())
      run_ratio_phase(settings_, task_, census_of(joined), algorithm.mixture_penalty(), conversation_, state_);
    else if (settings_.weighting == Weighting::kPooled)
      state_.trained_mix = joined.sums.counts / joined.sums.counts.sum();
  }

  /// Whether weights are to be made anew before the next round. One that was skipped is not tried again.
  bool refresh_is_due() const {
    const int every = settings_.ratio.refresh;
    return every > 0 && state_.round > 0 && state_.round % every == 0 &&
           (state_.weighings.empty() || state_.weighings.back().round != state_.round);
  }

  /// Phases 1 and 2 again, with the model.
  void refresh(const FederatedAlgorithm& algorithm) {
    const std::span<const float> model = algorithm.weights();
    refresh_ratios(settings_, task_, census_of(join(phase::kRefresh)), conversation_, {model.begin(), model.end()},
                   state_.round, state_);
    state_.left_out = conversation_.left_out();
  }

  /// Needs everybody, as phases 1 and 2 do. Where rounds go on without some, they go on with the weights they have; and
  /// so they do where the data do not allow an estimate at this time.
  void refresh_if_due(const FederatedAlgorithm& algorithm) {
    if (!refresh_is_due()) return;
    const std::vector<Index> left_out = conversation_.left_out();
    const bool quorum = settings_.patience.quorum > 0;
    const Index goal = settings_.ratio.goal_node - 1;
    if (const auto out = all_of(left_out_now(), left_out); std::binary_search(out.begin(), out.end(), goal)) {
      state_.weighings.push_back(
          {.round = state_.round, .skipped = who(goal) + ", whose risk is the goal, is left out"});
      return;
    }
    if (quorum) conversation_.wait_for_everybody(settings_.patience.deadline);
    try {
      with_everybody([&] { return all_of(left_out_now(), left_out); }, [&] { refresh(algorithm); });
    } catch (const Error& error) {
      const bool of_data = error.kind() == ErrorKind::kInput;
      if (!(quorum || of_data) || error.kind() == ErrorKind::kUsage) throw;
      state_.weighings.push_back({.round = state_.round, .skipped = error.what()});
    }
    conversation_.wait_for_everybody({});
    conversation_.leave_out(left_out);  // what has changed is for the next round to follow
  }

  /// Between two rounds, follows what the operator says of who takes part.
  void follow_operator(const FederatedAlgorithm& algorithm, const std::string& schema) {
    const std::vector<Index> before = conversation_.left_out();
    if (left_out_now() == before) return;
    bool weighted_anew = false;
    with_everybody([&] { return left_out_now(); },
                   [&] {
                     const std::vector<Index> come = difference(before, conversation_.left_out());
                     if (!come.empty()) {
                       hello(come);
                       agree(schema, come);
                     }
                     // Also where this has failed before: some nodes may have new weights by now, and others not.
                     weighted_anew = weighted_anew || !difference(state_.left_out, conversation_.left_out()).empty();
                     if (!weighted_anew) return;
                     const TaskOutcome<Join> joined = join();
                     warn_of_nodes(joined);
                     state_.estimates_kept = true;
                     if (weighed_round(state_) > 0)
                       refresh(algorithm);  // what the model says is newer than phases 1 and 2
                     else
                       weigh(algorithm, joined);
                     state_.left_out = conversation_.left_out();
                   });
    if (weighted_anew) mend_warnings();
    for (const Index node : difference(conversation_.left_out(), before))
      warn_of_leaving(node, weighted_anew ? kNotInGoal : kInGoal);
    for (const Index node : difference(before, conversation_.left_out()))
      warn(fmt::format("{} is let in by the operator from round {} on{}", who(node), state_.round + 1,
                       weighted_anew && settings_.ratio.weighted() ? ", and all weights have changed with it" : ""));
  }

  /// Of nodes that were left out before the weights were made anew.
  void mend_warnings() {
    const std::vector<Index>& out = conversation_.left_out();
    for (std::string& warning : state_.warnings)
      for (const std::string_view where : {kInGoal, kNotInGoal}) {
        if (!warning.ends_with(where)) continue;
        const bool still_out =
            std::any_of(out.begin(), out.end(), [&](Index node) { return warning.starts_with(who(node) + ' '); });
        warning.replace(warning.size() - where.size(), where.size(), still_out ? kNotInGoal : "");
        break;
      }
  }

  void warn_of_leaving(Index node, std::string_view more = kInGoal) {
    warn(fmt::format("{} is left out by the operator from round {} on{}", who(node), state_.round + 1, more));
  }

  static std::vector<Index> all_of(const std::vector<Index>& these, const std::vector<Index>& those) {
    std::vector<Index> result;
    std::set_union(these.begin(), these.end(), those.begin(), those.end(), std::back_inserter(result));
    return result;
  }
  static std::vector<Index> difference(const std::vector<Index>& these, const std::vector<Index>& those) {
    std::vector<Index> result;
    std::set_difference(these.begin(), these.end(), those.begin(), those.end(), std::back_inserter(result));
    return result;
  }

  void warn(std::string what) {
    if (std::find(state_.warnings.begin(), state_.warnings.end(), what) == state_.warnings.end())
      state_.warnings.push_back(std::move(what));
  }

  void tell_checkpoint(std::function<const FederationState&()> state) {
    if (hooks_.checkpoint && hooks_.checkpoint({state_.round, std::move(state)})) conversation_.make_durable();
  }

  /// The columns of a table, or the channels of an image.
  Index parts() const {
    const bool table = task_.shape.channels == 1 && task_.shape.height == 1;
    return table ? task_.shape.width : task_.shape.channels;
  }

  TaskOutcome<Join> join(const char* phase = phase::kJoin) {
    const Index m = classes();
    const Eigen::VectorXd a_class = Eigen::VectorXd::Zero(m);
    const Request request = request_for<Join>({});
    auto outcome = conversation_.ask_everybody<Join>(
        {phase}, {.request = request,
                  .nodes = all(),
                  .sums = {.holders = a_class,
                           .tested = a_class,
                           .counts = a_class,
                           .value_sums = Eigen::VectorXd::Zero(parts() * kValueDigits.digits),
                           .value_squares = Eigen::VectorXd::Zero(parts() * kSquareDigits.digits)},
                  .check = check_join});
    const auto& sums = outcome.sums;
    if (!(sums.counts.sum() > 0.0))
      throw Error(ErrorKind::kInput, "no node has a training example; give the nodes some");
    for (Index c = 0; c < m; ++c) {
      if (sums.holders[c] > 0.0) continue;
      if (sums.tested[c] > 0.0 || settings_.ratio.weighted())
        throw Error(
            ErrorKind::kInput,
            fmt::format("class {} has no training examples on any node; no weight can make up for it. Add some, "
                        "or leave the class out",
                        task_.class_names[c]));
    }
    return outcome;
  }

  Normalisation normalisation_of_all(const Join::JoinSums& sums) const {
    const double examples = sums.counts.sum() * Join::kCountUnit;
    return normalisation_of({.count = examples * static_cast<double>(task_.shape.size() / parts()),
                             .sum = from_digits(sums.value_sums, kValueDigits),
                             .squares = from_digits(sums.value_squares, kSquareDigits)});
  }

  Census census_of(const TaskOutcome<Join>& joined) const {
    Census census{.tested = std::vector<bool>(static_cast<std::size_t>(conversation_.nodes())),
                  .holders = joined.sums.holders,
                  .pooled_prior = joined.sums.counts / joined.sums.counts.sum(),
                  .examples = joined.sums.counts.sum() * Join::kCountUnit};
    for (const auto& [node, report] : joined.contributed) census.tested[static_cast<std::size_t>(node)] = report.tested;
    census.withheld = std::count_if(joined.contributed.begin(), joined.contributed.end(),
                                    [](const auto& one) { return one.report.withholds; });
    return census;
  }

  void warn_of_nodes(const TaskOutcome<Join>& joined) {
    Index incomplete = 0, untested = 0, lone = 0;
    const bool local = settings_.ratio.estimated() && settings_.ratio.predictor == PredictorScope::kLocal;
    bool details = true;  // of every node
    for (const auto& [node, report] : joined.contributed) {
      if (report.withholds)
        warn(fmt::format(
            "{} keeps its label mix to itself, having few examples of some class: it is left out of phase 1 and "
            "counts in training alone",
            who(node)));
      else if (!report.tested && ++untested <= kNodesNamed)
        warn(fmt::format("{} has no test examples: it counts in training alone", who(node)));
      details = details && report.details;
      if (!report.details) continue;
      if (report.details->test_examples == 1 && settings_.ratio.estimated() && ++lone <= kNodesNamed)
        warn(fmt::format("{} has 1 test example, too few to estimate its class mix from; give it more", who(node)));
      if (report.details->missing.empty() || !settings_.ratio.weighted() || ++incomplete > kNodesNamed) continue;
      std::vector<std::string> missing;
      for (const Index c : report.details->missing) missing.push_back(task_.class_names[c]);
      warn(
          fmt::format("{} has no training example of {}: other nodes carry that weight{}", who(node),
                      missing.size() == 1 ? "class " + missing[0] : fmt::format("classes {}", fmt::join(missing, ", ")),
                      local ? ", and its own predictor cannot see it in its test data; a federated one can" : ""));
    }
    const auto nodes = static_cast<double>(joined.contributed.size());
    for (Index c = 0; c < classes() && !details && settings_.ratio.weighted(); ++c)
      if (joined.sums.holders[c] < nodes)
        warn(fmt::format(
            "{:.0f} of {:.0f} nodes have no training example of class {}: other nodes carry that weight{}",
            nodes - joined.sums.holders[c], nodes, task_.class_names[c],
            local ? ", and their own predictors cannot see it in their test data; a federated one can" : ""));
    if (incomplete > kNodesNamed)
      warn(fmt::format("{} more nodes lack training examples of a class", incomplete - kNodesNamed));
    if (lone > kNodesNamed) warn(fmt::format("{} more nodes have 1 test example", lone - kNodesNamed));
    if (untested > kNodesNamed) warn(fmt::format("{} more nodes have no test examples", untested - kNodesNamed));
  }

  void train() {
    const auto net = make_net(model_spec(), /*seed=*/0, settings_.device);
    if (state_.parameters.size() != net->parameters().size() || state_.buffers.size() != net->buffers().size())
      throw Error(ErrorKind::kInput,
                  fmt::format("the saved model has {} weights, expected {}: the data or the model have changed since; "
                              "start anew in another folder",
                              state_.parameters.size(), net->parameters().size()));
    const FederationSettings settings = settings_with_step();
    const auto algorithm = make_algorithm({settings, *net, conversation_.nodes()});
    const std::string schema = model_schema(*net, *algorithm);
    const SharedWeights shared(*net, algorithm->shares_batch_norms());
    algorithm->start(shared.gather(state_.parameters, state_.buffers));
    if (state_.round > 0)
      algorithm->load(state_.algorithm);
    else
      state_.company = 0;  // so that the algorithm is told how many take part
    const auto whole_state = [&]() -> const FederationState& {
      shared.scatter(algorithm->weights(), state_.parameters, state_.buffers);
      state_.algorithm = algorithm->save();
      return state_;
    };
    const int first = state_.round;
    Request request = request_for<Train>({});
    TrainingSums<double> sums{.parts = std::vector<double>(static_cast<std::size_t>(algorithm->answer_parts().size()))};
    while (state_.round < settings_.rounds) {
      const int round = state_.round + 1;
      request.round = static_cast<std::uint64_t>(round);
      const Train::Request steps = steps_of(round);
      algorithm->make_request(request.weights);
      const auto done = static_cast<double>(round - 1 - first) / (settings_.rounds - first);
      auto outcome = run_round(*algorithm, schema, request, steps, std::move(sums),
                               {phase::kTraining, done, 1.0 / (settings_.rounds - first)});
      algorithm->server_update(outcome.sums);
      check_weights(algorithm->weights(), round);
      conversation_.count(outcome.contributed, round);
      state_.drawn_steps += steps.steps;
      for (const NodeFailure& failure : outcome.failed) note_absence(failure.node, failure.sentence);
      for (const Index node : conversation_.left_out()) note_absence(node, "the operator left it out");
      sums = std::move(outcome.sums);  // memory of the right size for the next
      state_.round = round;
      if (round % settings_.evaluate_every == 0 || round == settings_.rounds) evaluate(*algorithm);
      tell_checkpoint(whole_state);
    }
    whole_state();
    if (settings_.regulariser.regularised())
      state_.zeros = static_cast<double>(std::count(state_.parameters.begin(), state_.parameters.end(), 0.0F));
    warn_of_absences();
    warn_of_weighings();
  }

  static void check_weights(std::span<const float> weights, int round) {
    const Eigen::Map<const Eigen::ArrayXf> w(weights.data(), std::ssize(weights));
    if ((w * 0.0F).sum() != 0.0F)  // which only numbers that are not finite make
      throw Error(
          ErrorKind::kInput,
          fmt::format("after round {} the model has weights that are not finite; use smaller learning rates, or "
                      "less compression",
                      round));
  }

  void note_absence(Index node, const std::string& why) {
    auto found = std::find_if(state_.absences.begin(), state_.absences.end(),
                              [&](const NodeAbsence& one) { return one.node == node; });
    if (found == state_.absences.end()) found = state_.absences.insert(found, {.node = node});
    ++found->rounds;
    found->why = why;
  }

  void warn_of_absences() {
    Index named = 0;
    for (const NodeAbsence& one : state_.absences)
      if (++named <= kNodesNamed)
        state_.warnings.push_back(fmt::format("{} took no part in {} of {} rounds, last since {}", who(one.node),
                                              one.rounds, settings_.rounds, one.why));
    if (named > kNodesNamed)
      state_.warnings.push_back(fmt::format("{} more nodes took no part in some rounds", named - kNodesNamed));
  }

  void warn_of_weighings() {
    std::vector<int> skipped;
    std::string why;
    const Weighing* last = nullptr;
    for (const Weighing& one : state_.weighings) {
      if (one.skipped.empty()) {
        last = &one;
        continue;
      }
      skipped.push_back(one.round);
      why = one.skipped;
    }
    if (!skipped.empty()) {
      const std::size_t more = skipped.size() - std::min<std::size_t>(skipped.size(), kNodesNamed);
      skipped.resize(skipped.size() - more);
      warn(fmt::format("weights were not refreshed after round {}{}, and those from before stayed: {}",
                       fmt::join(skipped, ", "), more > 0 ? fmt::format(" and {} more", more) : "", why));
    }
    if (last && last->round > 0 && last->doubtful > 0) {
      const Index goal = settings_.ratio.goal_node > 0 ? 1 : conversation_.nodes() - std::ssize(state_.left_out);
      warn(doubt_of_estimates(last->doubtful, goal,
                              fmt::format("where weights were refreshed after round {}, ", last->round)));
    }
  }

  /// What nodes keep of an algorithm may add up over those that take part. Where others do now, all forget it.
  void begin_anew_in_new_company(FederatedAlgorithm& algorithm, Request& request) {
    if (!algorithm.adds_up()) return;
    const Index now = std::ssize(all());
    const auto& out = conversation_.left_out();
    if (state_.company == now &&
        std::all_of(out.begin(), out.end(), [&](Index node) { return state_.counted[node] == 0; }))
      return;
    if (state_.round > 0)
      warn(fmt::format("{} begins anew at round {}, since what nodes keep of it adds up over those that take part",
                       settings_.algorithm, state_.round + 1));
    std::fill(state_.counted.begin(), state_.counted.end(), 0);
    state_.company = now;
    algorithm.begin_anew(now);
    algorithm.make_request(request.weights);
  }

  /// Asks the nodes of a round, and again where the algorithm needs everybody and somebody is missing.
  TaskOutcome<Train> run_round(FederatedAlgorithm& algorithm, const std::string& schema, Request& request,
                               Train::Request steps, TrainingSums<double> sums, const Conversation::Place& place) {
    const auto shape = sums.parts.size();
    for (int repeats = 0;; ++repeats) {
      refresh_if_due(algorithm);
      follow_operator(algorithm, schema);
      begin_anew_in_new_company(algorithm, request);
      steps.weighed = weighed_round(state_);
      request.body = to_bytes(steps);
      const std::vector<Index> cohort =
          sample_nodes(settings_, Stream::kCohort, static_cast<int>(request.round), all());
      Patience patience = patience_with(std::ssize(cohort));
      if (patience.quorum > 0 && algorithm.when_missing() == MissingNodes::kRepeat)
        patience.quorum = std::ssize(cohort);
      try {
        sums.parts.resize(shape);
        auto outcome =
            conversation_.ask<Train>(place, {.request = request, .nodes = cohort, .sums = std::move(sums)}, patience);
        const Index quorum = quorum_of(std::ssize(cohort));
        const bool enough = std::ssize(outcome.contributed) >= quorum && !outcome.contributed.empty();
        if (!enough && settings_.patience.quorum == 0) outcome.failed.front().raise();
        if (enough && (outcome.failed.empty() || algorithm.when_missing() == MissingNodes::kRenormalise))
          return outcome;
        if (repeats == kMostRepeats) outcome.failed.front().raise();
        sums = std::move(outcome.sums);
      } catch (const Error&) {
        if (left_out_now() == conversation_.left_out()) throw;
      }
    }
  }

  /// How many of so many nodes have to answer.
  Index quorum_of(Index nodes) const {
    if (settings_.patience.quorum == 0) return nodes;
    return settings_.majority ? nodes / 2 + 1 : std::min(settings_.patience.quorum, nodes);
  }
  Patience patience_with(Index nodes) const {
    Patience patience = settings_.patience;
    if (patience.quorum > 0) patience.quorum = quorum_of(nodes);
    return patience;
  }

  void evaluate(const FederatedAlgorithm& algorithm) {
    const std::span<const float> weights = algorithm.weights();
    const Evaluate::Request body{weighed_round(state_),
                                 settings_.ratio.estimated() ? state_.trained_mix : Eigen::VectorXd()};
    const Request request = request_for<Evaluate>(body, static_cast<std::uint64_t>(state_.round),
                                                  std::vector<float>(weights.begin(), weights.end()));
    // Where training goes on without a node, so does this; nothing is known of that node then.
    const std::vector<Index> left_out = conversation_.left_out();
    TaskOutcome<Evaluate> outcome;
    with_everybody([&] { return all_of(left_out_now(), conversation_.left_out()); },
                   [&] {
                     outcome = conversation_.ask<Evaluate>(
                         {phase::kEvaluation, static_cast<double>(state_.round) / settings_.rounds, 0.0},
                         {.request = request, .nodes = all()}, patience_with(std::ssize(all())));
                     if (!outcome.failed.empty() && std::ssize(outcome.contributed) < quorum_of(std::ssize(all())))
                       outcome.failed.front().raise();
                   });
    conversation_.leave_out(left_out);  // what has changed is for the next round to follow
    const std::size_t before = state_.history.size();
    for (Index node = 0; node < conversation_.nodes(); ++node)
      state_.history.push_back({.round = state_.round, .node = node});
    for (const auto& [node, report] : outcome.contributed) {
      NodeEvaluation& row = state_.history[before + static_cast<std::size_t>(node)];
      row.examples = report.examples;
      row.accuracy = report.accuracy.value_or(kUnknown);
      row.loss = report.loss.value_or(kUnknown);
      const auto examples = static_cast<double>(report.examples);
      const auto note = [&](Index right, double& share, double& low, double& high) {
        share = static_cast<double>(right) / examples;
        const WilsonInterval interval = wilson_interval(share, examples);
        low = interval.low;
        high = interval.high;
      };
      if (report.adapted && report.examples > 0) {
        note(report.adapted->right, row.adapted, row.adapted_low, row.adapted_high);
        if (report.adapted->by_majority)
          note(*report.adapted->by_majority, row.majority, row.majority_low, row.majority_high);
      }
      if (report.reweighted) {
        row.reweighted_accuracy = report.reweighted->accuracy;
        row.reweighted_low = report.reweighted->low;
        row.reweighted_high = report.reweighted->high;
        row.reweighted_examples = report.reweighted->examples;
      }
    }
  }

  const FederationSettings& settings_;
  const FederationTask& task_;
  const FederationHooks& hooks_;
  FederationState& state_;
  Conversation conversation_;
};

}  // namespace

FederationState run_federation(const FederationSettings& settings, const FederationTask& task, Engine& engine,
                               const FederationHooks& hooks, FederationState start) {
  check_settings(settings, engine.nodes());
  Coordinator(settings, task, engine, hooks, start).run();
  return start;
}

std::uint32_t weighed_round(const FederationState& state) {
  int round = 0;
  for (const Weighing& one : state.weighings)
    if (one.skipped.empty()) round = std::max(round, one.round);
  return static_cast<std::uint32_t>(round);
}

std::unique_ptr<Net> global_model(const FederationSettings& settings, const FederationTask& task,
                                  const FederationState& state) {
  auto net = make_net(net_spec(settings.model, task, state.normalisation), /*seed=*/0, settings.device);
  std::copy(state.parameters.begin(), state.parameters.end(), net->parameters().begin());
  std::copy(state.buffers.begin(), state.buffers.end(), net->buffers().begin());
  return net;
}

double average_accuracy(const std::vector<NodeEvaluation>& history) {
  return average_of(history, &NodeEvaluation::accuracy);
}

double average_of(const std::vector<NodeEvaluation>& history, double NodeEvaluation::*number) {
  double sum = 0.0;
  int nodes = 0;
  for (auto row = history.rbegin(); row != history.rend() && row->round == history.back().round; ++row) {
    if (std::isnan((*row).*number)) continue;
    sum += (*row).*number;
    ++nodes;
  }
  return nodes > 0 ? sum / nodes : kUnknown;
}

}  // namespace labelshift
