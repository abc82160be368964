#include "labelshift/cli/terminal.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <iostream>

#include "labelshift/core/error.hpp"
#include "labelshift/data/input_file.hpp"
#include "labelshift/data/output_file.hpp"

namespace labelshift::cli {
namespace {

constexpr int kDeferred[] = {SIGINT, SIGTERM, SIGHUP};

}  // namespace

void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    throw Error(ErrorKind::kSystem, fmt::format("standard output: {}", errno_text(errno)));
}

void warn(const std::string& text) {
  std::cerr << "warning: " << text << '\n';
}

bool same_file(const std::string& one, const std::string& other) {
  if (one.empty() || other.empty()) return false;
  const auto resolved = [](const std::string& path) {
    std::error_code ignored;  // a path that cannot be resolved is nobody else's
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path), ignored);
  };
  return one == other || (!resolved(one).empty() && resolved(one) == resolved(other));
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
  sigset_t deferred;
  sigemptyset(&deferred);
  for (const int signal : kDeferred) {
    struct sigaction now = {};
    sigaction(signal, nullptr, &now);
    if (now.sa_handler != SIG_IGN) sigaddset(&deferred, signal);  // nohup's would be kept waiting instead of ignored
  }
  pthread_sigmask(SIG_BLOCK, &deferred, &before_);
}

DeferInterrupt::~DeferInterrupt() {
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

bool DeferInterrupt::requested() const {
  sigset_t pending;
  sigpending(&pending);
  for (const int signal : kDeferred)
    if (sigismember(&pending, signal)) return true;
  return false;
}

}  // namespace labelshift::cli
