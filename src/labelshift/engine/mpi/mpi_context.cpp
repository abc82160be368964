#include "labelshift/engine/mpi/mpi_context.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdlib>
#include <thread>

#include "labelshift/core/base/error.hpp"

namespace labelshift {
namespace {

constexpr int kAnswerTag = 1, kAnswerBodyTag = 2, kCallOffTag = 3, kAliveTag = 4;
constexpr std::uint64_t kMostAtOnce = 1u << 30;  // MPI counts in int
constexpr int kAbandoned = 4;                    // the exit status of a job that a rank left

/// Sleeps longer and longer, up to a millisecond: the first thousand looks cost no sleep.
class Backoff {
 public:
  void pause() {
    if (++looks_ < 1000) return std::this_thread::yield();
    std::this_thread::sleep_for(pause_);
    pause_ = std::min(pause_ * 2, std::chrono::microseconds(1000));
  }

 private:
  int looks_ = 0;
  std::chrono::microseconds pause_{20};
};

std::string seconds_text(MpiContext::Clock::duration time) {
  return fmt::format("{}", std::chrono::duration_cast<std::chrono::seconds>(time));
}

}  // namespace

struct MpiContext::State {
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0;
  int ranks = 1;
  bool finished = false;
  std::vector<MPI_Request> call_offs;  // on their way
  std::uint64_t call_off_serial = 0;   // what they say, while they are
  std::uint64_t called_off = 0;        // the last exchange that was
  struct Alive {
    std::uint64_t serial;
    double done;
  };
  Alive alive{};                            // what is said, while it is on its way
  std::vector<MPI_Request> alive_requests;  // to rank 0, or from there to each
  std::uint64_t serial = 0;                 // of the last exchange that rank 0 began
  struct Heard {
    Clock::time_point when;
    Alive what;
  };
  std::vector<Heard> heard;  // by rank
  /// What stands in front of a message, while it is on its way.
  std::array<std::uint64_t, 3> header{};
  /// A message that somebody did not take in time. MPI goes on reading or writing its memory until the job has ended.
  Bytes abandoned;

  void listen() {
    for (int there = 1; there;) {
      MPI_Status status;
      MPI_Iprobe(MPI_ANY_SOURCE, kAliveTag, comm, &there, &status);
      if (!there) return;
      Heard& from = heard[static_cast<std::size_t>(status.MPI_SOURCE)];
      MPI_Recv(&from.what, sizeof from.what, MPI_BYTE, status.MPI_SOURCE, kAliveTag, comm, MPI_STATUS_IGNORE);
      from.when = Clock::now();
    }
  }

  /// Waits for a request of MPI's; false if `until` was past first, and then nothing more can be done with the job.
  template <typename Until>
  static bool wait(MPI_Request& request, const Until& until, const Meanwhile& meanwhile) {
    Backoff backoff;
    for (int there = 0;;) {
      MPI_Test(&request, &there, MPI_STATUS_IGNORE);
      if (there) return true;
      if (Clock::now() >= until()) return false;
      if (meanwhile) meanwhile();
      backoff.pause();
    }
  }

  /// Waits until what call_off() sent is on its way; it is so small that MPI takes it at once.
  void end_call_offs() {
    constexpr std::chrono::seconds kLong{60};
    for (MPI_Request& request : call_offs)
      if (!wait(request, [end = Clock::now() + kLong] { return end; }, {}))
        throw Error(ErrorKind::kPeer, "a rank took no message for 60 s; look whether all machines of the job are up");
  }

  /// The same for the parts of a message that is larger than MPI can count.
  template <typename Until, typename Start>
  bool transfer(Bytes& bytes, const Until& until, const Meanwhile& meanwhile, const Start& start) {
    for (std::uint64_t at = 0; at < bytes.size(); at += kMostAtOnce) {
      MPI_Request request = MPI_REQUEST_NULL;
      start(bytes.data() + at, static_cast<int>(std::min<std::uint64_t>(kMostAtOnce, bytes.size() - at)), &request);
      if (wait(request, until, meanwhile)) continue;
      abandoned = std::move(bytes);
      return false;
    }
    return true;
  }
};

MpiContext::MpiContext() : state_(std::make_unique<State>()) {
  int started = 0, provided = MPI_THREAD_SINGLE;
  MPI_Initialized(&started);
  if (started || MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS)
    throw Error(ErrorKind::kSystem, "MPI cannot be started; start the program by mpirun, once in a process");
  if (provided < MPI_THREAD_FUNNELED)
    throw Error(ErrorKind::kSystem, "this MPI allows no threads; install one that does, such as Debian's OpenMPI");
  MPI_Comm_dup(MPI_COMM_WORLD, &state_->comm);
  MPI_Comm_rank(state_->comm, &state_->rank);
  MPI_Comm_size(state_->comm, &state_->ranks);
  state_->heard.resize(static_cast<std::size_t>(state_->ranks));
  state_->alive_requests.assign(static_cast<std::size_t>(rank() == 0 ? ranks() - 1 : 1), MPI_REQUEST_NULL);
}

MpiContext::~MpiContext() {
  if (!state_->finished) MPI_Abort(MPI_COMM_WORLD, kAbandoned);
  MPI_Comm_free(&state_->comm);
  MPI_Finalize();
}

int MpiContext::rank() const {
  return state_->rank;
}

int MpiContext::ranks() const {
  return state_->ranks;
}

std::uint64_t MpiContext::next_serial() {
  assert(rank() == 0);
  return ++state_->serial;
}

void MpiContext::broadcast(const MpiEnvelope& envelope, Bytes& message, Clock::duration deadline,
                           const Meanwhile& meanwhile) {
  assert(rank() == 0);
  const auto until = [end = Clock::now() + deadline] { return end; };
  state_->header = {envelope.serial, envelope.round, message.size()};
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibcast(state_->header.data(), 3, MPI_UINT64_T, 0, state_->comm, &request);
  const bool taken = state_->wait(request, until, meanwhile) &&
                     state_->transfer(message, until, meanwhile, [&](std::byte* data, int count, MPI_Request* part) {
                       MPI_Ibcast(data, count, MPI_BYTE, 0, state_->comm, part);
                     });
  if (!taken)
    throw Error(ErrorKind::kPeer,
                fmt::format("a rank took nothing for {} in round {}; look whether all machines of the "
                            "job are up",
                            seconds_text(deadline), envelope.round));
}

MpiEnvelope MpiContext::await_broadcast(Bytes& message, std::uint64_t most, Clock::duration deadline) {
  const auto until = [&, start = Clock::now()] { return std::max(start, state_->heard[0].when) + deadline; };
  const auto listen = [&] { state_->listen(); };
  const auto& header = state_->header;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibcast(state_->header.data(), 3, MPI_UINT64_T, 0, state_->comm, &request);
  const auto silent = [&] {
    return Error(ErrorKind::kPeer,
                 fmt::format("rank 0 sent nothing for {}; look whether its machine is up", seconds_text(deadline)));
  };
  if (!state_->wait(request, until, listen)) throw silent();
  if (header[2] > most)
    throw Error(
        ErrorKind::kPeer,
        fmt::format("rank 0 announces {} bytes, expected at most {}; do all ranks run this version, on the same "
                    "experiment?",
                    header[2], most));
  message.resize(header[2]);
  if (!state_->transfer(message, until, listen, [&](std::byte* data, int count, MPI_Request* part) {
        MPI_Ibcast(data, count, MPI_BYTE, 0, state_->comm, part);
      }))
    throw silent();
  return {.serial = header[0], .round = header[1]};
}

void MpiContext::send(const MpiEnvelope& envelope, Bytes message, Clock::duration deadline) {
  assert(rank() > 0);
  const auto until = [end = Clock::now() + deadline] { return end; };
  state_->header = {envelope.serial, envelope.round, message.size()};
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Isend(state_->header.data(), 3, MPI_UINT64_T, 0, kAnswerTag, state_->comm, &request);
  const bool taken = state_->wait(request, until, {}) &&
                     state_->transfer(message, until, {}, [&](std::byte* data, int count, MPI_Request* part) {
                       MPI_Isend(data, count, MPI_BYTE, 0, kAnswerBodyTag, state_->comm, part);
                     });
  if (!taken)
    throw Error(ErrorKind::kPeer, fmt::format("rank 0 took nothing for {} in round {}; look whether its machine is up",
                                              seconds_text(deadline), envelope.round));
}

void MpiContext::say_alive(std::uint64_t serial, double done) {
  int taken = 0;
  MPI_Testall(static_cast<int>(state_->alive_requests.size()), state_->alive_requests.data(), &taken,
              MPI_STATUSES_IGNORE);
  if (!taken) return;
  state_->alive = {serial, done};
  int to = rank() == 0 ? 1 : 0;
  for (MPI_Request& request : state_->alive_requests)
    MPI_Isend(&state_->alive, sizeof state_->alive, MPI_BYTE, to++, kAliveTag, state_->comm, &request);
}

double MpiContext::done_elsewhere(std::uint64_t serial) const {
  double done = 0.0;
  for (const State::Heard& one : state_->heard)
    if (one.what.serial == serial) done += one.what.done;
  return ranks() > 1 ? done / (ranks() - 1) : 1.0;
}

std::vector<Bytes> MpiContext::gather(std::uint64_t serial, std::uint64_t round, std::uint64_t most,
                                      Clock::duration deadline, const Meanwhile& meanwhile) {
  assert(rank() == 0);
  std::vector<Bytes> messages(static_cast<std::size_t>(ranks() - 1));
  const Clock::time_point start = Clock::now();
  const auto listen_and_more = [&] {
    state_->listen();
    if (meanwhile) meanwhile();
  };
  for (int from = 1; from < ranks(); ++from) {
    const auto silent = [&] {
      return Error(ErrorKind::kPeer, fmt::format("rank {} sent nothing for {} in round {}; look whether its machine is "
                                                 "up, or allow more time",
                                                 from, seconds_text(deadline), round));
    };
    const auto until = [&] { return std::max(start, state_->heard[static_cast<std::size_t>(from)].when) + deadline; };
    const auto& header = state_->header;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Irecv(state_->header.data(), 3, MPI_UINT64_T, from, kAnswerTag, state_->comm, &request);
    if (!state_->wait(request, until, listen_and_more)) throw silent();
    if (header[0] != serial || header[1] != round)
      throw Error(ErrorKind::kPeer, fmt::format("rank {} answers exchange {} in round {}, expected {} in {}; do all "
                                                "ranks run this version, on the same experiment?",
                                                from, header[0], header[1], serial, round));
    if (header[2] > most)
      throw Error(ErrorKind::kPeer,
                  fmt::format("rank {} announces {} bytes in round {}, expected at most {}; do all ranks run this "
                              "version, on the same experiment?",
                              from, header[2], round, most));
    Bytes& message = messages[static_cast<std::size_t>(from - 1)];
    message.resize(header[2]);
    if (!state_->transfer(message, until, listen_and_more, [&](std::byte* data, int count, MPI_Request* part) {
          MPI_Irecv(data, count, MPI_BYTE, from, kAnswerBodyTag, state_->comm, part);
        }))
      throw silent();
  }
  return messages;
}

void MpiContext::call_off(std::uint64_t serial) {
  assert(rank() == 0);
  if (state_->call_off_serial == serial) return;
  state_->end_call_offs();
  state_->call_offs.assign(static_cast<std::size_t>(ranks() - 1), MPI_REQUEST_NULL);
  state_->call_off_serial = serial;
  for (int to = 1; to < ranks(); ++to)
    MPI_Isend(&state_->call_off_serial, 1, MPI_UINT64_T, to, kCallOffTag, state_->comm,
              &state_->call_offs[static_cast<std::size_t>(to - 1)]);
}

bool MpiContext::is_called_off(std::uint64_t serial) {
  assert(rank() > 0);
  for (int there = 1; there;) {  // those of exchanges that had ended before they came are taken too
    MPI_Iprobe(0, kCallOffTag, state_->comm, &there, MPI_STATUS_IGNORE);
    if (there) MPI_Recv(&state_->called_off, 1, MPI_UINT64_T, 0, kCallOffTag, state_->comm, MPI_STATUS_IGNORE);
  }
  return state_->called_off == serial;
}

void MpiContext::finish(Clock::duration deadline) {
  if (rank() > 0) is_called_off(0);  // takes what is still on its way
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibarrier(state_->comm, &request);
  if (!state_->wait(
          request, [end = Clock::now() + deadline] { return end; },
          [this] {
            state_->listen();
            if (rank() > 0) is_called_off(0);
          }))
    throw Error(ErrorKind::kPeer,
                fmt::format("a rank did not end within {}; look whether all machines of the job are up",
                            seconds_text(deadline)));
  if (rank() == 0) state_->end_call_offs();
  state_->finished = true;
}

void MpiContext::abort(int status) {
  MPI_Abort(MPI_COMM_WORLD, status);
  std::_Exit(status);
}

}  // namespace labelshift
