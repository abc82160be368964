#pragma once

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <list>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace labelshift {

/// Stands between nodes and a coordinator on this machine, and does to their bytes what networks do.
class FaultyProxy {
 public:
  /// `to` is 127.0.0.1:PORT.
  explicit FaultyProxy(const std::string& to) : to_(std::stoi(to.substr(to.find(':') + 1))) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in own = loopback(0);
    socklen_t size = sizeof own;
    if (::bind(listener_, reinterpret_cast<sockaddr*>(&own), size) != 0 || ::listen(listener_, 64) != 0 ||
        ::getsockname(listener_, reinterpret_cast<sockaddr*>(&own), &size) != 0)
      throw std::runtime_error("no proxy");
    port_ = ntohs(own.sin_port);
    accepting_ = std::jthread([this](const std::stop_token& stop) { accept(stop); });
  }
  ~FaultyProxy() {
    accepting_.request_stop();
    accepting_.join();
    pipes_.clear();
    ::close(listener_);
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  /// Every piece of a stream comes so much later.
  std::atomic<int> delay_ms = 0;
  /// Of each stream; 0: as fast as it gets.
  std::atomic<int> bytes_a_second = 0;
  /// Nothing passes, in neither direction, and nobody gets in; connections stay.
  std::atomic<bool> cut = false;
  /// So many connections are reset, each as soon as `reset_after` bytes of it went up to the coordinator.
  std::atomic<int> resets = 0;
  std::atomic<int> reset_after = 0;

  std::atomic<int> connections = 0;  // so far
  std::atomic<int> were_reset = 0;

 private:
  static sockaddr_in loopback(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }
  static bool can_read(int descriptor) {
    pollfd one{descriptor, POLLIN, 0};
    return ::poll(&one, 1, /*ms*/ 20) > 0;
  }

  /// A connection: both its sockets, and a thread for each direction.
  struct Pipe {
    int node = -1, coordinator = -1;
    std::atomic<bool> over = false;
    std::vector<std::jthread> threads;
    ~Pipe() {
      over = true;
      threads.clear();
      ::close(node);
      ::close(coordinator);
    }
  };

  void accept(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::erase_if(pipes_, [](const auto& old) { return old->over.load(); });
      if (cut) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      if (cut || !can_read(listener_)) continue;
      auto pipe = std::make_unique<Pipe>();
      pipe->node = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      pipe->coordinator = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      const sockaddr_in there = loopback(to_);
      ++connections;
      if (::connect(pipe->coordinator, reinterpret_cast<const sockaddr*>(&there), sizeof there) != 0) continue;
      const timeval patience{0, 50'000};  // so that a thread that sends sees when all is over
      for (const int socket : {pipe->node, pipe->coordinator})
        ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
      Pipe& one = *pipe;
      one.threads.emplace_back([this, &one] { pass(one, one.node, one.coordinator, /*up=*/true); });
      one.threads.emplace_back([this, &one] { pass(one, one.coordinator, one.node, /*up=*/false); });
      pipes_.push_back(std::move(pipe));
    }
  }

  /// Whether one was left.
  bool take_a_reset() {
    int left = resets;
    while (left > 0 && !resets.compare_exchange_weak(left, left - 1)) continue;
    return left > 0;
  }

  void pass(Pipe& pipe, int from, int to, bool up) {
    std::vector<char> piece(16384);
    long passed = 0;
    while (!pipe.over) {
      if (cut) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        continue;
      }
      if (!can_read(from)) continue;
      const int rate = bytes_a_second;
      const ssize_t size = ::recv(from, piece.data(), rate > 0 ? 2048 : piece.size(), 0);
      if (size <= 0) break;
      if (rate > 0) std::this_thread::sleep_for(std::chrono::microseconds(1'000'000 * size / rate));
      if (delay_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(delay_ms));
      while (cut && !pipe.over) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      passed += size;
      if (up && passed > reset_after && take_a_reset()) {
        ++were_reset;
        ::send(to, piece.data(), static_cast<std::size_t>(size / 2), MSG_NOSIGNAL);
        // Closed with these, both ends see a reset, and no orderly end.
        const linger at_once{1, 0};
        ::setsockopt(from, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        ::setsockopt(to, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        pipe.over = true;
        return;
      }
      for (ssize_t at = 0; at < size && !pipe.over;) {
        const ssize_t sent = ::send(to, piece.data() + at, static_cast<std::size_t>(size - at), MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN) break;
        at += std::max<ssize_t>(sent, 0);
      }
    }
    if (!pipe.over) {
      ::shutdown(from, SHUT_RDWR);
      ::shutdown(to, SHUT_RDWR);
    }
    pipe.over = true;
  }

  const int to_;
  int listener_ = -1, port_ = 0;
  std::list<std::unique_ptr<Pipe>> pipes_;  // of the thread that accepts
  std::jthread accepting_;
};

}  // namespace labelshift
