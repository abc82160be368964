// Prints, as a Markdown table, the error of each estimator against the size of the target and of the shift: where a
// penalised estimator beats the default, and what calibrating on the source examples does. docs/estimators.md holds
// its output.
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "labelshift/core/calibration/calibration.hpp"
#include "labelshift/core/estimators/estimators.hpp"
#include "labelshift/core/likelihood/sample_summary.hpp"
#include "tests/core/gaussian_problem.hpp"

int main() {
  using namespace labelshift;
  constexpr int kReplicates = 2000;
  const char* const names[] = {"mlls-sqp", "mlls-l1", "mlls-l2", "rlls", "bbse", "bbse-soft"};
  const Index m = 5;
  const GaussianProblem problem{.source_prior = Eigen::VectorXd::Constant(m, 0.2), .separation = 2.0};
  struct Shift {
    const char* name;
    Eigen::VectorXd target_prior;
  };
  const std::vector<Shift> shifts = {
      {"none", problem.source_prior},
      {"small", (Eigen::VectorXd(m) << 0.26, 0.22, 0.2, 0.18, 0.14).finished()},
      {"large", (Eigen::VectorXd(m) << 0.6, 0.25, 0.1, 0.05, 0.0).finished()},
  };

  std::string header = "| n | shift |";
  std::string rule = "|---|---|";
  for (const char* name : names) {
    header += fmt::format(" {} |", name);
    rule += "---|";
  }
  struct Knowledge {
    const char* caption;
    bool prior_known;
    CalibrationKind calibration;
  };
  const Knowledge cases[] = {
      {"Source prior known", true, CalibrationKind::kNone},
      {"Source prior counted on the 1,000 source examples", false, CalibrationKind::kNone},
      {"Source prior counted on the 1,000 source examples and BCTS fitted on them", false,
       CalibrationKind::kBiasCorrected},
  };
  for (const Knowledge& known : cases) {
    fmt::print("\n{}:\n\n", known.caption);
    fmt::print("{}\n{}\n", header, rule);
    for (const Index n : {50, 200, 1000}) {
      for (const Shift& shift : shifts) {
        std::vector<double> squares(std::size(names), 0.0);
        for (int i = 0; i < kReplicates; ++i) {
          Rng rng(static_cast<std::uint64_t>(n), static_cast<std::uint64_t>(i));  // the same draws for every estimator
          const GaussianSample source = problem.sample(1000, problem.source_prior, rng);
          const GaussianSample target = problem.sample(n, shift.target_prior, rng);
          const Eigen::VectorXd prior = known.prior_known ? problem.source_prior : label_prior(source.labels, {}, m);
          const Calibration calibration = fit_calibration(known.calibration, {source.probs}, source.labels).calibration;
          const CalibratedProbabilities source_probs = apply_calibration(calibration, {source.probs});
          const CalibratedProbabilities target_probs = apply_calibration(calibration, {target.probs});
          const SourceSummary summary = summarise_source({source_probs.view(), source.labels, {}}, prior);
          for (std::size_t e = 0; e < std::size(names); ++e) {
            const RatioEstimate found =
                make_estimator(find_estimator(names[e]))->estimate(summary, {target_probs.view(), {}});
            squares[e] += (prior.cwiseProduct(found.ratio) - shift.target_prior).squaredNorm() / kReplicates;
          }
        }
        std::string row = fmt::format("| {} | {} |", n, shift.name);
        for (const double square : squares) row += fmt::format(" {:.4f} |", std::sqrt(square));
        fmt::print("{}\n", row);
      }
    }
  }
  return EXIT_SUCCESS;
}
