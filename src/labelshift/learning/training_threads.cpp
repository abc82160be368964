#include "labelshift/learning/training_threads.hpp"

#include <features.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#ifdef __SSE2__
#include <pmmintrin.h>
#endif

namespace labelshift {

void keep_freed_memory() {
#ifdef __GLIBC__
  constexpr int kGigabyte = 1 << 30;
  ::mallopt(M_MMAP_THRESHOLD, kGigabyte);
  ::mallopt(M_TRIM_THRESHOLD, kGigabyte);
#endif
}

void flush_denormals_on_this_thread() {
#ifdef __SSE2__
  _mm_setcsr(_mm_getcsr() | _MM_FLUSH_ZERO_ON | 0x0040);  // results, and operands (denormals are zeros)
#endif
}

}  // namespace labelshift
