#include <benchmark/benchmark.h>

#include <vector>

#include "bench/core/mixture_rows.hpp"
#include "labelshift/core/base/blas.hpp"
#include "labelshift/core/label_shift.hpp"

namespace labelshift::bench {
namespace {

/// The whole analysis of 2,000 target rows with the calibration that is the state's label, against source size and
/// class count. Classifiers are too sure by 1.7.
void analyse(benchmark::State& state, const char* calibration) {
  use_one_blas_thread();
  const Index n = state.range(0);
  const Index m = state.range(1);
  const auto sharpened = [](RowMajorMatrix<double> rows) {
    rows = rows.array().max(1e-12).pow(1.7);
    rows.array().colwise() /= rows.rowwise().sum().array().eval();
    return rows;
  };
  const RowMajorMatrix<double> exact = mixture_rows<double>(n, m, 0.8, /*alpha=*/1e3).probs;
  std::vector<int> labels;  // drawn from the exact posteriors
  Rng rng(8);
  for (Index i = 0; i < n; ++i) {
    double left = rng.uniform();
    int y = 0;
    while (y + 1 < m && (left -= exact(i, y)) >= 0.0) ++y;
    labels.push_back(i < m ? static_cast<int>(i) : y);
  }
  const RowMajorMatrix<double> source = sharpened(exact);
  const RowMajorMatrix<double> target = sharpened(mixture_rows<double>(2000, m, 0.8).probs);
  LabelShiftProblem problem{.target = {target}};
  problem.source = SourceExamples{{source}, labels, {}};
  LabelShiftOptions options;
  options.calibration = calibration;
  for (auto _ : state) benchmark::DoNotOptimize(analyse_label_shift(problem, options).target_prior);
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"n", "m"})->Unit(benchmark::kMillisecond);
  for (const auto& size :
       {std::vector<int64_t>{150, 10}, {1000, 3}, {1000, 10}, {10'000, 10}, {100'000, 10}, {20'000, 100}})
    benchmark->Args(size);
}

BENCHMARK_CAPTURE(analyse, auto, "auto") -> Apply(sizes);
BENCHMARK_CAPTURE(analyse, bcts, "bcts")->Apply(sizes);

}  // namespace
}  // namespace labelshift::bench
