#pragma once

#include <chrono>
#include <stdexcept>
#include <thread>

namespace labelshift {

/// How long a test waits for what others do at once.
inline constexpr int kPatience = 30;  // s

/// Waits until `done()`; after `kPatience` throws, which ends a test and says why.
template <typename Done>
void await(Done&& done, const char* what) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(kPatience);
  while (!done()) {
    if (std::chrono::steady_clock::now() > deadline)
      throw std::runtime_error("waited " + std::to_string(kPatience) + " s in vain until " + what);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace labelshift
