#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "bench/core/mixture_rows.hpp"
#include "labelshift/core/base/blas.hpp"
#include "labelshift/core/estimators/estimators.hpp"

// One solve against the limits of the machine, timed in turn in one run: a streaming read of the matrix, and an A^T A
// product by BLAS. Look at the counters: "reads" = solve / read and "products" = solve / (read + product), of medians.

extern "C" {
void ssyrk_(const char* uplo, const char* trans, const int* n, const int* k, const float* alpha, const float* a,
            const int* lda, const float* beta, float* c, const int* ldc);
void dsyrk_(const char* uplo, const char* trans, const int* n, const int* k, const double* alpha, const double* a,
            const int* lda, const double* beta, double* c, const int* ldc);
float sasum_(const int* n, const float* x, const int* step);
double dasum_(const int* n, const double* x, const int* step);
}

namespace labelshift::bench {
namespace {

// BLAS's sum of absolute values is the streaming read: vectorised for this machine, and it cannot be optimised away.
double read_all(const float* data, int count) {
  const int step = 1;
  return sasum_(&count, data, &step);
}
double read_all(const double* data, int count) {
  const int step = 1;
  return dasum_(&count, data, &step);
}

void multiply(const float* data, int rows, int cols, float* out) {
  const float one = 1.0f, zero = 0.0f;
  ssyrk_("L", "N", &cols, &rows, &one, data, &cols, &zero, out, &cols);
}
void multiply(const double* data, int rows, int cols, double* out) {
  const double one = 1.0, zero = 0.0;
  dsyrk_("L", "N", &cols, &rows, &one, data, &cols, &zero, out, &cols);
}

template <typename Work>
double seconds(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

template <typename Scalar>
void solve(benchmark::State& state, const std::string& estimator, double spread, const Settings& settings = {}) {
  use_one_blas_thread();
  const Index n = state.range(0);
  const Index m = state.range(1);
  const MixtureRows<Scalar> rows = mixture_rows<Scalar>(n, m, spread);
  const auto solver = make_estimator(find_estimator(estimator), settings);
  RatioEstimate estimate;
  std::vector<double> solves, reads, products;
  std::vector<Scalar> out(static_cast<std::size_t>(m * m));
  for (auto _ : state) {
    reads.push_back(seconds([&] { benchmark::DoNotOptimize(read_all(rows.probs.data(), static_cast<int>(n * m))); }));
    products.push_back(
        seconds([&] { multiply(rows.probs.data(), static_cast<int>(n), static_cast<int>(m), out.data()); }));
    solves.push_back(seconds([&] { estimate = solver->estimate(rows.source, rows.target()); }));
    state.SetIterationTime(solves.back());
  }
  if (!estimate.gap || *estimate.gap > 1e-9)
    return state.SkipWithError("not solved to a gap of 1e-9");  // never time a wrong answer
  state.counters["reads"] = median(solves) / median(reads);
  state.counters["products"] = median(solves) / (median(reads) + median(products));
  state.counters["passes"] = estimate.iterations;
}

void BM_SolveFloat(benchmark::State& state, const std::string& estimator, double spread,
                   const Settings& settings = {}) {
  solve<float>(state, estimator, spread, settings);
}
void BM_SolveDouble(benchmark::State& state, const std::string& estimator, double spread) {
  solve<double>(state, estimator, spread);
}

using Values = std::map<std::string, std::string>;
const Settings kSquarem(Values{{"acceleration", "squarem"}, {"max-iterations", "20000"}});
const Settings kPlainEm(Values{{"max-iterations", "20000"}});

void sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"n", "m"})->Args({100'000, 10})->Args({1'000'000, 10})->Args({100'000, 100});
  bench->UseManualTime()->Unit(benchmark::kMillisecond);
}
void smaller_sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"n", "m"})->Args({100'000, 10})->Args({100'000, 100});
  bench->UseManualTime()->Unit(benchmark::kMillisecond);
}
void many_classes(benchmark::internal::Benchmark* bench) {  // which is faster at m = 1000?
  bench->ArgNames({"n", "m"})->Args({50'000, 1000})->Iterations(1);
  bench->UseManualTime()->Unit(benchmark::kMillisecond);
}

BENCHMARK_CAPTURE(BM_SolveFloat, default, "mlls-sqp", 1.0)->Apply(sizes);
BENCHMARK_CAPTURE(BM_SolveDouble, default, "mlls-sqp", 1.0)->Apply(sizes);
BENCHMARK_CAPTURE(BM_SolveFloat, default_overlapping, "mlls-sqp", 0.5)->Apply(sizes);
BENCHMARK_CAPTURE(BM_SolveFloat, squarem, "mlls-em", 1.0, kSquarem)->Apply(smaller_sizes);
BENCHMARK_CAPTURE(BM_SolveFloat, em, "mlls-em", 1.0, kPlainEm)->Apply(smaller_sizes);
BENCHMARK_CAPTURE(BM_SolveFloat, default, "mlls-sqp", 1.0)->Apply(many_classes);
BENCHMARK_CAPTURE(BM_SolveFloat, squarem, "mlls-em", 1.0, kSquarem)->Apply(many_classes);
BENCHMARK_CAPTURE(BM_SolveFloat, default_overlapping, "mlls-sqp", 0.7)->Apply(many_classes);
BENCHMARK_CAPTURE(BM_SolveFloat, squarem_overlapping, "mlls-em", 0.7, kSquarem)->Apply(many_classes);

}  // namespace
}  // namespace labelshift::bench
