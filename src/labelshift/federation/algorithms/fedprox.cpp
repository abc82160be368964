#include "labelshift/federation/algorithms/fedprox.hpp"

#include "labelshift/federation/setting_error.hpp"

namespace labelshift {

void check_fedprox(const FederationSettings& settings) {
  check_several_steps(settings);
  if (!(settings.local.proximal > 0.0)) throw SettingError("training.proximal", "fedprox needs a proximal above 0");
}

}  // namespace labelshift
