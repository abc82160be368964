#include "labelshift/sites/site_nodes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "labelshift/core/base/error.hpp"
#include "labelshift/data/files/sha256.hpp"
#include "labelshift/engine/masking/masked_engine.hpp"
#include "labelshift/engine/tasks.hpp"
#include "labelshift/experiments/site_settings.hpp"
#include "labelshift/federation/federation.hpp"

namespace labelshift {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kFirstComplaint =
    std::chrono::seconds(5);  // about who is waited for; then after twice as long each time

/// The phase that a task is of. A refresh is phases 1 and 2 again.
const char* phase_of(TaskKind task) {
  switch (task) {
    case TaskKind::kHello:
    case TaskKind::kJoin:
    case TaskKind::kAgree:
      return phase::kJoin;
    case TaskKind::kTarget:
    case TaskKind::kShare:
    case TaskKind::kAssess:
    case TaskKind::kRatio:
    case TaskKind::kTargetTogether:
    case TaskKind::kSharedMix:
    case TaskKind::kSharedTarget:
    case TaskKind::kMixture:
      return phase::kRatio;
    case TaskKind::kTrainPredictor:
    case TaskKind::kHeldOut:
    case TaskKind::kCalibrate:
      return phase::kPredictor;
    case TaskKind::kTrain:
      return phase::kTraining;
    case TaskKind::kEvaluate:
      return phase::kEvaluation;
  }
  return "";
}

FederatedData common_facts(const RunTask& task) {
  if (task.settings.data.at_sites()) return described_data(task.settings.data);
  FederatedData data = make_federated_data(task.settings.data, task.settings.federation.seed);
  for (NodeData& node : data.nodes) node = {};
  data.sets.clear();
  return data;
}

/// The engine, for one run.
class SiteEngine : public Engine {
 public:
  SiteEngine(GrpcEngine& engine, const RunTask& task, const FederationSettings& settings, const FederatedData& data,
             const SiteNodesOptions& options)
      : engine_(engine), task_(task), settings_(settings), data_(data), options_(options) {
    status_.run = std::filesystem::path(task.folder).filename().string();
    status_.rounds = settings.rounds;
    status_.nodes = engine.nodes();
    for (const GrpcNodeStatus& node : engine.status().nodes) names_.push_back(node.name);
  }

  Index nodes() const override { return engine_.nodes(); }

  CohortOutcome run(const Request& request, std::span<const Addressee> cohort, const AnswerTerms& terms,
                    const Patience& patience, const Observer& observer) override {
    const auto task = static_cast<TaskKind>(request.task);
    if (task == TaskKind::kHello) {
      announce(from_bytes<Hello::Request>(request.body).run);
      for (const Addressee& one : cohort) status_.round = std::max(status_.round, static_cast<int>(one.counted));
      if (!std::exchange(greeted_, true) && status_.round > 0 && options_.log)
        options_.log(fmt::format("{}: goes on after round {} of {}", status_.run, status_.round, status_.rounds));
    }
    Patience patient = patience;
    if (!patient.give_up) patient.give_up = options_.give_up_after;
    in_training_ = task == TaskKind::kTrain || task == TaskKind::kEvaluate;
    if (const char* now = phase_of(task); status_.task != now) {
      status_.task = now;
      tell_status(/*now=*/!in_training_);  // which may last, or be over before the next line
    }
    if (masked_ && task == TaskKind::kJoin && std::ssize(cohort) < kFewestMasked)
      throw Error(ErrorKind::kUsage,
                  fmt::format("{} nodes are left, and masks need at least {} in phases 1 and 2: of a sum of two, each "
                              "would know the other's part; let others in",
                              cohort.size(), kFewestMasked));
    started_ = Clock::now();
    complaint_ = started_ + kFirstComplaint;
    Engine& engine = masked_ ? *masked_ : engine_;
    CohortOutcome outcome = engine.run(request, cohort, terms, patient, [&](std::string_view stage, double done) {
      tick();
      return !observer || observer(stage, done);
    });
    const auto cause = std::find_if_not(outcome.failed.begin(), outcome.failed.end(),
                                        [](const NodeFailure& failure) { return failure.bystander; });
    for (NodeFailure& failure : outcome.failed) blame(failure);
    // Whoever needs everybody hears of the first that failed, which need not be the one that made the others fail.
    if (patient.quorum == 0 && cause != outcome.failed.end()) {
      if (cause->sentence.starts_with("it is not connected"))
        cause->sentence += "; start it there, or list it with exclude = true and begin again without it";
      cause->raise();
    }
    // A quorum that did not come in all this time will not be asked for again.
    if (std::ssize(outcome.contributed) < patient.quorum && Clock::now() - started_ >= *patient.give_up)
      throw Error(
          ErrorKind::kPeer,
          fmt::format("gave up after {:.0f} s: {} of {} nodes have answered, expected at least {}; the first that "
                      "has not is {}: {}",
                      std::chrono::duration<double>(*patient.give_up).count(), outcome.contributed.size(),
                      cohort.size(), patient.quorum, outcome.failed.front().name, outcome.failed.front().sentence));
    if (task == TaskKind::kTrain) {
      note_round(static_cast<int>(request.round));
      tell_absences(outcome);
    }
    if (task == TaskKind::kJoin && masked_ && settings_.ratio.weighted()) check_mixes(outcome);
    if (task == TaskKind::kEvaluate) note_evaluation(outcome);
    tell_status(/*now=*/task == TaskKind::kEvaluate || status_.round == status_.rounds);
    return outcome;
  }

 private:
  /// A node that has no test data or keeps its mix to itself adds zeros to the sum of mixes, which hide nobody's.
  void check_mixes(const CohortOutcome& outcome) {
    std::vector<std::string> told;
    for (const Contribution& one : outcome.contributed)
      if (from_bytes<Join::Report>(one.report).tested) told.push_back(names_[static_cast<std::size_t>(one.node)]);
    if (told.size() == 1 && outcome.failed.empty())
      throw Error(
          ErrorKind::kInput,
          fmt::format("{} alone would tell its label mix, and no mask can hide it in a sum of zeros: all others "
                      "keep theirs to themselves or have no test examples. Have others tell theirs too, or "
                      "train without ratios",
                      told.front()));
    if (told.size() == 2 && options_.log)
      options_.log(fmt::format("{}: {} tell their label mixes, so each of them can work out the other's", status_.run,
                               fmt::join(told, " and ")));
  }

  /// Says once of whom rounds go on without, and once that it takes part again.
  void tell_absences(const CohortOutcome& outcome) {
    if (!options_.log) return;
    for (const NodeFailure& failure : outcome.failed)
      if (missing_.insert(failure.node).second)
        options_.log(fmt::format("{}: rounds go on without {}: {}", status_.run, failure.name, failure.sentence));
    for (const Contribution& one : outcome.contributed)
      if (missing_.erase(one.node) > 0)
        options_.log(fmt::format("{}: {} takes part again from round {} on", status_.run,
                                 names_[static_cast<std::size_t>(one.node)], status_.round));
  }

  void announce(const std::string& run) {
    if (options_.masked) masked_ = with_masks(engine_, {.run = run, .names = names_});
    RunSettings said = task_.settings;
    said.federation = settings_;
    if (options_.announcing) options_.announcing(run, task_);
    engine_.announce({.run = run, .settings = site_settings_text(said, data_)});
  }

  void blame(NodeFailure& failure) const {
    failure.name = names_[static_cast<std::size_t>(failure.node)];
    if (!failure.kind) failure.sentence = "an internal error there: " + failure.sentence;
    failure.kind = ErrorKind::kPeer;
    failure.remedy = Remedy::kNone;  // which is of the command at the site
  }

  void note_round(int round) {
    if (first_round_ == 0) {
      first_round_ = round;
      first_round_done_ = Clock::now();
    }
    status_.round = round;
    if (round == first_round_) return;
    const double seconds = std::chrono::duration<double>(Clock::now() - first_round_done_).count();
    status_.seconds_left = seconds / (round - first_round_) * (status_.rounds - round);
  }

  void note_evaluation(const CohortOutcome& outcome) {
    double accuracy = 0.0, reweighted = 0.0;
    int judged = 0, stood_in = 0;
    for (const Contribution& one : outcome.contributed) {
      const auto report = from_bytes<Evaluate::Report>(one.report);
      if (report.accuracy) {
        accuracy += *report.accuracy;
        ++judged;
      }
      if (report.reweighted) {
        reweighted += report.reweighted->accuracy;
        ++stood_in;
      }
    }
    status_.reweighted = judged == 0;
    if (judged > 0) status_.accuracy = accuracy / judged;
    if (judged == 0 && stood_in > 0) status_.accuracy = reweighted / stood_in;
  }

  void tick() {
    if (options_.tick) options_.tick(masked_ && !in_training_ ? kFewestMasked : 1);
    tell_status(/*now=*/false);
    if (!options_.log || Clock::now() < complaint_) return;
    const double waited = std::chrono::duration<double>(Clock::now() - started_).count();
    complaint_ = started_ + 2 * (complaint_ - started_);
    std::vector<std::string> whom;
    std::size_t away = 0;
    for (const GrpcNodeStatus& node : engine_.status().nodes) {
      if (!node.awaited || !node.allowed) continue;
      whom.push_back(node.name + (node.connected ? "" : " (not connected)"));
      if (!node.connected) ++away;
    }
    if (whom.empty()) return;
    const std::string hint = away > 0 && !options_.invitation.empty()
                                 ? fmt::format("; start {} there: {}", away == 1 ? "it" : "them", options_.invitation)
                                 : "";
    options_.log(fmt::format("{}: waiting for {} since {:.0f} s ({}){}", status_.run, some_names(whom), waited,
                             status_.task, hint));
  }

  void tell_status(bool now) {
    if (!options_.status || (!now && Clock::now() < told_ + options_.between_statuses)) return;
    told_ = Clock::now();
    const GrpcStatus found = engine_.status();
    status_.traffic = found.traffic;
    status_.connected.clear();
    status_.away.clear();
    status_.waiting_for.clear();
    for (const GrpcNodeStatus& node : found.nodes) {
      if (node.connected) status_.connected.push_back(node.name);
      if (!node.connected && node.allowed) status_.away.push_back(node.name);
      if (node.awaited) status_.waiting_for.push_back(node.name);
    }
    options_.status(status_);
  }

  GrpcEngine& engine_;
  std::unique_ptr<Engine> masked_;  // over engine_, once the name of the run is known
  const RunTask& task_;
  const FederationSettings& settings_;
  const FederatedData& data_;
  const SiteNodesOptions& options_;
  std::vector<std::string> names_;  // (K)
  SiteStatus status_;
  Clock::time_point told_, started_, complaint_, first_round_done_;
  int first_round_ = 0;      // of this process
  std::set<Index> missing_;  // in the last rounds that they were asked in
  bool in_training_ = false;
  bool greeted_ = false;
};

class SiteNodes : public RunNodes {
 public:
  SiteNodes(GrpcEngine& engine, const RunTask& task, SiteNodesOptions options)
      : engine_(engine), task_(task), options_(std::move(options)), data_(common_facts(task)) {
    if (std::ssize(data_.nodes) != engine_.nodes())
      throw Error(ErrorKind::kUsage, fmt::format("the experiment has {} nodes, and the list has {}; make both the same",
                                                 data_.nodes.size(), engine_.nodes()));
    if (options_.masked && engine_.nodes() < kFewestMasked)
      throw Error(ErrorKind::kUsage,
                  fmt::format("found {} nodes, and masks need at least {}: of a sum of two, each would know the "
                              "other's part; add some",
                              engine_.nodes(), kFewestMasked));
    if (const RatioSettings& ratio = task_.settings.federation.ratio;
        options_.masked && ratio.weighted() && ratio.goal_node > 0)
      throw Error(
          ErrorKind::kUsage,
          "[ratio] goal-node asks one node for its label mix alone, and a mask hides a number in a sum of three "
          "or more; drop goal-node, or run it in one process");
    if (task_.settings.data.at_sites())
      for (const GrpcNodeStatus& node : engine_.status().nodes) data_.node_names.push_back(node.name);
    // All that is known here of whose data they are. A node's number is its place in the list.
    if (task_.settings.data.at_sites())
      data_.fingerprint = sha256_of(fmt::format("{}", fmt::join(data_.node_names, "\n")));
  }

  /// Those whom the engine does not let in; who is let in again counts once it is there.
  std::vector<Index> left_out() override {
    std::vector<Index> result;
    const GrpcStatus now = engine_.status();
    for (std::size_t k = 0; k < now.nodes.size(); ++k) {
      out_[k] = !now.nodes[k].allowed || (out_[k] && !now.nodes[k].connected);
      if (out_[k]) result.push_back(static_cast<Index>(k));
    }
    return result;
  }

  const FederatedData& data() const override { return data_; }
  bool memory_is_here() const override { return false; }

  std::unique_ptr<Engine> start(const FederationSettings& settings, NodeStore&) override {
    return std::make_unique<SiteEngine>(engine_, task_, settings, data_, options_);
  }

 private:
  GrpcEngine& engine_;
  const RunTask task_;
  const SiteNodesOptions options_;
  FederatedData data_;
  std::vector<bool> out_ = std::vector<bool>(static_cast<std::size_t>(engine_.nodes()));
};

}  // namespace

std::unique_ptr<RunNodes> open_site_nodes(GrpcEngine& engine, const RunTask& task, SiteNodesOptions options) {
  return std::make_unique<SiteNodes>(engine, task, std::move(options));
}

}  // namespace labelshift
