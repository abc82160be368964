#include "labelshift/federation/mixture_weights.hpp"

#include <fmt/format.h>

#include <Eigen/Cholesky>
#include <algorithm>

#include "labelshift/core/base/error.hpp"

namespace labelshift {
namespace {

using Eigen::VectorXd;

// Of sum_k alpha_k - 1 and of the mix. Words are exact to 2^-41 a node, so sums over 1e4 nodes come so close. Prices
// are as large as n / lambda, and so is what a double does not tell of them.
constexpr double kTolerance = 1e-8;
constexpr double kRounding = 1e-14;
constexpr int kMostQuestions = 500;                  // it takes twenty to sixty
constexpr double kFirstScale = 10.0, kStage = 10.0;  // n / lambda of the first steps, and what the next have times it
constexpr double kNear = 1e-2;                       // of a solution from which the next lambda is taken
constexpr double kRidge = 1e-10;                     // where no node's weight moves with the level

}  // namespace

Mixture::MixtureSums mixture_sums(const Mixture::Request& question, const VectorXd& counts) {
  const Index m = counts.size();
  const double n = counts.sum();
  Mixture::MixtureSums sums = Mixture::MixtureSums::zero(m);
  if (n == 0.0) return sums;
  const VectorXd p = counts / n;
  const double share = n / question.examples;
  const double weight = share * (question.level - question.price.dot(p));
  sums.weight = std::clamp(weight, 0.0, kMostMixtureWeight);
  sums.mix = sums.weight * p;
  if (sums.weight != weight) return sums;
  sums.moving = share;
  sums.moving_mix = share * p;
  sums.moving_square = (share * p * p.transpose()).reshaped();
  return sums;
}

MixtureSearch::MixtureSearch(VectorXd target, double examples, double lambda)
    : target_(std::move(target)), goal_(examples / lambda), scale_(std::min(goal_, kFirstScale)) {
  question_ = {.examples = examples, .level = 1.0, .price = VectorXd::Zero(target_.size())};  // alpha_k = n_k / n
}

VectorXd MixtureSearch::point() const {
  VectorXd point(1 + target_.size());
  point << question_.level, question_.price;
  return point;
}

void MixtureSearch::ask(const VectorXd& point) {
  question_.level = point[0];
  question_.price = point.tail(target_.size());
}

/// Of level - price . t - |price|^2 lambda / 2n - sum_k alpha_k^2 n / 2n_k.
VectorXd MixtureSearch::gradient(const Mixture::MixtureSums& sums) const {
  VectorXd gradient(1 + target_.size());
  gradient << 1.0 - sums.weight, sums.mix - target_ - question_.price / scale_;
  return gradient;
}

void MixtureSearch::take(const Mixture::MixtureSums& sums) {
  const Index m = target_.size();
  mix_ = sums.mix;
  VectorXd slopes = gradient(sums);
  while (scale_ < goal_ && slopes.lpNorm<Eigen::Infinity>() <= kNear) {
    scale_ = std::min(kStage * scale_, goal_);
    slopes = gradient(sums);
    step_ = {};
  }
  done_ = scale_ == goal_ && slopes.lpNorm<Eigen::Infinity>() <= kTolerance + kRounding * scale_;
  if (done_) return;
  if (++questions_ == kMostQuestions)
    throw Error(ErrorKind::kPeer,
                fmt::format("after {} questions the nodes have no weights that bring the mix of their data to the "
                            "target; one of them runs another version, or does not tell the truth",
                            questions_));
  if (step_.size() > 0) {
    const double slope = slopes.dot(step_);
    if (slope < 0.0) {  // beyond the top: back to where a straight slope would be 0, but not far at a time
      s_ *= std::clamp(slope_ / (slope_ - slope), 0.1, 0.9);
      return ask(from_ + s_ * step_);
    }
  }
  Eigen::MatrixXd curvature(1 + m, 1 + m);
  curvature << sums.moving + kRidge, -sums.moving_mix.transpose(), -sums.moving_mix, sums.moving_square.reshaped(m, m);
  curvature.diagonal().tail(m).array() += 1.0 / scale_;
  from_ = point();
  step_ = curvature.ldlt().solve(slopes);
  slope_ = slopes.dot(step_);
  s_ = 1.0;
  ask(from_ + step_);
}

}  // namespace labelshift
