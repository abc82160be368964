#include "labelshift/experiments/mpi/mpi_runs.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <exception>
#include <filesystem>

#include "labelshift/core/base/error.hpp"
#include "labelshift/experiments/experiment_file.hpp"
#include "labelshift/experiments/mpi/run_messages.hpp"
#include "labelshift/federation/acceptance.hpp"
#include "labelshift/federation/memory_transfer.hpp"
#include "labelshift/federation/node_program.hpp"

namespace labelshift {
namespace {

/// A run that somebody else cannot take part in.
struct GivenUp {};

/// Rank 0's words to all, and its ear.
class Speaker {
 public:
  Speaker(MpiContext& mpi, const MpiSettings& settings) : mpi_(mpi), settings_(settings) {}

  template <typename Message>
  std::uint64_t tell(const Message& message) const {
    const std::uint64_t serial = mpi_.next_serial();
    watched([&] {
      Bytes bytes = to_bytes(message);
      mpi_.broadcast({.serial = serial}, bytes, settings_.deadline);
    });
    return serial;
  }

  std::vector<FoundData> hear(std::uint64_t serial) const {
    std::vector<FoundData> found;
    watched([&] {
      for (const Bytes& bytes : mpi_.gather(serial, 0, settings_.most_bytes, settings_.deadline))
        found.push_back(from_bytes<FoundData>(bytes));
    });
    return found;
  }

  /// What another rank did wrong ends the job.
  template <typename Work>
  void watched(const Work& work) const {
    try {
      work();
    } catch (const Error& error) {
      if (settings_.on_lost) settings_.on_lost(error);
      throw;
    }
  }

  MpiContext& mpi() const { return mpi_; }
  const MpiSettings& settings() const { return settings_; }

 private:
  MpiContext& mpi_;
  const MpiSettings& settings_;
};

class MpiNodes : public RunNodes {
 public:
  MpiNodes(const Speaker& speaker, const RunTask& task) : speaker_(speaker) {
    const std::uint64_t serial = speaker_.tell(NextRun{.settings_file = task.settings_file});
    bool shared = false;
    const auto share = [&](std::vector<DataFacts> own) {
      shared = true;
      return share_facts(serial, std::move(own));
    };
    try {
      const NodeBlock block = block_of(node_count(task.settings.data), speaker_.mpi().ranks(), 0);
      data_ = make_federated_data(task.settings.data, task.settings.federation.seed, block, share);
    } catch (...) {
      if (shared) {
        speaker_.tell(StartRun{});
      } else {
        speaker_.hear(serial);
        speaker_.tell(AllData{.broken = true});
      }
      throw;
    }
  }

  ~MpiNodes() override {
    if (!started_) speaker_.tell(StartRun{});
  }

  const FederatedData& data() const override { return data_; }

  std::unique_ptr<Engine> start(const FederationSettings& settings, NodeStore& store) override {
    started_ = true;
    speaker_.tell(StartRun{.go = true, .source_holdout = settings.source_holdout});
    auto engine =
        make_mpi_engine(speaker_.mpi(), std::ssize(data_.nodes),
                        with_memory_transfer(make_node_programs(settings, data_, store), store), speaker_.settings());
    give_memories(*engine, store);
    return engine;
  }

  void collect(Engine& engine, NodeStore& store) override { collect_memories(engine, store); }

 private:
  std::vector<DataFacts> share_facts(std::uint64_t serial, std::vector<DataFacts> own) const {
    AllData all{.facts = std::move(own)};
    int rank = 0;
    for (FoundData& found : speaker_.hear(serial)) {
      ++rank;
      speaker_.watched([&] {
        if (!found.broken.empty()) throw Error(ErrorKind::kPeer, fmt::format("rank {}: {}", rank, found.broken));
      });
      std::move(found.facts.begin(), found.facts.end(), std::back_inserter(all.facts));
    }
    speaker_.tell(all);
    return std::move(all.facts);
  }

  const Speaker speaker_;
  FederatedData data_;
  bool started_ = false;
};

/// A folder of this process for what nodes remember beyond the memory there is.
std::string scratch_folder() {
  return (std::filesystem::temp_directory_path() / fmt::format("labelshift-{}", ::getpid())).string();
}

/// One run, after its NextRun. What goes wrong before the data are shared is told; what goes wrong later is thrown,
/// unless rank 0 has the same trouble.
void serve_run(MpiContext& mpi, const MpiSettings& settings, const MpiEnvelope& envelope, const NextRun& next) {
  const auto patience = settings.patience_of_others();
  Bytes message;
  bool shared = false;
  const auto share = [&](const FoundData& found) {
    shared = true;
    mpi.send(envelope, to_bytes(found), patience);
    mpi.await_broadcast(message, settings.most_bytes, patience);
    AllData all = from_bytes<AllData>(message);
    if (all.broken || !found.broken.empty()) throw GivenUp();
    return std::move(all.facts);
  };
  RunSettings run;
  FederatedData data;
  std::exception_ptr failure;
  try {
    const Experiment experiment = parse_experiment(next.settings_file, "the settings of rank 0", "/");
    run = experiment.runs.at(0).settings;
    run.federation.seed = experiment.seeds.at(0);
    const NodeBlock block = block_of(node_count(run.data), mpi.ranks(), mpi.rank());
    data = make_federated_data(run.data, run.federation.seed, block,
                               [&](std::vector<DataFacts> own) { return share({.facts = std::move(own)}); });
  } catch (const GivenUp&) {
    return;
  } catch (const std::exception& error) {
    if (!shared) {
      try {
        share({.broken = error.what()});
      } catch (const GivenUp&) {
      }
      return;
    }
    failure = std::current_exception();
  }
  mpi.await_broadcast(message, settings.most_bytes, patience);
  const auto start = from_bytes<StartRun>(message);
  if (!start.go) return;
  if (failure) std::rethrow_exception(failure);
  run.federation.source_holdout = start.source_holdout;
  NodeStore store({.folder = scratch_folder()});
  const Index nodes = std::ssize(data.nodes);
  const FederationTask task{.shape = data.shape, .class_names = data.class_names};
  const AnswerFacts facts = answer_facts(run.federation, task, nodes);
  serve_mpi(
      mpi, nodes, with_memory_transfer(make_node_programs(run.federation, data, store), store),
      [&](const Request& request, Index, Answer& answer) { accept_answer(facts, request, answer); }, settings);
}

}  // namespace

MpiRuns::MpiRuns(MpiContext& mpi, MpiSettings settings) : mpi_(mpi), settings_(std::move(settings)) {}

MpiRuns::~MpiRuns() {
  try {
    Speaker(mpi_, settings_).tell(NextRun{.last = true});
  } catch (const std::exception&) {
    mpi_.abort(4);  // nobody is left to tell
  }
}

std::unique_ptr<RunNodes> MpiRuns::open(const RunTask& task) {
  return std::make_unique<MpiNodes>(Speaker(mpi_, settings_), task);
}

void serve_mpi_runs(MpiContext& mpi, const MpiSettings& settings) {
  for (;;) {
    Bytes message;
    const MpiEnvelope envelope = mpi.await_broadcast(message, settings.most_bytes, settings.patience_of_others());
    const auto next = from_bytes<NextRun>(message);
    if (next.last) return;
    serve_run(mpi, settings, envelope, next);
  }
}

}  // namespace labelshift
