#include "labelshift/core/estimators/estimators.hpp"

#include <limits>
#include <vector>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/named_entries.hpp"
#include "labelshift/core/estimators/bbse.hpp"
#include "labelshift/core/estimators/mlls_confusion.hpp"
#include "labelshift/core/estimators/mlls_em.hpp"
#include "labelshift/core/estimators/mlls_gradient.hpp"
#include "labelshift/core/estimators/mlls_sqp.hpp"
#include "labelshift/core/estimators/rlls.hpp"

namespace labelshift {
namespace {

constexpr int kMany = 1'000'000;

template <Penalty penalty>
std::unique_ptr<RatioEstimator> make_mlls_sqp(Settings& settings) {
  MllsSqpOptions options{.penalty = penalty};
  options.tolerance = settings.number("tolerance", options.tolerance, 0.0, 1.0);
  options.max_iterations = settings.integer("max-iterations", options.max_iterations, 1, kMany);
  const double chosen = penalty == Penalty::kNone ? -1.0 : settings.number("lambda", -1.0, 0.0, 1e6);
  if (chosen >= 0.0) options.strength = chosen;
  return std::make_unique<MllsSqp>(options);
}

std::unique_ptr<RatioEstimator> make_mlls_em(Settings& settings) {
  MllsEmOptions options;
  options.tolerance = settings.number("tolerance", options.tolerance, 0.0, 1.0);
  options.max_iterations = settings.integer("max-iterations", options.max_iterations, 1, kMany);
  options.accelerate = settings.choice("acceleration", {"none", "squarem"}) == "squarem";
  return std::make_unique<MllsEm>(options);
}

std::unique_ptr<RatioEstimator> make_mlls_cg(Settings& settings) {
  MllsCgOptions options;
  options.tolerance = settings.number("tolerance", options.tolerance, 0.0, 1.0);
  options.max_iterations = settings.integer("max-iterations", options.max_iterations, 1, kMany);
  return std::make_unique<MllsCg>(options);
}

std::unique_ptr<RatioEstimator> make_mlls_sgd(Settings& settings) {
  MllsSgdOptions options;
  options.epochs = settings.integer("epochs", options.epochs, 1, kMany);
  options.batch = settings.integer("batch", options.batch, 1, kMany);
  options.step = settings.number("step", options.step, 1e-9, 1.0);
  options.seed = settings.seed("seed", options.seed);
  return std::make_unique<MllsSgd>(options);
}

template <bool soft>
std::unique_ptr<RatioEstimator> make_bbse(Settings&) {
  return std::make_unique<Bbse>(soft);
}

std::unique_ptr<RatioEstimator> make_mlls_confusion(Settings&) {
  return std::make_unique<MllsConfusion>();
}

std::unique_ptr<RatioEstimator> make_rlls(Settings& settings) {
  RllsOptions options;
  options.alpha = settings.number("alpha", options.alpha, 0.0, 1e6);
  return std::make_unique<Rlls>(options);
}

using enum EstimatorFamily;
constexpr EstimatorEntry kEstimators[] = {
    {"mlls-sqp", "maximise Eq. (3) by sequential quadratic programming: certified and fastest", kLikelihood, false,
     make_mlls_sqp<Penalty::kNone>},
    {"mlls-em", "maximise Eq. (3) by expectation-maximisation, plain or accelerated", kLikelihood, false, make_mlls_em},
    {"mlls-l1", "maximise Eq. (3) - lambda |r - 1|_1", kLikelihood, true, make_mlls_sqp<Penalty::kL1>},
    {"mlls-l2", "maximise Eq. (3) - lambda |r - 1|_2^2", kLikelihood, true, make_mlls_sqp<Penalty::kL2>},
    {"mlls-cg", "maximise Eq. (3) by conjugate gradients over a softmax", kLikelihood, false, make_mlls_cg},
    {"mlls-sgd", "maximise Eq. (3) by stochastic natural gradient", kLikelihood, false, make_mlls_sgd},
    {"bbse", "solve A r = b with the confusion matrix of predicted labels (App. B)", kHardConfusion, false,
     make_bbse<false>},
    {"bbse-soft", "solve A r = b with the confusion matrix of probabilities", kSoftConfusion, false, make_bbse<true>},
    {"mlls-confusion", "maximum likelihood of the predicted labels, by the confusion matrix", kHardConfusion, false,
     make_mlls_confusion},
    {"rlls", "solve A r = b with |r - 1|_2 regularised (Azizzadenesheli et al. 2019)", kHardConfusion, true, make_rlls},
};

}  // namespace

std::span<const EstimatorEntry> estimators() {
  return kEstimators;
}

const EstimatorEntry& find_estimator(const std::string& name) {
  return find_entry(kEstimators, "estimator", name);
}

bool has_setting(const EstimatorEntry& entry, const std::string& setting) {
  Settings probe;
  probe.set(setting, "1");
  entry.make(probe);
  try {
    probe.check_all_read(entry.name);
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::unique_ptr<RatioEstimator> make_estimator(const EstimatorEntry& entry, Settings settings) {
  auto estimator = entry.make(settings);
  settings.check_all_read(entry.name);
  return estimator;
}

}  // namespace labelshift
