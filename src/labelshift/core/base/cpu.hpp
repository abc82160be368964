#pragma once

#include <string>

/// Which instructions the inner loops use. The environment variable LABELSHIFT_CPU (avx512, avx2 or baseline) lowers
/// the choice and never raises it, so that a slower machine can be had on a faster one.
namespace labelshift {

/// kBaseline is what every processor of its architecture has: SSE2, or NEON.
enum class Cpu { kBaseline, kAvx2, kAvx512 };

/// "baseline", "avx2" or "avx512".
std::string to_string(Cpu cpu);

/// The most that this processor has.
Cpu native_cpu();

/// `native`, or what `wanted`, the value of LABELSHIFT_CPU, lowers it to; null for a variable that is not set. Throws
/// Error{kUsage} for a name that is none.
Cpu lowered_cpu(Cpu native, const char* wanted);

/// What the loops of this process use: it is chosen once. Throws as lowered_cpu().
Cpu cpu();

/// Tells OpenBLAS, oneDNN and ATen to use no more than cpu(), by the environment variables that each reads when it is
/// loaded; a variable that is set already stays as it is. Where cpu() is all that the processor has, only an OpenBLAS
/// that does not know the processor is told which one to take it for. OpenBLAS may be loaded by then: returns whether
/// the program must start again for OpenBLAS to see its variable.
bool hand_cpu_to_libraries();

/// For main(), before anything else: hand_cpu_to_libraries(), and if need be the same program in this process again.
void start_with_cpu(char** arguments);

namespace cpu_loops {
#ifdef __x86_64__
template <typename Loop>
[[gnu::target("avx512f")]] void with_avx512(const Loop& loop) {
  loop();
}
template <typename Loop>
[[gnu::target("avx2,fma")]] void with_avx2(const Loop& loop) {
  loop();
}
#endif
}  // namespace cpu_loops

/// Runs loop(), which is compiled for each instruction set. What it calls, and itself, must be inlined:
/// `on_this_cpu([=]() LABELSHIFT_INLINE { add(from, size, to); })`. Bits may differ between processors, where the newer
/// ones multiply and add in one rounding.
template <typename Loop>
void on_this_cpu(const Loop& loop) {
#ifdef __x86_64__
  if (cpu() == Cpu::kAvx512) return cpu_loops::with_avx512(loop);
  if (cpu() == Cpu::kAvx2) return cpu_loops::with_avx2(loop);
#endif
  loop();
}

}  // namespace labelshift

/// A macro, since the standard has no attribute that a lambda can carry.
#define LABELSHIFT_INLINE __attribute__((always_inline))
