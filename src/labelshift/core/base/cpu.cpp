#include "labelshift/core/base/cpu.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "labelshift/core/base/blas.hpp"
#include "labelshift/core/base/error.hpp"

namespace labelshift {
namespace {

constexpr const char* kNames[] = {"baseline", "avx2", "avx512"};  // by Cpu

/// What each library calls the instruction sets. OpenBLAS knows processors: these are the oldest with each set.
struct LibraryVariable {
  const char* name;
  const char* values[3];  // by Cpu
};
constexpr LibraryVariable kOpenBlas = {"OPENBLAS_CORETYPE", {"Prescott", "Haswell", "SkylakeX"}};
constexpr LibraryVariable kOneDnn = {"ONEDNN_MAX_CPU_ISA", {"SSE41", "AVX2", "ALL"}};
constexpr LibraryVariable kAten = {"ATEN_CPU_CAPABILITY", {"default", "avx2", "avx512"}};

/// Whether the variable was not set before.
bool set(const LibraryVariable& variable, Cpu cpu) {
  if (std::getenv(variable.name)) return false;
  ::setenv(variable.name, variable.values[static_cast<int>(cpu)], /*overwrite=*/0);
  return true;
}

/// What OpenBLAS's kernels for SkylakeX use.
bool has_all_of_skylake() {
#ifdef __x86_64__
  return native_cpu() == Cpu::kAvx512 && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512cd");
#else
  return false;
#endif
}

}  // namespace

std::string to_string(Cpu cpu) {
  return kNames[static_cast<int>(cpu)];
}

Cpu native_cpu() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) return Cpu::kAvx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return Cpu::kAvx2;
#endif
  return Cpu::kBaseline;
}

Cpu lowered_cpu(Cpu native, const char* wanted) {
  if (!wanted) return native;
  for (const Cpu choice : {Cpu::kBaseline, Cpu::kAvx2, Cpu::kAvx512})
    if (wanted == std::string_view(kNames[static_cast<int>(choice)])) return std::min(native, choice);
  throw Error(ErrorKind::kUsage,
              fmt::format("the environment variable LABELSHIFT_CPU is \"{}\", expected avx512, avx2 or baseline; "
                          "without it the program takes what the processor has",
                          wanted));
}

Cpu cpu() {
  static const Cpu chosen = lowered_cpu(native_cpu(), std::getenv("LABELSHIFT_CPU"));
  return chosen;
}

bool hand_cpu_to_libraries() {
  const Cpu chosen = cpu();
  if (chosen == native_cpu()) {
    // OpenBLAS takes a processor that is newer than itself for the oldest: a product takes several times as long then.
    const bool unknown = chosen > Cpu::kBaseline && blas_processor() == kOpenBlas.values[0];
    return unknown && set(kOpenBlas, has_all_of_skylake() ? Cpu::kAvx512 : Cpu::kAvx2);
  }
  set(kOneDnn, chosen);
  set(kAten, chosen);
  return set(kOpenBlas, chosen);
}

void start_with_cpu(char** arguments) {
  if (!hand_cpu_to_libraries()) return;
  ::execv("/proc/self/exe", arguments);
  throw Error(ErrorKind::kSystem,
              fmt::format("cannot start again to use {} instructions; set {}={} beside LABELSHIFT_CPU",
                          to_string(cpu()), kOpenBlas.name, kOpenBlas.values[static_cast<int>(cpu())]));
}

}  // namespace labelshift
