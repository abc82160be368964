#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>
#include <thread>

#include "labelshift/cli/advice.hpp"
#include "labelshift/cli/command_line.hpp"
#include "labelshift/cli/terminal.hpp"
#include "labelshift/core/base/blas.hpp"
#include "labelshift/core/base/cpu.hpp"
#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/observer.hpp"

namespace labelshift::cli {
namespace {

/// Whether mpirun started this process beside others that say the same.
bool is_another_rank() {
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  return rank && std::string_view(rank) != "0";
}

}  // namespace
}  // namespace labelshift::cli

/// Before any library that is linked starts: those of MPI and gRPC open files when they do, one of which would be
/// standard input.
[[gnu::section(".preinit_array"),
  gnu::used]] void (*const before_all_libraries)() = labelshift::cli::hold_closed_streams;

int main(int argc, char** argv) {
  using namespace labelshift;
  std::signal(SIGPIPE, SIG_DFL);  // a reader that has gone away (| head) ends us quietly, whoever started us
  try {
    start_with_cpu(argv);
    check_fast_blas();
    use_one_blas_thread();
    return cli::run(argc, argv);
  } catch (const Error& error) {
    // Rank 0 says the same, and its end ends the job, unless the trouble is here alone.
    if (cli::is_another_rank()) std::this_thread::sleep_for(std::chrono::seconds(5));
    cli::print_error(error);
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
