#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace labelshift {

/// What of a peer's text a line shows: quoted, shortened, and escaped.
std::string shown(std::string_view text);

/// Does what nothing depends on, such as saying something, and what there may be no memory for.
template <typename Act>
void try_to(const Act& act) noexcept {
  try {
    act();
  } catch (...) {
    // Then it is not said.
  }
}

/// Hands lines to a function on a thread of its own, so that whoever has something to say may hold locks. What
/// strangers cause is limited to a line a second, after 20 at once; what nodes cause that are known, to ten a second
/// after 2,000, so that a thousand may join. It says how many lines it left out, before the next or soon after. A line
/// for which there is no memory is left out too.
class EventLog {
 public:
  explicit EventLog(std::function<void(const std::string& line)> log);
  ~EventLog() { close(); }
  /// Hands over what is left; later lines are lost. Whoever made it calls this, since gRPC may keep it for longer.
  void close();
  /// Hands over a last line if that does not take long, and calls nobody from then on.
  void abandon(std::string last_line);

  void of_node(std::string line) noexcept { add(nodes_, std::move(line)); }
  void of_stranger(std::string line) noexcept { add(strangers_, std::move(line)); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Allowance {
    double lines;
    const double most, a_second;
    Clock::time_point when = Clock::now();
    std::uint64_t left_out = 0;
  };
  void add(Allowance& allowance, std::string line) noexcept;
  void say_left_out(Allowance& allowance) noexcept;
  void hand_over(const std::stop_token& stop);

  const std::function<void(const std::string& line)> log_;
  std::mutex mutex_;
  std::condition_variable_any there_, handed_over_;
  std::deque<std::string> lines_;
  bool closed_ = false;
  Allowance nodes_{2000.0, 2000.0, 10.0}, strangers_{20.0, 20.0, 1.0};
  std::jthread thread_;  // last: it is joined first
};

}  // namespace labelshift
