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

#include "labelshift/core/blas.hpp"
#include "labelshift/core/error.hpp"
#include "labelshift/core/rng.hpp"
#include "labelshift/core/stopped.hpp"
#include "tests/await.hpp"
#include "tests/data/scratch.hpp"

namespace labelshift {
namespace {

using std::chrono::milliseconds;

using Answer = std::function<Update(Index node, const Request& request, const std::atomic<bool>& cancelled)>;

/// Nodes that do what a function says.
class FunctionProgram : public NodeProgram {
 public:
  explicit FunctionProgram(Answer answer) : answer_(std::move(answer)) {}
  Update run(Index node, const Request& request, const std::atomic<bool>& cancelled) override {
    return answer_(node, request, cancelled);
  }

 private:
  Answer answer_;
};

std::unique_ptr<Engine> engine_of(Index nodes, unsigned workers, Answer answer) {
  return make_in_process_engine(
      nodes, [answer = std::move(answer)] { return std::make_unique<FunctionProgram>(answer); }, {.workers = workers});
}

std::vector<Index> first(Index count) {
  std::vector<Index> cohort(static_cast<std::size_t>(count));
  std::iota(cohort.begin(), cohort.end(), 0);
  return cohort;
}

/// Numbers of very different size, so that their sum depends on its order.
Update rough_update(Index node, const Request& request) {
  Rng rng(request.round, static_cast<std::uint64_t>(node));
  Update update;
  for (const double number : request.numbers) update.numbers.push_back(number * std::exp(20.0 * rng.normal()));
  for (const float weight : request.weights)
    update.weights.push_back(weight * static_cast<float>(rng.normal() * std::exp(20.0 * rng.normal())));
  update.report = {static_cast<double>(node), rng.uniform()};
  return update;
}

const Request kRequest{
    .task = 3, .round = 5, .numbers = std::vector<double>(20, -1.0), .weights = std::vector<float>(300, 0.5F)};

TEST(InProcessEngine, AddsUpInNodeOrderWithTheSameBitsForAnyNumberOfWorkers) {
  const std::vector<Index> cohort = first(60);
  std::vector<double> numbers(20), weights(300);
  std::vector<double> backwards(300);
  for (std::size_t k = 0; k < cohort.size(); ++k) {
    const Update update = rough_update(cohort[k], kRequest);
    const Update from_the_end = rough_update(cohort[cohort.size() - 1 - k], kRequest);
    for (std::size_t i = 0; i < 20; ++i) numbers[i] += update.numbers[i];
    for (std::size_t i = 0; i < 300; ++i) weights[i] += update.weights[i];
    for (std::size_t i = 0; i < 300; ++i) backwards[i] += from_the_end.weights[i];
  }
  ASSERT_NE(backwards, weights);  // another order would show
  for (const unsigned workers : {1U, 2U, 4U, 7U}) {
    const auto engine = engine_of(60, workers, [](Index node, const Request& request, const std::atomic<bool>&) {
      Rng chance(99, static_cast<std::uint64_t>(node));
      std::this_thread::sleep_for(std::chrono::microseconds(chance.below(3000)));
      return rough_update(node, request);
    });
    const CohortAnswer answer = engine->run(kRequest, cohort);
    EXPECT_EQ(answer.numbers, numbers) << workers;
    EXPECT_EQ(answer.weights, weights) << workers;
    ASSERT_EQ(answer.reports.size(), cohort.size());
    for (std::size_t k = 0; k < cohort.size(); ++k) {
      EXPECT_EQ(answer.reports[k].node, cohort[k]);
      EXPECT_EQ(answer.reports[k].values, rough_update(cohort[k], kRequest).report);
    }
  }
}

TEST(InProcessEngine, AsksTheNodesOfTheCohortAndNoOthers) {
  std::mutex mutex;
  std::multiset<Index> asked;
  const auto engine = engine_of(10, 2, [&](Index node, const Request& request, const std::atomic<bool>&) {
    EXPECT_EQ(request, kRequest);
    const std::lock_guard lock(mutex);
    asked.insert(node);
    return Update{.numbers = {static_cast<double>(node)}};
  });
  EXPECT_EQ(engine->nodes(), 10);
  EXPECT_EQ(engine->run(kRequest, std::vector<Index>{2, 3, 9}).numbers, std::vector<double>{14.0});
  EXPECT_EQ(asked, (std::multiset<Index>{2, 3, 9}));
  EXPECT_EQ(engine->run(kRequest, std::vector<Index>{4}).numbers, std::vector<double>{4.0});
  EXPECT_TRUE(engine->run(kRequest, {}).reports.empty());
}

TEST(InProcessEngine, CountsTheBytesOfEveryMessage) {
  const auto engine = engine_of(
      100, 2, [](Index node, const Request& request, const std::atomic<bool>&) { return rough_update(node, request); });
  const Traffic traffic = engine->run(kRequest, first(70)).traffic;
  EXPECT_EQ(traffic.down, 70 * encode(kRequest).size());
  EXPECT_EQ(traffic.up, 70 * encode(rough_update(0, kRequest)).size());
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
      return Update{.numbers = {1.0}};
    });
    EXPECT_EQ(engine->run(kRequest, first(1000)).numbers, std::vector<double>{1000.0});
    EXPECT_EQ(started, 1000);
    EXPECT_EQ(meanwhile, workers == 1 ? 1 : static_cast<int>(2 * workers));
  }
}

TEST(InProcessEngine, ThrowsWhatTheLowestNodeThrewAndGoesOn) {
  const auto engine = engine_of(100, 3, [](Index node, const Request& request, const std::atomic<bool>&) {
    if (request.task == 1 && node == 20) {
      std::this_thread::sleep_for(milliseconds(30));  // 21 and 22 fail long before
      throw Error(ErrorKind::kInput, "node 20");
    }
    if (request.task == 1 && node > 20) throw std::runtime_error("a later node");
    return Update{.numbers = {1.0}};
  });
  for (int i = 0; i < 3; ++i) {
    expect_error(ErrorKind::kInput, "node 20", [&] { engine->run({.task = 1}, first(100)); });
    EXPECT_EQ(engine->run({.task = 2}, first(100)).numbers, std::vector<double>{100.0});
  }
}

TEST(InProcessEngine, StartsNoNodeAfterOneFailed) {
  std::atomic<int> started = 0;
  const auto engine = engine_of(1000, 2, [&](Index, const Request&, const std::atomic<bool>&) -> Update {
    ++started;
    throw Error(ErrorKind::kInput, "no");
  });
  EXPECT_THROW(engine->run(kRequest, first(1000)), Error);
  EXPECT_LE(started, 2);  // one a worker
}

TEST(InProcessEngine, RefusesUpdatesOfDifferentLengthsNamingTheNode) {
  const auto engine = engine_of(9, 2, [](Index node, const Request& request, const std::atomic<bool>&) {
    if (node == 7) throw std::runtime_error("a later node");
    Update update{.numbers = {1.0, 2.0}, .weights = {1.0F}, .report = std::vector<double>(node)};
    if (request.task == 1 && node == 4) update.numbers.pop_back();
    if (request.task == 2 && node >= 5) update.weights.clear();
    return update;
  });
  expect_error(ErrorKind::kPeer, "node 5 sent 1 numbers and 1 weights, expected 2 and 1, as node 2 sent", [&] {
    engine->run({.task = 1}, std::vector<Index>{1, 2, 3, 4, 6, 7, 8});
  });
  expect_error(ErrorKind::kPeer, "node 6 sent 2 numbers and 0 weights, expected 2 and 1, as node 1 sent",
               [&] { engine->run({.task = 2}, first(9)); });
  // Reports may differ: they are not added.
  EXPECT_EQ(engine->run({}, first(4)).numbers, (std::vector<double>{4.0, 8.0}));
}

TEST(InProcessEngine, RefusesACohortThatIsNone) {
  const auto engine =
      engine_of(3, 1, [](Index, const Request&, const std::atomic<bool>&) { return Update{.numbers = {1.0}}; });
  const auto refused = [&](const std::string& message, const std::vector<Index>& cohort) {
    expect_error(ErrorKind::kUsage, message, [&] { engine->run(kRequest, cohort); });
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
    return Update{.numbers = {1.0}};
  });
  const auto caller = std::this_thread::get_id();
  const auto stop_once_two_work = [&](double done) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    EXPECT_EQ(done, 0.0);
    return looping < 2;
  };
  EXPECT_THROW(engine->run({.task = 1}, first(50), stop_once_two_work), Stopped);
  EXPECT_EQ(looping, 2);
  EXPECT_EQ(engine->run({.task = 2}, first(50)).numbers, std::vector<double>{50.0});
}

TEST(InProcessEngine, ThrowsWhatItsObserverThrewOnceNobodyWorks) {
  std::atomic<int> working = 0;
  const auto engine = engine_of(50, 2, [&](Index, const Request&, const std::atomic<bool>& cancelled) {
    ++working;
    await([&] { return cancelled.load(); }, "the engine cancelled its work");
    --working;
    return Update{};
  });
  const auto observer = [](double) -> bool { throw std::runtime_error("terminal gone"); };
  EXPECT_THROW(engine->run(kRequest, first(50), observer), std::runtime_error);
  EXPECT_EQ(working, 0);
}

TEST(InProcessEngine, TellsItsObserverHowFarItIsAlsoWhileNothingChanges) {
  std::atomic<int> calls = 0;
  const auto engine = engine_of(20, 2, [&](Index, const Request&, const std::atomic<bool>&) {
    await([&] { return calls >= 3; }, "the observer was called three times");
    return Update{};
  });
  std::vector<double> told;
  engine->run(kRequest, first(20), [&](double done) {
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
  Update run(Index, const Request&, const std::atomic<bool>&) override {
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
    for (int i = 0; i < 5; ++i) engine->run(kRequest, first(100));
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
      return Update{.report = {static_cast<double>(blas_threads())}};
    });
    EXPECT_EQ(engine->run(kRequest, first(1)).reports[0].values, std::vector<double>{static_cast<double>(threads)});
  }
  use_blas_threads(before);
}

TEST(InProcessEngine, ThrowsWhyAProgramCannotBeMadeAndTriesAgain) {
  bool broken = true;
  const auto engine = make_in_process_engine(
      2,
      [&]() -> std::unique_ptr<NodeProgram> {
        if (broken) throw Error(ErrorKind::kSystem, "no memory");
        return std::make_unique<FunctionProgram>(
            [](Index, const Request&, const std::atomic<bool>&) { return Update{.numbers = {1.0}}; });
      },
      {.workers = 2});
  expect_error(ErrorKind::kSystem, "no memory", [&] { engine->run(kRequest, first(2)); });
  broken = false;
  EXPECT_EQ(engine->run(kRequest, first(2)).numbers, std::vector<double>{2.0});
}

TEST(InProcessEngine, MakesAnotherProgramAfterOneThrew) {
  int made = 0;
  const auto engine = make_in_process_engine(
      2,
      [&] {
        ++made;
        return std::make_unique<FunctionProgram>([](Index, const Request& request, const std::atomic<bool>&) {
          if (request.task == 1) throw Error(ErrorKind::kInput, "half done");
          return Update{};
        });
      },
      {.workers = 1});
  engine->run({}, first(2));
  EXPECT_EQ(made, 1);
  EXPECT_THROW(engine->run({.task = 1}, first(1)), Error);
  engine->run({}, first(2));
  EXPECT_EQ(made, 2);
}

TEST(InProcessEngine, MayNeverBeUsed) {
  EXPECT_EQ(engine_of(5, 0, {})->nodes(), 5);
}

}  // namespace
}  // namespace labelshift
