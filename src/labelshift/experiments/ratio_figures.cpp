#include "labelshift/experiments/ratio_figures.hpp"

#include <algorithm>
#include <cmath>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/named_entries.hpp"
#include "labelshift/core/base/settings.hpp"

namespace labelshift {
namespace {

using Names = std::vector<std::string>;

// DESIGN: MLP 784-256-256-10; dropout 0.2, on MNIST none. 5,000 of 60,000 examples are held out.
const PredictorRecipe kMnist{.data = "mnist", .net = "mlp", .settings = {{"dropout", "0"}}, .held_out = 1.0 / 12.0};
const PredictorRecipe kFashion{
    .data = "fashion-mnist", .net = "mlp", .settings = {{"dropout", "0.2"}}, .held_out = 1.0 / 12.0, .epochs = 15};
// The paper's ResNet-18 has width 64, learning rate 1e-4 and weight decay 1e-4. An eighth of the width needs larger
// steps to get anywhere in so few epochs.
const PredictorRecipe kCifar{.data = "cifar-10",
                             .net = "resnet18",
                             .settings = {{"width", "8"}},
                             .held_out = 0.1,
                             .epochs = 6,
                             .learning_rate = 1e-3,
                             .weight_decay = 1e-4};
constexpr int kCifarPredictors = 3;

const Names kMain{"vrls-em", "vrls-l2", "vrls-raw-em", "vrls-raw-l2", "mlls-em", "mlls-l2", "mlls-em-bct", "bbse"};

/// `base` for the four kinds of test sets of Fig. 1 and 2.
std::vector<RatioPanel> four_kinds(const RatioPanel& base, const std::string& suffix) {
  struct Kind {
    const char* title;
    const PredictorRecipe& recipe;
    const char* augmentation;
    int predictors;
  };
  std::vector<RatioPanel> panels;
  for (const Kind& kind : {Kind{"MNIST", kMnist, "strict", 5}, Kind{"CIFAR-10", kCifar, "strict", kCifarPredictors},
                           Kind{"CIFAR-10, relaxed", kCifar, "relaxed", kCifarPredictors},
                           Kind{"CIFAR-10, relax-m", kCifar, "relax-m", kCifarPredictors}}) {
    RatioPanel panel = base;
    panel.title = kind.title + suffix;
    panel.recipe = kind.recipe;
    panel.augmentation = kind.augmentation;
    panel.predictors = kind.predictors;
    panels.push_back(std::move(panel));
  }
  return panels;
}

std::vector<RatioPanel> figure_2() {
  std::vector<RatioPanel> panels = four_kinds({.sweep = Sweep::kSize, .alpha = 1.0, .methods = kMain}, ", alpha = 1");
  for (RatioPanel& panel : four_kinds({.sweep = Sweep::kSize, .alpha = 0.1, .methods = kMain}, ", alpha = 0.1"))
    panels.push_back(std::move(panel));
  return panels;
}

/// Left: alpha varied; then the size at alpha = 1 and at alpha = 0.1.
std::vector<RatioPanel> three_sweeps(const std::string& title, const PredictorRecipe& recipe, const Names& methods) {
  const RatioPanel base{.recipe = recipe, .methods = methods};
  RatioPanel alpha = base, mild = base, strong = base;
  alpha.title = title + ", 5,000 examples";
  mild.title = title + ", alpha = 1";
  mild.sweep = strong.sweep = Sweep::kSize;
  strong.title = title + ", alpha = 0.1";
  strong.alpha = 0.1;
  return {alpha, mild, strong};
}

/// Panels of growing training sets, a fifth of each held out.
std::vector<RatioPanel> training_sizes() {
  std::vector<RatioPanel> panels;
  struct Size {
    const char* title;
    const PredictorRecipe& recipe;
    Index examples;
    int epochs;
    int predictors;
  };
  // The same number of steps would take the small ones 100 times as many epochs; these are well past their best.
  for (const Size& size :
       {Size{"MNIST, 425 examples", kMnist, 425, 60, 10}, Size{"MNIST, 2,500 examples", kMnist, 2500, 40, 10},
        Size{"MNIST, 60,000 examples", kMnist, 0, 10, 5}, Size{"Fashion-MNIST, 425 examples", kFashion, 425, 60, 10},
        Size{"Fashion-MNIST, 2,500 examples", kFashion, 2500, 40, 10}}) {
    PredictorRecipe recipe = size.recipe;
    recipe.examples = size.examples;
    recipe.held_out = 0.2;
    recipe.epochs = size.epochs;
    panels.push_back({.title = size.title,
                      .recipe = recipe,
                      .methods = {"auto", "vrls", "mlls-bct", "vrls-ts", "mlls-ts", "vrls-raw", "mlls"},
                      .predictors = size.predictors});
  }
  return panels;
}

const RatioFigure kFigures[] = {
    {"figure-1", "Error of ratios against the strength of the shift", "Fig. 1: MNIST, CIFAR-10 and relaxed CIFAR-10",
     "The paper claims that VRLS has a lower MSE than all baselines whatever alpha is, also where images are blurred "
     "and "
     "made brighter.",
     four_kinds({.sweep = Sweep::kAlpha, .methods = kMain}, "")},
    {"figure-2", "Error of ratios against the size of the test set",
     "Fig. 2: MNIST, CIFAR-10 and relaxed CIFAR-10, alpha = 1 and 0.1",
     "The paper claims that VRLS has a lower MSE than all baselines whatever the size of the test set is, and that the "
     "error "
     "falls as its square root.",
     figure_2()},
    {"figure-3", "Solvers of MLLS", "Fig. 3: the solvers of MLLS on MNIST",
     "The paper claims that EM and the solvers with a penalty are alike, and that conjugate gradients are worse, most "
     "of all at "
     "alpha = 0.1.",
     three_sweeps("MNIST", kMnist, {"mlls-em", "mlls-l1", "mlls-l2", "mlls-cg", "mlls-sgd", "mlls"})},
    {"figure-4", "VRLS, MLLS and RLLS", "Fig. 4: VRLS, MLLS, EM, BBSE and RLLS on MNIST",
     "The paper claims that VRLS has a lower MSE than MLLS, EM and RLLS.",
     three_sweeps("MNIST", kMnist, {"vrls", "vrls-raw", "mlls", "mlls-em", "mlls-bct", "bbse", "bbse-soft", "rlls"})},
    {"figure-5", "Fashion-MNIST", "Fig. 5: Fashion-MNIST, MLP with dropout",
     "The paper claims that VRLS has a lower MSE than the baselines on Fashion-MNIST too.",
     three_sweeps("Fashion-MNIST", kFashion,
                  {"vrls-em", "vrls-l2", "vrls-raw-em", "vrls-raw-l2", "mlls-em", "mlls-l2", "mlls-em-bct", "bbse"})},
    {"zeta", "Choosing zeta without target labels",
     "not in the paper: the choice of zeta against zeta = 1 and zeta = 0, on small and large training sets",
     "Not in the paper: zeta, the number of epochs and the calibration can be chosen without target labels, and the "
     "choice is no "
     "worse than a fixed zeta.",
     training_sizes()},
};

}  // namespace

std::span<const RatioFigure> ratio_figures() {
  return kFigures;
}

const RatioFigure& find_ratio_figure(const std::string& name) {
  return find_entry(kFigures, "figure", name);
}

static bool is_wanted(const RatioPanel& panel, const FigureScale& scale) {
  return scale.data.empty() || std::find(scale.data.begin(), scale.data.end(), panel.recipe.data) != scale.data.end();
}

bool has_panels(const RatioFigure& figure, const FigureScale& scale) {
  return std::any_of(figure.panels.begin(), figure.panels.end(),
                     [&](const RatioPanel& panel) { return is_wanted(panel, scale); });
}

RatioFigure scaled(RatioFigure figure, const FigureScale& scale) {
  std::erase_if(figure.panels, [&](const RatioPanel& panel) { return !is_wanted(panel, scale); });
  if (figure.panels.empty())
    throw Error(ErrorKind::kUsage, figure.name + " has no panel on the data asked for; see `labelshift reproduce`");
  for (RatioPanel& panel : figure.panels) {
    if (scale.predictors > 0) panel.predictors = scale.predictors;
    if (scale.epochs > 0) panel.recipe.epochs = scale.epochs;
    if (scale.width > 0 && panel.recipe.settings.contains("width"))
      panel.recipe.settings["width"] = std::to_string(scale.width);
  }
  return figure;
}

std::vector<double> sweep_values(const RatioPanel& panel, const FigureScale& scale) {
  const bool alpha = panel.sweep == Sweep::kAlpha;
  const double first = alpha ? 0.1 : 200.0;
  const double last = alpha ? 10.0 : 10'000.0;
  const int points = alpha ? scale.alphas : scale.sizes;
  std::vector<double> values;
  for (int i = 0; i < points; ++i) {
    const double share = points > 1 ? static_cast<double>(i) / (points - 1) : 0.0;
    // Sizes are 200, 400, ..., 10,000 with 50 of them, as the paper's; alpha is spread evenly on a log scale.
    values.push_back(alpha ? first * std::pow(last / first, share) : std::round(first + (last - first) * share));
  }
  return values;
}

}  // namespace labelshift
