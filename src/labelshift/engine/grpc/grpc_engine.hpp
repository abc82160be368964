#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "labelshift/engine/engine.hpp"
#include "labelshift/engine/grpc/run_card.hpp"
#include "labelshift/engine/grpc/tls_identity.hpp"

namespace labelshift {

/// One line without its end, fit for a terminal. Called on one thread of the engine, never on several at once. It must
/// not throw; what it throws is lost.
using GrpcLog = std::function<void(const std::string& line)>;

/// What a peer can make the coordinator bear.
struct GrpcLimits {
  std::uint64_t most_bytes = std::uint64_t{1} << 32;      // of an answer, whatever the terms of a call allow
  std::uint64_t most_receiving = std::uint64_t{1} << 28;  // of answers on their way at a time; others wait for their
                                                          // turn, but for 256 KiB of each. As much again of those
                                                          // that stopped on their way
  std::size_t most_streams = 0;                           // at a time; 0: twice as many as there are nodes, and 8
  std::size_t most_connections = 0;                       // at a time; 0: twice as many as there are nodes, and 64
  std::chrono::milliseconds handshake{10'000};            // until a connection has said who it is
  std::chrono::milliseconds keepalive{20'000};            // a silent connection is probed this often
  std::chrono::milliseconds keepalive_timeout{20'000};    // and closed if nothing comes for so long
  std::chrono::milliseconds farewell{10'000};             // for gRPC to end, before it is left to itself
};

struct GrpcSettings {
  std::string listen = "127.0.0.1:0";  // HOST:PORT; port 0: any that is free
  std::optional<TlsIdentity> tls;      // without it nothing is encrypted, which is for loopback addresses alone
  std::vector<std::string> names;      // node k is names[k]: the common name of its certificate
  GrpcLimits limits;
  unsigned workers = 0;  // threads that check answers and add them up; 0: one a core
  GrpcLog log;           // who joined, who left, who was refused and why
};

/// A node as the coordinator sees it.
struct GrpcNodeStatus {
  std::string name;
  bool allowed = true;  // not locked out
  bool connected = false;
  std::string address;   // while it is connected
  bool awaited = false;  // run() waits for its answer
};

struct GrpcStatus {
  std::vector<GrpcNodeStatus> nodes;  // by number
  Traffic traffic;                    // of all messages since the start, also of those that came to nothing
  std::uint64_t refused = 0;          // connections and messages
};

/// Nodes that dial in over gRPC. The coordinator listens from its construction on. run() asks every node of a cohort
/// that is connected, and those who come later as they come, for as long as its patience lasts. A node that falls out
/// and comes back is asked again, with the same serial; whatever it sends, it counts once. Where there is a deadline,
/// a node that was away from the beginning is not waited for once a quorum and all who were asked have answered.
///
/// Nobody is believed: under TLS a node is who its certificate says, lengths are checked before anything is allocated,
/// and what breaks the protocol ends the stream of its node, which has failed. All members may be called on any thread,
/// but run() by one at a time.
class GrpcEngine : public Engine {
 public:
  /// HOST:PORT that it listens on, with the port's real number.
  virtual std::string address() const = 0;

  /// Sent to all who are connected and to everybody who connects later. Error{kUsage} while run() is at work, or if a
  /// part is too long. Until it is called nodes are told nothing and run() has nobody to ask.
  virtual void announce(const RunCard& card) = 0;

  /// Ends the node's stream and refuses it from now on; a run() that waits for it goes on without it. Error{kUsage} if
  /// no node has that name.
  virtual void lock_out(const std::string& name) = 0;
  virtual void readmit(const std::string& name) = 0;

  virtual GrpcStatus status() const = 0;

  /// Tells all nodes, for at most so long, that nothing more is to do, so that they end. An engine that is destroyed
  /// without it only leaves them, and they look for another on the same address.
  virtual void finish(std::chrono::milliseconds patience = std::chrono::seconds(5)) = 0;
};

/// Throws Error{kUsage} for settings that cannot be, Error{kInput} for certificates that do not belong together, and
/// Error{kSystem} if nobody can listen on that address.
std::unique_ptr<GrpcEngine> make_grpc_engine(GrpcSettings settings);

}  // namespace labelshift
