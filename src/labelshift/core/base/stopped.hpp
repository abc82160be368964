#pragma once

namespace labelshift {

/// Thrown out of work that its observer stopped.
struct Stopped {};

}  // namespace labelshift
