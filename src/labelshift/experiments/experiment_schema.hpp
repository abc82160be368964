#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "labelshift/experiments/experiment.hpp"
#include "labelshift/experiments/toml_values.hpp"

namespace labelshift {

/// A key of the file and what it is to the settings.
struct SchemaRow {
  std::string section;
  std::string key;
  std::string expected;  // goes on from "expected"
  std::string summary;
  /// Returns false if the value is not what is expected; may throw Error{kUsage} that says more. Paths start at
  /// `folder`.
  std::function<bool(const toml::node& value, RunSettings& run, const std::filesystem::path& folder)> read;
  std::function<TomlValue(const RunSettings& run)> write;  // null: left out
};

/// Every key of an experiment file's tables, in the order in which they are written. Reading, writing, suggestions and
/// the documentation walk these rows.
const std::vector<SchemaRow>& schema_rows();

/// The names of the tables, in the same order.
std::vector<std::string> section_names();

/// Throws Error{kUsage} with a suggestion if the section has no such key.
const SchemaRow& find_schema_row(const std::string& section, const std::string& key);

}  // namespace labelshift
