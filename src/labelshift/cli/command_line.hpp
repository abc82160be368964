#pragma once

namespace labelshift::cli {

/// The exit status of a command that was not understood.
inline constexpr int kUsageError = 2;
/// And of one that met a bug of ours.
inline constexpr int kInternalError = 70;

/// Does what the arguments ask for and returns the exit status; throws Error for what cannot be done.
int run(int argc, char** argv);

}  // namespace labelshift::cli
