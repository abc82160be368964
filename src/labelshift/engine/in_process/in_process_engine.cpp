#include "labelshift/engine/in_process/in_process_engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "labelshift/core/blas.hpp"
#include "labelshift/core/error.hpp"
#include "labelshift/core/stopped.hpp"
#include "labelshift/engine/float_sums.hpp"

namespace labelshift {
namespace {

constexpr std::chrono::milliseconds kObserverInterval{50};

/// An update that a node has sent, and its size in bytes as it would travel.
struct Arrival {
  Update update;
  std::uint64_t bytes = 0;
  bool there = false;
};

/// One request on its way through a cohort. All but `request`, `cohort` and `cancelled` is under the engine's lock.
class Job {
 public:
  /// `window` is where updates wait for their turn; what an earlier job left there is memory to use again.
  Job(const Request& request_, std::span<const Index> cohort_, std::vector<Arrival>& window)
      : request(request_), cohort(cohort_), bytes_(encoded_size(request_)), window_(window) {
    for (Arrival& arrival : window_) arrival.there = false;
  }

  const Request& request;
  const std::span<const Index> cohort;
  std::atomic<bool> cancelled = false;

  /// Positions are started in order, and none before the one a window behind it is added: so many updates are in
  /// memory at most.
  bool may_start() const { return next_ < end_ && next_ < added_ + window_.size(); }
  bool finished() const { return running_ == 0 && next_ >= end_; }
  double done() const {
    return cohort.empty() ? 1.0 : static_cast<double>(added_) / static_cast<double>(cohort.size());
  }
  const std::exception_ptr& failure() const { return failure_; }

  std::size_t start() {
    ++running_;
    answer_.traffic.down += bytes_;
    return next_++;
  }
  /// Leaves other memory in `arrival`.
  void arrive(std::size_t position, Arrival& arrival) {
    --running_;
    arrival.there = true;
    if (position == added_) {  // nothing to wait for, so its memory is used again while it is in the cache
      add_next(arrival);
    } else {
      std::swap(window_[position % window_.size()], arrival);
    }
    while (window_[added_ % window_.size()].there && add_next(window_[added_ % window_.size()])) continue;
  }
  /// No more nodes are started. Those before this one have been and run to their end, so that the exception thrown is
  /// that of the lowest node, whichever came first.
  void fail(std::size_t position, std::exception_ptr failure) {
    --running_;
    give_up(position, std::move(failure));
  }
  void cancel() {
    cancelled = true;
    end_ = next_;
  }
  CohortAnswer take_answer() { return std::move(answer_); }

 private:
  void give_up(std::size_t position, std::exception_ptr failure) {
    end_ = next_;
    if (failure_ && failed_ < position) return;
    failed_ = position;
    failure_ = std::move(failure);
  }
  /// False if nothing more is to be added.
  bool add_next(Arrival& arrival) {
    if (failure_ && failed_ <= added_) return false;
    try {
      add_arrival(arrival);
    } catch (...) {
      give_up(added_, std::current_exception());
      return false;
    }
    arrival.there = false;
    ++added_;
    return true;
  }
  void add_arrival(Arrival& arrival) {
    auto& [numbers, weights, report] = arrival.update;
    if (added_ == 0) {
      answer_.numbers = numbers;
      answer_.weights = as_doubles(weights);
    } else {
      // Nodes are counted from 1 for people.
      if (numbers.size() != answer_.numbers.size() || weights.size() != answer_.weights.size())
        throw Error(ErrorKind::kPeer,
                    fmt::format("node {} sent {} numbers and {} weights, expected {} and {}, as node {} sent",
                                cohort[added_] + 1, numbers.size(), weights.size(), answer_.numbers.size(),
                                answer_.weights.size(), cohort[0] + 1));
      for (std::size_t i = 0; i < numbers.size(); ++i) answer_.numbers[i] += numbers[i];
      add_floats(weights, answer_.weights);
    }
    answer_.reports.push_back({cohort[added_], std::move(report)});
    answer_.traffic.up += arrival.bytes;
  }

  const std::uint64_t bytes_;        // of the request
  std::vector<Arrival>& window_;     // of positions [added_, added_ + its size), each modulo its size
  std::size_t end_ = cohort.size();  // of the positions that are to be started
  std::size_t next_ = 0;             // to be started
  std::size_t added_ = 0;
  std::size_t running_ = 0;
  CohortAnswer answer_;
  std::exception_ptr failure_;
  std::size_t failed_ = 0;  // the position of failure_
};

class InProcessEngine : public Engine {
 public:
  InProcessEngine(Index nodes, NodeProgramFactory make_program, InProcessSettings settings)
      : nodes_(nodes), make_program_(std::move(make_program)), settings_(std::move(settings)) {
    unsigned workers = settings_.workers == 0 ? std::thread::hardware_concurrency() : settings_.workers;
    workers = static_cast<unsigned>(std::clamp<Index>(workers, 1, std::max<Index>(nodes, 1)));
    window_.resize(2 * workers);
    for (unsigned i = 0; i < workers; ++i) workers_.emplace_back([this](const std::stop_token& stop) { work(stop); });
  }

  Index nodes() const override { return nodes_; }

  CohortAnswer run(const Request& request, std::span<const Index> cohort, const CohortObserver& observer) override {
    check(cohort);
    std::unique_lock lock(mutex_);
    Job job(request, cohort, window_);
    assert(job_ == nullptr);
    job_ = &job;
    job_there_.notify_all();
    bool stopped = false;
    std::exception_ptr observer_failure;
    for (bool finished = false; !finished;) {
      finished = job_finished_.wait_for(lock, kObserverInterval, [&] { return job.finished(); });
      if (!observer || stopped || observer_failure) continue;
      const double done = job.done();
      lock.unlock();
      try {
        stopped = !observer(done);
      } catch (...) {
        observer_failure = std::current_exception();  // to be thrown once no worker needs the job any more
      }
      lock.lock();
      if (stopped || observer_failure) job.cancel();
    }
    job_ = nullptr;
    if (observer_failure) std::rethrow_exception(observer_failure);
    if (stopped) throw Stopped();
    if (job.failure()) std::rethrow_exception(job.failure());
    return job.take_answer();
  }

 private:
  void check(std::span<const Index> cohort) const {
    for (std::size_t i = 0; i < cohort.size(); ++i) {
      if (cohort[i] < 0 || cohort[i] >= nodes_)
        throw Error(ErrorKind::kUsage,
                    fmt::format("the cohort has a node {}, but there are {}", cohort[i] + 1, nodes_));
      if (i > 0 && cohort[i] <= cohort[i - 1])
        throw Error(ErrorKind::kUsage,
                    fmt::format("node {} comes after node {} in the cohort, expected ascending order", cohort[i] + 1,
                                cohort[i - 1] + 1));
    }
  }

  void work(const std::stop_token& stop) {
    bool prepared = false;
    std::unique_ptr<NodeProgram> program;
    Arrival arrival;
    std::unique_lock lock(mutex_);
    while (job_there_.wait(lock, stop, [this] { return job_ != nullptr && job_->may_start(); })) {
      Job& job = *job_;
      const std::size_t position = job.start();
      lock.unlock();
      std::exception_ptr failure;
      try {
        if (!prepared) {
          use_blas_threads(blas_threads_);
          if (settings_.prepare_thread) settings_.prepare_thread();
          prepared = true;
        }
        if (!program) program = make_program_();
        arrival.update = {};  // so that the next one has its memory
        arrival.update = program->run(job.cohort[position], job.request, job.cancelled);
        arrival.bytes = encoded_size(arrival.update);
      } catch (...) {
        failure = std::current_exception();
        program.reset();  // who knows in what state it was left
      }
      lock.lock();
      if (failure) {
        job.fail(position, std::move(failure));
      } else {
        job.arrive(position, arrival);
      }
      if (job.finished()) {
        job_finished_.notify_one();
      } else if (job.may_start()) {
        job_there_.notify_all();
      }
    }
  }

  const Index nodes_;
  const NodeProgramFactory make_program_;
  const InProcessSettings settings_;
  const int blas_threads_ = blas_threads();  // of the maker's thread: bits must not depend on who computes
  std::mutex mutex_;
  std::condition_variable_any job_there_;
  std::condition_variable job_finished_;
  Job* job_ = nullptr;  // while run() waits
  std::vector<Arrival> window_;
  std::vector<std::jthread> workers_;  // last: they are stopped and joined before anything else goes
};

}  // namespace

std::unique_ptr<Engine> make_in_process_engine(Index nodes, NodeProgramFactory make_program,
                                               InProcessSettings settings) {
  return std::make_unique<InProcessEngine>(nodes, std::move(make_program), std::move(settings));
}

}  // namespace labelshift
