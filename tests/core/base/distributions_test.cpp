#include "labelshift/core/base/distributions.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace labelshift {
namespace {

// Reference values: power series and continued fractions of the incomplete gamma and beta functions in decimal
// arithmetic with 80 digits.

void expect_relative(double found, double expected, double tolerance) {
  EXPECT_LE(std::abs(found - expected), tolerance * expected) << found << " instead of " << expected;
}

TEST(NormalCdf, MatchesReferenceValues) {
  struct {
    double x, cdf;
  } const cases[] = {{-20.0, 2.75362411860623374e-89},
                     {-5.0, 2.86651571879193912e-07},
                     {-1.0, 1.58655253931457046e-01},
                     {-0.1, 4.60172162722971012e-01},
                     {0.0, 0.5},
                     {1.0, 1.0 - 1.58655253931457046e-01}};
  // x / sqrt(2) is rounded, which the lower tail amplifies by x^2 = 400.
  for (const auto& c : cases) expect_relative(normal_cdf(c.x), c.cdf, 1e-13);
}

TEST(NormalQuantile, MatchesReferenceValuesOnBothSides) {
  struct {
    double probability, x;
  } const cases[] = {{1e-300, -3.70470962993612005e+01}, {1e-100, -2.12734535609653257e+01},
                     {1e-16, -8.22208221613043477e+00},  {1e-05, -4.26489079392282466e+00},
                     {0.001, -3.09023230616781364e+00},  {0.025, -1.95996398454005427e+00},
                     {0.05, -1.64485362695147264e+00},   {0.2, -8.41621233572914185e-01},
                     {0.4, -2.53347103135799723e-01},    {0.4999, -2.50662830088007466e-04}};
  for (const auto& c : cases) {
    EXPECT_NEAR(normal_quantile(c.probability), c.x, 1e-14 * (1.0 + std::abs(c.x))) << c.probability;
    // 1 - p is rounded to 1.1e-16, which moves the quantile by that over the density: 3.3e-14 at p = 0.001.
    if (c.probability >= 0.001) {
      EXPECT_NEAR(normal_quantile(1.0 - c.probability), -c.x, 5e-14) << c.probability;
    }
  }
}

TEST(NormalQuantile, IsInfiniteAtTheEndsAndZeroInTheMiddle) {
  EXPECT_EQ(normal_quantile(0.0), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(normal_quantile(1.0), std::numeric_limits<double>::infinity());
  EXPECT_NEAR(normal_quantile(0.5), 0.0, 1e-16);
}

TEST(ChiSquaredSurvival, MatchesReferenceValuesFarIntoTheTail) {
  struct {
    double x, degrees, survival;
  } const cases[] = {{0.001, 1, 9.74772879369960377e-01},
                     {0.5, 1, 4.79500122186953481e-01},
                     {3.841458820694124, 1, 5.00000000000000583e-02},
                     {1370.0, 1, 6.94293736464326833e-300},
                     {0.25, 2, 8.82496902584595455e-01},
                     {1.0, 3, 8.01251956901200768e-01},
                     {7.0, 3, 7.18977724964651316e-02},
                     {16.9, 9, 5.03051901243108737e-02},
                     {1400.0, 9, 7.73099424399915629e-296},
                     {45.0, 64, 9.65732655833415943e-01},
                     {1.5, 40, 1.0},
                     {999.0, 999, 4.94049877958527894e-01},
                     {1100.0, 999, 1.38184675255323547e-02},
                     {3500.0, 999, 5.57588453118068350e-274},
                     {99000.0, 1e5, 9.87521684361917229e-01},
                     {100100.0, 1e5, 4.10980732012148409e-01},
                     {101000.0, 1e5, 1.28688403772336691e-02},
                     {117000.0, 1e5, 6.46570034929762101e-285}};
  for (const auto& c : cases) expect_relative(chi_squared_survival(c.x, c.degrees), c.survival, 1e-12);
}

TEST(FSurvival, MatchesReferenceValuesFarIntoTheTail) {
  struct {
    double x, numerator, denominator, survival;
  } const cases[] = {{0.01, 1, 1, 9.36548965138892853e-01},         {4.0, 1, 10, 7.33880347707403652e-02},
                     {2.5, 3, 7, 1.43509456278939213e-01},          {0.3, 5, 20, 9.07075807760031494e-01},
                     {1.0, 9, 490, 4.38952876301843931e-01},        {3.0, 9, 490, 1.71137216669781426e-03},
                     {250.0, 9, 490, 7.26659956780694259e-177},     {1.9, 9, 1001990, 4.71741328607977878e-02},
                     {160.0, 9, 1001990, 2.93363337460187010e-304}, {1.0, 999, 2001, 4.97566402199081215e-01},
                     {1.5, 999, 2001, 2.13981045654456357e-14},     {3.0, 999, 2001, 1.17149192634566946e-96},
                     {1.01, 1e5, 5e4, 9.97451729977521795e-02},     {1.2, 1e5, 5e4, 3.02107648244805539e-120},
                     {0.5, 2, 1e9, 6.06530659864266131e-01}};
  for (const auto& c : cases) expect_relative(f_survival(c.x, c.numerator, c.denominator), c.survival, 1e-12);
}

TEST(FSurvival, HasTheClosedFormOfTwoNumeratorDegrees) {
  // P(F > x) = (1 + 2 x / d)^(-d / 2).
  for (const double d : {1.0, 4.0, 37.0, 1e4, 1e9})
    for (const double x : {0.01, 1.0, 30.0, 600.0})
      expect_relative(f_survival(x, 2, d), std::exp(-0.5 * d * std::log1p(2.0 * x / d)), 1e-12);
}

TEST(Survival, IsOneFromZeroDownAndZeroAtInfinity) {
  EXPECT_EQ(chi_squared_survival(0.0, 3), 1.0);
  EXPECT_EQ(chi_squared_survival(-1.0, 3), 1.0);
  EXPECT_EQ(chi_squared_survival(std::numeric_limits<double>::infinity(), 3), 0.0);
  EXPECT_EQ(f_survival(0.0, 3, 5), 1.0);
  EXPECT_EQ(f_survival(std::numeric_limits<double>::infinity(), 3, 5), 0.0);
}

TEST(Survival, EndsForStatisticsOfAnySize) {
  for (const double degrees : {1.0, 9.0, 1e5}) {
    EXPECT_EQ(chi_squared_survival(1e308, degrees), 0.0);
    EXPECT_EQ(chi_squared_survival(5e-324, degrees), 1.0);
    EXPECT_EQ(chi_squared_survival(std::numeric_limits<double>::quiet_NaN(), degrees), 1.0);
    EXPECT_EQ(f_survival(1e308, degrees, 1e6), 0.0);
    EXPECT_EQ(f_survival(std::numeric_limits<double>::quiet_NaN(), degrees, 1e6), 1.0);
  }
}

TEST(NormalQuantile, IsFiniteForTheSmallestProbability) {
  EXPECT_NEAR(normal_quantile(std::numeric_limits<double>::denorm_min()), -38.4674056, 1e-7);
}

TEST(PoissonSurvival, IsTheSumOfTheLawAtWholeNumbersAndFallsBetweenThem) {
  EXPECT_EQ(poisson_survival(0.0, 0.3), 1.0);
  EXPECT_NEAR(poisson_survival(1.0, 0.3), 1.0 - std::exp(-0.3), 1e-15);
  EXPECT_NEAR(poisson_survival(3.0, 2.0), 1.0 - 5.0 * std::exp(-2.0), 1e-15);
  EXPECT_GT(poisson_survival(1.0, 0.3), poisson_survival(1.5, 0.3));
  EXPECT_GT(poisson_survival(1.5, 0.3), poisson_survival(2.0, 0.3));
  EXPECT_NEAR(poisson_survival(40.0, 1e-3) / (1e-120 / std::tgamma(41.0)), 1.0, 1e-3);
}

}  // namespace
}  // namespace labelshift
