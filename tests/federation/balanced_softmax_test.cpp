#include <gmock/gmock.h>

#include "tests/federation/offset_reference.hpp"

namespace labelshift {
namespace {

class BalancedSoftmaxFederation : public OffsetFederation {
 protected:
  BalancedSoftmaxFederation() : OffsetFederation("balanced-softmax") {}
};

TEST_F(BalancedSoftmaxFederation, AddsTheLogarithmOfEachNodesOwnPriorToItsLogits) {
  const Eigen::MatrixXd n = counts();
  expect_as_reference((n.array().colwise() / n.rowwise().sum().array()).log());  // log 0 leaves a class out
}

TEST_F(BalancedSoftmaxFederation, IsFedAvgWhereEveryNodeHasAllClassesAlike) {
  data_ = gaussian_federation({{{8, 8, 8}, {3, 9, 3}}, {{5, 5, 5}, {3, 3, 9}}});
  settings_.local.batch = 4;
  FederationSettings plain = settings_;
  plain.algorithm = "fedavg";
  const FederationState a = LocalFederation(settings_, data_).run(), b = LocalFederation(plain, data_).run();
  // The same softmax of logits that are all log 3 less, which rounds them by 1e-7.
  for (std::size_t i = 0; i < a.parameters.size(); ++i) EXPECT_NEAR(a.parameters[i], b.parameters[i], 5e-6) << i;
}

TEST_F(BalancedSoftmaxFederation, LearnsNothingWhereANodeHasOneClass) {
  data_ = gaussian_federation({{{9, 0, 0}, {3, 9, 3}}, {{0, 7, 0}, {3, 3, 9}}, {{0, 0, 5}, {3, 3, 9}}});
  std::vector<float> initial;
  LocalFederation federation(settings_, data_);
  const FederationState end = federation.run({.checkpoint = with_state([&](const FederationState& state) {
                                                if (state.round == 0) initial = state.parameters;
                                              })});
  EXPECT_EQ(end.parameters, initial);
}

TEST_F(BalancedSoftmaxFederation, WarnsOfImportanceWeightsBesideIt) {
  const std::string warning =
      "balanced-softmax allows for each node's label mix by itself, and importance weights do it a second time; give "
      "[ratio] method = \"none\" to have it as it was published";
  EXPECT_THAT(LocalFederation(settings_, data_).run().warnings, testing::Not(testing::Contains(warning)));
  settings_.ratio.method = "true";
  EXPECT_THAT(LocalFederation(settings_, data_).run().warnings, testing::Contains(warning));
}

}  // namespace
}  // namespace labelshift
