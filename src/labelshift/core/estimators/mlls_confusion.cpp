#include "labelshift/core/estimators/mlls_confusion.hpp"

#include <vector>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/estimators/mlls_sqp.hpp"

namespace labelshift {

/// Up to a constant, sum_j b_j log (P q)_j is Eq. (3) with a row for each predicted label: p(y = c | argmax f = j).
ConfusionEstimator::Solution MllsConfusion::unprojected_prior(const SourceSummary& source,
                                                              const Eigen::VectorXd& predicted) const {
  const Eigen::MatrixXd& joint = confusion(source);
  const Index m = joint.rows();
  Eigen::MatrixXd rows(m, m);
  std::vector<double> counts;
  for (Index j = 0; j < m; ++j) {
    const double seen = joint.row(j).sum();
    if (!(seen > 0.0) || !(predicted[j] > 0.0)) continue;
    rows.row(std::ssize(counts)) = joint.row(j) / seen;
    counts.push_back(predicted[j]);
  }
  if (counts.empty())
    throw Error(ErrorKind::kInput,
                "no label that is predicted for the target is predicted for any source example, so confusion counts "
                "say nothing; use an mlls estimator that looks at probabilities");
  rows.conservativeResize(std::ssize(counts), m);
  const SourceSummary prior{.label_prior = source.label_prior};
  const RatioEstimate found = MllsSqp().estimate(prior, {Probabilities::known(rows), counts});
  return {.prior = source.label_prior.cwiseProduct(found.ratio), .iterations = found.iterations};
}

}  // namespace labelshift
