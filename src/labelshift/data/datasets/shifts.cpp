#include "labelshift/data/datasets/shifts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "labelshift/core/base/error.hpp"

namespace labelshift {
namespace {

constexpr Index kMaxSample = 100'000'000;  // 800 MB of row numbers; a larger number is a slip of the pen

Index size_of(const std::vector<std::vector<Index>>& by_class) {
  return static_cast<Index>(by_class.size());
}

void check_sample(const std::vector<std::vector<Index>>& by_class, const Eigen::VectorXd& target_prior,
                  const Eigen::VectorXd& source_prior, Index n) {
  if (n < 1 || n > kMaxSample)
    throw Error(ErrorKind::kUsage, fmt::format("shifted sample: {} rows asked for, expected 1 to {}", n, kMaxSample));
  if (target_prior.size() != size_of(by_class) || source_prior.size() != size_of(by_class))
    throw Error(ErrorKind::kInput,
                fmt::format("shifted sample: the target prior has {} entries and the source prior {}, expected one for "
                            "each of the {} classes",
                            target_prior.size(), source_prior.size(), by_class.size()));
  for (Index c = 0; c < size_of(by_class); ++c) {
    if (!(target_prior[c] >= 0.0 && std::isfinite(target_prior[c])))
      throw Error(ErrorKind::kInput, fmt::format("shifted sample: the target prior of class {} is {}, expected 0 or "
                                                 "more",
                                                 c, target_prior[c]));
    if (!(source_prior[c] > 0.0 && std::isfinite(source_prior[c])))
      throw Error(ErrorKind::kInput, fmt::format("shifted sample: the source prior of class {} is {}, expected more "
                                                 "than 0, since a ratio divides by it",
                                                 c, source_prior[c]));
    if (target_prior[c] > 0.0 && by_class[static_cast<std::size_t>(c)].empty())
      throw Error(ErrorKind::kInput, fmt::format("shifted sample: class {} has no rows to draw from, but a target "
                                                 "prior of {}",
                                                 c, target_prior[c]));
  }
  const double sum = target_prior.sum();
  if (!(sum > 0.0 && std::isfinite(sum)))
    throw Error(ErrorKind::kInput, fmt::format("shifted sample: the target prior sums to {}, expected 1", sum));
}

}  // namespace

Eigen::VectorXd dirichlet_prior(Index classes, double alpha, Rng& rng) {
  if (classes < 1)
    throw Error(ErrorKind::kUsage, fmt::format("Dirichlet prior: {} classes, expected at least 1", classes));
  if (!(alpha >= 1e-6 && alpha <= 1e6))
    throw Error(ErrorKind::kUsage, fmt::format("Dirichlet prior: alpha is {}, expected 1e-06 to 1e+06", alpha));
  // Gamma(alpha) = Gamma(alpha + 1) U^(1 / alpha), in logarithms: for small alpha all m numbers can underflow, and
  // their share of a sum of 0 is not a number.
  Eigen::ArrayXd logs(classes);
  for (double& value : logs) {
    value = std::log(rng.gamma(alpha + 1.0));
    value += std::log1p(-rng.uniform()) / alpha;
  }
  const double largest = logs.maxCoeff();
  // Not Eigen's exp(): it stops at about 1e-308 where it is vectorised, so that no entry would be 0.
  const Eigen::VectorXd mass = logs.unaryExpr([&](double value) { return std::exp(value - largest); });
  return mass / mass.sum();
}

Eigen::VectorXd explicit_prior(std::span<const double> shares) {
  const Eigen::VectorXd prior = Eigen::Map<const Eigen::VectorXd>(shares.data(), static_cast<Index>(shares.size()));
  for (Index c = 0; c < prior.size(); ++c)
    if (!(prior[c] >= 0.0))
      throw Error(ErrorKind::kInput,
                  fmt::format("target prior: class {} has the share {}, expected 0 to 1", c, prior[c]));
  const double sum = prior.sum();
  if (!(std::abs(sum - 1.0) <= 1e-3))
    throw Error(ErrorKind::kInput,
                fmt::format("target prior: the shares of {} classes sum to {}, expected 1", prior.size(), sum));
  return prior / sum;
}

Eigen::VectorXd node_prior(const NodeDistributions& distributions, Index node) {
  if (node < 0 || node >= distributions.nodes())
    throw Error(ErrorKind::kUsage, fmt::format("node {} asked for, expected 0 to {}", node, distributions.nodes() - 1));
  const Eigen::VectorXd shares = distributions.shares.row(node).cast<double>();
  return shares / shares.sum();
}

ShiftedSample draw_shifted(const std::vector<std::vector<Index>>& by_class, const Eigen::VectorXd& target_prior,
                           const Eigen::VectorXd& source_prior, Index n, Rng& rng) {
  check_sample(by_class, target_prior, source_prior, n);
  std::vector<double> cumulative;
  double sum = 0.0;
  for (const double share : target_prior) cumulative.push_back(sum += share);
  ShiftedSample sample;
  sample.rows.reserve(static_cast<std::size_t>(n));
  sample.class_counts.resize(by_class.size());
  for (Index i = 0; i < n; ++i) {
    // uniform() is below 1, so the product is below `sum` and a class whose share is 0 is never the first above it.
    const auto above = std::upper_bound(cumulative.begin(), cumulative.end(), rng.uniform() * sum);
    const auto c = static_cast<std::size_t>(above - cumulative.begin());
    ++sample.class_counts[c];
    const auto& rows = by_class[c];
    sample.rows.push_back(rows[static_cast<std::size_t>(rng.below(static_cast<std::int64_t>(rows.size())))]);
  }
  sample.ratio = empirical_prior(sample.class_counts).cwiseQuotient(source_prior);
  return sample;
}

}  // namespace labelshift
