#pragma once

#include <functional>
#include <string_view>

namespace labelshift {

/// Told what is being done and how much of it is done, from 0 to 1; 0 also where that is not known. If it returns
/// false, the work ends by throwing Stopped.
using Observer = std::function<bool(std::string_view stage, double done)>;

/// Thrown out of work that its observer stopped.
struct Stopped {};

/// Tells the observer, if there is one, and throws Stopped if it says so.
inline void tell(const Observer& observer, std::string_view stage, double done = 0.0) {
  if (observer && !observer(stage, done)) throw Stopped{};
}

}  // namespace labelshift
