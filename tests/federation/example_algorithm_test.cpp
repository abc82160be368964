#include "tests/federation/example_algorithm.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "labelshift/data/files/input_file.hpp"
#include "tests/federation/gaussian_federation.hpp"

// The example of docs/adding-an-algorithm.md.

namespace labelshift {
namespace {

std::vector<float> parameters_of(const AlgorithmEntry* own, double local_rate) {
  FederationSettings settings = quick_settings();
  settings.rounds = 1;
  settings.own_algorithm = own;
  settings.local = {.steps = 5, .batch = 8, .learning_rate = local_rate};
  settings.server = {.optimiser = "sgd", .learning_rate = 1.0, .weight_decay = 0.0};
  settings.weighting = Weighting::kPooled;  // a weight that is not 1
  const FederatedData data = gaussian_federation({{{20, 5, 5}, {5, 20, 5}}});
  return LocalFederation(settings, data).run().parameters;
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double squares = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) squares += std::pow(static_cast<double>(a[i]) - b[i], 2);
  return std::sqrt(squares);
}

TEST(ExampleAlgorithm, IsFedAvgUntilAnUpdateIsTooLong) {
  const std::vector<float> start = parameters_of(nullptr, 1e-12);
  EXPECT_EQ(parameters_of(&kFedClip, 0.1), parameters_of(nullptr, 0.1));
  EXPECT_GT(distance(parameters_of(nullptr, 10.0), start), 2.0);
  EXPECT_NEAR(distance(parameters_of(&kFedClip, 10.0), start), 1.0, 1e-5);
}

TEST(ExampleAlgorithm, IsTheOneOfTheRecipe) {
  const std::filesystem::path root = std::filesystem::path(LABELSHIFT_EXAMPLES).parent_path();
  const std::string code = read_file((root / "tests/federation/example_algorithm.hpp").string());
  const std::string recipe = read_file((root / "docs/adding-an-algorithm.md").string());
  const std::size_t begin = code.find("/// FedAvg whose nodes"), end = code.find("\n}  // namespace labelshift");
  ASSERT_LT(begin, end);
  EXPECT_NE(recipe.find("```cpp\n" + code.substr(begin, end - begin) + "```"), std::string::npos);
}

}  // namespace
}  // namespace labelshift
