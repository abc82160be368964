#include "labelshift/engine/mpi/mpi_engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <exception>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/observer.hpp"
#include "labelshift/engine/in_process/worker_pool.hpp"
#include "labelshift/engine/mpi/mpi_messages.hpp"

namespace labelshift {
namespace {

using Clock = MpiContext::Clock;

constexpr std::chrono::milliseconds kAliveInterval{500};

/// The part of a cohort that is of the block.
std::span<const Addressee> part_of(std::span<const Addressee> cohort, NodeBlock block) {
  const auto before = [](const Addressee& one, Index node) { return one.node < node; };
  const auto first = std::lower_bound(cohort.begin(), cohort.end(), block.begin, before);
  const auto last = std::lower_bound(first, cohort.end(), block.end, before);
  return {first, last};
}

class MpiEngine : public Engine {
 public:
  MpiEngine(MpiContext& mpi, Index nodes, NodeProgramFactory make_program, MpiSettings settings)
      : mpi_(mpi), nodes_(nodes), settings_(settings), pool_(nodes, std::move(make_program), settings.workers) {}

  ~MpiEngine() override {
    if (lost_) return;
    try {
      Bytes message = to_bytes(MpiCall{.last = true});
      mpi_.broadcast({.serial = mpi_.next_serial()}, message, settings_.deadline);
    } catch (...) {
      mpi_.abort(4);  // nobody is left to tell
    }
  }

  Index nodes() const override { return nodes_; }

  CohortOutcome run(const Request& request, std::span<const Addressee> cohort, const AnswerTerms& terms,
                    const Patience& patience, const Observer& observer) override {
    try {
      return run_all(request, cohort, terms, patience, observer);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kPeer && settings_.on_lost) settings_.on_lost(error);
      throw;
    }
  }

 private:
  CohortOutcome run_all(const Request& request, std::span<const Addressee> cohort, const AnswerTerms& terms,
                        const Patience& patience, const Observer& observer) {
    check_cohort(cohort, nodes_);
    if (patience.quorum != 0 && patience.quorum < std::ssize(cohort))
      throw Error(ErrorKind::kUsage,
                  "over MPI every node of a round has to answer; drop the quorum, or use another engine");
    assert(!lost_);
    const std::uint64_t serial = mpi_.next_serial();
    const Clock::duration deadline = patience.give_up.value_or(settings_.deadline);
    bool stopped = false;
    std::exception_ptr observer_failure;
    double done = 0.0;
    Clock::time_point told = Clock::now(), said = told;
    const auto tell = [&] {
      if (Clock::now() - said > kAliveInterval) {  // to those who have answered and wait for what comes next
        mpi_.say_alive(serial, done);
        said = Clock::now();
      }
      if (!observer || stopped || observer_failure) return;
      told = Clock::now();
      try {
        stopped = !observer(/*stage=*/"", done);
      } catch (...) {
        observer_failure = std::current_exception();
      }
      if (stopped || observer_failure) mpi_.call_off(serial);
    };
    const auto meanwhile = [&] {
      if (Clock::now() - told > std::chrono::milliseconds(50)) tell();
    };
    MpiCall call{.words = terms.words,
                 .numbers = terms.numbers,
                 .weights = terms.weights,
                 .report = terms.report,
                 .cohort = {cohort.begin(), cohort.end()},
                 .request = request};
    Bytes message = to_bytes(call);
    lost_ = true;  // until everybody has answered
    mpi_.broadcast({.serial = serial, .round = request.round}, message, deadline, meanwhile);
    const std::vector<Index> whole = nodes_of(cohort);
    const std::span<const Addressee> own = part_of(cohort, block_of(nodes_, mpi_.ranks(), 0));
    const double share = cohort.empty() ? 1.0 : static_cast<double>(own.size()) / static_cast<double>(cohort.size());
    std::vector<BlockOutcome> blocks;
    try {
      blocks.push_back(pool_.run(request, own, whole, terms, {}, [&](std::string_view, double part) {
        done = share * part;
        tell();
        return !stopped && !observer_failure;
      }));
    } catch (const Stopped&) {
      // The others were told, and answer all the same.
    }
    const std::vector<Bytes> answers = mpi_.gather(serial, request.round, settings_.most_bytes, deadline, [&] {
      done = share + (1.0 - share) * mpi_.done_elsewhere(serial);
      meanwhile();
    });
    lost_ = false;
    int rank = 0;
    for (const Bytes& answer : answers) {
      auto reply = from_bytes<MpiReply>(answer);
      ++rank;
      if (!reply.broken.empty()) throw Error(ErrorKind::kPeer, fmt::format("rank {}: {}", rank, reply.broken));
      blocks.push_back(std::move(reply.outcome));
    }
    done = 1.0;
    tell();
    if (observer_failure) std::rethrow_exception(observer_failure);
    if (stopped) throw Stopped();
    return join_blocks(nodes_, whole, std::move(blocks));
  }

  MpiContext& mpi_;
  const Index nodes_;
  const MpiSettings settings_;
  WorkerPool pool_;
  bool lost_ = false;  // the other ranks are not where they should be: the job can only be aborted
};

}  // namespace

std::unique_ptr<Engine> make_mpi_engine(MpiContext& mpi, Index nodes, NodeProgramFactory make_program,
                                        MpiSettings settings) {
  assert(mpi.rank() == 0);
  return std::make_unique<MpiEngine>(mpi, nodes, std::move(make_program), std::move(settings));
}

void serve_mpi(MpiContext& mpi, Index nodes, NodeProgramFactory make_program, const AcceptAnswer& accept,
               MpiSettings settings) {
  assert(mpi.rank() > 0);
  WorkerPool pool(nodes, std::move(make_program), settings.workers);
  const NodeBlock block = block_of(nodes, mpi.ranks(), mpi.rank());
  const Clock::duration patience = settings.patience_of_others();
  Bytes message;
  for (;;) {
    const MpiEnvelope envelope = mpi.await_broadcast(message, settings.most_bytes, patience);
    const auto call = from_bytes<MpiCall>(message);
    if (call.last) return;
    MpiReply reply;
    Clock::time_point said = Clock::now();
    try {
      check_cohort(call.cohort, nodes);
      const AnswerTerms terms{.words = call.words,
                              .numbers = call.numbers,
                              .weights = call.weights,
                              .report = call.report,
                              .accept = [&](Index node, Answer& answer) {
                                if (accept) accept(call.request, node, answer);
                              }};
      reply.outcome = pool.run(call.request, part_of(call.cohort, block), nodes_of(call.cohort), terms, {},
                               [&](std::string_view, double done) {
                                 if (Clock::now() - said > kAliveInterval) {
                                   mpi.say_alive(envelope.serial, done);
                                   said = Clock::now();
                                 }
                                 return !mpi.is_called_off(envelope.serial);
                               });
    } catch (const Stopped&) {
      reply = {};  // rank 0 called it off and looks at nothing in it
    } catch (const std::exception& error) {
      reply = {.broken = error.what()};
    }
    mpi.send(envelope, to_bytes(reply), patience);
  }
}

}  // namespace labelshift
