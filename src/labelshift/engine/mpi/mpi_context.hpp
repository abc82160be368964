#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "labelshift/engine/wire.hpp"

namespace labelshift {

/// What a message over MPI belongs to. It travels in front of the message, with its length, and both are checked before
/// anything is allocated.
struct MpiEnvelope {
  std::uint64_t serial = 0;  // of the exchange
  std::uint64_t round = 0;   // of training
};

/// This process as one rank of an MPI job. One object a process, made before and destroyed after everything that uses
/// it; only the thread that made it may call it. Rank 0 is the coordinator's.
///
/// All waits have a deadline: they throw Error{kPeer} naming the rank that nothing came from. They look several times a
/// millisecond, then sleep for longer and longer, up to one, so that ranks may be more than there are cores.
class MpiContext {
 public:
  /// Throws Error{kSystem} if MPI does not start, or lets no thread but this one run.
  MpiContext();
  /// Ends MPI if finish() was called, and the whole job otherwise: a rank that leaves alone would hang all others.
  ~MpiContext();
  MpiContext(const MpiContext&) = delete;
  MpiContext& operator=(const MpiContext&) = delete;

  int rank() const;
  int ranks() const;

  /// Rank 0: a number for the next exchange that no other exchange of this job has.
  std::uint64_t next_serial();

  using Clock = std::chrono::steady_clock;
  /// Called now and then while nothing comes.
  using Meanwhile = std::function<void()>;

  /// Rank 0: gives every other rank the same message.
  void broadcast(const MpiEnvelope& envelope, Bytes& message, Clock::duration deadline,
                 const Meanwhile& meanwhile = {});
  /// The other ranks: waits for it. `most` is how many bytes it may have. The deadline is for silence: it begins anew
  /// whenever rank 0 says that it is alive.
  MpiEnvelope await_broadcast(Bytes& message, std::uint64_t most, Clock::duration deadline);

  /// A message to rank 0.
  void send(const MpiEnvelope& envelope, Bytes message, Clock::duration deadline);
  /// Tells rank 0, or rank 0 all others, that this rank is at work on an exchange, and how far it is.
  void say_alive(std::uint64_t serial, double done);
  /// Rank 0: one message of every other rank, by rank from 1. All are of the exchange `serial`. The deadline is for
  /// silence: it begins anew whenever a rank says that it is alive.
  std::vector<Bytes> gather(std::uint64_t serial, std::uint64_t round, std::uint64_t most, Clock::duration deadline,
                            const Meanwhile& meanwhile = {});

  /// Rank 0: how much of this exchange the other ranks have done, as far as they said, from 0 to 1.
  double done_elsewhere(std::uint64_t serial) const;

  /// Rank 0 asks all others to stop what they do for this exchange.
  void call_off(std::uint64_t serial);
  /// Whether it did.
  bool is_called_off(std::uint64_t serial);

  /// To be called by every rank at the end, when all is well. Waits for the others.
  void finish(Clock::duration deadline);

  /// Ends the whole job with this exit status.
  [[noreturn]] void abort(int status);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace labelshift
