// Prints, as a Markdown table, the error of each estimator against the size of the target and of the shift: where a
// penalised estimator beats the default. docs/estimators.md holds its output.
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "labelshift/core/estimators.hpp"
#include "labelshift/core/probabilities.hpp"
#include "tests/core/gaussian_problem.hpp"

int main() {
  using namespace labelshift;
  constexpr int kReplicates = 400;
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
  for (const bool prior_known : {true, false}) {
    fmt::print("\nSource prior {}:\n\n", prior_known ? "known" : "counted on the 1,000 source examples");
    fmt::print("{}\n{}\n", header, rule);
    for (const Index n : {50, 200, 1000}) {
      for (const Shift& shift : shifts) {
        std::vector<double> squares(std::size(names), 0.0);
        for (int i = 0; i < kReplicates; ++i) {
          Rng rng(static_cast<std::uint64_t>(n), static_cast<std::uint64_t>(i));  // the same draws for every estimator
          const GaussianSample source = problem.sample(1000, problem.source_prior, rng);
          const GaussianSample target = problem.sample(n, shift.target_prior, rng);
          const Eigen::VectorXd prior = prior_known ? problem.source_prior : label_prior(source.labels, {}, m);
          const SourceSummary summary = summarise_source(source.source(), prior);
          for (std::size_t e = 0; e < std::size(names); ++e) {
            const RatioEstimate found = make_estimator(find_estimator(names[e]))->estimate(summary, target.target());
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
