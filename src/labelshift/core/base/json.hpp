#pragma once

#include <Eigen/Core>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

// All layers write JSON by this. It is for .cpp files only: core itself is built without nlohmann-json, and so is what
// includes the headers of the library.

namespace labelshift {

/// Keys keep the order in which they are set.
using Json = nlohmann::ordered_json;

/// JSON has no infinities and no NaN: these are null.
inline Json json_number(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

inline Json json_numbers(const Eigen::VectorXd& values) {
  Json array = Json::array();
  for (const double value : values) array.push_back(json_number(value));
  return array;
}

enum class JsonLetters { kAll, kAscii };  // kAscii: other letters are written as \u00fc

/// One line without its end. Names of classes, files and runs are anybody's bytes: what is not UTF-8 becomes U+FFFD.
inline std::string json_line(const Json& json, JsonLetters letters = JsonLetters::kAll) {
  return json.dump(-1, ' ', letters == JsonLetters::kAscii, Json::error_handler_t::replace);
}

/// The whole of a file that people may read too.
inline std::string json_text(const Json& json) {
  return json.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) + '\n';
}

}  // namespace labelshift
