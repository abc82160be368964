#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "labelshift/core/base/error.hpp"

namespace labelshift {

/// Settings by name on their way to the factory that reads them. A setting nobody reads is a usage error, so a
/// misspelt one cannot be ignored silently.
class Settings {
 public:
  Settings() = default;
  explicit Settings(std::map<std::string, std::string> values) : values_(std::move(values)) {}

  void set(const std::string& name, const std::string& value) { values_[name] = value; }

  /// The value of `name`, or `fallback`. Throws Error{kUsage} if it is not a finite number in [low, high].
  double number(const std::string& name, double fallback, double low, double high);
  int integer(const std::string& name, int fallback, int low, int high);
  std::uint64_t seed(const std::string& name, std::uint64_t fallback);  // every bit counts, so not by way of a double
  /// The value of `name`, or choices[0]. Throws Error{kUsage} if it is not one of them.
  std::string choice(const std::string& name, const std::vector<std::string>& choices);

  /// Throws Error{kUsage} naming the first setting that was never read, and the ones that were asked for.
  void check_all_read(const std::string& reader) const;

 private:
  const std::string* find(const std::string& name);
  std::map<std::string, std::string> values_;
  std::vector<std::string> asked_;
};

}  // namespace labelshift
