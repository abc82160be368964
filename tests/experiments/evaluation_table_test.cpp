#include "labelshift/experiments/evaluation_table.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace labelshift {
namespace {

TEST(RoundsTable, HasARowAnEvaluationAndCountsNodesFromOne) {
  const std::vector<NodeEvaluation> history = {
      {.round = 1, .node = 0, .examples = 10, .accuracy = 0.5, .loss = std::numeric_limits<double>::infinity()},
      {.round = 1,
       .node = 1,
       .examples = 20,
       .reweighted_accuracy = 0.1,
       .reweighted_low = 0.0,
       .reweighted_high = 0.3,
       .reweighted_examples = 12.5}};
  EXPECT_EQ(table_csv(rounds_table(history)),
            "round,node,examples,accuracy,loss,reweighted_source_accuracy,reweighted_low,reweighted_high,"
            "reweighted_effective_examples\n"
            "1,1,10,0.5,,,,,\n"
            "1,2,20,,,0.1,0,0.3,12.5\n");
}

TEST(RoundsTable, HasColumnsOfAdaptingWhereSomeNodeAdapts) {
  const std::vector<NodeEvaluation> history = {{.round = 1, .node = 0},
                                               {.round = 1,
                                                .node = 1,
                                                .adapted = 0.5,
                                                .adapted_low = 0.4,
                                                .adapted_high = 0.6,
                                                .majority = 0.3,
                                                .majority_low = 0.2,
                                                .majority_high = 0.45}};
  EXPECT_EQ(table_csv(rounds_table(history)),
            "round,node,examples,accuracy,loss,reweighted_source_accuracy,reweighted_low,reweighted_high,"
            "reweighted_effective_examples,adapted,adapted_low,adapted_high,majority,majority_low,majority_high\n"
            "1,1,0,,,,,,,,,,,,\n"
            "1,2,0,,,,,,,0.5,0.4,0.6,0.3,0.2,0.45\n");
}

}  // namespace
}  // namespace labelshift
