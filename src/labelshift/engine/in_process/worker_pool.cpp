#include "labelshift/engine/in_process/worker_pool.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <condition_variable>
#include <exception>
#include <iterator>
#include <mutex>
#include <thread>
#include <utility>

#include "labelshift/core/base/blas.hpp"
#include "labelshift/core/base/observer.hpp"

namespace labelshift {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kObserverInterval{50};

}  // namespace

std::vector<Index> nodes_of(std::span<const Addressee> cohort) {
  std::vector<Index> nodes;
  for (const Addressee& one : cohort) nodes.push_back(one.node);
  return nodes;
}

CohortOutcome join_blocks(Index nodes, std::span<const Index> whole, std::vector<BlockOutcome> blocks) {
  TreeSum sum(nodes, whole);
  CohortOutcome outcome;
  for (BlockOutcome& block : blocks) {
    for (RangeSum& range : block.sums) sum.add(std::move(range));
    std::move(block.contributed.begin(), block.contributed.end(), std::back_inserter(outcome.contributed));
    std::move(block.failed.begin(), block.failed.end(), std::back_inserter(outcome.failed));
    outcome.traffic += block.traffic;
  }
  outcome.sums = sum.take();
  return outcome;
}

/// One request on its way through a block of a cohort. All but the constants, `cancelled` and `sum` is under the pool's
/// lock.
class WorkerPool::Job {
 public:
  Job(const Request& request_, std::span<const Addressee> block, std::span<const Index> whole,
      const AnswerTerms& terms_, Index nodes, std::size_t quorum, std::size_t window, std::uint64_t serial_)
      : request(request_),
        cohort(block),
        terms(terms_),
        serial(serial_),
        sum(nodes, whole),
        quorum_(quorum),
        window_(window),
        bytes_(encoded_size(request_)),
        states_(block.size()) {}

  const Request& request;
  const std::span<const Addressee> cohort;
  const AnswerTerms& terms;
  const std::uint64_t serial;
  std::atomic<bool> cancelled = false;
  TreeSum sum;

  /// Positions are started in order, and none far ahead of one that has not answered: so many answers are in memory at
  /// most.
  bool may_start() const { return next_ < end_ && next_ < settled_ + window_; }
  bool finished() const { return running_ == 0 && next_ >= end_; }
  double done() const {
    return cohort.empty() ? 1.0 : static_cast<double>(answered_) / static_cast<double>(cohort.size());
  }
  bool has_quorum() const { return contributed_ >= quorum_; }

  std::size_t start() {
    ++running_;
    traffic_.down += bytes_ + encoded_size(cohort[next_]);
    return next_++;
  }
  void contribute(std::size_t position, Bytes report, std::uint64_t bytes) {
    states_[position].report = std::move(report);
    traffic_.up += bytes;
    ++contributed_;
    settle(position);
  }
  void fail(std::size_t position, NodeFailure failure) {
    states_[position].failure = std::move(failure);
    ++failed_;
    settle(position);
    // Those before this one have been started and run to their end, so that the first failure is that of the lowest
    // node, whichever came first.
    if (failed_ + quorum_ > cohort.size()) end_ = next_;
  }
  /// Starts nobody else and asks those who work to stop; `why` is what is said of them.
  void cancel(std::string why) {
    cancelled = true;
    end_ = next_;
    why_ = std::move(why);
    bystanders_ = false;
  }
  void fail_whole(std::exception_ptr broken) {
    broken_ = std::move(broken);
    end_ = next_;
  }
  BlockOutcome take_outcome() {
    if (broken_) std::rethrow_exception(broken_);
    BlockOutcome outcome{.traffic = traffic_};
    for (std::size_t i = end_; i < cohort.size(); ++i) {
      sum.skip(cohort[i].node);
      states_[i].failure = {cohort[i].node, ErrorKind::kPeer, ""};
    }
    for (std::size_t i = 0; i < cohort.size(); ++i) {
      if (!states_[i].failure) {
        outcome.contributed.push_back({cohort[i].node, std::move(states_[i].report)});
        continue;
      }
      if (states_[i].failure->sentence.empty()) {
        states_[i].failure->sentence = why_;
        states_[i].failure->bystander = bystanders_;
      }
      outcome.failed.push_back(std::move(*states_[i].failure));
    }
    outcome.sums = sum.take_ranges();
    return outcome;
  }

 private:
  struct State {
    bool settled = false;
    Bytes report;
    std::optional<NodeFailure> failure;
  };
  void settle(std::size_t position) {
    --running_;
    ++answered_;
    states_[position].settled = true;
    while (settled_ < states_.size() && states_[settled_].settled) ++settled_;
  }

  const std::size_t quorum_;
  const std::size_t window_;
  const std::uint64_t bytes_;        // of the request
  std::vector<State> states_;        // by position
  std::size_t end_ = cohort.size();  // of the positions that are to be started
  std::size_t next_ = 0;             // to be started
  std::size_t settled_ = 0;          // the first position that has not answered
  std::size_t running_ = 0;
  std::size_t answered_ = 0, contributed_ = 0, failed_ = 0;
  Traffic traffic_;
  std::exception_ptr broken_;
  std::string why_ = "it was not asked, since others failed";  // nothing came of those who cannot say it
  bool bystanders_ = true;                                     // these
};

WorkerPool::WorkerPool(Index nodes, NodeProgramFactory make_program, InProcessSettings settings)
    : nodes_(nodes),
      make_program_(std::move(make_program)),
      settings_(std::move(settings)),
      blas_threads_(blas_threads()) {
  unsigned workers = settings_.workers == 0 ? std::thread::hardware_concurrency() : settings_.workers;
  workers = static_cast<unsigned>(std::clamp<Index>(workers, 1, std::max<Index>(nodes, 1)));
  for (unsigned i = 0; i < workers; ++i) workers_.emplace_back([this](const std::stop_token& stop) { work(stop); });
}

WorkerPool::~WorkerPool() = default;

BlockOutcome WorkerPool::run(const Request& request, std::span<const Addressee> block, std::span<const Index> whole,
                             const AnswerTerms& terms, const Patience& patience, const Observer& observer) {
  const std::size_t all = block.size();
  const std::size_t quorum = patience.quorum == 0 ? all : std::min(all, static_cast<std::size_t>(patience.quorum));
  const Clock::time_point started = Clock::now();
  std::unique_lock lock(mutex_);
  Job job(request, block, whole, terms, nodes_, quorum, 2 * workers_.size(), ++serial_);
  assert(job_ == nullptr);
  job_ = &job;
  job_there_.notify_all();
  bool stopped = false;
  std::exception_ptr observer_failure;
  for (bool finished = false; !finished;) {
    finished = job_finished_.wait_for(lock, kObserverInterval, [&] { return job.finished(); });
    const Clock::duration waited = Clock::now() - started;
    if (!finished && !job.cancelled)
      for (const auto& limit : {job.has_quorum() ? patience.deadline : patience.give_up, patience.give_up})
        if (limit && waited >= *limit)
          job.cancel(
              fmt::format("it sent nothing for {}", std::chrono::duration_cast<std::chrono::milliseconds>(*limit)));
    if (!observer || stopped || observer_failure) continue;
    const double done = job.done();
    lock.unlock();
    try {
      stopped = !observer(/*stage=*/"", done);
    } catch (...) {
      observer_failure = std::current_exception();  // to be thrown once no worker needs the job any more
    }
    lock.lock();
    if (stopped || observer_failure) job.cancel("it was stopped before it answered");
  }
  job_ = nullptr;
  if (observer_failure) std::rethrow_exception(observer_failure);
  if (stopped) throw Stopped();
  return job.take_outcome();
}

void WorkerPool::work(const std::stop_token& stop) {
  bool prepared = false;
  std::unique_ptr<NodeProgram> program;
  std::unique_lock lock(mutex_);
  while (job_there_.wait(lock, stop, [this] { return job_ != nullptr && job_->may_start(); })) {
    Job& job = *job_;
    const std::size_t position = job.start();
    lock.unlock();
    const Addressee& to = job.cohort[position];
    std::optional<NodeFailure> failure;
    Answer answer;
    std::uint64_t bytes = 0;
    try {
      if (!prepared) {
        use_blas_threads(blas_threads_);
        if (settings_.prepare_thread) settings_.prepare_thread();
        prepared = true;
      }
      if (!program) program = make_program_();
      answer = program->run({to, job.request, job.serial, job.cancelled});
      bytes = encoded_size(answer);
      try {
        check_answer(to.node, answer, job.terms);
      } catch (...) {
        failure = failure_of_current_exception(to.node);
      }
    } catch (...) {
      failure = failure_of_current_exception(to.node);
      program.reset();  // who knows in what state it was left
    }
    std::exception_ptr broken;
    try {
      if (failure)
        job.sum.skip(to.node);
      else
        job.sum.add(to.node, std::move(answer.words), std::move(answer.numbers), std::move(answer.weights));
    } catch (...) {
      broken = std::current_exception();  // there is no memory for the sum
    }
    lock.lock();
    if (broken) job.fail_whole(broken);
    if (failure)
      job.fail(position, std::move(*failure));
    else
      job.contribute(position, std::move(answer.report), bytes);
    if (job.finished())
      job_finished_.notify_one();
    else if (job.may_start())
      job_there_.notify_all();
  }
}

}  // namespace labelshift
