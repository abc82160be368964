#pragma once

#include <csignal>
#include <string>
#include <string_view>

namespace labelshift::cli {

/// Writes to standard output at once. Throws Error{kSystem} if it cannot: a full disk must not look like success.
void print(std::string_view text);

/// Writes "warning: TEXT" to standard error.
void warn(const std::string& text);

/// Throws the error that writing to `path` would end in, before the work is done that it would waste. An empty path is
/// a file nobody asked for.
void check_writable(const std::string& path);

/// Whether both name one file, neither path being empty.
bool same_file(const std::string& one, const std::string& other);

/// While one lives, SIGINT, SIGTERM and SIGHUP wait for it to end, so that destructors can take half-written files
/// away; then the signal does what it always does.
class DeferInterrupt {
 public:
  DeferInterrupt();
  DeferInterrupt(const DeferInterrupt&) = delete;
  ~DeferInterrupt();
  /// Whether such a signal waits: time to stop.
  bool requested() const;

 private:
  sigset_t before_;
};

}  // namespace labelshift::cli
