#include "labelshift/learning/methods.hpp"

#include "labelshift/core/base/named_entries.hpp"
#include "labelshift/core/base/settings.hpp"
#include "labelshift/core/calibration/calibration.hpp"
#include "labelshift/core/estimators/estimators.hpp"

namespace labelshift {
namespace {

constexpr Method kMethods[] = {
    {"vrls", "Eq. (4) with zeta = 1, then BCTS, then Eq. (3)", 1.0, "bcts", "mlls-sqp"},
    {"vrls-raw", "the paper to the letter: zeta = 1 and no calibration", 1.0, "none", "mlls-sqp"},
    {"vrls-ts", "vrls with one temperature and no biases, as the authors' code calibrates", 1.0, "ts", "mlls-sqp"},
    {"vrls-em", "vrls by expectation-maximisation", 1.0, "bcts", "mlls-em"},
    {"vrls-l1", "vrls with |r - 1|_1 penalised", 1.0, "bcts", "mlls-l1"},
    {"vrls-l2", "vrls with |r - 1|_2^2 penalised", 1.0, "bcts", "mlls-l2"},
    {"vrls-raw-em", "vrls-raw by expectation-maximisation", 1.0, "none", "mlls-em"},
    {"vrls-raw-l2", "vrls-raw with |r - 1|_2^2 penalised", 1.0, "none", "mlls-l2"},
    {"mlls", "plain cross-entropy, then Eq. (3)", 0.0, "none", "mlls-sqp"},
    {"mlls-ts", "mlls with one temperature in between", 0.0, "ts", "mlls-sqp"},
    {"mlls-bct", "mlls with BCTS in between (Alexandari et al. 2020)", 0.0, "bcts", "mlls-sqp"},
    {"mlls-em", "mlls by expectation-maximisation", 0.0, "none", "mlls-em"},
    {"mlls-em-bct", "mlls-bct by expectation-maximisation", 0.0, "bcts", "mlls-em"},
    {"mlls-l1", "mlls with |r - 1|_1 penalised", 0.0, "none", "mlls-l1"},
    {"mlls-l2", "mlls with |r - 1|_2^2 penalised", 0.0, "none", "mlls-l2"},
    {"mlls-l2-bct", "mlls-bct with |r - 1|_2^2 penalised", 0.0, "bcts", "mlls-l2"},
    {"mlls-cg", "mlls by conjugate gradients", 0.0, "none", "mlls-cg"},
    {"mlls-sgd", "mlls by stochastic natural gradient", 0.0, "none", "mlls-sgd"},
    {"bbse", "the confusion matrix of predicted labels", 0.0, "none", "bbse"},
    {"bbse-soft", "the confusion matrix of probabilities", 0.0, "none", "bbse-soft"},
    {"mlls-confusion", "the likelihood of predicted labels, by the confusion matrix", 0.0, "none", "mlls-confusion"},
    {"rlls", "the confusion matrix with |r - 1|_2 regularised", 0.0, "none", "rlls"},
    {"auto", "zeta, epochs and calibration chosen on held-out source examples, then Eq. (3)", {}, "none", "mlls-sqp"},
};

}  // namespace

bool Method::needs_held_out() const {
  return chooses() || find_calibration(calibration).kind != CalibrationKind::kNone ||
         find_estimator(estimator).family != EstimatorFamily::kLikelihood;
}

std::span<const Method> methods() {
  return kMethods;
}

const Method& find_method(const std::string& name) {
  return find_entry(kMethods, "method", name);
}

}  // namespace labelshift
