#pragma once

#include <span>
#include <string>
#include <vector>

#include "labelshift/experiments/comparison_tables.hpp"

namespace labelshift {

/// A table or figure of the paper that federations make. Several may show the same runs.
struct PaperTable {
  std::string name;
  std::string summary;
  std::vector<std::string> experiments;  // of shipped_experiment()
  ComparisonView view = ComparisonView::kAverage;
};

/// Those of the paper, and larger ones for machines that have a GPU.
std::span<const PaperTable> paper_tables();

/// All that can be reproduced: the figures of ratios (ratio_figures()), then these tables, then kConvergence.
std::vector<std::string> reproducible_names();

/// The row called `name`; nullptr if that is a figure of ratios. Throws Error{kUsage} with a suggestion if it is
/// neither.
const PaperTable* find_paper_table(const std::string& name);

}  // namespace labelshift
