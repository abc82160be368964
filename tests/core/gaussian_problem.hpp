#pragma once

#include <Eigen/Core>
#include <cmath>
#include <numbers>
#include <vector>

#include "labelshift/core/base/rng.hpp"
#include "labelshift/core/estimators/ratio_estimator.hpp"

namespace labelshift {

/// n draws of a GaussianProblem.
struct GaussianSample {
  Eigen::MatrixXd features;  // (n, 2)
  Eigen::MatrixXd probs;     // (n, m) f(x)
  std::vector<int> labels;   // (n)

  SourceSample source() const { return {.probs = probs, .labels = labels, .weights = {}}; }
  TargetSample target() const { return {.probs = probs, .weights = {}}; }
};

/// Unit-variance Gaussian classes, equally spaced on a circle in the plane, with their exact posteriors under
/// `source_prior` as the predictor f; `sharpness` and `bias` make it a miscalibrated one.
struct GaussianProblem {
  Eigen::VectorXd source_prior;  // (m) p_tr
  double separation = 2.0;       // distance of neighbouring classes: 2 gives errors of 16 % a neighbour
  double sharpness = 1.0;        // multiplies the logits of f; above 1 is over-confident
  Eigen::VectorXd bias = {};     // (m) added to the logits of f, or empty

  Index classes() const { return source_prior.size(); }

  Eigen::RowVector2d mean(Index c) const {
    const double step = 2.0 * std::numbers::pi / static_cast<double>(classes());
    const double angle = step * static_cast<double>(c);
    return 0.5 * separation / std::sin(0.5 * step) * Eigen::RowVector2d(std::cos(angle), std::sin(angle));
  }

  /// f at each row of `features`.
  Eigen::MatrixXd predict(const Eigen::MatrixXd& features) const {
    Eigen::MatrixXd logits(features.rows(), classes());
    for (Index c = 0; c < classes(); ++c) {
      logits.col(c) =
          (-0.5 * (features.rowwise() - mean(c)).rowwise().squaredNorm().array() + std::log(source_prior[c])) *
              sharpness +
          (bias.size() > 0 ? bias[c] : 0.0);
    }
    logits.colwise() -= logits.rowwise().maxCoeff().eval();
    const Eigen::MatrixXd odds = logits.array().exp();
    return odds.array().colwise() / odds.rowwise().sum().array();
  }

  GaussianSample sample(Index rows, const Eigen::VectorXd& label_prior, Rng& rng) const {
    GaussianSample result{.features = Eigen::MatrixXd(rows, 2), .probs = {}, .labels = {}};
    for (Index i = 0; i < rows; ++i) {
      double left = rng.uniform();
      int c = 0;
      while (c + 1 < classes() && (left -= label_prior[c]) >= 0.0) ++c;
      result.labels.push_back(c);
      result.features(i, 0) = mean(c)[0] + rng.normal();
      result.features(i, 1) = mean(c)[1] + rng.normal();
    }
    result.probs = predict(result.features);
    return result;
  }
};

}  // namespace labelshift
