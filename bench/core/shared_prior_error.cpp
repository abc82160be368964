// Prints, as a Markdown table, what a shared prior does to the label mixes of 100 nodes: the error of a node and of the
// sum, each node alone and all together. docs/estimators.md holds its output.
#include <fmt/format.h>

#include <cstdlib>
#include <functional>
#include <vector>

#include "labelshift/core/estimators/mlls_sqp.hpp"
#include "labelshift/core/estimators/shared_prior.hpp"
#include "tests/core/gaussian_problem.hpp"

namespace {

using namespace labelshift;
using Eigen::VectorXd;

constexpr Index kClasses = 10;
constexpr int kNodes = 100;
constexpr int kSeeds = 5;

struct Node {
  RowMajorMatrix<float> rows;
  VectorXd truth, alone;
};

struct Errors {
  double node = 0.0, sum = 0.0;
};

Errors errors_of(const std::vector<Node>& nodes, const std::function<VectorXd(std::size_t)>& estimate) {
  Errors errors;
  VectorXd sum = VectorXd::Zero(kClasses);
  for (std::size_t k = 0; k < nodes.size(); ++k) {
    const VectorXd off = estimate(k) - nodes[k].truth;
    errors.node += off.lpNorm<1>() / kNodes;
    sum += off / kNodes;
  }
  errors.sum = sum.lpNorm<1>();
  return errors;
}

std::vector<MixPosterior> shared(const std::vector<Node>& nodes) {
  PooledMix pooled(kClasses);
  while (const auto mix = pooled.next()) {
    MixShares mean{VectorXd::Zero(kClasses), Eigen::MatrixXd::Zero(kClasses, kClasses)};
    for (const Node& node : nodes) {
      const MixShares one = mix_shares(node.rows, *mix);
      mean.shares += one.shares / kNodes;
      mean.products += one.products / kNodes;
    }
    pooled.take(mean);
  }
  VectorXd alpha = first_prior(pooled.mix());
  std::vector<MixPosterior> posteriors(nodes.size());
  for (std::uint64_t step = 0; step <= kPriorSteps; ++step) {
    VectorXd logs = VectorXd::Zero(kClasses);
    for (std::size_t k = 0; k < nodes.size(); ++k) {
      Rng rng(k, step);
      posteriors[k] = mix_posterior(nodes[k].rows, alpha, step < kPriorSteps ? kSearchSweeps : kFinalSweeps, rng);
      logs += posteriors[k].mean_log / kNodes;
    }
    if (step < kPriorSteps) alpha = fit_dirichlet(logs, alpha);
  }
  return posteriors;
}

/// The paper's partition of 100 nodes; draws from Dirichlet(1) over half of the classes or over all; and draws from a
/// Dirichlet law of classes that are not equally common.
VectorXd law_of(const std::string& kind, int node, Rng& rng) {
  VectorXd law = VectorXd::Constant(kClasses, 0.05 / (kClasses - 1));
  law[node * kClasses / kNodes] = 0.95;
  if (kind == "paper's") return law;
  const double uneven[kClasses] = {3.0, 1.0, 0.3, 2.0, 0.7, 0.1, 1.5, 0.2, 1.0, 0.5};
  for (Index c = 0; c < kClasses; ++c) {
    const double alpha = kind == "uneven" ? uneven[c] : 1.0;
    law[c] = kind != "five classes" || c < kClasses / 2 ? rng.gamma(alpha) : 0.0;
  }
  return law / law.sum();
}

}  // namespace

int main() {
  fmt::print(
      "| mixes | examples | accuracy | node alone | with the prior | sum alone | with the prior | intervals hold |\n"
      "|---|---|---|---|---|---|---|---|\n");
  for (const char* kind : {"paper's", "five classes", "uneven", "even"})
    for (const Index examples : {40, 100, 1000})
      for (const double separation : {1.0, 2.0}) {
        const GaussianProblem problem{.source_prior = VectorXd::Constant(kClasses, 1.0 / kClasses),
                                      .separation = separation};
        Errors alone, with;
        double right = 0.0, held = 0.0;
        for (int seed = 0; seed < kSeeds; ++seed) {
          Rng rng(static_cast<std::uint64_t>(seed), static_cast<std::uint64_t>(examples));
          std::vector<Node> nodes;
          std::vector<VectorXd> laws;
          for (int k = 0; k < kNodes; ++k) {
            laws.push_back(law_of(kind, k, rng));
            const GaussianSample sample = problem.sample(examples, laws.back(), rng);
            VectorXd truth = VectorXd::Zero(kClasses);
            for (std::size_t i = 0; i < sample.labels.size(); ++i)
              truth[sample.labels[i]] += 1.0 / static_cast<double>(examples);
            const VectorXd found =
                MllsSqp()
                    .estimate({.label_prior = problem.source_prior}, {Probabilities(sample.probs), {}})
                    .ratio.cwiseProduct(problem.source_prior);
            nodes.push_back({sample.probs.cast<float>(), truth, found});
          }
          const GaussianSample even = problem.sample(2000, problem.source_prior, rng);
          for (Index i = 0; i < even.probs.rows(); ++i) {
            Index best = 0;
            even.probs.row(i).maxCoeff(&best);
            right += even.labels[static_cast<std::size_t>(i)] == best ? 1.0 / (2000.0 * kSeeds) : 0.0;
          }
          const std::vector<MixPosterior> posteriors = shared(nodes);
          const auto add = [](Errors& to, const Errors& one) {
            to.node += one.node / kSeeds;
            to.sum += one.sum / kSeeds;
          };
          add(alone, errors_of(nodes, [&](std::size_t k) { return nodes[k].alone; }));
          add(with, errors_of(nodes, [&](std::size_t k) { return posteriors[k].mean; }));
          for (std::size_t k = 0; k < nodes.size(); ++k)
            held += static_cast<double>(
                        (posteriors[k].low.array() <= laws[k].array() && laws[k].array() <= posteriors[k].high.array())
                            .count()) /
                    (kNodes * kClasses * kSeeds);
        }
        fmt::print("| {} | {} | {:.2f} | {:.3f} | {:.3f} | {:.3f} | {:.3f} | {:.3f} |\n", kind, examples, right,
                   alone.node, with.node, alone.sum, with.sum, held);
      }
  return EXIT_SUCCESS;
}
