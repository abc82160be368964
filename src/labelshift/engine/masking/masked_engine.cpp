#include "labelshift/engine/masking/masked_engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <map>
#include <mutex>
#include <random>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/observer.hpp"
#include "labelshift/engine/masking/masked_request.hpp"

namespace labelshift {
namespace {

constexpr std::size_t kMostOfferBytes = 1 << 16;

class MaskedEngine : public Engine {
 public:
  MaskedEngine(Engine& engine, MaskingSettings settings) : engine_(engine), settings_(std::move(settings)) {
    assert(std::ssize(settings_.names) == engine.nodes());
    std::random_device random;  // a run that is resumed repeats no serial
    serial_ = (std::uint64_t{random()} << 32) | random();
  }

  Index nodes() const override { return engine_.nodes(); }

  CohortOutcome run(const Request& request, std::span<const Addressee> cohort, const AnswerTerms& terms,
                    const Patience& patience, const Observer& observer) override {
    if (terms.words == 0) return engine_.run(request, cohort, terms, patience, observer);
    check_cohort(cohort, nodes());
    for (int attempt = 1;; ++attempt) {
      CohortOutcome outcome = try_once(request, cohort, terms, patience, observer);
      const auto can_be_tried_again = [](const NodeFailure& one) { return one.kind == ErrorKind::kPeer; };
      if (outcome.failed.empty() || attempt == settings_.attempts ||
          !std::all_of(outcome.failed.begin(), outcome.failed.end(), can_be_tried_again))
        return outcome;
    }
  }

 private:
  CohortOutcome try_once(const Request& request, std::span<const Addressee> cohort, const AnswerTerms& terms,
                         const Patience& patience, const Observer& observer) {
    MaskedExchange exchange{.run = settings_.run, .serial = ++serial_};
    for (const Addressee& one : cohort) exchange.nodes.push_back(settings_.names[static_cast<std::size_t>(one.node)]);
    std::sort(exchange.nodes.begin(), exchange.nodes.end());
    const AnswerTerms offer_terms{.report = kMostOfferBytes,
                                  .accept = [](Index, Answer& answer) { from_bytes<MaskOffer>(answer.report); }};
    CohortOutcome offered = engine_.run(
        {.task = kMaskKeysTask, .round = request.round, .body = to_bytes(exchange)}, cohort, offer_terms,
        everybody(patience), [&](std::string_view stage, double) { return !observer || observer(stage, 0.0); });
    if (!offered.failed.empty()) return failure_of_all(cohort, std::move(offered));
    MaskedRequest masked{.task = request.task, .body = request.body, .exchange = std::move(exchange)};
    for (const Contribution& one : offered.contributed) masked.offers.push_back(from_bytes<MaskOffer>(one.report));
    AnswerTerms masked_terms = terms;
    masked_terms.check_words = {};
    CohortOutcome outcome =
        engine_.run({.task = kMaskedTask, .round = request.round, .body = to_bytes(masked), .weights = request.weights},
                    cohort, masked_terms, everybody(patience), observer);
    outcome.traffic += offered.traffic;
    return outcome.failed.empty() ? outcome : failure_of_all(cohort, std::move(outcome));
  }

  /// Nobody can be done without.
  static Patience everybody(Patience patience) {
    patience.quorum = 0;
    return patience;
  }

  /// An outcome in which some failed, and with them all.
  static CohortOutcome failure_of_all(std::span<const Addressee> cohort, CohortOutcome outcome) {
    const auto is_cause = [](const NodeFailure& failure) { return !failure.bystander; };
    const auto cause = std::find_if(outcome.failed.begin(), outcome.failed.end(), is_cause);
    const NodeFailure first = cause == outcome.failed.end() ? outcome.failed.front() : *cause;
    CohortOutcome result{.traffic = outcome.traffic};
    for (const Addressee& one : cohort) {
      const auto found = std::find_if(outcome.failed.begin(), outcome.failed.end(),
                                      [&](const NodeFailure& failure) { return failure.node == one.node; });
      if (found != outcome.failed.end())
        result.failed.push_back(std::move(*found));
      else
        result.failed.push_back(
            {one.node, first.kind,
             fmt::format("its numbers are under masks, which need every node, and node {} failed: {}", first.node + 1,
                         first.sentence),
             first.remedy, /*bystander=*/true});
    }
    return result;
  }

  Engine& engine_;
  const MaskingSettings settings_;
  std::uint64_t serial_ = 0;
};

/// Keys that wait for those of the others, for all programs of a process.
class WaitingKeys {
 public:
  WaitingKeys(IdentityOf identity_of, std::string run) : identity_of_(std::move(identity_of)), run_(std::move(run)) {}

  MaskOffer offer(Index node, MaskedExchange exchange) {
    if (exchange.run != run_)
      throw Error(ErrorKind::kPeer, fmt::format("it asks for a key of the run {}, and this is {}", exchange.run, run_));
    auto keys = std::make_unique<MaskKeys>(identity_of_(node), exchange);
    const MaskOffer offer = keys->offer();
    const std::lock_guard lock(mutex_);
    waiting_[node] = {std::move(exchange), std::move(keys)};
    return offer;
  }

  PairwiseMasks take(Index node, const MaskedExchange& exchange, const std::vector<MaskOffer>& offers) {
    std::unique_ptr<MaskKeys> keys;
    {
      const std::lock_guard lock(mutex_);
      const auto found = waiting_.find(node);
      if (found == waiting_.end() || found->second.exchange != exchange)
        throw Error(ErrorKind::kPeer, "this node has no key for that exchange any more; it has to start again");
      keys = std::move(found->second.keys);
      waiting_.erase(found);
    }
    return std::move(*keys).agree(offers);
  }

 private:
  struct Waiting {
    MaskedExchange exchange;
    std::unique_ptr<MaskKeys> keys;
  };
  const IdentityOf identity_of_;
  const std::string run_;
  std::mutex mutex_;
  std::map<Index, Waiting> waiting_;
};

class MaskedProgram : public NodeProgram {
 public:
  MaskedProgram(std::unique_ptr<NodeProgram> program, std::shared_ptr<WaitingKeys> keys)
      : program_(std::move(program)), keys_(std::move(keys)) {}

  Answer run(const NodeCall& call) override {
    const Index node = call.to.node;
    if (call.request.task == kMaskKeysTask)
      return {.report = to_bytes(keys_->offer(node, from_bytes<MaskedExchange>(call.request.body)))};
    if (call.request.task != kMaskedTask) {
      Answer answer = program_->run(call);
      if (!answer.words.empty())
        throw Error(ErrorKind::kPeer, "it asks for this node's own numbers without masks, and gets none");
      return answer;
    }
    auto masked = from_bytes<MaskedRequest>(call.request.body);
    PairwiseMasks masks = keys_->take(node, masked.exchange, masked.offers);
    const Request request{.task = masked.task,
                          .round = call.request.round,
                          .body = std::move(masked.body),
                          .weights = call.request.weights};
    Answer answer = program_->run({call.to, request, call.serial, call.cancelled});
    masks.apply(0, answer.words);
    return answer;
  }

 private:
  const std::unique_ptr<NodeProgram> program_;
  const std::shared_ptr<WaitingKeys> keys_;
};

}  // namespace

std::unique_ptr<Engine> with_masks(Engine& engine, MaskingSettings settings) {
  return std::make_unique<MaskedEngine>(engine, std::move(settings));
}

std::uint64_t most_masking_bytes(Index nodes) {
  constexpr std::uint64_t kMostNameBytes = 256, kSlack = 1024;
  return kSlack + static_cast<std::uint64_t>(nodes) * (kMostOfferBytes + kMostNameBytes);
}

NodeProgramFactory with_masks(NodeProgramFactory make_program, IdentityOf identity_of, std::string run) {
  auto keys = std::make_shared<WaitingKeys>(std::move(identity_of), std::move(run));
  return [make_program = std::move(make_program), keys = std::move(keys)] {
    return std::make_unique<MaskedProgram>(make_program(), keys);
  };
}

}  // namespace labelshift
