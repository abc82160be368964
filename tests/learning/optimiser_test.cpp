#include "labelshift/learning/optimiser.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace labelshift {
namespace {

std::vector<float> gradient_at(int step) {
  std::vector<float> gradient(8);
  for (int i = 0; i < 8; ++i) gradient[i] = static_cast<float>(std::sin(0.7 * i + 0.1 * step) * std::pow(10.0, i - 4));
  return gradient;
}

std::vector<float> start() {
  std::vector<float> w(8);
  for (int i = 0; i < 8; ++i) w[i] = static_cast<float>(-1.0 + 2.0 * i / 7.0);
  return w;
}

const AdamSettings kSettings{.learning_rate = 1e-2, .weight_decay = 1e-3};

TEST(Adam, TakesTheStepsOfPyTorch) {
  const float expected[] = {-0.22778007F, -0.34967321F, -0.49357295F, -0.091038771F,
                            0.37889761F,  0.73920262F,  0.9055739F,   1.0367794F};  // reference/make_adam.py
  std::vector<float> w = start();
  Adam adam(w.size(), kSettings);
  for (int t = 0; t < 100; ++t) adam.step(w, gradient_at(t));
  // A step moves by at most about 1e-2 and rounds twice, relative 6e-8 of it and of w: 100 of them differ by 1e-5 at
  // most.
  for (std::size_t i = 0; i < w.size(); ++i) EXPECT_NEAR(w[i], expected[i], 1e-5) << i;
}

TEST(Adam, GoesOnFromItsStateWithTheSameBits) {
  std::vector<float> whole = start();
  Adam adam(whole.size(), kSettings);
  for (int t = 0; t < 20; ++t) adam.step(whole, gradient_at(t));

  std::vector<float> halves = start();
  Adam first(halves.size(), kSettings);
  for (int t = 0; t < 10; ++t) first.step(halves, gradient_at(t));
  Adam second(halves.size(), kSettings);
  second.restore(first.state());
  for (int t = 10; t < 20; ++t) second.step(halves, gradient_at(t));
  EXPECT_EQ(halves, whole);
}

}  // namespace
}  // namespace labelshift
