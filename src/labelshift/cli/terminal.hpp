#pragma once

#include <csignal>
#include <istream>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "labelshift/core/base/printable.hpp"

namespace labelshift::cli {

/// Takes the places of standard streams that are closed (<&-), lest a file opened later be one of them. Reading or
/// writing them still fails. Calls nothing but the system, so that it can run before libraries have started.
void hold_closed_streams();

/// Writes to standard output at once what people read, printable but for line ends and tabs. Throws Error{kSystem} if
/// it cannot: a full disk must not look like success.
void print(std::string_view text);
/// The same of what programs read: as it is, unless standard output is a terminal.
void print_data(std::string_view text);
/// The same of JSON, which stays JSON on a terminal.
void print_json(std::string_view text);

/// Writes "warning: TEXT" to standard error, printable and on one line.
void warn(const std::string& text);

/// Writes a file of this text, whole or, after a signal too, not at all.
void write_whole(const std::string& path, std::string_view text);

/// Throws the error that writing to `path` would end in, before the work is done that it would waste. An empty path is
/// a file nobody asked for.
void check_writable(const std::string& path);

/// Whether both name one file, neither path being empty.
bool same_file(const std::string& one, const std::string& other);

/// A file that an option names.
struct OptionFile {
  const char* option;
  std::string path;  // empty if the option was not given
};
/// Throws Error{kUsage} if two outputs are the same file, or one is a regular file that is also read.
void check_outputs(std::span<const OptionFile> outputs, std::span<const OptionFile> inputs);

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

/// Lets SIGTERM end this process at once, also where a DeferInterrupt is.
void take_termination();

/// Standard input for whoever has a DeferInterrupt: throws Stopped out of whatever reads it as soon as a signal waits,
/// where a plain read would go on waiting for more. Throws Error{kSystem} if it cannot be read.
class StandardInput : public std::istream {
 public:
  StandardInput();
  ~StandardInput() override;

 private:
  class Buffer;
  std::unique_ptr<Buffer> buffer_;
};

}  // namespace labelshift::cli
