#include "labelshift/sites/site_status.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "labelshift/core/base/json.hpp"

namespace labelshift {
namespace {

constexpr std::size_t kMostOnALine = 4;  // names of those that are in, and of those that are away

std::string duration_text(double seconds) {
  const auto whole = std::llround(seconds);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

}  // namespace

std::string some_names(const std::vector<std::string>& names, std::size_t most) {
  const std::size_t shown = std::min(names.size(), most);
  const std::string text = fmt::format("{}", fmt::join(names.begin(), names.begin() + static_cast<Index>(shown), ", "));
  const std::size_t left = names.size() - shown;
  return left == 0 ? text : fmt::format("{} and {} other{}", text, left, left == 1 ? "" : "s");
}

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
  std::string text = fmt::format("round {} of {}; in: {}", status.round, status.rounds,
                                 status.connected.empty() ? "nobody" : some_names(status.connected, kMostOnALine));
  if (!status.away.empty()) text += "; away: " + some_names(status.away, kMostOnALine);
  if (status.accuracy)
    text += fmt::format("; {} {:.3f}", status.reweighted ? "reweighted source accuracy" : "accuracy", *status.accuracy);
  text += fmt::format("; {:.1f} MB", static_cast<double>(status.traffic.down + status.traffic.up) / 1e6);
  if (status.seconds_left) text += "; " + duration_text(*status.seconds_left) + " left of this run";
  return text;
}

}  // namespace labelshift
