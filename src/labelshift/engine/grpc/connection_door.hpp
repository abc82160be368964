#pragma once

#include <netdb.h>
#include <poll.h>
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "labelshift/engine/grpc/endpoint.hpp"

namespace labelshift {

/// Listens, and hands connections on, of which there are never more than so many. gRPC takes every connection until
/// the process may open no more files, and then listens no longer.
///
/// Where one more would be too many, one is closed that is not known: of the address that has the most of these, the
/// oldest. So a stranger who opens connections pushes out his own before those of nodes that are just dialling.
///
/// Where TLS is expected, a connection is handed on once it has said its first words, which are looked at and left to
/// be read: gRPC refuses who speaks no TLS, or none that is new enough, without a word to anybody.
class ConnectionDoor {
 public:
  /// What becomes of connections. All are called on one thread; what they throw is lost.
  struct Calls {
    /// Is given a connection for good, non-blocking.
    std::function<void(int listener, int connection)> hand_on;
    /// Is told how many were closed since it was last told.
    std::function<void(std::size_t connections)> closed;
    /// Is told who is refused for his first words and why, `peer` being written as gRPC does.
    std::function<void(const std::string& peer, const std::string& why)> refused;
  };

  /// Listens, and takes nobody yet. With `tls_within` a connection has so long to begin with TLS. Error{kSystem} if
  /// nobody can listen there.
  ConnectionDoor(const Endpoint& endpoint, std::size_t most,
                 std::optional<std::chrono::milliseconds> tls_within = std::nullopt);
  ~ConnectionDoor();
  int port() const { return port_; }

  void open(Calls calls);
  /// Takes nobody any more. Connections stay.
  void close();

  /// Whether a connection is that of a node; `peer` is its other end as gRPC writes it.
  void set_known(const std::string& peer, bool known);

 private:
  using Clock = std::chrono::steady_clock;
  struct Connection {
    int listener, descriptor;
    ino_t inode;  // since gRPC closes it without a word, and the descriptor may be another's then
    std::string peer, host;
    std::optional<Clock::time_point> silent_until = std::nullopt;  // it has not been handed on
    bool known = false, closed = false;
    bool is_open() const;
  };
  using Connections = std::list<Connection>;  // only the thread adds and removes
  bool listen_on(const addrinfo& address);
  void take(const std::stop_token& stop);
  void take_some(const std::stop_token& stop);
  void add(int listener, int connection);
  void hear(std::span<const pollfd> silent);
  void hand_on(Connections::iterator one);
  void forget(Connections::iterator one);
  bool make_room(const std::stop_token& stop, bool at_any_rate);
  std::size_t close_some();

  const std::size_t most_;
  const std::optional<std::chrono::milliseconds> tls_within_;
  int port_ = 0;
  std::vector<int> listeners_;
  Calls calls_;
  std::mutex mutex_;
  Connections connections_;  // oldest first
  std::jthread thread_;      // last: it is joined first
};

/// How many connections there may be at a time, of `wanted`: this process must keep some files for others.
/// Error{kSystem} if it may not open enough for `nodes`.
std::size_t most_connections(std::size_t wanted, std::size_t nodes);

}  // namespace labelshift
