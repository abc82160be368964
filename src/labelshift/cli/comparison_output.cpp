#include "labelshift/cli/comparison_output.hpp"

#include <fmt/format.h>

#include "labelshift/cli/terminal.hpp"

namespace labelshift::cli {
namespace {

constexpr std::size_t kMostWarnings = 10;  // on a screen

}  // namespace

void show_comparison(const Experiment& experiment, const ComparisonResult& result, ComparisonView view) {
  for (std::size_t i = 0; i < result.warnings.size() && i < kMostWarnings; ++i) warn(result.warnings[i]);
  if (result.warnings.size() > kMostWarnings)
    warn(fmt::format("{} more like these are in {}", result.warnings.size() - kMostWarnings, result.summary));
  print(comparison_text(experiment, result, view, "; another --output runs it again"));
}

}  // namespace labelshift::cli
