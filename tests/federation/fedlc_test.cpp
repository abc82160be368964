#include <gmock/gmock.h>

#include "tests/federation/offset_reference.hpp"

namespace labelshift {
namespace {

class FedLcFederation : public OffsetFederation {
 protected:
  FedLcFederation() : OffsetFederation("fedlc") {}
};

TEST_F(FedLcFederation, TakesAMarginOffTheLogitsOfRareClasses) {
  EXPECT_EQ(settings_.fedlc_tau, 0.5);
  for (const double tau : {0.5, 4.0}) {
    settings_.fedlc_tau = tau;
    expect_as_reference(-tau * counts().array().pow(-0.25));  // minus infinity where a node has no example
  }
}

TEST_F(FedLcFederation, IsFedAvgToTheBitWithoutAMargin) {
  settings_.fedlc_tau = 0.0;
  settings_.local.batch = 4;
  FederationSettings plain = settings_;
  plain.algorithm = "fedavg";
  EXPECT_EQ(LocalFederation(settings_, data_).run().parameters, LocalFederation(plain, data_).run().parameters);
}

TEST_F(FedLcFederation, WarnsOfImportanceWeightsBesideIt) {
  settings_.ratio.method = "true";
  EXPECT_THAT(LocalFederation(settings_, data_).run().warnings,
              testing::Contains(testing::StartsWith("fedlc allows for each node's label mix by itself")));
}

TEST_F(FedLcFederation, RefusesWhatItDoesNotGoWith) {
  settings_.fedlc_tau = -1.0;
  expect_refused("training.fedlc-tau is -1, expected a number from 0 to 1000000",
                 [&] { check_settings(settings_, 3); });
  settings_.fedlc_tau = 1.0;
  settings_.local.proximal = 0.1;
  expect_refused("has no proximal term", [&] { check_settings(settings_, 3); });
}

}  // namespace
}  // namespace labelshift
