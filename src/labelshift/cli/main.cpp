#include <csignal>
#include <iostream>
#include <string>

#include "labelshift/cli/advice.hpp"
#include "labelshift/cli/command_line.hpp"
#include "labelshift/cli/terminal.hpp"
#include "labelshift/core/base/blas.hpp"
#include "labelshift/core/base/cpu.hpp"
#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/observer.hpp"

namespace labelshift::cli {
namespace {

constexpr int kInternalError = 70;

int exit_status(ErrorKind kind) {  // the only table from kind to status
  switch (kind) {
    case ErrorKind::kUsage:
      return kUsageError;
    case ErrorKind::kInput:
      return 3;
    case ErrorKind::kPeer:
      return 4;
    case ErrorKind::kSystem:
      return 5;
  }
  return kInternalError;
}

}  // namespace
}  // namespace labelshift::cli

int main(int argc, char** argv) {
  using namespace labelshift;
  cli::hold_closed_streams();
  std::signal(SIGPIPE, SIG_DFL);  // a reader that has gone away (| head) ends us quietly, whoever started us
  try {
    start_with_cpu(argv);
    check_fast_blas();
    use_one_blas_thread();
    return cli::run(argc, argv);
  } catch (const Error& error) {
    std::cerr << "error: " << printable(std::string(error.what()) + cli::advice(error.remedy())) << '\n';
    return cli::exit_status(error.kind());
  } catch (const Stopped&) {
    return cli::kInternalError;  // to nobody: the signal that stopped the work has ended the process by now
  } catch (const std::bad_alloc&) {
    std::cerr << "error: out of memory\n";
    return cli::exit_status(ErrorKind::kSystem);
  } catch (const std::exception& bug) {
    std::cerr << "internal error, please report it: " << printable(bug.what(), "\n") << '\n';
    return cli::kInternalError;
  }
}
