#include "labelshift/core/inference/fit_hypothesis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "labelshift/core/base/blas.hpp"
#include "labelshift/core/base/distributions.hpp"
#include "labelshift/core/base/error.hpp"
#include "labelshift/core/estimators/simplex.hpp"
#include "labelshift/core/likelihood/row_block.hpp"
#include "labelshift/core/likelihood/sample_summary.hpp"

namespace labelshift {
namespace {

// Chosen by simulation of the level: 3 and 10 classes, 500 to 20,000 source and 500 to 100,000 target rows, exact and
// sharpened posteriors. Merging more target cells makes the test reject too rarely, since it merges the low counts.
constexpr double kRowsPerBin = 15.0;  // source rows of a predicted class for each of its bins
constexpr double kMostBins = 4.0;     // per predicted class
constexpr double kSplitCells =
    300.0;  // beyond this many, fewer bins a class: the cost grows with the cube of the cells
constexpr double kLeastSourceRows = 10;  // in a cell
constexpr double kLeastTargetRows = 2;   // in a cell
constexpr double kPseudoRow = 0.5;       // of the pooled source, added to each sample where variances are computed
constexpr double kMostNegative = 0.5;    // the sum of shares below 0 that variances are computed with
constexpr int kVarianceRounds = 3;
constexpr int kMostSteps = 20;

double weight_of(std::span<const double> weights, Index row) {
  return weights.empty() ? 1.0 : weights[static_cast<std::size_t>(row)];
}

/// The middle of the thousandth below a confidence, 0.9995 at most. One side may be written with fewer digits than the
/// other (a log of production with four, a float32 file with seven), and many rows of a sure classifier lie within 1e-7
/// of each other: no edge may tell 1 from 0.9999999, or 0.6 from the float32 next to it.
double between_thousandths(double confidence) {
  constexpr double kRounding = 0.01;  // thousandths
  return (std::ceil(1000.0 * confidence - kRounding) - 0.5) / 1000.0;
}

/// Where each cell goes so that all hold enough rows of both samples, and how many there are then.
struct Merge {
  std::vector<Index> into;
  Index cells = 0;
};

/// Joins neighbouring confidences of a predicted class; predicted classes too small as a whole share one cell. Looks at
/// counts over all labels only.
Merge merge_small(const ConfidenceCells& cells, const Eigen::VectorXd& source_rows,
                  const Eigen::VectorXd& target_rows) {
  const auto enough = [](double source, double target) {
    return source >= kLeastSourceRows && target >= kLeastTargetRows;
  };
  Merge merge{.into = std::vector<Index>(static_cast<std::size_t>(cells.size()), -1)};
  double rest_source = 0.0;
  double rest_target = 0.0;
  for (Index c = 0; c < cells.classes(); ++c) {
    const Index before = merge.cells;
    double source = 0.0;
    double target = 0.0;
    for (Index k = cells.first_of(c); k < cells.first_of(c + 1); ++k) {
      merge.into[static_cast<std::size_t>(k)] = merge.cells;
      source += source_rows[k];
      target += target_rows[k];
      if (!enough(source, target)) continue;
      ++merge.cells;
      source = target = 0.0;
    }
    // What is left over at the top joins the cell below it, or the rest if there is none.
    for (Index k = cells.first_of(c); k < cells.first_of(c + 1); ++k) {
      Index& into = merge.into[static_cast<std::size_t>(k)];
      if (into == merge.cells) into = merge.cells > before ? merge.cells - 1 : -1;
    }
    if (merge.cells == before) {
      rest_source += source;
      rest_target += target;
    }
  }
  if (enough(rest_source, rest_target) || merge.cells == 0) ++merge.cells;
  std::replace(merge.into.begin(), merge.into.end(), Index{-1}, merge.cells - 1);
  return merge;
}

/// pi = M q as a regression in which both sides are observed frequencies.
struct MixtureFit {
  Eigen::VectorXd target;  // (D)    pi
  double target_rows;      //        n_te, effective
  Eigen::MatrixXd source;  // (D, k) M, a column for each class that has source rows
  Eigen::VectorXd rows;    // (k)    n_c, effective
  Eigen::VectorXd prior;   // (k)    p_tr
};

/// A q, with V(q) factored and the multipliers that price its misfit.
struct Candidate {
  Eigen::VectorXd q;           // (k) sums to 1
  Eigen::MatrixXd factor;      // (D, D) L of V = L L^T, in its lower triangle
  Eigen::VectorXd multiplier;  // (D) V^-1 (pi - M q)
  double statistic;            // J(q) = (pi - M q)^T V(q)^-1 (pi - M q)
};

/// (diag(p) - p p^T) x, the covariance of one multinomial draw times a vector.
Eigen::VectorXd multinomial_covariance(const Eigen::VectorXd& p, const Eigen::VectorXd& x) {
  return p.array() * (x.array() - p.dot(x));
}

/// Minimises J(q) (Hansen's J, continuously updated: V moves with q) over the simplex.
class MinimumChiSquared {
 public:
  struct Minimum {
    double statistic;
    Index absent;  // how many shares are held at 0
  };

  explicit MinimumChiSquared(const MixtureFit& data) : data_(data), pooled_(data.source * data.prior) {
    set_frequencies(data.source, data.target);
  }

  Minimum minimise() {
    Candidate best = candidate(data_.prior);
    for (int round = 1;; ++round) {
      descend(best, Shares::kAny);
      if (round == kVarianceRounds) break;
      // Variances at frequencies that satisfy pi = M q, not at the observed ones: a cell that happens to be rare would
      // be thought certain, and the test would reject too often (Pearson's chi-squared against Neyman's).
      Eigen::MatrixXd source = fitted_source(best).cwiseMax(0.0);
      for (Index c = 0; c < source.cols(); ++c) source.col(c) /= source.col(c).sum();
      const Eigen::VectorXd target =
          (data_.target - multinomial_covariance(target_, best.multiplier) / data_.target_rows).cwiseMax(0.0);
      set_frequencies(source, target / target.sum());
      best = candidate(best.q);
    }
    if ((best.q.array() >= 0.0).all()) return {best.statistic, 0};
    best = candidate(project_to_simplex(best.q));
    descend(best, Shares::kNotNegative);
    return {best.statistic, (best.q.array() <= 0.0).count()};
  }

 private:
  enum class Shares { kAny, kNotNegative };

  /// Sets the frequencies that V is computed from. A fraction of a pooled row keeps a class of few rows, all in
  /// one cell, from being thought to lie there for certain.
  void set_frequencies(const Eigen::MatrixXd& source, const Eigen::VectorXd& target) {
    source_.resize(source.rows(), source.cols());
    for (Index c = 0; c < source.cols(); ++c)
      source_.col(c) = (data_.rows[c] * source.col(c) + kPseudoRow * pooled_) / (data_.rows[c] + kPseudoRow);
    target_ = (data_.target_rows * target + kPseudoRow * pooled_) / (data_.target_rows + kPseudoRow);
  }

  /// The shares that variances are computed from: q with at most kMostNegative below 0, else moved towards the simplex.
  /// Noise makes shares of q negative; far from the simplex its own noise would be so large that it explains anything.
  static Eigen::VectorXd plausible(const Eigen::VectorXd& q) {
    const double negative = -q.cwiseMin(0.0).sum();
    if (negative <= kMostNegative) return q;
    const Eigen::VectorXd nearest = q.cwiseMax(0.0) / (1.0 + negative);
    return nearest + kMostNegative / negative * (q - nearest);
  }

  Candidate candidate(const Eigen::VectorXd& q) const {
    // V(q) = [diag(pi) - pi pi^T] / n_te + sum_c q_c^2 [diag(M_c) - M_c M_c^T] / n_c. It maps the vector of ones to
    // zero; a constant added to every entry makes it invertible and changes nothing for vectors that sum to 0, as
    // pi - M q does.
    const Index cells = target_.size();
    const Index k = q.size();
    const Eigen::VectorXd scale = plausible(q).array() / data_.rows.array().sqrt();
    Eigen::MatrixXd factors(cells, k + 1);
    factors.leftCols(k) = source_ * scale.asDiagonal();
    factors.col(k) = target_ / std::sqrt(data_.target_rows);
    const Eigen::VectorXd diagonal = source_ * scale.cwiseAbs2() + target_ / data_.target_rows;
    Eigen::MatrixXd v = Eigen::MatrixXd::Zero(cells, cells);
    add_outer_products(factors, v);
    v = (diagonal.mean() / static_cast<double>(cells) - v.array()).matrix();
    v.diagonal() += diagonal;

    Candidate result{.q = q, .factor = std::move(v), .multiplier = Eigen::VectorXd::Zero(cells), .statistic = 0.0};
    if (!factor_positive_definite(result.factor)) {  // rounding: no q to go to
      result.statistic = std::numeric_limits<double>::infinity();
      return result;
    }
    const Eigen::VectorXd misfit = data_.target - data_.source * q;
    result.multiplier = misfit;
    result.factor.triangularView<Eigen::Lower>().solveInPlace(result.multiplier);
    result.factor.transpose().triangularView<Eigen::Upper>().solveInPlace(result.multiplier);
    result.statistic = misfit.dot(result.multiplier);
    return result;
  }

  /// (D, k) the least change of M that, with one of pi, makes pi = M q. It is also what the
  /// gradient of J needs: dJ/dq_c = -2 multiplier . fitted_c, with the change of V(q) included.
  Eigen::MatrixXd fitted_source(const Candidate& at) const {
    Eigen::MatrixXd fitted = data_.source;
    const Eigen::VectorXd q = plausible(at.q);
    for (Index c = 0; c < fitted.cols(); ++c)
      fitted.col(c) += q[c] / data_.rows[c] * multinomial_covariance(source_.col(c), at.multiplier);
    return fitted;
  }

  /// Gauss-Newton steps, halved until J falls.
  void descend(Candidate& best, Shares shares) const {
    SimplexSolver solver;
    for (int step = 0; step < kMostSteps; ++step) {
      const Eigen::MatrixXd fitted = fitted_source(best);
      Eigen::MatrixXd whitened = fitted;
      solve_lower_triangular(best.factor, whitened);
      Eigen::MatrixXd information = Eigen::MatrixXd::Zero(fitted.cols(), fitted.cols());
      add_outer_products(whitened.data(), whitened.rows(), whitened.cols(), information.data());
      // That of a prior with standard deviation 1: nothing beside what the data know of an identified q_c, but it keeps
      // directions the data know nothing of from running away. It shortens steps and does not move the minimum.
      information.diagonal().array() += 1.0;
      information.triangularView<Eigen::StrictlyUpper>() = information.transpose();
      const Eigen::VectorXd slope = fitted.transpose() * best.multiplier;  // (k) minus half the gradient
      Eigen::VectorXd direction;
      if (shares == Shares::kNotNegative) {
        const Eigen::VectorXd zero = Eigen::VectorXd::Zero(slope.size());
        direction = solver.solve({information, information * best.q + slope, zero, zero}, best.q) - best.q;
      } else {
        Eigen::MatrixXd factor = information;
        Eigen::MatrixXd solved(fitted.cols(), 2);  // information^-1 times the slope, and times ones
        solved.col(0) = slope;
        solved.col(1).setOnes();
        if (!solve_positive_definite(factor, solved)) return;
        direction = solved.col(0) - solved.col(1) * (solved.col(0).sum() / solved.col(1).sum());  // keeps sum q = 1
      }
      // What J would fall by: nothing to a p-value. The last, constrained descent alone need not end closer than 0.01.
      if (direction.dot(information * direction) < (shares == Shares::kAny ? 1e-4 : 1e-2)) return;
      double length = 1.0;
      Candidate next = candidate(best.q + direction);
      while (!(next.statistic < best.statistic) && length > 1e-3) {
        length *= 0.5;
        next = candidate(best.q + length * direction);
      }
      if (!(next.statistic < best.statistic)) return;
      best = std::move(next);
    }
  }

  const MixtureFit& data_;
  Eigen::VectorXd pooled_;  // (D) source frequencies over all classes
  Eigen::MatrixXd source_;  // (D, k) and (D): the frequencies that V is computed from
  Eigen::VectorXd target_;
};

}  // namespace

ConfidenceCells::ConfidenceCells(const Probabilities& source_probs)
    : edges_(static_cast<std::size_t>(source_probs.cols())), first_{0} {
  std::vector<std::vector<double>> confidences(edges_.size());
  for_each_largest(source_probs, [&](Index, Index predicted, double confidence) {
    confidences[static_cast<std::size_t>(predicted)].push_back(confidence);
  });
  const double most_bins =
      std::clamp(1.0 + std::floor(kSplitCells / static_cast<double>(source_probs.cols())), 2.0, kMostBins);
  for (std::size_t c = 0; c < edges_.size(); ++c) {
    auto& sorted = confidences[c];
    std::sort(sorted.begin(), sorted.end());
    const double rows = static_cast<double>(sorted.size());
    const auto bins = static_cast<std::size_t>(std::clamp(std::floor(rows / kRowsPerBin), 1.0, most_bins));
    for (std::size_t b = 1; b < bins; ++b) {
      const double edge = between_thousandths(sorted[b * sorted.size() / bins]);
      // Of saturated confidences many are equal; the cells between equal edges would be empty.
      if (edges_[c].empty() || edge > edges_[c].back()) edges_[c].push_back(edge);
    }
    first_.push_back(first_.back() + static_cast<Index>(edges_[c].size()) + 1);
  }
}

Index ConfidenceCells::cell_of(Index predicted, double confidence) const {
  Index cell = first_of(predicted);  // a search by halves would be guessed wrong by the processor at every second row
  for (const double edge : edges_[static_cast<std::size_t>(predicted)]) cell += confidence >= edge;
  return cell;
}

LabelShiftFitTest::LabelShiftFitTest(const SourceSample& source)
    : cells_(source.probs),
      source_weight_(Eigen::MatrixXd::Zero(cells_.size(), cells_.classes())),
      source_squared_weight_(Eigen::VectorXd::Zero(cells_.classes())),
      target_weight_(Eigen::VectorXd::Zero(cells_.size())) {
  check_labels(source.labels, source.probs.rows(), source.probs.cols(), "source labels");
  check_weights(source.weights, source.probs.rows(), "source weights");
  source_rows_ = effective_rows(source.weights, source.probs.rows());
  for_each_largest(source.probs, [&](Index i, Index predicted, double confidence) {
    const double w = weight_of(source.weights, i);
    const int c = source.labels[static_cast<std::size_t>(i)];
    source_weight_(cells_.cell_of(predicted, confidence), c) += w;
    source_squared_weight_[c] += w * w;
  });
}

void LabelShiftFitTest::add(const Probabilities& target_probs, std::span<const double> weights) {
  if (target_probs.cols() != cells_.classes())
    throw Error(ErrorKind::kInput,
                fmt::format("the source has {} columns and the target {}; expected one column a class in both",
                            cells_.classes(), target_probs.cols()));
  check_weights(weights, target_probs.rows(), "target weights");
  for_each_largest(target_probs, [&](Index j, Index predicted, double confidence) {
    const double w = weight_of(weights, j);
    target_weight_[cells_.cell_of(predicted, confidence)] += w;
    target_squared_weight_ += w * w;
  });
}

void LabelShiftFitTest::scale(double factor) {
  target_weight_ *= factor;
  target_squared_weight_ *= factor * factor;
}

std::optional<HypothesisTest> LabelShiftFitTest::current() const {
  const double target_total = target_weight_.sum();
  if (source_rows_ == 0.0 || target_total == 0.0) return std::nullopt;
  const double source_total = source_weight_.sum();
  const double target_rows = target_total * target_total / target_squared_weight_;
  const Merge merge = merge_small(cells_, source_weight_.rowwise().sum() * (source_rows_ / source_total),
                                  target_weight_ * (target_rows / target_total));
  std::vector<Index> seen;
  for (Index c = 0; c < cells_.classes(); ++c)
    if (source_squared_weight_[c] > 0.0) seen.push_back(c);
  const Index classes = static_cast<Index>(seen.size());
  const Index degrees = (merge.cells - 1) - (classes - 1);  // free cells less free entries of q
  if (degrees <= 0) return std::nullopt;

  MixtureFit data{.target = Eigen::VectorXd::Zero(merge.cells),
                  .target_rows = target_rows,
                  .source = Eigen::MatrixXd::Zero(merge.cells, classes),
                  .rows = Eigen::VectorXd(classes),
                  .prior = Eigen::VectorXd(classes)};
  for (Index k = 0; k < cells_.size(); ++k) {
    const Index into = merge.into[static_cast<std::size_t>(k)];
    data.target[into] += target_weight_[k] / target_total;
    data.source.row(into) += source_weight_(k, seen);
  }
  for (Index c = 0; c < classes; ++c) {
    const double weight = data.source.col(c).sum();
    data.prior[c] = weight / source_total;
    data.rows[c] = weight * weight / source_squared_weight_[seen[static_cast<std::size_t>(c)]];
    data.source.col(c) /= weight;
  }
  // Given which shares are held at 0, J is a squared distance from a plane that has as many dimensions less (the
  // conditional test of order-restricted inference).
  const MinimumChiSquared::Minimum least = MinimumChiSquared(data).minimise();
  const auto degrees_of_freedom = static_cast<double>(degrees + least.absent);
  return HypothesisTest{.statistic = least.statistic,
                        .p_value = chi_squared_survival(least.statistic, degrees_of_freedom),
                        .degrees_of_freedom = degrees_of_freedom};
}

std::optional<HypothesisTest> label_shift_fit_test(const SourceSample& source, const TargetSample& target) {
  LabelShiftFitTest test(source);
  test.add(target.probs, target.weights);
  return test.current();
}

}  // namespace labelshift
