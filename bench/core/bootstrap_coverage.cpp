// Prints, as a Markdown table, how often 95 % intervals hold for a class of a small share: those of the bootstrap and,
// beside them, the analytic ones. docs/estimators.md holds its output.
#include <fmt/format.h>

#include <cstdio>

#include "labelshift/core/label_shift.hpp"
#include "tests/core/gaussian_problem.hpp"

namespace {

using namespace labelshift;

struct Coverage {
  int below = 0, above = 0;  // how often the truth was below the interval, and above
  int nothing = 0;           // how often the interval was [0, 0]
  double width = 0.0;        // in all

  void count(double truth, const Intervals& intervals, Index c) {
    below += truth < intervals.prior_low[c];
    above += truth > intervals.prior_high[c];
    nothing += intervals.prior_high[c] == 0.0;
    width += intervals.prior_high[c] - intervals.prior_low[c];
  }
};

}  // namespace

int main() {
  constexpr int kTrials = 1000;
  constexpr int kReplicates = 200;
  struct Case {
    const char* estimator;
    double share;
    Index rows;
  };
  const Case cases[] = {{"mlls-sqp", 0.005, 400}, {"mlls-sqp", 0.005, 200}, {"bbse-soft", 0.005, 400},
                        {"mlls-sqp", 0.0, 400},   {"mlls-sqp", 0.02, 400},  {"mlls-sqp", 0.005, 2000}};
  const GaussianProblem problem{.source_prior = Eigen::Vector3d(0.4, 0.3, 0.3), .separation = 3.0};
  fmt::print("| estimator | share | target rows | covered | too low | too high | mean width | [0, 0] | analytic |\n");
  fmt::print("|---|---|---|---|---|---|---|---|---|\n");
  for (const auto& [estimator, share, rows] : cases) {
    const Eigen::Vector3d truth(0.6 - share, 0.4, share);
    Coverage bootstrap, analytic;
    for (int trial = 0; trial < kTrials; ++trial) {
      Rng rng(static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(trial));
      const GaussianSample source = problem.sample(500, problem.source_prior, rng);
      const GaussianSample target = problem.sample(rows, truth, rng);
      LabelShiftProblem known{.target = {target.probs}};
      known.source = SourceExamples{{source.probs}, source.labels, {}};
      LabelShiftOptions options{.estimator = estimator, .calibration = "none"};
      analytic.count(share, analyse_label_shift(known, options).intervals, 2);
      options.bootstrap = kReplicates;
      options.seed = static_cast<std::uint64_t>(trial);
      bootstrap.count(share, analyse_label_shift(known, options).intervals, 2);
    }
    const auto covered = [](const Coverage& of) { return 1.0 - static_cast<double>(of.below + of.above) / kTrials; };
    fmt::print("| {} | {} | {} | {:.3f} | {:.3f} | {:.3f} | {:.4f} | {} | {:.3f} |\n", estimator, share, rows,
               covered(bootstrap), static_cast<double>(bootstrap.above) / kTrials,
               static_cast<double>(bootstrap.below) / kTrials, bootstrap.width / kTrials, bootstrap.nothing,
               covered(analytic));
    std::fflush(stdout);
  }
}
