#pragma once

#include <optional>

#include "labelshift/core/base/json.hpp"
#include "labelshift/core/inference/hypothesis.hpp"

// What several reports have in common as JSON; for .cpp files only.

namespace labelshift {

inline Json test_object(const HypothesisTest& test) {
  return {{"statistic", json_number(test.statistic)}, {"p_value", json_number(test.p_value)}};
}

/// null where there is no test
inline Json test_object(const std::optional<HypothesisTest>& test) {
  return test ? test_object(*test) : Json(nullptr);
}

}  // namespace labelshift
