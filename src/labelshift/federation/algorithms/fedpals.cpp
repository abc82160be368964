#include "labelshift/federation/algorithms/fedpals.hpp"

#include "labelshift/federation/mixture_weights.hpp"
#include "labelshift/federation/setting_error.hpp"

namespace labelshift {
namespace {

constexpr double kNothing = 0x1p20 * kLeastMixtureWeight;  // more than all nodes weigh together whose alpha is 0

}  // namespace

void FedPals::server_update(const TrainingSums<double>& sums) {
  if (sums.weight < kNothing) return;  // a round of nodes that the target has no use for
  FedAvg::server_update(sums);
}

void check_fedpals(const FederationSettings& settings) {
  check_fedavg(settings);
  if (!settings.ratio.weighted())
    throw SettingError("ratio.method",
                       "fedpals needs the target's label mix; give [ratio] a method, such as \"vrls\", or \"true\"");
  if (settings.ratio.refreshed())
    throw SettingError("ratio.refresh",
                       "refresh makes importance weights anew, and fedpals has weights of nodes instead; drop refresh, "
                       "or use iw-erm");
  if (settings.weighting != Weighting::kNodes)
    throw SettingError("training.weighting",
                       "fedpals finds what each node weighs; drop weighting = \"pooled\", to which a large "
                       "fedpals-lambda comes");
}

}  // namespace labelshift
