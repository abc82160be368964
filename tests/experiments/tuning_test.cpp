#include "labelshift/experiments/tuning.hpp"

#include <gtest/gtest.h>

namespace labelshift {
namespace {

TEST(Tuning, TriesEveryCombinationWithTheLastKeyRunningFastest) {
  ComparedRun row{.name = "row"};
  row.tune = {{"training.learning-rate", {"0.1", "0.2"}}, {"training.batch", {"8", "16", "32"}}};
  const std::vector<TuningCandidate> candidates = candidates_of(row);
  ASSERT_EQ(candidates.size(), 6u);
  EXPECT_EQ(candidates[1].text, "training.learning-rate = 0.1, training.batch = 16");
  EXPECT_EQ(candidates[1].run.settings.federation.server.learning_rate, 0.1);
  EXPECT_EQ(candidates[1].run.settings.federation.local.batch, 16);
  EXPECT_EQ(candidates[3].text, "training.learning-rate = 0.2, training.batch = 8");
  for (const TuningCandidate& candidate : candidates) EXPECT_TRUE(candidate.run.tune.empty());
}

TEST(Tuning, OfNothingIsTheRowItself) {
  const std::vector<TuningCandidate> candidates = candidates_of({.name = "row"});
  ASSERT_EQ(candidates.size(), 1u);
  EXPECT_EQ(candidates[0].run.name, "row");
  EXPECT_EQ(candidates[0].text, "");
}

}  // namespace
}  // namespace labelshift
