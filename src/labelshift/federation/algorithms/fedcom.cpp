#include "labelshift/federation/algorithms/fedcom.hpp"

#include <fmt/format.h>

#include "labelshift/federation/setting_error.hpp"

namespace labelshift {

void check_fedcom(const FederationSettings& settings) {
  check_fedavg(settings);
  check_plain_server(settings);
  if (!settings.compression.compressed())
    throw SettingError(
        "training.compression",
        "fedcom is about compressed updates; give compression = \"qsgd\" or \"random-k\", or algorithm = "
        "\"fedavg\"");
}

}  // namespace labelshift
