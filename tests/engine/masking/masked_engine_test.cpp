#include "labelshift/engine/masking/masked_engine.hpp"

#include <gmock/gmock.h>

#include <atomic>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/rng.hpp"
#include "labelshift/engine/fixed_point.hpp"
#include "labelshift/engine/in_process/in_process_engine.hpp"
#include "tests/engine/masking/test_certificates.hpp"

namespace labelshift {
namespace {

using testing::HasSubstr;

constexpr Index kNodes = 4;
constexpr std::size_t kWords = 20;
const AnswerTerms kTerms{.words = kWords, .numbers = 1, .weights = 2, .report = 10};

/// Words, a number, weights of the request and a report of one byte; `spoil` may throw instead.
class Worker : public NodeProgram {
 public:
  explicit Worker(std::function<void(const NodeCall& call)> spoil) : spoil_(std::move(spoil)) {}
  Answer run(const NodeCall& call) override {
    if (spoil_) spoil_(call);
    if (call.request.task != 7 || call.request.body != Bytes(3)) throw Error(ErrorKind::kPeer, "it is another task");
    Rng rng(call.request.round, static_cast<std::uint64_t>(call.to.node));
    Answer answer{.numbers = {1.0}, .weights = call.request.weights, .report = Bytes(1)};
    for (std::size_t i = 0; i < kWords; ++i) answer.words.push_back(to_fixed(rng.uniform(), kNodes));
    return answer;
  }

 private:
  std::function<void(const NodeCall& call)> spoil_;
};

/// An engine that remembers every answer as it was on its way.
class Eavesdropper : public Engine {
 public:
  explicit Eavesdropper(Engine& engine) : engine_(engine) {}
  Index nodes() const override { return engine_.nodes(); }
  CohortOutcome run(const Request& request, std::span<const Addressee> cohort, const AnswerTerms& terms,
                    const Patience& patience, const Observer& observer) override {
    AnswerTerms heard = terms;
    heard.accept = [&, accept = terms.accept](Index node, Answer& answer) {
      {
        const std::lock_guard lock(mutex_);
        words[node] = answer.words;
      }
      if (accept) accept(node, answer);
    };
    ++calls;
    return engine_.run(request, cohort, heard, patience, observer);
  }

  std::map<Index, std::vector<std::uint64_t>> words;  // of the last answer of each node
  int calls = 0;

 private:
  Engine& engine_;
  std::mutex mutex_;
};

class Masked : public testing::Test {
 protected:
  Masked() {
    for (const char* name : {"d", "b", "a", "c"}) {  // not in the order of the nodes
      names_.push_back(name);
      identities_.push_back(identity_of(make_certificate({.names = {name}}, &authority_), authority_));
    }
  }
  NodeProgramFactory workers(std::function<void(const NodeCall& call)> spoil = {}) const {
    return [spoil] { return std::make_unique<Worker>(spoil); };
  }
  NodeProgramFactory masked(NodeProgramFactory programs, const std::string& run = "run") const {
    return with_masks(
        std::move(programs),
        [this](Index node) -> const NodeIdentity& { return identities_[static_cast<std::size_t>(node)]; }, run);
  }
  static std::vector<Addressee> cohort(Index nodes = kNodes) {
    std::vector<Addressee> all;
    for (Index node = 0; node < nodes; ++node) all.push_back({.node = node});
    return all;
  }
  const Request request_{.task = 7, .round = 3, .body = Bytes(3), .weights = {0.5F, 2.0F}};
  const TestCertificate authority_ = make_authority();
  std::vector<std::string> names_;
  std::vector<NodeIdentity> identities_;
};

TEST_F(Masked, SumsAreThoseWithoutMasksAndNobodySeesTheWordsOfANode) {
  const auto plain = make_in_process_engine(kNodes, workers(), {.workers = 2});
  const CohortOutcome expected = plain->run(request_, cohort(), kTerms);
  const auto engine = make_in_process_engine(kNodes, masked(workers()), {.workers = 2});
  Eavesdropper ear(*engine);
  const auto under_masks = with_masks(ear, {.run = "run", .names = names_});
  AnswerTerms terms = kTerms;
  terms.check_words = [](std::span<const std::uint64_t>) { throw Error(ErrorKind::kPeer, "these are masked"); };
  const CohortOutcome found = under_masks->run(request_, cohort(), terms);
  ASSERT_TRUE(found.failed.empty()) << found.failed[0].sentence;
  EXPECT_EQ(found.sums, expected.sums);
  ASSERT_EQ(found.contributed.size(), static_cast<std::size_t>(kNodes));
  EXPECT_EQ(found.contributed[2].report, Bytes(1));
  EXPECT_GT(found.traffic.up, expected.traffic.up);

  const auto first = ear.words;
  EXPECT_EQ(under_masks->run(request_, cohort(), kTerms).sums, expected.sums);
  for (Index node = 0; node < kNodes; ++node) {
    Rng rng(3, static_cast<std::uint64_t>(node));
    for (std::size_t i = 0; i < kWords; ++i) {
      const std::uint64_t word = to_fixed(rng.uniform(), kNodes);
      EXPECT_NE(first.at(node)[i], word);
      EXPECT_NE(ear.words.at(node)[i], word);
      EXPECT_NE(ear.words.at(node)[i], first.at(node)[i]);  // other masks each time
    }
  }
}

TEST_F(Masked, RequestsWithoutWordsAreHandedOn) {
  const auto engine = make_in_process_engine(kNodes, masked([] {
                                               class Plain : public NodeProgram {
                                                 Answer run(const NodeCall& call) override {
                                                   return {.numbers = {static_cast<double>(call.request.task)}};
                                                 }
                                               };
                                               return std::make_unique<Plain>();
                                             }),
                                             {.workers = 2});
  Eavesdropper ear(*engine);
  const auto under_masks = with_masks(ear, {.run = "run", .names = names_});
  EXPECT_EQ(under_masks->run({.task = 5}, cohort(), {.numbers = 1}).sums.numbers[0], 20.0);
  EXPECT_EQ(ear.calls, 1);
}

TEST_F(Masked, ANodeGivesNoWordsWithoutMasks) {
  const auto engine = make_in_process_engine(kNodes, masked(workers()), {.workers = 2});
  const CohortOutcome outcome = engine->run(request_, cohort(), kTerms);
  ASSERT_EQ(outcome.failed.size(), static_cast<std::size_t>(kNodes));
  EXPECT_EQ(outcome.failed[0].sentence, "it asks for this node's own numbers without masks, and gets none");
}

TEST_F(Masked, ANodeGivesNoKeyForAnotherRunAndRefusesTwo) {
  const auto engine = make_in_process_engine(kNodes, masked(workers(), "mine"), {.workers = 2});
  const auto other = with_masks(*engine, {.run = "other", .names = names_});
  EXPECT_THAT(other->run(request_, cohort(), kTerms).failed.at(0).sentence,
              HasSubstr("it asks for a key of the run other, and this is mine"));
  const auto same = with_masks(*engine, {.run = "mine", .names = names_});
  const CohortOutcome two = same->run(request_, cohort(2), kTerms);
  EXPECT_THAT(two.failed.at(0).sentence, HasSubstr("masks need 3 nodes or more, and there are 2"));
  EXPECT_EQ(two.failed.at(0).kind, ErrorKind::kUsage);
}

TEST_F(Masked, ANodeThatFallsOutStartsThePhaseAgainWithFreshKeys) {
  std::atomic<int> left = 2;
  const auto engine = make_in_process_engine(kNodes, masked(workers([&](const NodeCall& call) {
                                               if (call.to.node == 1 && left-- > 0)
                                                 throw Error(ErrorKind::kPeer, "its connection was lost");
                                             })),
                                             {.workers = 2});
  Eavesdropper ear(*engine);
  const auto under_masks = with_masks(ear, {.run = "run", .names = names_, .attempts = 3});
  const CohortOutcome found = under_masks->run(request_, cohort(), kTerms);
  EXPECT_TRUE(found.failed.empty());
  EXPECT_EQ(ear.calls, 6);
  const auto plain = make_in_process_engine(kNodes, workers(), {.workers = 2});
  EXPECT_EQ(found.sums, plain->run(request_, cohort(), kTerms).sums);
}

TEST_F(Masked, WhereOneNodeFailsForGoodAllHaveFailedAndSayWhy) {
  const auto engine = make_in_process_engine(kNodes, masked(workers([&](const NodeCall& call) {
                                               if (call.to.node == 2) throw Error(ErrorKind::kInput, "it has no data");
                                             })),
                                             {.workers = 2});
  Eavesdropper ear(*engine);
  const auto under_masks = with_masks(ear, {.run = "run", .names = names_});
  const CohortOutcome found = under_masks->run(request_, cohort(), kTerms);
  EXPECT_EQ(ear.calls, 2);
  EXPECT_TRUE(found.contributed.empty());
  ASSERT_EQ(found.failed.size(), static_cast<std::size_t>(kNodes));
  EXPECT_EQ(found.failed[2].sentence, "it has no data");
  EXPECT_FALSE(found.failed[2].bystander);
  for (const std::size_t other : {0u, 1u}) {
    EXPECT_THAT(found.failed[other].sentence,
                HasSubstr("its numbers are under masks, which need every node, and node "));
    EXPECT_TRUE(found.failed[other].bystander);
  }
}

}  // namespace
}  // namespace labelshift
