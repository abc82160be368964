#include <iostream>

#include "labelshift/core/estimators/estimators.hpp"
#include "labelshift/core/label_shift.hpp"
#include "labelshift/data/files/matrix_file.hpp"
#include "labelshift/report/prior_plot.hpp"

int main(int, char** argv) {
  const labelshift::MatrixFile target = labelshift::read_matrix(argv[1]);
  labelshift::LabelShiftProblem problem{.target = {target.view()}};
  problem.source_prior =
      Eigen::VectorXd::Constant(target.view().cols(), 1.0 / static_cast<double>(target.view().cols()));
  const labelshift::LabelShiftResult result = labelshift::analyse_label_shift(problem, {});
  std::cout << labelshift::estimators().size() << " estimators; target prior " << result.target_prior.transpose()
            << '\n';
  return *result.estimate.gap <= 1e-9 ? 0 : 1;
}
