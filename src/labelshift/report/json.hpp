#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

namespace labelshift {

/// Keys keep the order in which they are set.
using Json = nlohmann::ordered_json;

/// JSON has no infinities and no NaN: these are null.
inline Json json_number(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

/// Names of classes, files and runs are anybody's bytes, which may not be UTF-8; `indent` -1 makes it one line.
inline std::string json_text(const Json& json, int indent = 2) {
  return json.dump(indent, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) + '\n';
}

}  // namespace labelshift
