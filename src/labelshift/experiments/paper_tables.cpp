#include "labelshift/experiments/paper_tables.hpp"

#include "labelshift/core/base/named_entries.hpp"
#include "labelshift/experiments/convergence_figures.hpp"
#include "labelshift/experiments/ratio_figures.hpp"

namespace labelshift {

std::span<const PaperTable> paper_tables() {
  using enum ComparisonView;
  static const std::vector<PaperTable> rows = {
      {"table-1", "four kinds of label shift: node 1 by its formula, alone, with FedAvg", {"table-1"}},
      {"table-2", "Fashion-MNIST, LeNet, 5 nodes: IW-ERM against every baseline", {"table-2"}},
      {"table-3", "CIFAR-10, narrow ResNet-18, 5 nodes", {"table-3"}},
      {"table-4", "the same with 5 of 100 and of 200 nodes a round", {"table-4-100", "table-4-200"}},
      {"table-6", "every node of table-2", {"table-2"}, kNodes},
      {"table-7", "every node of table-3", {"table-3"}, kNodes},
      {"figure-6", "best, average and worst node of table-2", {"table-2"}, kSpread},
      {"figure-7", "best, average and worst node of table-3", {"table-3"}, kSpread},
      {"mnist-lenet", "MNIST, LeNet, 5 nodes", {"mnist-lenet"}},
      {"compression", "not in the paper: what compressed updates cost in accuracy and save in bytes", {"compression"}},
      {"node-mixes", "not in the paper: what 100 nodes of CIFAR-10 find of their own label mixes", {"node-mixes"}},
      {"table-4-mixed",
       "not in the paper: table-4 with test mixes that do not sum to the training mixes",
       {"table-4-mixed-100"}},
      {"table-3-full", "table-3 with the paper's ResNet-18, for a GPU", {"table-3-full"}},
      {"table-4-full", "table-4 with the same", {"table-4-100-full", "table-4-200-full"}},
  };
  return rows;
}

std::vector<std::string> reproducible_names() {
  std::vector<std::string> names;
  for (const RatioFigure& figure : ratio_figures()) names.push_back(figure.name);
  for (const PaperTable& table : paper_tables()) names.push_back(table.name);
  names.emplace_back(kConvergence);
  return names;
}

const PaperTable* find_paper_table(const std::string& name) {
  for (const RatioFigure& figure : ratio_figures())
    if (figure.name == name) return nullptr;
  for (const PaperTable& table : paper_tables())
    if (table.name == name) return &table;
  throw unknown_name("table or figure", name, reproducible_names());
}

}  // namespace labelshift
