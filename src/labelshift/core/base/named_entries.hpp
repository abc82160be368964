#pragma once

#include <string>
#include <vector>

#include "labelshift/core/base/error.hpp"

namespace labelshift {

/// `unknown KIND "NAME"; did you mean "..."? (known: ...)`, as an Error{kUsage} to throw. Suggests a known name that
/// differs by its case or by a slip or two.
Error unknown_name(const std::string& kind, const std::string& name, const std::vector<std::string>& known);

/// The row of a table of things with names that is called `name`. Throws unknown_name() if there is none; `known` are
/// names that could have been given besides those of the rows.
template <typename Entries>
const auto& find_entry(const Entries& entries, const std::string& kind, const std::string& name,
                       std::vector<std::string> known = {}) {
  for (const auto& entry : entries) {
    if (entry.name == name) return entry;
    known.emplace_back(entry.name);
  }
  throw unknown_name(kind, name, known);
}

}  // namespace labelshift
