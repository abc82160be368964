#include "labelshift/experiments/paper_tables.hpp"

#include <gmock/gmock.h>

#include "labelshift/core/base/error.hpp"
#include "labelshift/experiments/ratio_figures.hpp"
#include "labelshift/experiments/shipped_experiments.hpp"

namespace labelshift {
namespace {

TEST(PaperTables, AreMadeOfExperimentsThatAreThere) {
  for (const PaperTable& table : paper_tables()) {
    EXPECT_FALSE(table.experiments.empty()) << table.name;
    for (const std::string& name : table.experiments) EXPECT_FALSE(shipped_experiment(name).runs.empty()) << name;
  }
}

TEST(PaperTables, AreFoundByNameAndAreNoFiguresOfRatios) {
  for (const PaperTable& table : paper_tables()) EXPECT_EQ(find_paper_table(table.name), &table);
  for (const RatioFigure& figure : ratio_figures()) EXPECT_EQ(find_paper_table(figure.name), nullptr);
  try {
    find_paper_table("table-22");
    ADD_FAILURE() << "there is no such table";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_THAT(error.what(), testing::StartsWith("unknown table or figure \"table-22\"; did you mean \"table-2\"?"));
  }
}

TEST(PaperTables, ShowOneComparisonInSeveralWays) {
  EXPECT_EQ(find_paper_table("table-2")->view, ComparisonView::kAverage);
  EXPECT_EQ(find_paper_table("table-6")->view, ComparisonView::kNodes);
  EXPECT_EQ(find_paper_table("figure-6")->view, ComparisonView::kSpread);
  for (const char* name : {"table-6", "figure-6"})
    EXPECT_THAT(find_paper_table(name)->experiments, testing::ElementsAre("table-2")) << name;
}

}  // namespace
}  // namespace labelshift
