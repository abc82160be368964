#pragma once

#include <stdexcept>
#include <string>

namespace labelshift {

/// What has to be mended: the command, the data, another node, the machine.
enum class ErrorKind { kUsage, kInput, kPeer, kSystem };

/// Something a user or a peer can cause. The message is one sentence: the place, what was found, what was expected.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

}  // namespace labelshift
