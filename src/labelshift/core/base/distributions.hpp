#pragma once

namespace labelshift {

/// P(Z <= x) for a standard normal Z, to full relative precision in the lower tail as well.
double normal_cdf(double x);

/// The x with P(Z <= x) = probability, for a probability in [0, 1]; infinite at the two ends.
double normal_quantile(double probability);

/// P(X > x) for a chi-squared X. The relative error stays below 1e-12 for up to 1e5 degrees of freedom and however
/// small the result, so that the p-values of very large samples can be compared and multiplied.
double chi_squared_survival(double x, double degrees_of_freedom);

/// P(X > x) for X of the F distribution; relative error as above, up to 1e5 and 1e9 degrees of freedom.
double f_survival(double x, double numerator_degrees, double denominator_degrees);

/// P(X >= x) for a Poisson X, and between whole numbers the gamma law that joins them: P(G <= mean) for a gamma G of
/// shape x.
double poisson_survival(double x, double mean);

}  // namespace labelshift
