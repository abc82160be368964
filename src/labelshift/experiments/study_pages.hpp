#pragma once

#include "labelshift/core/base/provenance.hpp"
#include "labelshift/experiments/convergence_study.hpp"
#include "labelshift/experiments/ratio_study.hpp"
#include "labelshift/report/page.hpp"

namespace labelshift {

/// A figure of density-ratio estimation to be looked at: the claim it tests, what was measured next to it, the figure,
/// and how to get it again. `figure` is the one that was made: scaled().
Page ratio_page(const RatioFigure& figure, const FigureScale& scale, const StudyResult& result,
                const Provenance& provenance);

/// The same of the convergence theorems, a section for each.
Page convergence_page(std::span<const ConvergenceFigure> figures, const ConvergenceSettings& settings,
                      const ConvergenceResult& result, const Provenance& provenance);

}  // namespace labelshift
