#include "labelshift/core/base/distributions.hpp"

#include <boost/math/distributions/chi_squared.hpp>
#include <boost/math/distributions/fisher_f.hpp>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/special_functions/gamma.hpp>
#include <cassert>
#include <cmath>
#include <limits>

namespace labelshift {
namespace {

namespace policies = boost::math::policies;
// A tail too small for a double is 0, and what comes of no number is none: p-values are results, never exceptions.
using Quiet =
    policies::policy<policies::domain_error<policies::ignore_error>, policies::pole_error<policies::ignore_error>,
                     policies::overflow_error<policies::ignore_error>>;
using Normal = boost::math::normal_distribution<double, Quiet>;
using ChiSquared = boost::math::chi_squared_distribution<double, Quiet>;
using FisherF = boost::math::fisher_f_distribution<double, Quiet>;

/// P(X > x) for an X that is never negative.
template <typename Distribution>
double survival(const Distribution& distribution, double x) {
  if (!(x > 0.0)) return 1.0;
  if (std::isinf(x)) return 0.0;
  return boost::math::cdf(boost::math::complement(distribution, x));
}

}  // namespace

double normal_cdf(double x) {
  return boost::math::cdf(Normal(), x);
}

double normal_quantile(double probability) {
  assert(probability >= 0.0 && probability <= 1.0);
  if (probability == 0.0) return -std::numeric_limits<double>::infinity();
  if (probability == 1.0) return std::numeric_limits<double>::infinity();
  return boost::math::quantile(Normal(), probability);
}

double chi_squared_survival(double x, double degrees_of_freedom) {
  assert(degrees_of_freedom > 0.0);
  return survival(ChiSquared(degrees_of_freedom), x);
}

double f_survival(double x, double numerator_degrees, double denominator_degrees) {
  assert(numerator_degrees > 0.0 && denominator_degrees > 0.0);
  return survival(FisherF(numerator_degrees, denominator_degrees), x);
}

double poisson_survival(double x, double mean) {
  assert(mean > 0.0);
  if (!(x > 0.0)) return 1.0;
  return boost::math::gamma_p(x, mean, Quiet());
}

}  // namespace labelshift
