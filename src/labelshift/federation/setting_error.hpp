#pragma once

#include "labelshift/core/base/error.hpp"

namespace labelshift {

/// A setting is impossible, or does not go with another one. Whoever knows where it was set can add the place.
class SettingError : public Error {
 public:
  SettingError(std::string key, const std::string& message) : Error(ErrorKind::kUsage, message), key_(std::move(key)) {}
  const std::string& key() const { return key_; }  // as in an experiment file, "training.rounds"

 private:
  std::string key_;
};

}  // namespace labelshift
