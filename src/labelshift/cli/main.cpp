#include <csignal>
#include <iostream>
#include <string>

#include "labelshift/cli/command_line.hpp"
#include "labelshift/cli/terminal.hpp"
#include "labelshift/core/base/blas.hpp"
#include "labelshift/core/base/cpu.hpp"
#include "labelshift/core/base/error.hpp"

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

/// What to type: the only table from remedy to options. It goes on from the message.
const char* advice(Remedy remedy) {
  switch (remedy) {
    case Remedy::kNone:
      return "";
    case Remedy::kLogits:
      return "; use --logits for raw scores";
    case Remedy::kLogitsOrRenormalise:
      return "; use --logits for raw scores or --renormalise for rounded ones";
    case Remedy::kLogitsOrColumns:
      return "; use --logits for raw scores, or leave a column that is no class out with --ignore-columns";
    case Remedy::kColumns:
      return "; leave a column that is no class out with --ignore-columns, by its name or its number from 0; "
             "an entry that is both a name and a number is taken as the name";
    case Remedy::kTrainingPrior:
      return "; give the class mix it was trained on with --source-prior. Only if it was never trained on the class, "
             "leave its column out instead with --ignore-columns and --renormalise (labels that are numbers then count "
             "the columns that are left)";
    case Remedy::kOwnLabels:
      return "; leave --label-column and --labels out";
    case Remedy::kDatasetSource:
      return " with --from";
    case Remedy::kGetDataset:
      return "; \"labelshift data\" says how to get it";
    case Remedy::kCpu:
      return "; use --device cpu";
    case Remedy::kMovedNet:
      return "; if the net was moved, say where it is now with --model";
    case Remedy::kOutputFolder:
      return " with --output";
    case Remedy::kResume:
      return " (--resume or --output)";
  }
  return "";
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
  } catch (const std::bad_alloc&) {
    std::cerr << "error: out of memory\n";
    return cli::exit_status(ErrorKind::kSystem);
  } catch (const std::exception& bug) {
    std::cerr << "internal error, please report it: " << printable(bug.what(), "\n") << '\n';
    return cli::kInternalError;
  }
}
