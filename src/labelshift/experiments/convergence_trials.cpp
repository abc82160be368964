#include "labelshift/experiments/convergence_trials.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/rng.hpp"
#include "labelshift/data/datasets/splits.hpp"
#include "labelshift/engine/in_process/in_process_engine.hpp"
#include "labelshift/experiments/streams.hpp"
#include "labelshift/federation/codec.hpp"
#include "labelshift/federation/federation.hpp"
#include "labelshift/federation/local_training.hpp"
#include "labelshift/federation/node_program.hpp"
#include "labelshift/federation/step_size.hpp"
#include "labelshift/federation/streams.hpp"
#include "labelshift/learning/net_kernels.hpp"

namespace labelshift {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr Index kSquare = 4;       // pixels on a side, whose mean is an input of logistic regression
constexpr int kTuningSeed = 1000;  // steps are tuned with this one and those after it, which are not reported
constexpr int tries = 2;           // of each step, with seeds of their own

/// q of Thm. F.1, of an update of so many parameters.
double variance_of(const CompressionSettings& compression, Index parameters) {
  const auto codec = make_codec(compression);
  return codec ? codec->variance(parameters) : 0.0;
}

NetSpec spec_of(const ConvergenceRecipe& recipe, const DealtNodes& nodes) {
  return {.name = recipe.net,
          .settings = {},
          .shape = nodes.data.shape,
          .classes = nodes.data.classes(),
          .normalisation = nodes.normalisation};
}

VectorXd doubles(std::span<const float> values) {
  return Eigen::Map<const Eigen::VectorXf>(values.data(), std::ssize(values)).cast<double>();
}

/// With a q as close to the recipe's as its codec gets: what random-k keeps says q, and levels of qsgd are tried.
CompressionSettings compression_of(const ConvergenceRecipe& recipe, Index parameters) {
  CompressionSettings settings{.codec = recipe.codec, .kept = 1.0 / (1.0 + recipe.variance)};
  if (recipe.codec != "qsgd") return settings;
  double closest = kNever;
  for (int levels = 1; levels <= 32767; levels = levels * 5 / 4 + 1) {
    CompressionSettings tried = settings;
    tried.levels = levels;
    const double away = std::abs(std::log((1.0 + variance_of(tried, parameters)) / (1.0 + recipe.variance)));
    if (away < closest) {
      closest = away;
      settings.levels = levels;
    }
  }
  return settings;
}

/// gamma of Thm. F.1: at least K.
double server_step(const ConvergenceRecipe& recipe) {
  return recipe.codec == "none" ? 1.0 : recipe.nodes;
}

/// Runs a federation and looks at it after every round, until look(round, parameters) says that it has seen enough.
/// False if the loss did not stay finite.
bool run_and_look(const ConvergenceRecipe& recipe, const DealtNodes& nodes, const FederationSettings& settings,
                  const Observer& observer, const std::function<bool(int round)>& due,
                  const std::function<bool(int round, std::span<const float> parameters)>& look) {
  NodeStore store({.folder = "nodes-that-fit-into-memory"});
  const auto engine =
      make_in_process_engine(recipe.nodes, make_node_programs(settings, nodes.data, store), {.workers = 1});
  bool enough = false;
  FederationHooks hooks;
  hooks.progress = [&](std::string_view stage, double) { return !enough && (!observer || observer(stage, 0.0)); };
  hooks.checkpoint = [&](const FederationMoment& moment) {
    if (due(moment.round)) enough = look(moment.round, moment.state().parameters);
    return true;
  };
  try {
    run_federation(settings, {.shape = nodes.data.shape, .class_names = nodes.data.class_names}, *engine, hooks);
  } catch (const Stopped&) {
    if (!enough) throw;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInput) throw;
    return false;
  }
  return true;
}

/// Rounds at which to look: all at first, then one in 32 or so.
class Schedule {
 public:
  bool operator()(int round) {
    if (round < next_) return false;
    next_ = round + 1 + round / 32;
    return true;
  }

 private:
  int next_ = 0;
};

}  // namespace

Dataset shrunk(const Dataset& images, Index side) {
  const ExampleShape& from = images.shape;
  const Index rows = from.height / side, columns = from.width / side;
  Dataset table{.shape = {1, 1, rows * columns}, .labels = images.labels, .class_names = images.class_names};
  std::vector<float> means(static_cast<std::size_t>(images.size() * rows * columns));
  std::visit(
      [&](const auto& values) {
        for (Index i = 0; i < images.size(); ++i)
          for (Index y = 0; y < rows * side; ++y)
            for (Index x = 0; x < columns * side; ++x)
              means[(i * rows + y / side) * columns + x / side] +=
                  static_cast<float>(values[i * from.size() + y * from.width + x]) / static_cast<float>(side * side);
      },
      images.values);
  table.values = std::move(means);
  return table;
}

DealtNodes deal_nodes(const Dataset& population, const ConvergenceRecipe& recipe, std::uint64_t seed) {
  const Index m = population.classes();
  const auto by_class = rows_by_class(population.labels, all_rows(population.size()), m);
  DealtNodes result{.data = {.shape = population.shape, .class_names = population.class_names}};
  std::vector<Index> target, all;
  for (Index c = 0; c < m; ++c) {
    if (by_class[c].empty())
      throw Error(ErrorKind::kInput, fmt::format("class {} has no example to draw", population.class_names[c]));
    target.push_back(by_class[c].front());  // "true" ratios count labels alone
  }
  const Index even = recipe.examples / m,
              rare = std::max<Index>(std::llround(static_cast<double>(even) / recipe.shift), 1);
  for (Index k = 0; k < recipe.nodes; ++k) {
    NodeData node{.train = &population, .train_rows = {}, .test = &population, .test_rows = target};
    VectorXd ratio = VectorXd::Ones(m);
    Rng rng = node_draws(seed, k);
    for (Index c = 0; c < m; ++c) {
      const Index count = (k + c) % 2 == 0 ? rare : 2 * even - rare;
      for (Index i = 0; i < count; ++i) node.train_rows.push_back(by_class[c][rng.below(std::ssize(by_class[c]))]);
      // (sum_j q_j) / p_k with q_j = 1 / m
      if (recipe.weighted) ratio[c] = recipe.nodes * static_cast<double>(even) / static_cast<double>(count);
    }
    all.insert(all.end(), node.train_rows.begin(), node.train_rows.end());
    result.data.nodes.push_back(std::move(node));
    result.ratios.push_back(std::move(ratio));
  }
  result.normalisation = fit_normalisation(population, all);
  return result;
}

/// lambda of what is minimised.
static double lambda_of(const ConvergenceRecipe& recipe) {
  return recipe.l2 * (recipe.weighted ? recipe.nodes : 1.0);
}

LogisticProblem problem_of(const DealtNodes& nodes, const ConvergenceRecipe& recipe) {
  LogisticExamples examples{.classes = nodes.data.classes()};
  std::vector<double> weights;
  std::vector<Index> all;
  for (std::size_t k = 0; k < nodes.data.nodes.size(); ++k) {
    const NodeData& node = nodes.data.nodes[k];
    for (const Index row : node.train_rows) {
      const int label = node.train->labels[row];
      examples.labels.push_back(label);
      weights.push_back((recipe.weighted ? nodes.ratios[k][label] : 1.0) /
                        static_cast<double>(nodes.data.nodes.size() * node.train_rows.size()));
      all.push_back(row);
    }
  }
  examples.weights = Eigen::Map<const VectorXd>(weights.data(), std::ssize(weights));
  Eigen::MatrixXf inputs(nodes.data.shape.size(), std::ssize(all));
  gather_input(spec_of(recipe, nodes), *nodes.data.nodes.front().train, all, inputs.data());
  examples.inputs = inputs.cast<double>();
  return {std::move(examples), lambda_of(recipe)};
}

/// Of logistic regression.
static Index parameters_of(const Dataset& data) {
  return data.classes() * (data.shape.size() + 1);
}

FederationSettings federation_settings(const ConvergenceRecipe& recipe, const DealtNodes& nodes, double step,
                                       std::uint64_t seed) {
  const bool gradients = recipe.local_steps == 1 && !recipe.always_steps;  // are sent, which makes SCAFFOLD FedAvg
  FederationSettings settings{.algorithm = gradients ? "fedavg" : recipe.algorithm,
                              .model = {recipe.net, {}},
                              .rounds = recipe.rounds,
                              .sampled = recipe.sampled == recipe.nodes ? 0 : recipe.sampled,
                              .evaluate_every = 1'000'000'000,
                              .seed = seed};
  settings.ratio.method = recipe.weighted ? "true" : "none";
  settings.local.steps = recipe.local_steps;
  settings.local.batch = recipe.batch > 0 ? recipe.batch : recipe.examples;
  settings.server = {.optimiser = recipe.server, .learning_rate = server_step(recipe), .weight_decay = 0.0};
  settings.server.epsilon = 0.01;  // rho of FAFED
  if (gradients) {
    settings.server.learning_rate *= step;
    settings.server.weight_decay = lambda_of(recipe);
  } else {
    settings.local.learning_rate = step;
    settings.local.weight_decay = lambda_of(recipe);
  }
  settings.compression = compression_of(recipe, parameters_of(*nodes.data.nodes.front().train));
  return settings;
}

double search_step(const std::function<StepTry(double power, double most)>& attempt, double start, double most) {
  constexpr double kFurthest = 20.0;
  double best_power = start;
  StepTry best = attempt(start, most);
  const auto improves = [&](double by) {
    const double power = best_power + by;
    const StepTry tried = attempt(power, std::min(most, best.cost));
    // Where neither gets there, what is still too long says that shorter steps may.
    const bool better = tried.cost < best.cost || (!std::isfinite(best.cost) && by < 0.0 && tried.too_long);
    if (better) {
      best = tried;
      best_power = power;
    }
    return better;
  };
  const auto go = [&](double by) {
    while (std::abs(best_power + by) <= kFurthest && improves(by)) {
    }
  };
  if (!best.too_long) go(1.0);
  if (best_power == start) go(-1.0);
  if (!improves(0.5)) improves(-0.5);
  return best_power;
}

static double largest_ratio(const DealtNodes& nodes) {
  double largest = 0.0;
  for (const VectorXd& ratio : nodes.ratios) largest = std::max(largest, ratio.maxCoeff());
  return largest;
}

static ConvergenceRecipe without_weights(ConvergenceRecipe recipe) {
  recipe.weighted = false;
  return recipe;
}

/// What training.step = "theorem" would take; beta is of the loss without weights.
static double step_of_theorem(const ConvergenceRecipe& recipe, const DealtNodes& nodes, double beta, double sigma) {
  FederationSettings settings = federation_settings(recipe, nodes, /*step=*/1.0, /*seed=*/0);
  settings.step = {.rule = StepRule::kTheorem, .smoothness = beta, .noise = sigma};
  return theorem_step(settings, {.largest_weight = largest_ratio(nodes),
                                 .compression_variance =
                                     variance_of(settings.compression, parameters_of(*nodes.data.nodes.front().train)),
                                 .nodes = static_cast<double>(recipe.nodes)})
      .rate;
}

/// What a federation minimises, and what the least is.
struct ConvergenceTrials::Solved {
  DealtNodes nodes;
  LogisticProblem problem;
  LogisticOptimum optimum;
};

ConvergenceTrials::ConvergenceTrials(Dataset images, std::uint64_t seed)
    : images_(std::move(images)), table_(shrunk(images_, kSquare)), seed_(seed) {}

std::uint64_t ConvergenceTrials::seed_of(int number) const {
  return run_seed(seed_, number);
}

LogisticOptimum ConvergenceTrials::optimum(const std::string& key, const LogisticProblem& problem) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = optima_.find(key); known != optima_.end()) return known->second;
  }
  LogisticOptimum found = problem.minimise();  // should two threads do it, they find the same
  const std::lock_guard lock(mutex_);
  return optima_.try_emplace(key, std::move(found)).first->second;
}

ConvergenceTrials::Solved ConvergenceTrials::solve(const ConvergenceRecipe& recipe, int number) {
  DealtNodes nodes = deal_nodes(table_, recipe, seed_of(number));
  LogisticProblem problem = problem_of(nodes, recipe);
  LogisticOptimum best = optimum(
      fmt::format("{} {} {} {} {} {}", recipe.weighted, recipe.nodes, recipe.shift, recipe.examples, recipe.l2, number),
      problem);
  return {std::move(nodes), std::move(problem), std::move(best)};
}

std::vector<ConvergenceRow> ConvergenceTrials::rounds(const ConvergenceRecipe& recipe, int seeds,
                                                      const Observer& observer) {
  const auto step_of = [&](const Solved& solved, double power) {
    if (recipe.step == StepChoice::kTheorem)
      return step_of_theorem(recipe, solved.nodes, problem_of(solved.nodes, without_weights(recipe)).smoothness(), 0.0);
    return std::exp2(power) / (solved.problem.smoothness() + solved.problem.lambda()) / server_step(recipe);
  };
  const auto first_excess = [](const Solved& solved) {
    return solved.problem.value(VectorXd::Zero(solved.problem.parameters())) - solved.optimum.value;
  };
  const auto attempt = [&](const Solved& solved, int number, double power, double most, bool patient) -> StepTry {
    ConvergenceRecipe limited = recipe;
    limited.rounds = static_cast<int>(std::clamp(std::ceil(most), 1.0, static_cast<double>(recipe.rounds)));
    FederationSettings settings = federation_settings(limited, solved.nodes, step_of(solved, power), seed_of(number));
    settings.round_probability = 1.0 / std::sqrt(solved.problem.condition());
    constexpr double kStalled = 0.9, kAway = 100.0;
    struct Seen {
      int round;
      double excess;  // (F - F*) / (F(0) - F*)
    };
    std::vector<Seen> seen;
    const double first = first_excess(solved);
    StepTry result{.cost = kNever};
    const bool finite = run_and_look(
        recipe, solved.nodes, settings, observer, Schedule(), [&](int round, std::span<const float> parameters) {
          const double excess = (solved.problem.value(doubles(parameters)) - solved.optimum.value) / first;
          if (excess <= recipe.accuracy) {
            const Seen& before = seen.back();
            const double share =
                std::log(before.excess / recipe.accuracy) / std::log(before.excess / std::max(excess, 1e-15));
            result.cost = before.round + share * (round - before.round);
            return true;
          }
          const auto half = std::upper_bound(seen.begin(), seen.end(), round / 2,
                                             [](int at, const Seen& one) { return at < one.round; });
          result.too_long =
              !(excess < kAway) || (!patient && round >= 64 && excess > kStalled * std::prev(half)->excess);
          seen.push_back({round, excess});
          return result.too_long;
        });
    if (!finite) result.too_long = true;
    if (std::isfinite(result.cost)) result.too_long = false;
    return result;
  };
  // Of each step, with seeds of their own: the same one must do where chance goes against it.
  const int tries = recipe.batch > 0 || recipe.codec != "none" || recipe.sampled > 0 ? 3 : 2;
  std::vector<ConvergenceRow> rows;
  double power = 0.0;  // the search of a seed begins where that of the one before ended
  for (int number = 0; number < seeds; ++number) {
    const Solved solved = solve(recipe, number);
    if (recipe.step == StepChoice::kTuned)
      power = search_step(
          [&](double tried, double most) {
            StepTry sum;
            for (int i = 0; i < tries; ++i) {
              if (sum.cost >= most) return StepTry{.cost = kNever, .too_long = sum.too_long};
              const StepTry one =
                  attempt(solved, kTuningSeed + tries * number + i, tried, most - sum.cost, /*patient=*/false);
              sum.cost += one.cost;
              sum.too_long = one.too_long;
            }
            return sum;
          },
          power, static_cast<double>(tries) * recipe.rounds);
    const StepTry run = attempt(solved, number, power, recipe.rounds, /*patient=*/true);
    rows.push_back({.seed = number,
                    .step = step_of(solved, power),
                    .y = std::isfinite(run.cost) ? run.cost : 0.0,
                    .beta = solved.problem.smoothness(),
                    .kappa = solved.problem.condition(),
                    .gap = solved.optimum.gap / first_excess(solved)});
  }
  return rows;
}

/// F of any net, in float32 as the nodes compute it.
class NetObjective {
 public:
  NetObjective(const ConvergenceRecipe& recipe, const DealtNodes& nodes, std::uint64_t seed)
      : nodes_(nodes),
        net_(make_net(spec_of(recipe, nodes), stream_seed(seed, Stream::kModel))),
        lambda_(lambda_of(recipe)) {}

  std::span<float> parameters() { return net_->parameters(); }

  /// The gradient at the parameters, of these examples of a node, each times r_k(y) or, if `plain`, times 1.
  VectorXd gradient(std::size_t node, std::span<const Index> rows, bool plain) {
    const Dataset& data = *nodes_.data.nodes[node].train;
    std::vector<float> weights;
    for (const Index row : rows)
      weights.push_back(plain ? 1.0F : static_cast<float>(nodes_.ratios[node][data.labels[row]]));
    net_->loss_and_gradient({data, rows, weights}, {}, /*noise=*/0);
    return doubles(net_->gradient());
  }

  VectorXd gradient(bool plain = false) {
    VectorXd sum = VectorXd::Zero(std::ssize(net_->parameters()));
    for (std::size_t k = 0; k < nodes_.data.nodes.size(); ++k)
      sum += gradient(k, nodes_.data.nodes[k].train_rows, plain);
    sum /= static_cast<double>(nodes_.data.nodes.size());
    if (!plain) sum += lambda_ * doubles(net_->parameters());
    return sum;
  }

  /// beta of the loss without weights, here: the largest curvature, by power iteration on differences of gradients.
  double smoothness() {
    constexpr int kIterations = 20;
    constexpr double kApart = 1e-2;
    const std::vector<float> here(parameters().begin(), parameters().end());
    const VectorXd slope = gradient(/*plain=*/true);
    VectorXd direction = slope.normalized();
    double curvature = 0.0;
    for (int i = 0; i < kIterations; ++i) {
      for (std::size_t j = 0; j < here.size(); ++j)
        parameters()[j] = here[j] + static_cast<float>(kApart * direction[static_cast<Index>(j)]);
      const VectorXd change = (gradient(/*plain=*/true) - slope) / kApart;
      curvature = change.norm();
      direction = change / curvature;
    }
    std::copy(here.begin(), here.end(), parameters().begin());
    return curvature;
  }

  /// sigma^2 here: the mean of |g - grad F|^2 over batches of the first node.
  double noise(Index batch, std::uint64_t seed) {
    constexpr int kBatches = 64;
    const std::vector<Index>& rows = nodes_.data.nodes.front().train_rows;
    const VectorXd mean = gradient(0, rows, /*plain=*/false);
    BatchOrder order(std::ssize(rows), seed);
    double squares = 0.0;
    for (int i = 0; i < kBatches; ++i) {
      std::vector<Index> drawn;
      for (const Index at : order.next(batch)) drawn.push_back(rows[at]);
      squares += (gradient(0, drawn, /*plain=*/false) - mean).squaredNorm();
    }
    return squares / kBatches;
  }

 private:
  const DealtNodes& nodes_;
  std::unique_ptr<Net> net_;
  double lambda_;
};

std::vector<ConvergenceRow> ConvergenceTrials::gradients(const ConvergenceRecipe& recipe, int seeds,
                                                         const Observer& observer) {
  std::vector<ConvergenceRow> rows;
  double power = 0.0;
  for (int number = 0; number < seeds; ++number) {
    const DealtNodes nodes = deal_nodes(recipe.net == "logistic" ? table_ : images_, recipe, seed_of(number));
    const auto mean_square = [&](int run, double step) {  // of grad F(w_t), t counting rounds
      NetObjective objective(recipe, nodes, seed_of(run));
      double sum = 0.0;  // what is not looked at is as it was at the next look
      int seen = -1;
      const bool finite =
          run_and_look(recipe, nodes, federation_settings(recipe, nodes, step, seed_of(run)), observer, Schedule(),
                       [&](int round, std::span<const float> parameters) {
                         std::copy(parameters.begin(), parameters.end(), objective.parameters().begin());
                         const int upto = std::min(round, recipe.rounds - 1);
                         sum += (upto - seen) * objective.gradient().squaredNorm();
                         seen = upto;
                         return !std::isfinite(sum);
                       });
      sum += (recipe.rounds - 1 - seen) * objective.gradient().squaredNorm();
      return finite && std::isfinite(sum) ? sum / recipe.rounds : kNever;
    };
    NetObjective at_first(recipe, nodes, seed_of(number));
    const double beta = at_first.smoothness();
    double step = 0.0;
    if (recipe.step == StepChoice::kTheorem) {
      const double noise = recipe.batch > 0 ? at_first.noise(recipe.batch, seed_of(number)) : 0.0;
      step = step_of_theorem(recipe, nodes, beta, std::sqrt(noise));
    } else {
      constexpr double kAway = 10.0;  // times what it was at first
      const double first = at_first.gradient().squaredNorm();
      power = search_step(
          [&](double tried, double) {
            const double cost = mean_square(kTuningSeed + number, std::exp2(tried) / beta);
            const bool away = !(cost < kAway * first);
            return StepTry{.cost = away ? kNever : cost, .too_long = away};
          },
          power, kNever);
      step = std::exp2(power) / beta;
    }
    const double square = mean_square(number, step);
    rows.push_back({.seed = number, .step = step, .y = std::isfinite(square) ? square : 0.0});
  }
  return rows;
}

std::vector<ConvergenceRow> ConvergenceTrials::excesses(const ConvergenceRecipe& recipe, int seeds,
                                                        const Observer& observer) {
  // The population: every class of the data set, as a whole, counts the same, as in the target.
  const auto by_class = rows_by_class(table_.labels, all_rows(table_.size()), table_.classes());
  DealtNodes all{.data = {.shape = table_.shape, .class_names = table_.class_names},
                 .ratios = {VectorXd(table_.classes())}};
  all.data.nodes.push_back({.train = &table_, .train_rows = all_rows(table_.size())});
  for (Index c = 0; c < table_.classes(); ++c)
    all.ratios[0][c] =
        static_cast<double>(table_.size()) / static_cast<double>(table_.classes() * std::ssize(by_class[c]));
  all.normalisation = fit_normalisation(table_, all.data.nodes[0].train_rows);
  const LogisticProblem risk = problem_of(all, {.nodes = 1, .l2 = recipe.l2});
  const LogisticOptimum best = optimum(fmt::format("risk {}", recipe.l2), risk);
  std::vector<ConvergenceRow> rows;
  for (int number = 0; number < seeds; ++number) {
    tell(observer, "", static_cast<double>(number) / seeds);
    DealtNodes nodes = deal_nodes(table_, recipe, seed_of(number));
    nodes.normalisation = all.normalisation;  // the same parameters mean the same
    const LogisticOptimum found = problem_of(nodes, recipe).minimise(best.parameters);
    rows.push_back({.seed = number, .y = risk.value(found.parameters) - best.value});
  }
  return rows;
}

/// The x of a point.
static double place_of(const ConvergenceRecipe& recipe, Index parameters, Knob knob, double value, double kappa) {
  switch (knob) {
    case Knob::kShiftRootCondition:
      return value * std::sqrt(kappa);
    case Knob::kRootShiftCondition:
      return std::sqrt(value * kappa);
    case Knob::kDecay:
      return kappa;
    case Knob::kVariance:
      return 1.0 + variance_of(compression_of(recipe, parameters), parameters) / recipe.nodes;
    case Knob::kAccuracy:
      return 1.0 / recipe.accuracy;
    case Knob::kExamples:
      return value * recipe.nodes;
    default:
      return value;
  }
}

std::vector<ConvergenceRow> ConvergenceTrials::run(const ConvergencePanel& panel, const ConvergenceRecipe& series,
                                                   double value, int seeds, const Observer& observer) {
  const ConvergenceRecipe recipe = turned(series, panel.knob, value);
  std::vector<ConvergenceRow> rows = panel.measure == Measure::kRounds     ? rounds(recipe, seeds, observer)
                                     : panel.measure == Measure::kGradient ? gradients(recipe, seeds, observer)
                                                                           : excesses(recipe, seeds, observer);
  for (ConvergenceRow& row : rows) row.x = place_of(recipe, parameters_of(table_), panel.knob, value, row.kappa);
  return rows;
}

}  // namespace labelshift
