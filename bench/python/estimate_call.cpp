// One side of cost.py: estimate_call SOURCE_PROBS SOURCE_LABELS TARGET_PROBS (.npy, a text with a header, .npy). For
// each line on standard input it makes one estimate with the default options and prints the processor seconds that
// took.
#include <fmt/format.h>

#include <cstdio>
#include <ctime>
#include <iostream>
#include <string>

#include "labelshift/core/base/blas.hpp"
#include "labelshift/core/label_shift.hpp"
#include "labelshift/data/files/label_file.hpp"
#include "labelshift/data/files/matrix_file.hpp"

int main(int argc, char** argv) {
  using namespace labelshift;
  if (argc != 4) return 2;
  use_one_blas_thread();
  const MatrixFile source = read_matrix(argv[1]);
  const Labels labels = read_labels(argv[2], {}, source.view().cols());
  const MatrixFile target = read_matrix(argv[3]);
  for (std::string line; std::getline(std::cin, line);) {
    const std::clock_t start = std::clock();
    const LabelShiftProblem problem{.source = SourceExamples{Scores(source.view()), labels.labels, {}},
                                    .target = Scores(target.view())};
    const LabelShiftResult result = analyse_label_shift(problem, {});
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    fmt::print("{} {}\n", seconds, result.target_prior[0]);
    std::fflush(stdout);
  }
}
