#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "labelshift/experiments/predictions.hpp"

namespace labelshift {

/// What one panel of a figure varies.
enum class Sweep { kAlpha, kSize };

/// One panel: the error of ratios against the strength of the shift or the size of the test set.
struct RatioPanel {
  std::string title;
  PredictorRecipe recipe;
  std::string augmentation = "strict";
  Sweep sweep = Sweep::kAlpha;
  double alpha = 1.0;                // where the size is varied
  Index size = 5000;                 // where alpha is varied
  std::vector<std::string> methods;  // rows of methods()
  int predictors = 5;                // trained from different seeds
};

struct RatioFigure {
  std::string name;
  std::string title;
  std::string summary;
  std::string claim;  // that it tests, in a sentence or two
  std::vector<RatioPanel> panels;
};

/// The paper's figures of density-ratio estimation, and those of questions it leaves open.
std::span<const RatioFigure> ratio_figures();

/// The row called `name`. Throws Error{kUsage} with a suggestion if there is none.
const RatioFigure& find_ratio_figure(const std::string& name);

/// How much of a figure to make. The defaults are the paper's.
struct FigureScale {
  int trials = 100;               // at each point, for each predictor
  int alphas = 20;                // points from 0.1 to 10
  int sizes = 50;                 // points from 200 to 10,000
  int predictors = 0;             // 0: what the figure says
  int epochs = 0;                 // 0: what the figure says
  int width = 0;                  // of ResNet-18; 0: what the figure says
  std::vector<std::string> data;  // only panels on these data sets; empty: all
  std::uint64_t seed = 0;
};

/// Whether the scale leaves anything of the figure.
bool has_panels(const RatioFigure& figure, const FigureScale& scale);

/// The figure with the scale worked into its panels. Throws Error{kUsage} if nothing is left of it.
RatioFigure scaled(RatioFigure figure, const FigureScale& scale);

/// The values of alpha or of the size of a panel.
std::vector<double> sweep_values(const RatioPanel& panel, const FigureScale& scale);

}  // namespace labelshift
