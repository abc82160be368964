#include "labelshift/sites/site_status.hpp"

#include <fmt/format.h>

#include "labelshift/core/base/json.hpp"

namespace labelshift {

std::string status_json(const SiteStatus& status, double time) {
  Json json{{"time", time},
            {"run", status.run},
            {"task", status.task},
            {"round", status.round},
            {"rounds", status.rounds},
            {"nodes", status.nodes},
            {"connected", status.connected},
            {"waiting_for", status.waiting_for},
            {"bytes_down", status.traffic.down},
            {"bytes_up", status.traffic.up}};
  const char* accuracy = status.reweighted ? "reweighted_source_accuracy" : "accuracy";
  json[accuracy] = status.accuracy ? Json(*status.accuracy) : Json();
  json["seconds_left"] = status.seconds_left ? Json(*status.seconds_left) : Json();
  return json_line(json) + "\n";
}

std::string status_text(const SiteStatus& status) {
  std::string text =
      fmt::format("round {} of {}, {} of {} nodes", status.round, status.rounds, status.connected.size(), status.nodes);
  if (status.accuracy)
    text += fmt::format(", {} {:.3f}", status.reweighted ? "reweighted source accuracy" : "accuracy", *status.accuracy);
  return text + fmt::format(", {:.1f} MB", static_cast<double>(status.traffic.down + status.traffic.up) / 1e6);
}

}  // namespace labelshift
