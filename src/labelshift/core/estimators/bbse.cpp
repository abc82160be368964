#include "labelshift/core/estimators/bbse.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <Eigen/LU>
#include <vector>

#include "labelshift/core/base/error.hpp"

namespace labelshift {

Bbse::Solution Bbse::unprojected_prior(const SourceSummary& source, const Eigen::VectorXd& predicted) const {
  const Eigen::MatrixXd& a = confusion(source);
  const Eigen::FullPivLU<Eigen::MatrixXd> factors(a);
  if (!factors.isInvertible()) {
    std::vector<Index> never;
    for (Index j = 0; j < a.rows(); ++j)
      if (a.row(j).sum() == 0.0) never.push_back(j);
    throw Error(ErrorKind::kInput,
                never.empty()
                    ? std::string("the confusion matrix is singular: two classes look the same to the classifier; use "
                                  "an mlls estimator")
                    : fmt::format("no source example is predicted as class {}, so the confusion matrix is singular; "
                                  "use bbse-soft or an mlls estimator",
                                  fmt::join(never, ", ")));
  }
  return {.prior = source.label_prior.cwiseProduct(factors.solve(predicted))};
}

}  // namespace labelshift
