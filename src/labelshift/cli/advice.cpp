#include "labelshift/cli/advice.hpp"

#include <iostream>
#include <string>

#include "labelshift/cli/command_line.hpp"
#include "labelshift/cli/terminal.hpp"

namespace labelshift::cli {

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
    case Remedy::kTolerance:
      return " with --tolerance";
    case Remedy::kIterations:
      return " (--set max-iterations=N or --tolerance)";
    case Remedy::kEstimator:
      return " with --estimator";
    case Remedy::kCalibration:
      return " with --calibration";
    case Remedy::kCorrectIfFits:
      return "; --if-fits leaves them alone then";
    case Remedy::kCorrectAnyway:
      return "; drop --if-fits to have them corrected anyway";
  }
  return "";
}

void print_error(const Error& error) {
  std::cerr << "error: " << printable(std::string(error.what()) + advice(error.remedy())) << '\n';
}

int exit_status(ErrorKind kind) {
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

void add_warnings(LabelShiftReport& report) {
  for (const Warning& warning : result_warnings(report))
    report.warnings.push_back(warning.sentence + advice(warning.remedy));
}

}  // namespace labelshift::cli
