#pragma once

#include <cstdlib>
#include <string>
#include <vector>

#include "labelshift/report/svg.hpp"
#include "tests/report/parse_xml.hpp"

namespace labelshift {

/// The corners of a path that consists of M, L and Z only.
inline std::vector<SvgPoint> corners(const XmlElement& path) {
  std::vector<SvgPoint> points;
  const std::string& data = path.attributes.at("d");
  for (const char* at = data.c_str(); *at == 'M' || *at == 'L';) {
    char* end = nullptr;
    const double x = std::strtod(at + 1, &end);
    const double y = std::strtod(end, &end);
    points.push_back({x, y});
    at = end;
  }
  return points;
}

inline std::vector<std::string> texts(const std::vector<XmlElement>& elements) {
  std::vector<std::string> found;
  for (const XmlElement& element : elements) found.push_back(element.text);
  return found;
}

/// Base and exponent of every tick as "10^2", or "0.5" without an exponent.
inline std::vector<std::string> ticks(const std::vector<XmlElement>& elements) {
  std::vector<std::string> found;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if (!elements[i].has_class("tick")) continue;
    const bool power = i + 1 < elements.size() && elements[i + 1].name == "tspan";
    found.push_back(elements[i].text + (power ? "^" + elements[i + 1].text : ""));
  }
  return found;
}

}  // namespace labelshift
