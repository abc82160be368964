#include "labelshift/experiments/ratio_figures.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "labelshift/core/base/error.hpp"
#include "labelshift/data/datasets/augmentation.hpp"
#include "labelshift/experiments/ratio_trials.hpp"
#include "labelshift/learning/methods.hpp"

namespace labelshift {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(RatioFigures, HaveThePapersSweeps) {
  const FigureScale scale;
  EXPECT_EQ(scale.trials, 100);
  const std::vector<double> alphas = sweep_values({.sweep = Sweep::kAlpha}, scale);
  EXPECT_EQ(alphas.size(), 20u);
  EXPECT_DOUBLE_EQ(alphas.front(), 0.1);
  EXPECT_DOUBLE_EQ(alphas.back(), 10.0);
  const std::vector<double> sizes = sweep_values({.sweep = Sweep::kSize}, scale);
  EXPECT_EQ(sizes.size(), 50u);
  EXPECT_EQ(sizes.front(), 200.0);
  EXPECT_EQ(sizes[1], 400.0);
  EXPECT_EQ(sizes.back(), 10000.0);
}

TEST(RatioFigures, NameOnlyWhatThereIs) {
  for (const RatioFigure& figure : ratio_figures()) {
    for (const RatioPanel& panel : figure.panels) {
      EXPECT_NO_THROW(find_known_dataset(panel.recipe.data)) << figure.name;
      EXPECT_NO_THROW(find_augmentation(panel.augmentation)) << figure.name;
      for (const std::string& method : panel.methods) EXPECT_NO_THROW(find_method(method)) << figure.name;
    }
  }
}

TEST(RatioFigures, AreScaledByTheUser) {
  const RatioFigure figure =
      scaled(find_ratio_figure("figure-1"), {.predictors = 2, .epochs = 3, .width = 4, .data = {"cifar-10"}});
  ASSERT_EQ(figure.panels.size(), 3u);
  for (const RatioPanel& panel : figure.panels) {
    EXPECT_EQ(panel.predictors, 2);
    EXPECT_EQ(panel.recipe.epochs, 3);
    EXPECT_EQ(panel.recipe.settings.at("width"), "4");
  }
  // zeta 0 and 1 of two predictors
  EXPECT_EQ(predictors_of(figure.panels[0]).size(), 4u);
}

TEST(RatioFigures, SayWhatIsMissing) {
  try {
    scaled(find_ratio_figure("figure-5"), {.data = {"mnist"}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("no panel on the data asked for"));
  }
  try {
    find_ratio_figure("figure1");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("did you mean \"figure-1\"?"));
  }
}

TEST(PredictorRecipe, HasANameOfItsOwn) {
  std::set<std::string> names;
  PredictorRecipe recipe{.data = "mnist", .net = "mlp"};
  names.insert(recipe.name());
  recipe.examples = 100;
  names.insert(recipe.name());
  recipe.epochs = 3;
  names.insert(recipe.name());
  recipe.settings["dropout"] = "0.5";
  names.insert(recipe.name());
  recipe.held_out = 0.3;
  names.insert(recipe.name());
  recipe.learning_rate = 2e-3;
  names.insert(recipe.name());
  EXPECT_EQ(names.size(), 6u);
}

}  // namespace
}  // namespace labelshift
