#include "labelshift/core/inference/intervals.hpp"

#include <Eigen/QR>
#include <algorithm>
#include <cmath>
#include <vector>

#include "labelshift/core/base/blas.hpp"
#include "labelshift/core/base/distributions.hpp"
#include "labelshift/core/calibration/calibration_objective.hpp"
#include "labelshift/core/estimators/bbse.hpp"
#include "labelshift/core/inference/shift_hypothesis.hpp"
#include "labelshift/core/inference/wilson.hpp"
#include "labelshift/core/likelihood/likelihood.hpp"
#include "labelshift/core/likelihood/row_block.hpp"
#include "labelshift/core/likelihood/sample_summary.hpp"

namespace labelshift {
namespace {

constexpr Index kBlock = 256;

/// How many source rows, evenly spread, tell the variance over their labels: a few thousand, fewer with many classes.
Index expected_rows(Index classes) {
  return std::clamp<Index>(40'000'000 / (classes * classes), 256, 4096);
}

double weight(std::span<const double> weights, Index i) {
  return weights.empty() ? 1.0 : weights[static_cast<std::size_t>(i)];
}

/// The variance that source examples add to q and to r: q is off by (1 / sum w) sum_i w_i influence_i.
class SourceVariance {
 public:
  SourceVariance(const SourceNoise& noise, const Eigen::VectorXd& p, const Eigen::VectorXd& q)
      : p_(p),
        q_(q),
        prior_is_estimated_(noise.prior_is_estimated),
        examples_(effective_rows(noise.examples.weights, noise.examples.scores.rows())),
        prior_(Eigen::VectorXd::Zero(p.size())),
        ratio_(prior_) {}

  /// `influence` (m) on q of examples with this label, the squares of whose weights sum to `squared_weight`.
  void add(Index label, const Eigen::Ref<const Eigen::RowVectorXd>& influence, double squared_weight) {
    Eigen::ArrayXd of_ratio = influence.transpose().array() / p_.array();
    if (prior_is_estimated_) {
      of_ratio += q_.array() / p_.array();  // r = q / p, and p moves by e_y - p
      of_ratio[label] -= q_[label] / (p_[label] * p_[label]);
    }
    prior_ += squared_weight * influence.transpose().cwiseAbs2();
    ratio_.array() += squared_weight * of_ratio.square();
    squares_ += squared_weight;
  }
  Eigen::VectorXd of_prior() const { return prior_ / (squares_ * examples_); }
  Eigen::VectorXd of_ratio() const { return ratio_ / (squares_ * examples_); }

 private:
  const Eigen::VectorXd& p_;
  const Eigen::VectorXd& q_;
  bool prior_is_estimated_;
  double examples_;
  Eigen::VectorXd prior_, ratio_;  // (m) sums of w^2 influence^2
  double squares_ = 0.0;           // sum of w^2
};

/// How the mean score g_c of the target answers a change of the calibration's scales, [c, k] = d g_c / d scale_k, or
/// one column for a scale that all classes share; and of its mixing, [c, k m + j] = d g_c / d mixing_kj. With f
/// proportional to exp(u), u = W z + bias, a change of the exponent u_k changes s_c by s_c (1(c = k) - q_k s_k).
CalibrationResponse scale_response(const TargetSample& target, const Scores& scores, const Eigen::VectorXd& p,
                                   const Eigen::VectorXd& q, CalibrationKind kind) {
  const Index m = p.size();
  const bool shared = kind != CalibrationKind::kVector;
  const bool mixed = kind == CalibrationKind::kMatrix;
  CalibrationResponse response{.scale = Eigen::ArrayXXd::Zero(m, shared ? 1 : m),
                               .bias = {},
                               .mixing = Eigen::ArrayXXd::Zero(m, mixed ? m * m : 0)};
  double total = 0.0;
  Eigen::ArrayXXd z(kBlock, m);
  Eigen::ArrayXXd s(kBlock, m);
  Eigen::ArrayXd w(kBlock);
  for (Index first = 0; first < target.probs.rows(); first += kBlock) {
    const Index count = std::min(kBlock, target.probs.rows() - first);
    z.resize(count, m);
    s.resize(count, m);
    log_scores(scores, first, z);
    load_rows(target.probs.middle_rows(first, count), s.data(), count);
    for (Index c = 0; c < m; ++c) s.col(c) /= p[c];
    s.colwise() /= (s.matrix() * q).array().eval();
    for (Index b = 0; b < count; ++b) total += w[b] = weight(target.weights, first + b);
    if (!target.weights.empty()) z.colwise() *= w.head(count);  // every use of z below is an average
    const Eigen::ArrayXXd sz = s * z;
    if (shared) {
      const Eigen::ArrayXd pull = sz.matrix() * q;  // (b) sum_k q_k s_k z_k
      response.scale.col(0) += (sz - s.colwise() * pull).colwise().sum().transpose();
    } else {
      response.scale.matrix().diagonal() += sz.colwise().sum().transpose().matrix();
      response.scale.matrix() -= s.matrix().transpose() * sz.matrix() * q.asDiagonal();
    }
    if (!mixed) continue;
    const Eigen::MatrixXd pulled = s.matrix().transpose() * z.matrix();  // (m, m) [c, j] sum of s_c z_j
    for (Index k = 0; k < m; ++k) {
      auto of_class = response.mixing.matrix().middleCols(k * m, m);
      of_class.row(k) += pulled.row(k);
      of_class.noalias() -= q[k] * ((s.colwise() * s.col(k)).matrix().transpose() * z.matrix());
    }
  }
  response.scale /= total;
  response.mixing /= total;
  return response;
}

/// How `centre` answers a small change of a calibration: `response` is score_response().
CalibrationResponse centre_response(const TargetSample& target, const Scores& scores, const Eigen::VectorXd& p,
                                    const Eigen::VectorXd& q, CalibrationKind kind, const LikelihoodValue& at,
                                    const Eigen::MatrixXd& response) {
  CalibrationResponse result;
  if (kind != CalibrationKind::kNone) {
    result = scale_response(target, scores, p, q, kind);
    result.scale = (response * result.scale.matrix()).eval();
    result.mixing = (response * result.mixing.matrix()).eval();
  }
  // Class k's column of f / p grows by exp(d bias_k - d p_k / p_k): d g = (diag(g) - H diag(q)) times that.
  result.bias = response * (Eigen::MatrixXd(at.gradient.asDiagonal()) - at.curvature * q.asDiagonal());
  return result;
}

PriorUncertainty likelihood_uncertainty(const SourceSummary& summary, const TargetSample& target,
                                        const Scores& target_scores, const RatioEstimate& estimate,
                                        const std::optional<SourceNoise>& source, double rows) {
  const Eigen::VectorXd& p = summary.label_prior;
  const Eigen::VectorXd q = p.cwiseProduct(estimate.ratio);
  const Index m = p.size();
  const Likelihood likelihood(p, target);
  const LikelihoodValue at = likelihood.at(q, Derivatives::kCurvature);
  const Eigen::MatrixXd response = score_response(q, at.curvature, rows);

  PriorUncertainty result{.prior = q, .centre = q};
  for (Index c = 0; c < m; ++c)
    if (is_absent(q[c], rows)) result.centre[c] = q[c] + response.row(c).dot(at.gradient);
  const auto spread = [&](const Eigen::MatrixXd& covariance) -> Eigen::VectorXd {
    return (response * covariance).cwiseProduct(response).rowwise().sum();
  };
  // The scores of a mixture have their own curvature as covariance, with weights that do not go with the scores too.
  Eigen::VectorXd variance = spread(at.curvature) / rows;
  // Weights that do part the two. This alone would be too small: q was fitted to the heaviest rows, whose scores are
  // smaller for it, and count here by the squares of their weights.
  if (!target.weights.empty())
    variance = variance.cwiseMax(spread(likelihood.score_covariance(q)) / static_cast<double>(target.probs.rows()));

  if (source) {
    const CalibrationResponse of_calibration =
        centre_response(target, target_scores, p, q, source->fit.kind, at, response);
    const Eigen::MatrixXd& of_bias = of_calibration.bias.matrix();
    std::optional<CalibrationInfluence> influence;
    if (source->fit.kind != CalibrationKind::kNone)
      influence.emplace(source->fit, source->examples.scores, source->examples.labels, source->examples.weights,
                        of_calibration);
    // p moves by e_y - p, and the log-scale of f / p by minus that over p.
    Eigen::MatrixXd of_label = Eigen::MatrixXd::Zero(m, m);  // [c, y] what an example of class y does to q_c
    if (source->prior_is_estimated)
      of_label = (-of_bias * p.cwiseInverse().asDiagonal()).colwise() + of_bias.rowwise().sum();
    SourceVariance observed(*source, p, q);
    const Index n = source->examples.scores.rows();
    const auto label = [&](Index i) { return source->examples.labels[static_cast<std::size_t>(i)]; };
    const auto squared_weight = [&](Index i) { return std::pow(weight(source->examples.weights, i), 2); };
    if (!influence) {  // then all examples of a class do the same
      Eigen::ArrayXd squares = Eigen::ArrayXd::Zero(m);
      for (Index i = 0; i < n; ++i) squares[label(i)] += squared_weight(i);
      for (Index y = 0; y < m; ++y) observed.add(y, of_label.col(y).transpose(), squares[y]);
      result.prior_of_source = observed.of_prior();
      result.ratio_of_source = observed.of_ratio();
    } else {
      for (Index first = 0; first < n; first += kBlock) {
        const Eigen::MatrixXd of_fit = influence->rows(first, std::min(kBlock, n - first));
        for (Index i = 0; i < of_fit.rows(); ++i) {
          const Index y = label(first + i);
          observed.add(y, of_fit.row(i) + of_label.col(y).transpose(), squared_weight(first + i));
        }
      }
      // The labels that the source has tell too little where the classifier seldom errs: a fit to a few errors follows
      // them. What the fit says of every label tells too little where the calibration does not fit. Half of each.
      SourceVariance expected(*source, p, q);
      influence->for_each_label(
          expected_rows(m), [&](Index i, Index y, const Eigen::RowVectorXd& of_fit, double probability) {
            expected.add(y, of_fit + of_label.col(y).transpose(), probability * squared_weight(i));
          });
      result.prior_of_source = 0.5 * (observed.of_prior() + expected.of_prior());
      result.ratio_of_source = 0.5 * (observed.of_ratio() + expected.of_ratio());
    }
    if (source->prior_is_estimated)
      result.ratio_error = (variance.array() / p.array().square() + result.ratio_of_source.array()).sqrt();
    variance += result.prior_of_source;
  }
  result.prior_error = variance.cwiseSqrt();
  result.response = response;
  return result;
}

/// (m, m) of what is predicted for a row of the target, of which `mean` (m) is the mean.
Eigen::MatrixXd row_covariance(const TargetSample& target, bool soft, const Eigen::VectorXd& mean) {
  if (!soft) return Eigen::MatrixXd(mean.asDiagonal()) - mean * mean.transpose();
  Moments moments;
  moments.add(target.probs, target.weights);
  return moments.covariance();
}

/// q solves P q = b, P(:, c) being the predictions given class c and b those of the target. Calibration does not
/// matter: what it changes in b it changes in P q as well.
PriorUncertainty confusion_uncertainty(bool soft, const SourceSummary& summary, const TargetSample& target,
                                       const RatioEstimate& estimate, const SourceNoise& source) {
  const Eigen::VectorXd& p = summary.label_prior;
  const Eigen::VectorXd q = p.cwiseProduct(estimate.ratio);
  const Index m = p.size();
  const Eigen::MatrixXd conditional =
      (soft ? *summary.soft_confusion : *summary.confusion) * p.cwiseInverse().asDiagonal();
  const Eigen::MatrixXd inverse = conditional.completeOrthogonalDecomposition().pseudoInverse();
  const Eigen::VectorXd b = predicted_prior(target, soft);

  PriorUncertainty result{.prior = q, .centre = q};
  const Eigen::VectorXd unprojected = inverse * b;
  for (Index c = 0; c < m; ++c)
    if (q[c] == 0.0) result.centre[c] = std::min(unprojected[c], 0.0);

  const Eigen::MatrixXd covariance = row_covariance(target, soft, b);
  const Eigen::VectorXd target_share = (inverse * covariance).cwiseProduct(inverse).rowwise().sum() /
                                       effective_rows(target.weights, target.probs.rows());

  Eigen::VectorXd mass = Eigen::VectorXd::Zero(m);
  const Probabilities& f = *source.probs;
  const Index n = f.rows();
  for (Index i = 0; i < n; ++i)
    mass[source.examples.labels[static_cast<std::size_t>(i)]] += weight(source.examples.weights, i);
  const double total = mass.sum();
  SourceVariance sums(source, p, q);
  Eigen::MatrixXd moved(kBlock, m);
  for (Index first = 0; first < n; first += kBlock) {
    const Index count = std::min(kBlock, n - first);
    moved = Eigen::MatrixXd::Zero(count, m);
    for (Index i = 0; i < count; ++i) {
      const Index y = source.examples.labels[static_cast<std::size_t>(first + i)];
      if (soft)
        for (Index j = 0; j < m; ++j) moved(i, j) = f(first + i, j);
      else
        moved(i, arg_max(f, first + i)) = 1.0;
      moved.row(i) = (conditional.col(y).transpose() - moved.row(i)) * (q[y] * total / mass[y]);
    }
    const Eigen::MatrixXd influence = moved * inverse.transpose();
    for (Index i = 0; i < count; ++i)
      sums.add(source.examples.labels[static_cast<std::size_t>(first + i)], influence.row(i),
               std::pow(weight(source.examples.weights, first + i), 2));
  }
  result.prior_error = (target_share + sums.of_prior()).cwiseSqrt();
  if (source.prior_is_estimated)
    result.ratio_error = (target_share.array() / p.array().square() + sums.of_ratio().array()).sqrt();
  return result;
}

}  // namespace

bool is_absent(double share, double rows) {
  return share * rows < 1e-3;
}

void widen_to(const Eigen::VectorXd& prior, const Eigen::VectorXd& ratio, Intervals& intervals) {
  intervals.prior_low = intervals.prior_low.cwiseMin(prior);
  intervals.prior_high = intervals.prior_high.cwiseMax(prior);
  intervals.ratio_low = intervals.ratio_low.cwiseMin(ratio);
  intervals.ratio_high = intervals.ratio_high.cwiseMax(ratio);
}

Eigen::MatrixXd score_response(const Eigen::VectorXd& target_prior, const Eigen::MatrixXd& curvature, double rows) {
  const Eigen::VectorXd& q = target_prior;
  const Eigen::MatrixXd& h = curvature;
  const Index m = q.size();
  std::vector<Index> face, absent;
  for (Index c = 0; c < m; ++c) (is_absent(q[c], rows) ? absent : face).push_back(c);
  const Index k = static_cast<Index>(face.size());

  // On the face: maximise g . d - ½ d^T H d subject to sum d = 0, so d = A g with A = H^-1 - H^-1 1 1^T H^-1 / 1^T
  // H^-1 1.
  Eigen::MatrixXd on_face = h(face, face);
  on_face.diagonal().array() += 1e-12 * on_face.diagonal().maxCoeff();
  Eigen::MatrixXd inverse = Eigen::MatrixXd::Identity(k, k);
  if (!solve_positive_definite(on_face, inverse)) {
    on_face = h(face, face);
    inverse = on_face.completeOrthogonalDecomposition().pseudoInverse();
  }
  const Eigen::VectorXd sums = inverse.rowwise().sum();
  const Eigen::VectorXd share = sums / sums.sum();  // how the face makes room for a new class
  const Eigen::MatrixXd a = inverse - share * sums.transpose();

  Eigen::MatrixXd response = Eigen::MatrixXd::Zero(m, m);
  response(face, face) = a;
  for (const Index c : absent) {
    // Give class c one unit and let the face answer as it likes best: the direction along which c alone is measured.
    const Eigen::VectorXd beside = h(face, std::vector<Index>{c});
    Eigen::VectorXd direction = Eigen::VectorXd::Zero(m);
    direction(face) = -(a * beside + share);
    direction[c] = 1.0;
    response.row(c) = direction / std::max(direction.dot(h * direction), 1e-300);
  }
  return response;
}

Intervals intervals_from(const PriorUncertainty& uncertainty, const Eigen::VectorXd& label_prior, double rows,
                         double level) {
  const Index m = label_prior.size();
  const double miss = 1.0 - level;
  const double z = -normal_quantile(0.5 * miss);
  Intervals result{.level = level,
                   .prior_low = Eigen::VectorXd::Zero(m),
                   .prior_high = Eigen::VectorXd::Zero(m),
                   .ratio_low = Eigen::VectorXd::Zero(m),
                   .ratio_high = Eigen::VectorXd::Zero(m)};
  for (Index c = 0; c < m; ++c) {
    const double q = uncertainty.prior[c];
    const double error = uncertainty.prior_error[c];
    if (is_absent(q, rows)) {
      const double centre = uncertainty.centre[c];
      const double tail = miss * normal_cdf(centre / std::max(error, 1e-300));
      // Far below 0 the cut-off normal is exponential, and its tail too small for the formula.
      const double high = tail > 0.0 ? centre - error * normal_quantile(tail) : error * error * std::log(miss) / centre;
      // A row that the weights all but leave out can speak for the class so loudly that the curvature, where it counts
      // squared, knows of nothing else. No rows say more against a class than as many that rule it out.
      const double rule_of_three = -std::expm1(std::log(miss) / rows);
      result.prior_high[c] = std::clamp(std::max(high, rule_of_three), q, 1.0);
      result.ratio_high[c] = result.prior_high[c] / label_prior[c];
      continue;
    }
    const bool prior_is_known = uncertainty.ratio_error.size() == 0;
    const bool source_is_known = uncertainty.prior_of_source.size() == 0;
    const WilsonInterval of_prior =
        wilson_interval(q, error * error, source_is_known ? 0.0 : uncertainty.prior_of_source[c], rows, z);
    result.prior_low[c] = of_prior.low;
    result.prior_high[c] = of_prior.high;
    result.ratio_low[c] = of_prior.low / label_prior[c];
    result.ratio_high[c] = of_prior.high / label_prior[c];
    if (prior_is_known) continue;
    const double p = label_prior[c];
    const WilsonInterval of_ratio =
        wilson_interval(q, std::pow(uncertainty.ratio_error[c] * p, 2),
                        source_is_known ? 0.0 : uncertainty.ratio_of_source[c] * p * p, rows, z);
    result.ratio_low[c] = of_ratio.low / p;
    result.ratio_high[c] = of_ratio.high / p;
    // r = 0 and q = 0 are one thing: what cannot be ruled out of the one cannot be of the other.
    if (of_prior.low == 0.0 || of_ratio.low == 0.0) result.prior_low[c] = result.ratio_low[c] = 0.0;
  }
  if (uncertainty.response.size() == 0) return result;
  for (Index a = 0; a < m; ++a) {
    if (!is_absent(uncertainty.prior[a], rows)) continue;
    for (Index c = 0; c < m; ++c) {
      if (is_absent(uncertainty.prior[c], rows)) continue;
      const double rate = uncertainty.response(a, c) / uncertainty.response(a, a);  // d q_c / d q_a
      const double moved = std::clamp(uncertainty.prior[c] + rate * result.prior_high[a], 0.0, 1.0);
      result.prior_low[c] = std::min(result.prior_low[c], moved);
      result.prior_high[c] = std::max(result.prior_high[c], moved);
      result.ratio_low[c] = std::min(result.ratio_low[c], moved / label_prior[c]);
      result.ratio_high[c] = std::max(result.ratio_high[c], moved / label_prior[c]);
    }
  }
  return result;
}

PooledUncertainty pooled_uncertainty(const SourceSummary& summary, const TargetSample& target,
                                     const Scores& target_scores, const RatioEstimate& estimate,
                                     const PooledNoise& noise) {
  const Eigen::VectorXd& p = summary.label_prior;
  const Index m = p.size();
  const double rows = effective_rows(target.weights, target.probs.rows());
  PooledUncertainty result{
      .prior = likelihood_uncertainty(summary, target, target_scores, estimate, std::nullopt, rows),
      .of_calibration = Eigen::MatrixXd::Zero(m, m)};
  if (noise.kind == CalibrationKind::kNone) return result;
  const Eigen::VectorXd& q = result.prior.prior;
  const LikelihoodValue at = Likelihood(p, target).at(q, Derivatives::kCurvature);
  const CalibrationResponse response =
      centre_response(target, target_scores, p, q, noise.kind, at, result.prior.response);
  const Eigen::MatrixXd of_theta =
      CalibrationParameters(noise.kind, m).reduce(response.scale, response.mixing, response.bias);  // (m, p)
  result.of_calibration = of_theta * noise.covariance * of_theta.transpose();
  result.prior.prior_of_source = result.of_calibration.diagonal();
  result.prior.prior_error = (result.prior.prior_error.array().square() + result.prior.prior_of_source.array()).sqrt();
  return result;
}

Eigen::MatrixXd PredictedLabels::covariance(const Eigen::VectorXd& q) const {
  Eigen::MatrixXd sum = Eigen::MatrixXd::Zero(q.size(), q.size());
  for (Index c = 0; c < q.size(); ++c) {
    if (!(examples[c] > 0.0)) continue;
    // Of a mistake that a few examples do not show, the variance that they show is 0: Jeffreys's half an example more.
    const double added = 0.5, all = examples[c] + added * static_cast<double>(q.size());
    const Eigen::VectorXd column = (examples[c] * conditional.col(c).array() + added) / all;
    sum += q[c] * q[c] / examples[c] * (Eigen::MatrixXd(column.asDiagonal()) - column * column.transpose());
  }
  return sum;
}

PriorUncertainty pooled_uncertainty(const PredictedLabels& labels, bool soft, const TargetSample& target,
                                    const Eigen::VectorXd& target_prior) {
  const Eigen::MatrixXd inverse = labels.conditional.completeOrthogonalDecomposition().pseudoInverse();
  const Eigen::VectorXd b = predicted_prior(target, soft);
  PriorUncertainty result{.prior = target_prior, .centre = target_prior};
  const Eigen::VectorXd unprojected = inverse * b;
  const double rows = effective_rows(target.weights, target.probs.rows());
  for (Index c = 0; c < b.size(); ++c)
    if (is_absent(target_prior[c], rows)) result.centre[c] = std::min(unprojected[c], 0.0);
  const Eigen::MatrixXd of_rows = row_covariance(target, soft, b) / rows;
  const Eigen::MatrixXd of_labels = labels.covariance(target_prior);
  const auto spread = [&](const Eigen::MatrixXd& covariance) -> Eigen::VectorXd {
    return (inverse * covariance).cwiseProduct(inverse).rowwise().sum();
  };
  result.prior_of_source = spread(of_labels);
  result.prior_error = (spread(of_rows) + result.prior_of_source).cwiseSqrt();
  return result;
}

Intervals asymptotic_intervals(EstimatorFamily family, const SourceSummary& summary, const TargetSample& target,
                               const Scores& target_scores, const RatioEstimate& estimate,
                               const std::optional<SourceNoise>& source, double level) {
  const double rows = effective_rows(target.weights, target.probs.rows());
  const PriorUncertainty uncertainty =
      family == EstimatorFamily::kLikelihood
          ? likelihood_uncertainty(summary, target, target_scores, estimate, source, rows)
          : confusion_uncertainty(family == EstimatorFamily::kSoftConfusion, summary, target, estimate, *source);
  Intervals intervals = intervals_from(uncertainty, summary.label_prior, rows, level);
  widen_to(uncertainty.prior, estimate.ratio, intervals);
  return intervals;
}

}  // namespace labelshift
