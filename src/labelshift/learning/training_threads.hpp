#pragma once

namespace labelshift {

// Settings of the whole process or of a thread: for programs to call, never for the library.

/// Keeps LibTorch on one thread a caller, so that bits do not depend on the number of cores. To be called once, before
/// any other thread computes: doing it again rebuilds OpenMP's pool, which is slow.
void use_one_torch_thread();

/// Keeps memory that is freed instead of giving it back to the system: a step allocates what the last one freed, and
/// fresh pages cost ResNet-18 6 % of its time. Peak memory stays the same.
void keep_freed_memory();

/// Makes the calling thread treat denormal numbers as 0. Adam's averages decay into them and slow a step down.
void flush_denormals_on_this_thread();

}  // namespace labelshift
