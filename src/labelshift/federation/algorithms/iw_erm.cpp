#include "labelshift/federation/algorithms/iw_erm.hpp"

#include "labelshift/federation/setting_error.hpp"

namespace labelshift {

void check_iw_erm(const FederationSettings& settings) {
  check_fedavg(settings);
  if (!settings.ratio.weighted())
    throw SettingError("ratio.method", "iw-erm needs ratios; give [ratio] a method, such as \"vrls\"");
}

}  // namespace labelshift
