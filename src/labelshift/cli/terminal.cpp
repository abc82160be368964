#include "labelshift/cli/terminal.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <iostream>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/observer.hpp"
#include "labelshift/data/files/errno_text.hpp"
#include "labelshift/data/files/input_file.hpp"
#include "labelshift/data/files/output_file.hpp"

namespace labelshift::cli {
namespace {

constexpr int kDeferred[] = {SIGINT, SIGTERM, SIGHUP};
constexpr std::string_view kLayout = "\n\t";

void write_out(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    throw Error(ErrorKind::kSystem, fmt::format("standard output: {}", errno_text(errno)));
}

sigset_t deferred_signals() {
  sigset_t deferred;
  sigemptyset(&deferred);
  for (const int signal : kDeferred) {
    struct sigaction now = {};
    sigaction(signal, nullptr, &now);
    if (now.sa_handler != SIG_IGN) sigaddset(&deferred, signal);  // nohup's would be kept waiting instead of ignored
  }
  return deferred;
}

}  // namespace

void hold_closed_streams() {
  // In the direction in which they are not used, so that using them is an error.
  constexpr int kModes[] = {O_WRONLY, O_RDONLY, O_RDONLY};
  for (int stream = 0; stream < 3; ++stream)
    if (::fcntl(stream, F_GETFD) < 0) ::open("/dev/null", kModes[stream]);  // takes the lowest place that is free
}

void print(std::string_view text) {
  write_out(printable(text, kLayout));
}

void print_data(std::string_view text) {
  ::isatty(STDOUT_FILENO) ? print(text) : write_out(text);
}

void print_json(std::string_view text) {
  write_out(::isatty(STDOUT_FILENO) ? printable_json(text) : std::string(text));
}

void warn(const std::string& text) {
  std::cerr << "warning: " << printable(text) << '\n';
}

void write_whole(const std::string& path, std::string_view text) {
  std::error_code ignored;
  // There is no half-written pipe, and one without a reader is waited for: Ctrl-C must end that.
  if (std::filesystem::is_fifo(path, ignored)) return write_file(path, text);
  const DeferInterrupt whole;
  write_file(path, text);
}

bool same_file(const std::string& one, const std::string& other) {
  if (one.empty() || other.empty()) return false;
  const auto resolved = [](const std::string& path) {
    std::error_code ignored;  // a path that cannot be resolved is nobody else's
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path), ignored);
  };
  std::error_code ignored;
  return one == other || (!resolved(one).empty() && resolved(one) == resolved(other)) ||
         std::filesystem::equivalent(one, other, ignored);
}

void check_outputs(std::span<const OptionFile> outputs, std::span<const OptionFile> inputs) {
  std::error_code ignored;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    for (const OptionFile& other : outputs.subspan(i + 1))
      if (same_file(outputs[i].path, other.path))
        throw Error(ErrorKind::kUsage,
                    fmt::format("{} and {} are the same file; give each its own", outputs[i].option, other.option));
    for (const OptionFile& input : inputs)
      if (same_file(outputs[i].path, input.path) && std::filesystem::is_regular_file(input.path, ignored))
        throw Error(ErrorKind::kUsage, fmt::format("{} would write over the file that {} reads; give it another name",
                                                   outputs[i].option, input.option));
  }
}

void check_writable(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  // Opening and closing a named pipe would tell its reader that this was all.
  if (path.empty() || (fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status))) return;
  const DeferInterrupt whole;
  OutputFile probe(path);
}

// Blocked rather than handled: a blocked signal also waits for threads, and needs no handler and no global.
DeferInterrupt::DeferInterrupt() {
  const sigset_t deferred = deferred_signals();
  pthread_sigmask(SIG_BLOCK, &deferred, &before_);
}

DeferInterrupt::~DeferInterrupt() {
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void take_termination() {
  sigset_t termination;
  sigemptyset(&termination);
  sigaddset(&termination, SIGTERM);
  pthread_sigmask(SIG_UNBLOCK, &termination, nullptr);
}

bool DeferInterrupt::requested() const {
  sigset_t pending;
  sigpending(&pending);
  for (const int signal : kDeferred)
    if (sigismember(&pending, signal)) return true;
  return false;
}

class StandardInput::Buffer : public std::streambuf {
 public:
  Buffer() {
    const sigset_t deferred = deferred_signals();
    signals_ = ::signalfd(-1, &deferred, SFD_CLOEXEC);
    if (signals_ < 0) fail();
  }
  Buffer(const Buffer&) = delete;
  ~Buffer() override { ::close(signals_); }

 protected:
  int_type underflow() override {
    pollfd ready[] = {{STDIN_FILENO, POLLIN, 0}, {signals_, POLLIN, 0}};
    while (::poll(ready, std::size(ready), /*timeout=*/-1) < 0)
      if (errno != EINTR) fail();
    if (ready[1].revents != 0) throw Stopped{};  // the signal stays where it is
    ssize_t got = 0;
    while ((got = ::read(STDIN_FILENO, chunk_.data(), chunk_.size())) < 0)
      if (errno != EINTR) fail();
    if (got == 0) return traits_type::eof();
    setg(chunk_.data(), chunk_.data(), chunk_.data() + got);
    return traits_type::to_int_type(chunk_[0]);
  }

 private:
  [[noreturn]] static void fail() {
    throw Error(ErrorKind::kSystem, fmt::format("cannot read standard input: {}", errno_text(errno)));
  }
  int signals_ = -1;
  std::array<char, 1 << 16> chunk_;
};

StandardInput::StandardInput() : std::istream(nullptr), buffer_(std::make_unique<Buffer>()) {
  rdbuf(buffer_.get());
  exceptions(std::ios::badbit);  // so that what the buffer throws gets through
}

StandardInput::~StandardInput() = default;

}  // namespace labelshift::cli
