// How fast updates are packed and unpacked, in bytes of float32 a second: ./codec_bench. A copy is the limit.
#include <benchmark/benchmark.h>

#include <cstring>

#include "labelshift/core/base/rng.hpp"
#include "labelshift/federation/codec.hpp"

namespace labelshift {
namespace {

std::vector<float> update() {
  Rng rng(1);
  std::vector<float> values(44'426);  // LeNet's
  for (float& value : values) value = static_cast<float>(rng.normal());
  return values;
}

void count_bytes(benchmark::State& state, const std::vector<float>& values) {
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * std::ssize(values) * 4);
}

void copy(benchmark::State& state) {
  const std::vector<float> values = update();
  std::vector<float> out(values.size());
  for (auto _ : state) {
    std::memcpy(out.data(), values.data(), values.size() * sizeof(float));
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
  }
  count_bytes(state, values);
}
BENCHMARK(copy);

void pack_and_unpack(benchmark::State& state, const CompressionSettings& settings) {
  const auto codec = make_codec(settings);
  const std::vector<float> values = update();
  std::vector<float> out(values.size());
  std::uint64_t seed = 0;
  for (auto _ : state) {
    codec->unpack(codec->pack(values, ++seed), out);
    benchmark::DoNotOptimize(out.data());
  }
  count_bytes(state, values);
}
BENCHMARK_CAPTURE(pack_and_unpack, qsgd_4_bits, CompressionSettings{.codec = "qsgd", .levels = 7});
BENCHMARK_CAPTURE(pack_and_unpack, qsgd_8_bits, CompressionSettings{.codec = "qsgd", .levels = 127});
BENCHMARK_CAPTURE(pack_and_unpack, qsgd_3_bits, CompressionSettings{.codec = "qsgd", .levels = 3});
BENCHMARK_CAPTURE(pack_and_unpack, random_k_tenth, CompressionSettings{.codec = "random-k", .kept = 0.1});

}  // namespace
}  // namespace labelshift
