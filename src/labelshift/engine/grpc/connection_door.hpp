#pragma once

#include <netdb.h>
#include <sys/types.h>

#include <functional>
#include <list>
#include <memory>
#include <mutex>
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
class ConnectionDoor {
 public:
  /// Is given a connection for good, non-blocking.
  using HandOn = std::function<void(int listener, int connection)>;
  /// Is told how many were closed since it was last told.
  using Closed = std::function<void(std::size_t connections)>;

  /// Listens, and takes nobody yet. Error{kSystem} if nobody can listen there.
  ConnectionDoor(const Endpoint& endpoint, std::size_t most);
  ~ConnectionDoor();
  int port() const { return port_; }

  void open(HandOn hand_on, Closed closed);
  /// Takes nobody any more. Connections stay.
  void close();

  /// Whether a connection is that of a node; `peer` is its other end as gRPC writes it.
  void set_known(const std::string& peer, bool known);

 private:
  struct Connection {
    int descriptor;
    ino_t inode;  // since gRPC closes it without a word, and the descriptor may be another's then
    std::string peer, host;
    bool known = false, closed = false;
    bool is_open() const;
  };
  bool listen_on(const addrinfo& address);
  void take(const std::stop_token& stop);
  bool make_room(const std::stop_token& stop, bool at_any_rate);
  std::size_t close_some();

  const std::size_t most_;
  int port_ = 0;
  std::vector<int> listeners_;
  HandOn hand_on_;
  Closed closed_;
  std::mutex mutex_;
  std::list<Connection> connections_;  // oldest first
  std::jthread thread_;                // last: it is joined first
};

/// How many connections there may be at a time, of `wanted`: this process must keep some files for others.
/// Error{kSystem} if it may not open enough for `nodes`.
std::size_t most_connections(std::size_t wanted, std::size_t nodes);

}  // namespace labelshift
