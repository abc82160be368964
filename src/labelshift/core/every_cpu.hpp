#pragma once

// Compiles a loop for each instruction set and picks one when the program starts. A macro, since an attribute cannot
// be chosen by the language, and other processors than x86 have not these names for theirs. Bits may differ between
// processors, where the newer ones multiply and add in one rounding.
#if defined(__x86_64__) && defined(__GNUC__)
#define LABELSHIFT_EVERY_CPU __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define LABELSHIFT_EVERY_CPU
#endif
