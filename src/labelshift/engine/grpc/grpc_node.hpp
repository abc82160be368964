#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "labelshift/engine/engine.hpp"
#include "labelshift/engine/grpc/grpc_engine.hpp"

namespace labelshift {

/// A node of this process.
struct GrpcSeat {
  std::string name;                // under TLS it may be empty: it is that of the certificate
  std::optional<TlsIdentity> tls;  // without it the coordinator must be on a loopback address
};

struct GrpcNodeSettings {
  std::string connect;          // HOST:PORT of the coordinator; under TLS its certificate must be for that host
  std::vector<GrpcSeat> seats;  // usually one
  unsigned workers = 1;         // threads that answer, for all seats
  std::function<void()> prepare_thread;               // called on each of them before it computes anything
  std::string sent_log;                               // a file to which all that leaves is appended; empty: none
  std::uint64_t most_bytes = std::uint64_t{1} << 32;  // of a request, whatever its programs allow
  std::chrono::milliseconds first_pause{200};         // before it connects again; doubled each time, with jitter
  std::chrono::milliseconds longest_pause{10'000};    // the most it is doubled to
  std::chrono::milliseconds give_up_after{600'000};   // that the coordinator could not be reached
  std::chrono::milliseconds keepalive{20'000};        // as GrpcLimits
  std::chrono::milliseconds keepalive_timeout{20'000};
  std::chrono::milliseconds farewell{10'000};  // for gRPC to end, before it is left to itself
  GrpcLog log;                                 // connected, lost, refused and why
};

/// The programs of a run, one for each worker, and the most bytes that a request of it can have.
struct GrpcPrograms {
  GrpcPrograms(NodeProgramFactory make_, std::uint64_t most_bytes_ = std::numeric_limits<std::uint64_t>::max())
      : make(std::move(make_)), most_bytes(most_bytes_) {}
  NodeProgramFactory make;
  std::uint64_t most_bytes;
};

/// Until the programs of a run are there and say how long its requests can be. Of a longer one no more than the head,
/// with what comes with it, is read before that.
inline constexpr std::uint64_t kMostBytesAtFirst = std::uint64_t{1} << 20;

/// Called when a run is announced and a node of this process is first asked for it; what it throws is the node's
/// answer.
using GrpcProgramMaker = std::function<GrpcPrograms(const RunCard& card)>;

enum class GrpcEnd {
  kFinished,  // the coordinator said that nothing more is to do, to every seat
  kStopped,   // `stop` said so
};

/// The nodes' side: dials out, stays connected, comes back under the same identity after every loss, and answers what
/// it is asked, until one of GrpcEnd. `stop` is asked several times a second, on the calling thread.
///
/// Throws Error{kPeer} if a seat could not reach the coordinator for `give_up_after`, saying why; Error{kSystem} if
/// what leaves cannot be logged, in which case nothing leaves; Error{kInput} or Error{kUsage} for settings that cannot
/// be.
///
/// An answer is kept until another request comes: a node that is asked again after a lost connection sends it again.
GrpcEnd serve_grpc(const GrpcNodeSettings& settings, const GrpcProgramMaker& make_programs,
                   const std::function<bool()>& stop = {});

}  // namespace labelshift
