#include "labelshift/core/estimators/mlls_sqp.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "labelshift/core/estimators/simplex.hpp"
#include "labelshift/core/likelihood/likelihood.hpp"
#include "labelshift/core/likelihood/sample_summary.hpp"

namespace labelshift {
namespace {

/// strength * sum_c |r_c - 1| or strength * sum_c (r_c - 1)^2, in terms of q = p r.
struct PenaltyTerm {
  Penalty kind;
  double strength;
  const Eigen::VectorXd& p;  // (m) p_tr

  double value(const Eigen::VectorXd& q) const {
    const Eigen::ArrayXd departure = q.array() / p.array() - 1.0;
    if (kind == Penalty::kL1) return strength * departure.abs().sum();
    if (kind == Penalty::kL2) return strength * departure.square().sum();
    return 0.0;
  }

  /// How far the penalised likelihood with gradient g at q can be below its maximum: for every q' it gains at most
  /// g . (q' - q) less the change of the penalty, which is maximised here.
  double gap(const Eigen::VectorXd& g, const Eigen::VectorXd& q) const {
    if (kind == Penalty::kNone) return g.maxCoeff() - g.dot(q);
    if (kind == Penalty::kL2) {
      // The multiplier nu of sum q' = 1 splits this into classes, and any nu gives an upper bound (weak duality): the
      // one whose q'_c = p_c max(0, 1 + p_c (g_c - nu) / (2 strength)) sum to 1 gives the least.
      const auto departures = [&](double nu) -> Eigen::ArrayXd {
        return (1.0 + p.array() * (g.array() - nu) / (2.0 * strength)).max(0.0) - 1.0;
      };
      double low = g.minCoeff();   // here no class wants less than p_c
      double high = g.maxCoeff();  // and here none wants more
      for (int i = 0; i < 100 && low < high; ++i) {
        const double nu = 0.5 * (low + high);
        ((p.array() * departures(nu)).sum() > 0.0 ? low : high) = nu;
      }
      const double nu = 0.5 * (low + high);
      const Eigen::ArrayXd best = departures(nu);
      return (nu * (1.0 - p.sum()) + (p.array() * (g.array() - nu) * best).sum() - strength * best.square().sum()) -
             (g.dot(q - p) - value(q));
    }
    // L1: piecewise linear, so the best q' fills the steepest pieces first: class c up to p_c at slope g_c + strength /
    // p_c, beyond it at g_c - strength / p_c without end.
    std::vector<Eigen::Index> order(static_cast<std::size_t>(g.size()));
    std::iota(order.begin(), order.end(), Eigen::Index{0});
    const Eigen::VectorXd steep = g.array() + strength / p.array();
    std::sort(order.begin(), order.end(), [&](auto a, auto b) { return steep[a] > steep[b]; });
    const double endless = (g.array() - strength / p.array()).maxCoeff();
    double mass = 1.0;
    double best = 0.0;
    for (const Eigen::Index c : order) {
      const double share = steep[c] > endless ? std::min(mass, p[c]) : 0.0;
      best += share * g[c] - strength * (1.0 - share / p[c]);  // not in one sum: strength can dwarf the rest
      mass -= share;
    }
    best += mass * endless;
    return best - (g.dot(q) - value(q));
  }

  /// The quadratic model of minus the objective around q, as a problem on the simplex. The curvature may be that of a
  /// nearby point; `quadratic` receives it with the penalty's share added.
  SimplexProblem model(const LikelihoodValue& at, const Eigen::MatrixXd& curvature, const Eigen::VectorXd& q,
                       Eigen::MatrixXd& quadratic) const {
    const Eigen::Index m = q.size();
    quadratic = curvature;
    Eigen::VectorXd linear = curvature * q + at.gradient;
    Eigen::VectorXd kink = Eigen::VectorXd::Zero(m);
    Eigen::VectorXd slope = Eigen::VectorXd::Zero(m);
    if (kind == Penalty::kL2) {
      quadratic.diagonal().array() += 2.0 * strength / p.array().square();
      linear.array() += 2.0 * strength / p.array();
    }
    if (kind == Penalty::kL1) {
      kink = p;
      slope = strength / p.array();
    }
    return {quadratic, std::move(linear), std::move(kink), std::move(slope)};
  }
};

/// Passes that still shrink the gap from `gap` to `tolerance` if each multiplies it by `contraction`.
double passes_left(double gap, double tolerance, double contraction) {
  if (gap <= tolerance) return 0.0;
  return std::ceil(std::log(gap / tolerance) / -std::log(contraction));
}

constexpr double kFar = 0.1;    // a gap above which a quadratic model is not to be trusted
constexpr double kNear = 1e-3;  // a gap below which it is trusted to say that a class is absent
constexpr int kPatience = 20;   // steps without halving the gap

struct Progress {
  Eigen::VectorXd q;          // (m) the current target prior
  Eigen::MatrixXd curvature;  // (m, m) of a recent point, or empty
  LikelihoodValue value;      // at q
  double gap = 0.0;
  int passes = 0;
  bool converged = false;
};

/// q + step. While the model is not to be trusted far (`careful`) no class loses more than two thirds of its share at
/// once. `sharpen` betters Newton's step where classes are well apart: there class c sees k_c log q_c - n q_c, whose
/// maximum is at q_c / (1 - t), t = step_c / q_c, and not at Newton's q_c (1 + t). Of a growing class, for which 1 - t
/// may be near 0, only the next term t^2 is taken.
Eigen::VectorXd advance(const Eigen::VectorXd& q, const Eigen::VectorXd& step, bool careful, bool sharpen) {
  Eigen::VectorXd next = q + step;
  for (Eigen::Index c = 0; c < q.size(); ++c) {
    const double t = step[c] / q[c];
    if (sharpen && t > -1.0 && t < 0.3) next[c] = q[c] * (t < 0.0 ? 1.0 / (1.0 - t) : 1.0 + t + t * t);
    next[c] = std::max(next[c], careful ? 0.3 * q[c] : 0.0);
  }
  return next / next.sum();
}

/// Climbs from progress.q until the gap is below `tolerance`.
void climb(const Likelihood& likelihood, const PenaltyTerm& penalty, double tolerance, int max_passes,
           Progress& progress) {
  const Eigen::Index m = likelihood.classes();
  // What a pass with curvature costs more than one without, in passes without (measured: 1.3 at m = 10, 5 at 100).
  const double curvature_cost = std::max(1.25, static_cast<double>(m) / 20.0);
  SimplexSolver solver;
  Eigen::MatrixXd quadratic;
  const auto evaluate = [&](const Eigen::VectorXd& q, bool with_curvature) {
    ++progress.passes;
    return likelihood.at(q, with_curvature ? Derivatives::kCurvature : Derivatives::kGradient);
  };

  progress.passes = 0;
  progress.converged = false;
  // Far from the optimum EM steps, which cost one pass, are bolder than Newton's: a class whose share is a thousand
  // times too small grows to its size at once, where a quadratic model of the logarithm can only double it.
  const bool fresh = progress.curvature.size() == 0 || curvature_cost < 1.0;
  progress.value = evaluate(progress.q, fresh);
  progress.gap = penalty.gap(progress.value.gradient, progress.q);
  for (double before = 1e300; progress.gap > kFar && progress.gap < 0.6 * before && progress.passes < max_passes;) {
    before = progress.gap;
    progress.q.array() *= progress.value.gradient.array();
    progress.q /= progress.q.sum();
    progress.value = evaluate(progress.q, fresh && before < 4.0 * kFar);
    progress.gap = penalty.gap(progress.value.gradient, progress.q);
  }
  if (fresh && progress.value.curvature.size() == 0) {
    if (progress.passes >= max_passes) return;
    progress.value = evaluate(progress.q, true);
  }
  if (fresh) progress.curvature = progress.value.curvature;
  double drift = fresh ? 0.0 : 0.1;  // relative distance between q and where the curvature was computed
  double best_gap = 1e300;
  int stalled = 0;
  for (;;) {
    const Eigen::VectorXd& q = progress.q;
    progress.gap = penalty.gap(progress.value.gradient, q);
    progress.converged = progress.gap <= tolerance;
    if (progress.converged || progress.passes >= max_passes) return;
    // Rounding can keep the gap above the tolerance (a rare class multiplies it by 1 / p_c): give up in good time.
    stalled = progress.gap < 0.5 * best_gap ? 0 : stalled + 1;
    best_gap = std::min(best_gap, progress.gap);
    if (stalled > kPatience) return;

    const SimplexProblem model = penalty.model(progress.value, progress.curvature, q, quadratic);
    const Eigen::VectorXd step = solver.solve(model, q) - q;
    const double objective = progress.value.mean_log_likelihood - penalty.value(q);
    const double promised = progress.value.gradient.dot(step) - penalty.value(q + step) + penalty.value(q);

    // The error left by a step is about `drift` times the error before it, and quadratic if the curvature is fresh.
    const double moved = (step.array().abs() / (q.array() + 1e-3 / static_cast<double>(m))).maxCoeff();
    const double stale = drift + moved;
    const double next_gap = progress.gap * stale;
    const bool refresh = stale > 0.2 || passes_left(next_gap, tolerance, stale) >
                                            curvature_cost + passes_left(next_gap, tolerance, moved * stale);

    const double gap_before = progress.gap;
    bool accepted = false;
    for (double length = 1.0; length > 1e-10; length *= 0.5) {
      Eigen::VectorXd trial = advance(q, length * step, progress.gap > kNear, penalty.kind == Penalty::kNone);
      LikelihoodValue value = evaluate(trial, refresh);
      const double gained = value.mean_log_likelihood - penalty.value(trial) - objective;
      // Near the optimum the gain drowns in rounding; there the step is Newton's and is trusted.
      if (gained >= 1e-4 * length * promised - 1e-13 * (1.0 + std::abs(objective))) {
        progress.q = std::move(trial);
        progress.value = std::move(value);
        accepted = true;
        break;
      }
      if (progress.passes >= max_passes) break;
    }
    if (!accepted) {
      if (drift == 0.0 || progress.passes >= max_passes) return;  // no step gains anything: rounding has been reached
      // or the curvature, of another point or of a subsample, misled it
      progress.value = evaluate(progress.q, /*with_curvature=*/true);
      progress.curvature = progress.value.curvature;
      drift = 0.0;
      continue;
    }
    if (progress.value.curvature.size() > 0) {
      progress.curvature = progress.value.curvature;
      drift = 0.0;
    } else {
      drift = std::max(drift + moved, penalty.gap(progress.value.gradient, progress.q) / gap_before);
    }
  }
}

}  // namespace

RatioEstimate MllsSqp::estimate(const SourceSummary& source, const TargetSample& target,
                                const Observer& observer) const {
  const Eigen::VectorXd& p = source.label_prior;
  const Likelihood likelihood(p, target, observer);
  const double n = effective_rows(target.weights, target.probs.rows());
  const double scale_one = options_.penalty == Penalty::kL1 ? 1.0 / n : 0.5 / n;
  const double strength = options_.strength.value_or(scale_one);
  const PenaltyTerm penalty{strength > 0.0 ? options_.penalty : Penalty::kNone, strength, p};

  Progress progress;
  progress.q = p / p.sum();  // start from "no shift"; p may be rounded
  for (const Eigen::Index step : {128, 16, 4, 1}) {
    const double rows = static_cast<double>(likelihood.rows() / step);
    if (step > 1 && rows < std::max(500.0, 10.0 * static_cast<double>(p.size()))) continue;
    const Likelihood part = step > 1 ? likelihood.every(step) : likelihood;
    if (!(part.total_weight() > 0.0)) continue;  // all the weight is on other rows
    // A subsample's optimum is off by its sampling error; solving it much beyond that is wasted.
    const double tolerance = step > 1 ? std::max(options_.tolerance, 0.1 / std::sqrt(rows)) : options_.tolerance;
    climb(part, penalty, tolerance, options_.max_iterations, progress);
    // A class can be absent from a subsample and present in the rest: give each the share of one row of it.
    if (step > 1) progress.q = (progress.q.array() + 1.0 / rows) / (1.0 + static_cast<double>(p.size()) / rows);
  }
  return {.ratio = progress.q.array() / p.array(),
          .mean_log_likelihood = progress.value.mean_log_likelihood,
          .gap = std::max(progress.gap, 0.0),
          .iterations = progress.passes,
          .stopped_by = progress.converged                           ? StopReason::kTolerance
                        : progress.passes >= options_.max_iterations ? StopReason::kIterationLimit
                                                                     : StopReason::kRounding};
}

}  // namespace labelshift
