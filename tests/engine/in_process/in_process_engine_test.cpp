#include "labelshift/engine/in_process/in_process_engine.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <mutex>
#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>

#include "labelshift/core/base/blas.hpp"
#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/observer.hpp"
#include "labelshift/core/base/rng.hpp"
#include "tests/await.hpp"
#include "tests/data/scratch.hpp"

namespace labelshift {
namespace {

using std::chrono::milliseconds;

using Work = std::function<Answer(Index node, const Request& request, const std::atomic<bool>& cancelled)>;

/// Nodes that do what a function says.
class FunctionProgram : public NodeProgram {
 public:
  explicit FunctionProgram(Work work) : work_(std::move(work)) {}
  Answer run(const NodeCall& call) override { return work_(call.to.node, call.request, call.cancelled); }

 private:
  Work work_;
};

std::unique_ptr<Engine> engine_of(Index nodes, unsigned workers, Work work) {
  return make_in_process_engine(nodes, [work = std::move(work)] { return std::make_unique<FunctionProgram>(work); },
                                {.workers = workers});
}

std::vector<Addressee> cohort_of(const std::vector<Index>& nodes) {
  std::vector<Addressee> cohort;
  for (const Index node : nodes) cohort.push_back({.node = node});
  return cohort;
}

std::vector<Addressee> first(Index count) {
  std::vector<Index> nodes(static_cast<std::size_t>(count));
  std::iota(nodes.begin(), nodes.end(), 0);
  return cohort_of(nodes);
}

/// Terms for answers of so many numbers, weights and words.
AnswerTerms terms(std::size_t numbers, std::size_t weights = 0, std::size_t words = 0) {
  return {.words = words, .numbers = numbers, .weights = weights, .report = 100};
}

Bytes bytes_of(std::initializer_list<int> values) {
  Bytes bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

/// Numbers of very different size, so that their sum depends on its order, and words of which every sum wraps around.
Answer rough_answer(Index node, const Request& request) {
  Rng rng(request.round, static_cast<std::uint64_t>(node));
  Answer answer;
  for (int i = 0; i < 10; ++i) answer.words.push_back(rng() | std::uint64_t{1} << 63);
  for (int i = 0; i < 20; ++i) answer.numbers.push_back(std::exp(20.0 * rng.normal()));
  for (const float weight : request.weights)
    answer.weights.push_back(weight * static_cast<float>(rng.normal() * std::exp(10.0 * rng.normal())));
  answer.report = bytes_of({static_cast<int>(node), 7});
  return answer;
}

const Request kRequest{.task = 3, .round = 5, .body = Bytes(20), .weights = std::vector<float>(300, 0.5F)};
const AnswerTerms kRough = terms(20, 300, 10);

/// The sum of [begin, end), halved again and again, as it is defined.
CohortSums halved(Index begin, Index end, const std::function<bool(Index)>& there) {
  if (end - begin == 1) {
    if (!there(begin)) return {};
    const Answer answer = rough_answer(begin, kRequest);
    return {answer.words, answer.numbers, {answer.weights.begin(), answer.weights.end()}};
  }
  const Index middle = begin + (end - begin) / 2;
  CohortSums lower = halved(begin, middle, there);
  const CohortSums upper = halved(middle, end, there);
  if (lower.numbers.empty()) return upper;
  if (upper.numbers.empty()) return lower;
  for (std::size_t i = 0; i < 10; ++i) lower.words[i] += upper.words[i];
  for (std::size_t i = 0; i < 20; ++i) lower.numbers[i] += upper.numbers[i];
  for (std::size_t i = 0; i < 300; ++i) lower.weights[i] += upper.weights[i];
  return lower;
}

TEST(InProcessEngine, AddsUpByHalvesWithTheSameBitsForAnyNumberOfWorkers) {
  const CohortSums expected = halved(0, 60, [](Index) { return true; });
  const CohortSums without = halved(0, 60, [](Index node) { return node % 7 != 3; });
  std::vector<double> in_order(20);
  for (Index node = 0; node < 60; ++node)
    for (std::size_t i = 0; i < 20; ++i) in_order[i] += rough_answer(node, kRequest).numbers[i];
  ASSERT_NE(in_order, expected.numbers);  // another order would show
  for (const unsigned workers : {1U, 2U, 4U, 7U}) {
    const auto engine = engine_of(60, workers, [](Index node, const Request& request, const std::atomic<bool>&) {
      Rng chance(99, static_cast<std::uint64_t>(node));
      std::this_thread::sleep_for(std::chrono::microseconds(chance.below(3000)));
      if (request.task == 1 && node % 7 == 3) throw Error(ErrorKind::kInput, "lost");
      return rough_answer(node, request);
    });
    const CohortOutcome outcome = engine->run(kRequest, first(60), kRough);
    EXPECT_EQ(outcome.sums, expected) << workers;
    ASSERT_EQ(outcome.contributed.size(), 60U);
    for (Index k = 0; k < 60; ++k) {
      EXPECT_EQ(outcome.contributed[k].node, k);
      EXPECT_EQ(outcome.contributed[k].report, rough_answer(k, kRequest).report);
    }
    Request lossy = kRequest;
    lossy.task = 1;
    const CohortOutcome others = engine->run(lossy, first(60), kRough, {.quorum = 1});
    EXPECT_EQ(others.sums, without) << workers;
    EXPECT_EQ(others.contributed.size() + others.failed.size(), 60U);
    ASSERT_EQ(others.failed.size(), 9U);  // 3, 10, ..., 59
    for (std::size_t i = 0; i < 9; ++i) EXPECT_EQ(others.failed[i].node, static_cast<Index>(7 * i + 3));
    EXPECT_EQ(others.failed[0].sentence, "lost");
    EXPECT_EQ(others.failed[0].kind, ErrorKind::kInput);
    // Nodes that are not in a cohort are absent too.
    std::vector<Index> some;
    for (Index node = 0; node < 60; ++node)
      if (node % 7 != 3) some.push_back(node);
    EXPECT_EQ(engine->run(kRequest, cohort_of(some), kRough).sums, without) << workers;
  }
}

TEST(InProcessEngine, AsksTheNodesOfTheCohortAndNoOthers) {
  std::mutex mutex;
  std::multiset<Index> asked;
  const auto engine = engine_of(10, 2, [&](Index node, const Request& request, const std::atomic<bool>&) {
    EXPECT_EQ(request, kRequest);
    const std::lock_guard lock(mutex);
    asked.insert(node);
    return Answer{.numbers = {static_cast<double>(node)}};
  });
  EXPECT_EQ(engine->nodes(), 10);
  EXPECT_EQ(engine->run(kRequest, cohort_of({2, 3, 9}), terms(1)).sums.numbers, std::vector<double>{14.0});
  EXPECT_EQ(asked, (std::multiset<Index>{2, 3, 9}));
  EXPECT_EQ(engine->run(kRequest, cohort_of({4}), terms(1)).sums.numbers, std::vector<double>{4.0});
  EXPECT_TRUE(engine->run(kRequest, {}, terms(1)).contributed.empty());
}

/// Answers what its node alone was told.
class EchoProgram : public NodeProgram {
 public:
  explicit EchoProgram(std::set<std::uint64_t>& serials, std::mutex& mutex) : serials_(serials), mutex_(mutex) {}
  Answer run(const NodeCall& call) override {
    const std::lock_guard lock(mutex_);
    serials_.insert(call.serial);
    EXPECT_GT(call.serial, 0U);
    return {.numbers = {static_cast<double>(call.to.counted), static_cast<double>(call.to.durable)},
            .report = call.to.own};
  }

 private:
  std::set<std::uint64_t>& serials_;
  std::mutex& mutex_;
};

TEST(InProcessEngine, TellsEveryNodeWhatIsItsOwnAndNumbersItsCalls) {
  std::set<std::uint64_t> serials;
  std::mutex mutex;
  const auto engine =
      make_in_process_engine(3, [&] { return std::make_unique<EchoProgram>(serials, mutex); }, {.workers = 2});
  const std::vector<Addressee> cohort = {{.node = 0, .counted = 10, .durable = 1, .own = bytes_of({5})},
                                         {.node = 2, .counted = 100, .durable = 2, .own = bytes_of({6, 7})}};
  for (std::size_t calls = 1; calls <= 3; ++calls) {
    const CohortOutcome outcome = engine->run(kRequest, cohort, terms(2));
    EXPECT_EQ(outcome.sums.numbers, (std::vector<double>{110.0, 3.0}));
    EXPECT_EQ(outcome.contributed[0].report, bytes_of({5}));
    EXPECT_EQ(outcome.contributed[1].report, bytes_of({6, 7}));
    EXPECT_EQ(serials.size(), calls);  // the same for all nodes of a call, another for every call
  }
}

TEST(InProcessEngine, CountsTheBytesOfEveryMessage) {
  const auto engine = engine_of(
      100, 2, [](Index node, const Request& request, const std::atomic<bool>&) { return rough_answer(node, request); });
  std::vector<Addressee> cohort = first(70);
  cohort[3].own = Bytes(11);
  const Traffic traffic = engine->run(kRequest, cohort, kRough).traffic;
  EXPECT_EQ(traffic.down, 70 * (to_bytes(kRequest).size() + to_bytes(cohort[0]).size()) + 11);
  EXPECT_EQ(traffic.up, 70 * to_bytes(rough_answer(0, kRequest)).size());
}

TEST(InProcessEngine, StartsNoNodeFarAheadOfTheOneToBeAddedNext) {
  for (const unsigned workers : {1U, 3U}) {
    std::atomic<int> started = 0;
    int meanwhile = 0;  // started before the first node answered
    const auto engine = engine_of(1000, workers, [&](Index node, const Request&, const std::atomic<bool>&) {
      ++started;
      if (node == 0) {
        // Others have the time to go as far as they may, and then some to go further.
        if (workers > 1)
          await([&] { return started >= static_cast<int>(2 * workers); }, "as many nodes started as may");
        std::this_thread::sleep_for(milliseconds(50));
        meanwhile = started;
      }
      return Answer{.numbers = {1.0}};
    });
    EXPECT_EQ(engine->run(kRequest, first(1000), terms(1)).sums.numbers, std::vector<double>{1000.0});
    EXPECT_EQ(started, 1000);
    EXPECT_EQ(meanwhile, workers == 1 ? 1 : static_cast<int>(2 * workers));
  }
}

TEST(InProcessEngine, SaysFirstWhatTheLowestNodeThrewAndGoesOn) {
  const auto engine = engine_of(100, 3, [](Index node, const Request& request, const std::atomic<bool>&) {
    if (request.task == 1 && node == 20) {
      std::this_thread::sleep_for(milliseconds(30));  // 21 and 22 fail long before
      throw Error(ErrorKind::kInput, "no data", Remedy::kCpu);
    }
    if (request.task == 1 && node > 20) throw std::runtime_error("a later node");
    return Answer{.numbers = {1.0}};
  });
  for (int i = 0; i < 3; ++i) {
    const CohortOutcome outcome = engine->run({.task = 1}, first(100), terms(1));
    EXPECT_EQ(outcome.contributed.size(), 20U);
    ASSERT_EQ(outcome.failed.size(), 80U);
    EXPECT_EQ(outcome.failed[0].node, 20);
    EXPECT_EQ(outcome.failed[0].remedy, Remedy::kCpu);
    expect_error(ErrorKind::kInput, "node 21: no data", [&] { outcome.failed[0].raise(); });
    EXPECT_EQ(outcome.failed[1].kind, std::nullopt);  // a bug
    EXPECT_THROW(outcome.failed[1].raise(), std::runtime_error);
    EXPECT_EQ(outcome.failed[79].sentence, "it was not asked, since others failed");
    EXPECT_FALSE(outcome.failed[0].bystander);
    EXPECT_TRUE(outcome.failed[79].bystander);
    EXPECT_EQ(engine->run({.task = 2}, first(100), terms(1)).sums.numbers, std::vector<double>{100.0});
  }
}

TEST(InProcessEngine, StartsNoNodeOnceAQuorumCannotBeReached) {
  for (const Index quorum : {0, 1000, 996, 1}) {
    std::atomic<int> started = 0;
    const auto engine = engine_of(1000, 2, [&](Index, const Request&, const std::atomic<bool>&) -> Answer {
      ++started;
      throw Error(ErrorKind::kInput, "no");
    });
    const CohortOutcome outcome = engine->run(kRequest, first(1000), terms(1), {.quorum = quorum});
    EXPECT_EQ(outcome.failed.size(), 1000U);
    EXPECT_TRUE(outcome.sums.numbers.empty());
    const int needed = quorum == 0 ? 1 : 1001 - static_cast<int>(quorum);
    EXPECT_GE(started, needed);
    EXPECT_LE(started, needed + 1);  // one a worker
  }
}

TEST(InProcessEngine, RefusesAnswersThatBreakItsTermsAndLeavesTheSumAlone) {
  const auto engine = engine_of(9, 2, [](Index node, const Request& request, const std::atomic<bool>&) {
    Answer update{
        .words = {5}, .numbers = {1.0, 2.0}, .weights = {1.0F}, .report = Bytes(static_cast<std::size_t>(node))};
    if (node != 4) return update;
    if (request.task == 1) update.numbers.pop_back();
    if (request.task == 2) update.weights.clear();
    if (request.task == 3) update.report.resize(101);
    if (request.task == 4) update.numbers[1] = std::nan("");
    if (request.task == 5) update.weights[0] = -INFINITY;
    if (request.task == 6) update.packed.resize(1);
    if (request.task == 7) update.words.push_back(5);
    if (request.task == 8) update.words[0] = 6;
    return update;
  });
  AnswerTerms picky = terms(2, 1, 1);
  picky.accept = [](Index node, Answer& answer) {
    if (!answer.packed.empty()) throw Error(ErrorKind::kPeer, "packed by " + std::to_string(node));
  };
  picky.check_words = [](std::span<const std::uint64_t> words) {
    if (words[0] != 5) throw Error(ErrorKind::kPeer, "its word is " + std::to_string(words[0]));
  };
  const std::vector<std::string> sentences = {"it sent 1 words, 1 numbers and 1 weights, expected 1, 2 and 1",
                                              "it sent 1 words, 2 numbers and 0 weights, expected 1, 2 and 1",
                                              "it sent a report of 101 bytes, expected at most 100",
                                              "it sent a number that is not finite",
                                              "it sent a number that is not finite",
                                              "packed by 4",
                                              "it sent 2 words, 2 numbers and 1 weights, expected 1, 2 and 1",
                                              "its word is 6"};
  for (std::uint32_t task = 1; task <= 8; ++task) {
    const CohortOutcome outcome = engine->run({.task = task}, first(9), picky, {.quorum = 2});
    EXPECT_EQ(outcome.sums.numbers, (std::vector<double>{8.0, 16.0})) << task;
    EXPECT_EQ(outcome.sums.weights, std::vector<double>{8.0}) << task;
    EXPECT_EQ(outcome.sums.words, std::vector<std::uint64_t>{40}) << task;
    ASSERT_EQ(outcome.failed.size(), 1U) << task;
    EXPECT_EQ(outcome.failed[0].node, 4);
    EXPECT_EQ(outcome.failed[0].kind, ErrorKind::kPeer);
    EXPECT_EQ(outcome.failed[0].sentence.substr(0, sentences[task - 1].size()), sentences[task - 1]);
  }
  EXPECT_TRUE(engine->run({}, first(9), picky).failed.empty());  // reports may differ: they are not added
}

TEST(InProcessEngine, WaitsForNobodyBeyondTheDeadlineOnceAQuorumIsThere) {
  const auto engine = engine_of(6, 3, [](Index node, const Request&, const std::atomic<bool>& cancelled) {
    if (node % 2 == 1) {
      await([&] { return cancelled.load(); }, "the engine cancelled its work");
      throw Stopped();
    }
    return Answer{.numbers = {1.0}};
  });
  const CohortOutcome outcome = engine->run(kRequest, first(6), terms(1), {.quorum = 2, .deadline = milliseconds(120)});
  EXPECT_GE(outcome.contributed.size(), 2U);
  ASSERT_FALSE(outcome.failed.empty());
  EXPECT_EQ(outcome.failed[0].node, 1);
  EXPECT_EQ(outcome.failed[0].sentence, "it sent nothing for 120ms");
  EXPECT_EQ(outcome.sums.numbers[0], static_cast<double>(outcome.contributed.size()));
}

TEST(InProcessEngine, WaitsForAQuorumBeyondTheDeadlineAndGivesUpInTheEnd) {
  std::atomic<bool> cancelled_early = false;
  const auto engine = engine_of(2, 2, [&](Index node, const Request& request, const std::atomic<bool>& cancelled) {
    if (request.task == 1 && node == 1) {  // late, and needed
      std::this_thread::sleep_for(milliseconds(200));
      cancelled_early = cancelled.load();
    }
    if (request.task == 2 && node == 1) {
      await([&] { return cancelled.load(); }, "the engine cancelled its work");
      throw Stopped();
    }
    return Answer{.numbers = {1.0}};
  });
  const CohortOutcome late = engine->run({.task = 1}, first(2), terms(1), {.quorum = 2, .deadline = milliseconds(1)});
  EXPECT_FALSE(cancelled_early);
  EXPECT_EQ(late.contributed.size(), 2U);
  const CohortOutcome none = engine->run({.task = 2}, first(2), terms(1),
                                         {.quorum = 2, .deadline = milliseconds(1), .give_up = milliseconds(60)});
  EXPECT_EQ(none.contributed.size(), 1U);
  ASSERT_EQ(none.failed.size(), 1U);
  EXPECT_EQ(none.failed[0].sentence, "it sent nothing for 60ms");
}

TEST(InProcessEngine, RefusesACohortThatIsNone) {
  const auto engine =
      engine_of(3, 1, [](Index, const Request&, const std::atomic<bool>&) { return Answer{.numbers = {1.0}}; });
  const auto refused = [&](const std::string& message, const std::vector<Index>& cohort) {
    expect_error(ErrorKind::kUsage, message, [&] { engine->run(kRequest, cohort_of(cohort), terms(1)); });
  };
  refused("the cohort has a node 4, but there are 3", {0, 3});
  refused("the cohort has a node 0, but there are 3", {-1});
  refused("node 2 comes after node 2 in the cohort, expected ascending order", {1, 1});
  refused("node 1 comes after node 3 in the cohort, expected ascending order", {2, 0});
}

TEST(InProcessEngine, StopsWhenItsObserverSaysSo) {
  std::atomic<int> looping = 0;
  const auto engine = engine_of(50, 2, [&](Index, const Request& request, const std::atomic<bool>& cancelled) {
    if (request.task == 1) {
      ++looping;
      await([&] { return cancelled.load(); }, "the engine cancelled its work");
      throw Stopped();
    }
    return Answer{.numbers = {1.0}};
  });
  const auto caller = std::this_thread::get_id();
  const auto stop_once_two_work = [&](std::string_view, double done) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    EXPECT_EQ(done, 0.0);
    return looping < 2;
  };
  EXPECT_THROW(engine->run({.task = 1}, first(50), terms(1), {}, stop_once_two_work), Stopped);
  EXPECT_EQ(looping, 2);
  EXPECT_EQ(engine->run({.task = 2}, first(50), terms(1)).sums.numbers, std::vector<double>{50.0});
}

TEST(InProcessEngine, ThrowsWhatItsObserverThrewOnceNobodyWorks) {
  std::atomic<int> working = 0;
  const auto engine = engine_of(50, 2, [&](Index, const Request&, const std::atomic<bool>& cancelled) {
    ++working;
    await([&] { return cancelled.load(); }, "the engine cancelled its work");
    --working;
    return Answer{};
  });
  const auto observer = [](std::string_view, double) -> bool { throw std::runtime_error("terminal gone"); };
  EXPECT_THROW(engine->run(kRequest, first(50), terms(0), {}, observer), std::runtime_error);
  EXPECT_EQ(working, 0);
}

TEST(InProcessEngine, TellsItsObserverHowFarItIsAlsoWhileNothingChanges) {
  std::atomic<int> calls = 0;
  const auto engine = engine_of(20, 2, [&](Index, const Request&, const std::atomic<bool>&) {
    await([&] { return calls >= 3; }, "the observer was called three times");
    return Answer{};
  });
  std::vector<double> told;
  engine->run(kRequest, first(20), terms(0), {}, [&](std::string_view, double done) {
    told.push_back(done);
    ++calls;
    return true;
  });
  EXPECT_TRUE(std::is_sorted(told.begin(), told.end()));
  ASSERT_GE(told.size(), 4U);
  EXPECT_EQ(told[2], 0.0);
  EXPECT_EQ(told.back(), 1.0);
}

/// Everything that happens to one worker's thread and program must happen on that thread.
class ThreadBoundProgram : public NodeProgram {
 public:
  ThreadBoundProgram(std::atomic<int>& alive, int workers) : alive_(alive), workers_(workers) { ++alive_; }
  ~ThreadBoundProgram() override {
    EXPECT_EQ(std::this_thread::get_id(), maker_);
    --alive_;
  }
  Answer run(const NodeCall&) override {
    EXPECT_EQ(std::this_thread::get_id(), maker_);
    await([&] { return alive_ >= workers_; }, "every worker had something to do");
    return {.numbers = {1.0}};
  }

 private:
  std::thread::id maker_ = std::this_thread::get_id();
  std::atomic<int>& alive_;
  int workers_;
};

TEST(InProcessEngine, MakesOneProgramAWorkerOnItsPreparedThread) {
  std::atomic<int> made = 0, alive = 0, prepared = 0;
  static thread_local bool ready = false;
  {
    const auto engine = make_in_process_engine(100,
                                               [&] {
                                                 EXPECT_TRUE(ready);
                                                 ++made;
                                                 return std::make_unique<ThreadBoundProgram>(alive, 3);
                                               },
                                               {.workers = 3, .prepare_thread = [&] {
                                                  EXPECT_FALSE(ready);
                                                  ready = true;
                                                  ++prepared;
                                                }});
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(engine->run(kRequest, first(100), terms(1)).failed.empty());
    EXPECT_EQ(made, 3);
    EXPECT_EQ(prepared, 3);
    EXPECT_EQ(alive, 3);
  }
  EXPECT_EQ(alive, 0);
}

TEST(InProcessEngine, TellsWorkersHowManyThreadsBlasUses) {
  const int before = blas_threads();
  for (const int threads : {1, 2}) {
    use_blas_threads(threads);
    const auto engine = engine_of(1, 1, [](Index, const Request&, const std::atomic<bool>&) {
      Eigen::MatrixXd lower = Eigen::MatrixXd::Zero(300, 300);
      add_outer_products(Eigen::MatrixXd::Ones(300, 300),
                         lower);  // OpenBLAS looks at the thread's number when it works
      return Answer{.report = bytes_of({blas_threads()})};
    });
    EXPECT_EQ(engine->run(kRequest, first(1), terms(0)).contributed[0].report, bytes_of({threads}));
  }
  use_blas_threads(before);
}

TEST(InProcessEngine, SaysWhyAProgramCannotBeMadeAndTriesAgain) {
  bool broken = true;
  const auto engine = make_in_process_engine(
      2,
      [&]() -> std::unique_ptr<NodeProgram> {
        if (broken) throw Error(ErrorKind::kSystem, "no memory");
        return std::make_unique<FunctionProgram>(
            [](Index, const Request&, const std::atomic<bool>&) { return Answer{.numbers = {1.0}}; });
      },
      {.workers = 2});
  EXPECT_EQ(engine->run(kRequest, first(2), terms(1)).failed[0].sentence, "no memory");
  broken = false;
  EXPECT_EQ(engine->run(kRequest, first(2), terms(1)).sums.numbers, std::vector<double>{2.0});
}

TEST(InProcessEngine, MakesAnotherProgramAfterOneThrew) {
  int made = 0;
  const auto engine = make_in_process_engine(
      2,
      [&] {
        ++made;
        return std::make_unique<FunctionProgram>([](Index, const Request& request, const std::atomic<bool>&) {
          if (request.task == 1) throw Error(ErrorKind::kInput, "half done");
          return Answer{};
        });
      },
      {.workers = 1});
  engine->run({}, first(2), terms(0));
  EXPECT_EQ(made, 1);
  EXPECT_EQ(engine->run({.task = 1}, first(1), terms(0)).failed.size(), 1U);
  engine->run({}, first(2), terms(0));
  EXPECT_EQ(made, 2);
}

TEST(InProcessEngine, MayNeverBeUsed) {
  EXPECT_EQ(engine_of(5, 0, {})->nodes(), 5);
}

}  // namespace
}  // namespace labelshift
