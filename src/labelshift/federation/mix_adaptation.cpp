#include "labelshift/federation/mix_adaptation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace labelshift {

Eigen::VectorXd shrunk_mix(const Eigen::VectorXd& estimate, const Eigen::VectorXd& trained_mix, double examples) {
  const auto strength = static_cast<double>(estimate.size());
  return (examples * estimate + strength * trained_mix) / (examples + strength);
}

Index right_for_mix(const RowMajorMatrix<float>& logits, std::span<const int> labels, const Eigen::VectorXd& mix,
                    const Eigen::VectorXd& trained_mix) {
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  Eigen::VectorXd added(mix.size());  // to logits
  for (Index c = 0; c < mix.size(); ++c)
    added[c] = mix[c] > 0.0 && trained_mix[c] > 0.0 ? std::log(mix[c]) - std::log(trained_mix[c]) : kNever;
  Index right = 0;
  for (Index i = 0; i < logits.rows(); ++i) {
    Index top = 0;
    const auto said = [&](Index c) { return static_cast<double>(logits(i, c)) + added[c]; };
    for (Index c = 1; c < mix.size(); ++c)
      if (said(c) > said(top)) top = c;
    if (top == labels[static_cast<std::size_t>(i)]) ++right;
  }
  return right;
}

Index right_by_majority(std::span<const int> labels, const Eigen::VectorXd& mix) {
  Index most = 0;
  mix.maxCoeff(&most);
  return std::count(labels.begin(), labels.end(), static_cast<int>(most));
}

}  // namespace labelshift
