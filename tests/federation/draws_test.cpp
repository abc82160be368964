#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "tests/federation/gaussian_federation.hpp"
#include "tests/federation/reference_federation.hpp"

// What a federation draws is told to nobody. It shows in what comes of it: of all that could have been drawn, one thing
// alone gives these weights.

namespace labelshift {
namespace {

using Eigen::VectorXd;
using Rows = std::vector<Index>;

constexpr double kSame = 2e-5;  // rounding of one step in floats; other draws are a hundred times as far apart

/// All sets of `size` of `n` things.
std::vector<Rows> subsets(Index n, Index size) {
  std::vector<Rows> all;
  for (unsigned bits = 0; bits < (1u << n); ++bits) {
    Rows chosen;
    for (Index i = 0; i < n; ++i)
      if (bits >> i & 1) chosen.push_back(i);
    if (std::ssize(chosen) == size) all.push_back(chosen);
  }
  return all;
}

VectorXd doubles(std::span<const float> values) {
  return Eigen::Map<const Eigen::VectorXf>(values.data(), std::ssize(values)).cast<double>();
}

/// The only candidate whose result is this one.
template <typename Candidate>
Candidate the_one(const std::vector<Candidate>& all, const VectorXd& found,
                  const std::function<VectorXd(const Candidate&)>& result_of) {
  std::vector<std::pair<double, std::size_t>> distance;
  for (std::size_t i = 0; i < all.size(); ++i)
    distance.emplace_back((found - result_of(all[i])).template lpNorm<Eigen::Infinity>(), i);
  std::sort(distance.begin(), distance.end());
  EXPECT_LT(distance[0].first, kSame);
  if (all.size() > 1) {
    EXPECT_GT(distance[1].first, 5.0 * kSame);
  }
  return all[distance[0].second];
}

/// One step of SGD a round, along gradients.
FederationSettings plain_settings(int rounds) {
  FederationSettings settings = quick_settings();
  settings.rounds = rounds;
  settings.evaluate_every = rounds;
  settings.local = {.batch = 64};
  settings.server = {.optimiser = "sgd", .learning_rate = 1.0, .weight_decay = 0.0};
  return settings;
}

/// Calls `round` with the weights before and after every round.
FederationState watch(const FederationSettings& settings, const FederatedData& data,
                      const std::function<void(const VectorXd& before, const VectorXd& after)>& round) {
  VectorXd before;
  return LocalFederation(settings, data).run({.checkpoint = with_state([&](const FederationState& state) {
                                                const VectorXd after = doubles(state.parameters);
                                                if (state.round > 0) round(before, after);
                                                before = after;
                                              })});
}

TEST(Draws, EveryRoundAnotherCohortInWhichEveryNodeIsEquallyOften) {
  const FederatedData data = gaussian_federation({{{3, 1, 1}, {1, 1, 1}},
                                                  {{1, 3, 1}, {1, 1, 1}},
                                                  {{1, 1, 3}, {1, 1, 1}},
                                                  {{2, 2, 1}, {1, 1, 1}},
                                                  {{1, 2, 2}, {1, 1, 1}}});
  FederationSettings settings = plain_settings(100);
  settings.sampled = 2;
  settings.server.learning_rate = 0.5;
  reference::Federation reference(settings, data);
  std::vector<int> rounds(5);
  std::map<Rows, int> pairs;
  int again = 0;
  Rows last;
  watch(settings, data, [&](const VectorXd& before, const VectorXd& after) {
    const Rows cohort = the_one<Rows>(subsets(5, 2), after, [&](const Rows& candidate) {
      reference::Federation one = reference;
      one.start(before, {});
      one.round(candidate);
      return one.w;
    });
    for (const Index node : cohort) ++rounds[node];
    ++pairs[cohort];
    again += cohort == last;
    last = cohort;
  });
  // A node is in 40 of 100 rounds, with a standard deviation of 4.9; a pair in 10, with one of 3, as is a pair that
  // comes twice in turn.
  for (const int count : rounds) EXPECT_NEAR(count, 40, 20);
  EXPECT_EQ(pairs.size(), 10u);
  EXPECT_LT(again, 25);
}

TEST(Draws, EveryNodeAndRoundItsOwnBatch) {
  const FederatedData data = gaussian_federation({{{2, 2, 2}, {1, 1, 1}}, {{2, 2, 2}, {1, 1, 1}}});
  FederationSettings settings = plain_settings(60);
  settings.local.batch = 2;
  settings.server.learning_rate = 0.5;
  const reference::Federation reference(settings, data);
  using Batches = std::vector<Rows>;  // of both nodes
  std::vector<Batches> all;
  for (const Rows& one : subsets(6, 2))
    for (const Rows& other : subsets(6, 2)) all.push_back({one, other});
  std::vector<int> drawn(6);
  int alike = 0, again = 0;
  Batches last(2);
  watch(settings, data, [&](const VectorXd& before, const VectorXd& after) {
    const Batches batches = the_one<Batches>(all, after, [&](const Batches& candidate) {
      VectorXd sum = VectorXd::Zero(before.size()), none;
      for (std::size_t k = 0; k < 2; ++k)
        sum +=
            reference.net.gradient(before, none, reference::Federation::rows_of(reference.nodes[k].train, candidate[k]),
                                   VectorXd::Ones(3), 0.0);
      return VectorXd(before - 0.5 * sum / 2.0);
    });
    for (const Index row : batches[0]) ++drawn[row];
    alike += batches[0] == batches[1];
    again += (batches[0] == last[0]) + (batches[1] == last[1]);
    last = batches;
  });
  // An example is in 20 of 60 batches, with a standard deviation of 3.7. Two batches of 15 possible ones are the same
  // in 4 of 60 rounds, with one of 1.9; from one round to the next in 8 of 120, with one of 2.7.
  for (const int count : drawn) EXPECT_NEAR(count, 20, 18);
  EXPECT_LT(alike, 14);
  EXPECT_LT(again, 22);
}

TEST(Draws, AnEpochTakesEveryExampleOnceAndLaterOnesAnotherOrder) {
  // Two epochs of two batches of two: any order of pairs in either.
  const FederatedData data = gaussian_federation({{{2, 1, 1}, {1, 1, 1}}});
  FederationSettings settings = plain_settings(12);
  settings.local = {.epochs = 2, .batch = 2, .learning_rate = 0.5, .weight_decay = 0.3};  // or nothing moves in the end
  const reference::Federation reference(settings, data);
  const std::vector<Rows> pairs = subsets(4, 2);
  std::vector<std::vector<Rows>> all;
  for (const Rows& first : pairs)
    for (const Rows& second : pairs) all.push_back({first, second});
  std::set<std::vector<Rows>> seen;
  int another = 0;
  watch(settings, data, [&](const VectorXd& before, const VectorXd& after) {
    const auto drawn = the_one<std::vector<Rows>>(all, after, [&](const std::vector<Rows>& first_of_epochs) {
      VectorXd w = before, none;
      for (const Rows& first : first_of_epochs) {
        Rows second;
        for (Index i = 0; i < 4; ++i)
          if (std::find(first.begin(), first.end(), i) == first.end()) second.push_back(i);
        for (const Rows& batch : {first, second})
          w -= 0.5 * (0.3 * w + reference.net.gradient(w, none,
                                                       reference::Federation::rows_of(reference.nodes[0].train, batch),
                                                       VectorXd::Ones(3), 0.0));
      }
      return w;
    });
    another += drawn[0] != drawn[1];
    seen.insert(drawn);
  });
  EXPECT_GT(another, 5);  // of 12, of which 10 are to be expected
  EXPECT_GT(seen.size(), 8u);
}

/// Two of five unlabelled examples to estimate from, the others to evaluate on.
TEST(Draws, OneHoldsTargetsOutForTheEstimateAndJudgesByTheOthers) {
  const FederatedData data =
      gaussian_federation({{{6, 6, 6}, {2, 1, 2}}, {{6, 4, 6}, {2, 2, 1}}, {{3, 3, 3}, {0, 1, 0}}});
  FederationSettings settings = plain_settings(1);
  settings.algorithm = "iw-erm";
  settings.target_holdout = 0.4;
  settings.ratio.method = "mlls";
  settings.ratio.net = {LABELSHIFT_FEDERATION_REFERENCE "/plain.pt", {}};
  settings.ratio.epochs = 10;
  settings.ratio.goal_node = 1;
  std::vector<Rows> chosen;
  for (int goal = 1; goal <= 2; ++goal) {
    settings.ratio.goal_node = goal;
    const FederationState state = LocalFederation(settings, data).run();
    reference::Federation reference(settings, data);
    const auto net = make_net({.name = settings.ratio.net.name, .shape = data.shape, .classes = 3}, 0);
    reference.first_w = doubles(net->parameters());
    reference::Node& node = reference.nodes[goal - 1];
    const reference::Predictor predictor = reference.local_predictor(node);
    const Rows estimated = the_one<Rows>(subsets(5, 2), state.target_sum, [&](const Rows& candidate) {
      return reference.estimate(predictor, node.test.x(candidate, Eigen::all));
    });
    chosen.push_back(estimated);
    // The error is against the truth of all test examples.
    EXPECT_NEAR(state.ratios[goal - 1].prior_error, (state.target_sum - node.truth).lpNorm<1>(), kSame);
    Rows others;
    for (Index i = 0; i < 5; ++i)
      if (std::find(estimated.begin(), estimated.end(), i) == estimated.end()) others.push_back(i);
    node.evaluate = reference::Federation::rows_of(node.test, others);
    reference.w = doubles(state.parameters);
    EXPECT_EQ(state.history[goal - 1].examples, 3);
    EXPECT_NEAR(state.history[goal - 1].loss, reference.judge(node).loss, kSame);
    EXPECT_EQ(state.history[2].examples, 1);  // one example alone is in both parts
  }
  EXPECT_NE(chosen[0], chosen[1]);
}

TEST(Draws, ATargetPartHasAtLeastOneExampleOnEitherSide) {
  const FederatedData data = gaussian_federation({{{6, 6}, {2, 1}}});
  FederationSettings settings = plain_settings(1);
  for (const auto& [fraction, left] : {std::pair{0.01, 2}, std::pair{0.5, 1}, std::pair{0.99, 1}}) {
    settings.target_holdout = fraction;
    EXPECT_EQ(LocalFederation(settings, data).run().history[0].examples, left) << fraction;
  }
  const FederatedData two = gaussian_federation({{{6, 6}, {1, 1}}});
  EXPECT_EQ(LocalFederation(settings, two).run().history[0].examples, 1);
}

TEST(Draws, DependOnTheSeed) {
  const FederatedData data = gaussian_federation({{{9, 9}, {2, 1}}});
  FederationSettings settings = plain_settings(2);
  settings.local.batch = 4;
  std::vector<VectorXd> steps[2];
  for (const std::uint64_t seed : {0, 1}) {
    settings.seed = seed;
    watch(settings, data,
          [&](const VectorXd& before, const VectorXd& after) { steps[seed].push_back(after - before); });
  }
  EXPECT_GT((steps[0][0] - steps[1][0]).norm(), 0.01);
}

}  // namespace
}  // namespace labelshift
