#include "labelshift/engine/mpi/mpi_engine.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

namespace labelshift {
namespace {

using testing::HasSubstr;

struct JobResult {
  int status = 0;      // of mpirun
  std::string output;  // and errors
};

/// Runs a scenario of mpi_scenario.cpp on so many ranks, for half a minute at most.
JobResult job(const std::string& scenario, int ranks) {
  // OpenMPI leaves memory behind, which a sanitizer would take for ours.
  const std::string command = fmt::format(
      "ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout -k "
      "5 60 mpirun --oversubscribe -n {} {} {} "
      "2>&1 "
      "</dev/null",
      ranks, LABELSHIFT_MPI_SCENARIO, scenario);
  FILE* const pipe = popen(command.c_str(), "r");
  JobResult result;
  std::array<char, 4096> buffer;
  while (const std::size_t size = fread(buffer.data(), 1, buffer.size(), pipe))
    result.output.append(buffer.data(), size);
  const int status = pclose(pipe);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

class OverMpi : public testing::TestWithParam<int> {};

TEST_P(OverMpi, SumsReportsAndTrafficHaveTheBitsOfOneProcess) {
  const JobResult result = job("same-bits", GetParam());
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("done"));
}

TEST_P(OverMpi, WhatNodesDoWrongIsAnOutcomeWithTheirWords) {
  const JobResult result = job("failures", GetParam());
  EXPECT_EQ(result.status, 0) << result.output;
}

TEST_P(OverMpi, EveryRankChecksTheAnswersThatItAdds) {
  const JobResult result = job("accept", GetParam());
  EXPECT_EQ(result.status, 0) << result.output;
}

TEST_P(OverMpi, AStopReachesEveryRankAndLeavesTheEngineUsable) {
  const JobResult result = job("stop", GetParam());
  EXPECT_EQ(result.status, 0) << result.output;
}

INSTANTIATE_TEST_SUITE_P(Engine, OverMpi, testing::Range(1, 5),
                         [](const auto& ranks) { return fmt::format("{}Ranks", ranks.param); });

TEST(OverMpiOnce, WhatTheObserverThrowsIsThrownOnceAllRanksAreFree) {
  const JobResult result = job("observer-throws", 2);
  EXPECT_EQ(result.status, 0) << result.output;
}

TEST(OverMpiOnce, ARankThatWorksLongerThanTheDeadlineIsWaitedFor) {
  const JobResult result = job("slow", 2);
  EXPECT_EQ(result.status, 0) << result.output;
}

TEST(OverMpiOnce, ASilentRankEndsTheJobWithItsNumber) {
  const JobResult result = job("silent", 3);
  EXPECT_EQ(result.status, 4) << result.output;
  EXPECT_THAT(result.output, HasSubstr("error: rank 2 sent nothing for 5s in round 5; look whether its machine is up"));
}

TEST(OverMpiOnce, AKilledRankEndsTheJob) {
  const JobResult result = job("killed", 3);
  EXPECT_NE(result.status, 0) << result.output;
  EXPECT_NE(result.status, 124) << "it hung";
}

TEST(OverMpiOnce, ThereIsNoQuorum) {
  const JobResult result = job("quorum", 2);
  EXPECT_EQ(result.status, 0) << result.output;
}

TEST(BlockOf, CoversAllNodesEvenlyInOrder) {
  for (const Index nodes : {0, 1, 5, 13, 1000})
    for (const int ranks : {1, 2, 3, 7, 64}) {
      Index next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const NodeBlock block = block_of(nodes, ranks, rank);
        EXPECT_EQ(block.begin, next);
        EXPECT_GE(block.end - block.begin, nodes / ranks);
        EXPECT_LE(block.end - block.begin, nodes / ranks + 1);
        next = block.end;
      }
      EXPECT_EQ(next, nodes);
    }
}

}  // namespace
}  // namespace labelshift
