#include "labelshift/core/base/distributions.hpp"

#include <cassert>
#include <cmath>
#include <limits>
#include <numbers>

namespace labelshift {
namespace {

constexpr double kTwoPi = 2.0 * std::numbers::pi;
constexpr double kConverged = 1e-15;
constexpr double kTiny = 1e-290;  // stands for zero in a denominator of Lentz's method

/// log Gamma(a + 1) - log(sqrt(2 pi a) (a / e)^a), what Stirling's formula leaves out.
double stirling_error(double a) {
  if (a < 15.0) return std::lgamma(a + 1.0) - (a + 0.5) * std::log(a) + a - 0.5 * std::log(kTwoPi);
  const double s = 1.0 / (a * a);  // the next term is below 1e-17 from 15 on
  return (1.0 / 12 - s * (1.0 / 360 - s * (1.0 / 1260 - s * (1.0 / 1680 - s * (1.0 / 1188 - s * 691.0 / 360360))))) / a;
}

/// a log(a / mean) + mean - a >= 0, without the cancellation near a = mean that costs the plain formula all its digits
/// when a is large (Loader 2000, "Fast and accurate computation of binomial probabilities").
double deviance(double a, double mean) {
  const double v = (a - mean) / (a + mean);
  if (std::abs(v) > 0.3) return a * std::log(a / mean) + mean - a;
  double sum = (a - mean) * v;
  double power = 2.0 * a * v;  // log(a / mean) = 2 (v + v^3 / 3 + v^5 / 5 + ...)
  for (int odd = 3;; odd += 2) {
    power *= v * v;
    const double next = sum + power / odd;
    if (next == sum) return sum;
    sum = next;
  }
}

/// P(X > x) for X of Gamma(a, 1): the regularised incomplete gamma function Q(a, x).
double gamma_survival(double a, double x) {
  const double factor = std::exp(-stirling_error(a) - deviance(a, x)) / std::sqrt(kTwoPi * a);  // x^a e^-x / Gamma(a+1)
  if (x < a + 1.0) {
    // 1 - P(a, x) by the series of P; the result is never small here.
    double term = 1.0;
    double sum = 1.0;
    for (double k = a + 1.0; term > kConverged * 0.1 * sum; k += 1.0) {
      term *= x / k;
      sum += term;
    }
    return 1.0 - factor * sum;
  }
  // Legendre's continued fraction, by Lentz's method.
  double b = x + 1.0 - a;
  double c = 1.0 / kTiny;
  double d = 1.0 / b;
  double fraction = d;
  for (double k = 1.0;; k += 1.0) {
    const double numerator = -k * (k - a);
    b += 2.0;
    d = 1.0 / (numerator * d + b);
    c = b + numerator / c;
    fraction *= c * d;
    if (std::abs(c * d - 1.0) < kConverged) return factor * a * fraction;
  }
}

/// The regularised incomplete beta function I_x(a, b) for x <= (a + 1) / (a + b + 2); y = 1 - x is passed to keep its
/// digits.
double beta_lower_part(double a, double b, double x, double y) {
  const double n = a + b;
  const double log_factor =
      stirling_error(n) - stirling_error(a) - stirling_error(b) - deviance(a, n * x) - deviance(b, n * y);
  const double factor = std::exp(log_factor) * std::sqrt(a * b / (kTwoPi * n));  // x^a y^b / B(a, b)
  // The continued fraction of DiDonato and Morris (1992): unlike the usual one it subtracts nothing but a y - b x,
  // which is exact enough, so a = 1e9 costs no digits. By Lentz's method; its terms keep their distance from zero.
  double c = a * (a * y - b * x + 1.0) / (a + 1.0);
  double d = 0.0;
  double fraction = c;
  for (double k = 1.0;; k += 1.0) {
    const double s = a + 2.0 * k;
    const double numerator = (a + k - 1.0) * (n + k - 1.0) * k * (b - k) * x * x / ((s - 1.0) * (s - 1.0));
    const double term = k + k * (b - k) * x / (s - 1.0) + (a + k) * (a * y - b * x + 1.0 + k * (1.0 + y)) / (s + 1.0);
    d = 1.0 / (term + numerator * d);
    c = term + numerator / c;
    fraction *= c * d;
    if (std::abs(c * d - 1.0) < kConverged) return factor / fraction;
  }
}

}  // namespace

double normal_cdf(double x) {
  return 0.5 * std::erfc(-x / std::numbers::sqrt2);
}

double normal_quantile(double probability) {
  assert(probability >= 0.0 && probability <= 1.0);
  if (probability > 0.5) return -normal_quantile(1.0 - probability);  // the difference is exact
  if (probability == 0.0) return -std::numeric_limits<double>::infinity();
  // Abramowitz and Stegun 26.2.23 is within 4.5e-4; each Halley step cubes the error.
  const double t = std::sqrt(-2.0 * std::log(probability));
  double x = (2.515517 + t * (0.802853 + t * 0.010328)) / (1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308))) - t;
  for (int step = 0; step < 2; ++step) {
    const double density = std::exp(-0.5 * x * x) / std::sqrt(kTwoPi);
    const double newton = (normal_cdf(x) - probability) / density;
    x -= newton / (1.0 + 0.5 * x * newton);
  }
  return x;
}

double chi_squared_survival(double x, double degrees_of_freedom) {
  assert(degrees_of_freedom > 0.0);
  if (!(x > 0.0)) return 1.0;
  if (std::isinf(x)) return 0.0;
  return gamma_survival(0.5 * degrees_of_freedom, 0.5 * x);
}

double f_survival(double x, double numerator_degrees, double denominator_degrees) {
  assert(numerator_degrees > 0.0 && denominator_degrees > 0.0);
  if (!(x > 0.0)) return 1.0;
  if (std::isinf(x)) return 0.0;
  // d1 x / (d1 x + d2) has the beta distribution with a = d1 / 2 and b = d2 / 2.
  const double a = 0.5 * numerator_degrees;
  const double b = 0.5 * denominator_degrees;
  const double upper = a * x / (a * x + b);
  const double lower = b / (a * x + b);
  return upper < (a + 1.0) / (a + b + 2.0) ? 1.0 - beta_lower_part(a, b, upper, lower)
                                           : beta_lower_part(b, a, lower, upper);
}

}  // namespace labelshift
