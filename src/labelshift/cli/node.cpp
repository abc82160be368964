#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "labelshift/cli/commands.hpp"
#include "labelshift/cli/input.hpp"
#include "labelshift/cli/site_options.hpp"
#include "labelshift/cli/terminal.hpp"
#include "labelshift/core/base/error.hpp"
#include "labelshift/data/files/errno_text.hpp"
#include "labelshift/data/files/input_file.hpp"
#include "labelshift/data/files/sha256.hpp"
#include "labelshift/engine/grpc/grpc_node.hpp"
#include "labelshift/engine/masking/masked_engine.hpp"
#include "labelshift/experiments/experiment_file.hpp"
#include "labelshift/experiments/site_program.hpp"
#include "labelshift/learning/training_threads.hpp"
#include "labelshift/tls/node_name.hpp"

namespace labelshift::cli {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr auto kTimeToSaySo = std::chrono::seconds(3);  // that this node cannot take part, before it ends

struct NodeOptions {
  std::string connect;
  SiteIdentityOptions identity;
  std::string name;
  std::string data;
  std::vector<std::string> lacks;
  std::vector<std::string> ignore_columns;
  SiteTerms terms;
  std::string sent_log;
  std::int64_t give_up_after = 600;  // s
  // Of a node that "labelshift run --engine grpc" starts:
  std::string simulation;       // a folder with the settings of each run
  std::int64_t simulated = -1;  // which node of it this is, from 0
  std::int64_t parent = 0;      // with which it ends
};

/// Makes the memory this process's own as long as it lives, and nobody else's business.
class MemoryLock {
 public:
  explicit MemoryLock(const std::string& folder) {
    std::error_code error;
    fs::create_directories(folder, error);
    const std::string path = folder + "/lock";
    descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (descriptor_ < 0)
      throw Error(ErrorKind::kSystem,
                  fmt::format("cannot write {}: {}; choose another place with --memory", path, errno_text(errno)));
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
    ::close(descriptor_);
    throw Error(ErrorKind::kUsage, fmt::format("{} is in use by another node; end that, or choose another folder with "
                                               "--memory",
                                               folder));
  }
  MemoryLock(const MemoryLock&) = delete;
  ~MemoryLock() { ::close(descriptor_); }

 private:
  int descriptor_ = -1;
};

std::string default_memory(const std::string& name) {
  const char* state = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  if (state && *state) return fmt::format("{}/labelshift/{}", state, name);
  if (home && *home) return fmt::format("{}/.local/state/labelshift/{}", home, name);
  throw Error(ErrorKind::kUsage, "there is no place for what the node remembers, since HOME is not set; give --memory");
}

/// Ends this process with the one that started it, however that ends.
void end_with_parent(std::int64_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) throw Error(ErrorKind::kSystem, "the process that started this node has ended");
}

SiteDataSource data_source(const NodeOptions& options, std::shared_ptr<SiteData> own) {
  if (own) return [own](const std::string&, const RunSettings& settings) { return own->in_terms_of(settings.data); };
  return [&options](const std::string& run, const RunSettings& settings) {  // whose name is a digest by now
    const Experiment experiment = read_experiment(fmt::format("{}/{}.toml", options.simulation, run));
    FederatedData all = make_federated_data(experiment.runs.front().settings.data, settings.federation.seed);
    SiteNode node{.data = all.nodes.at(static_cast<std::size_t>(options.simulated))};
    for (std::unique_ptr<Dataset>& set : all.sets) {
      const std::shared_ptr<const Dataset> shared = std::move(set);
      if (shared.get() == node.data.train) node.train = shared;
      if (shared.get() == node.data.test) node.test = shared;
    }
    return node;
  };
}

/// What of a message is for the owner of this site.
std::string advice_of(const SiteError& error) {
  return error.wanted() == SiteError::Wanted::kModel ? " with --model" : " with --lacks";
}

/// Makes the programs of a run, and remembers why that failed.
class ProgramMaker {
 public:
  /// With an identity numbers of phases 1 and 2 leave under masks alone.
  ProgramMaker(SiteDataSource source, SiteTerms terms, std::optional<NodeIdentity> identity)
      : source_(std::move(source)), terms_(std::move(terms)), identity_(std::move(identity)) {}

  GrpcPrograms make(const RunCard& card) {
    try {
      SitePrograms made = make_site_programs(card.run, card.settings, source_, terms_);
      if (identity_) {
        made.make = with_masks(
            std::move(made.make), [this](Index) -> const NodeIdentity& { return *identity_; }, card.run);
        made.most_request_bytes += most_masking_bytes(made.nodes);
      }
      const std::lock_guard lock(mutex_);
      failure_.reset();
      return {std::move(made.make), made.most_request_bytes};
    } catch (const SiteError& error) {
      note(error.reworded(error.what() + advice_of(error)));
      throw;
    } catch (const Error& error) {
      note(error);
      throw;
    }
  }

  std::optional<Error> failure() const {
    const std::lock_guard lock(mutex_);
    return failure_;
  }
  /// Whether it failed, and that was long enough ago for the coordinator to know.
  bool is_hopeless() const {
    const std::lock_guard lock(mutex_);
    return failure_ && Clock::now() > failed_ + kTimeToSaySo;
  }

 private:
  void note(const Error& error) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failed_ = Clock::now();
    failure_ = error;
  }

  const SiteDataSource source_;
  const SiteTerms terms_;
  const std::optional<NodeIdentity> identity_;
  mutable std::mutex mutex_;
  std::optional<Error> failure_;
  Clock::time_point failed_;
};

void check_options(const NodeOptions& options) {
  check_address("--connect", options.connect);
  const bool simulated = !options.simulation.empty();
  if (simulated == !options.data.empty())
    throw Error(ErrorKind::kUsage, "no data; write --data DIR, a folder that has train and test");
  if (options.identity.insecure == options.name.empty())
    throw Error(ErrorKind::kUsage, options.name.empty() ? "without certificates nobody knows who this is; give --name"
                                                        : "a node is called as its certificate says; leave --name out");
  if (options.identity.insecure) check_node_name(options.name);
}

void serve(NodeOptions options) {
  if (options.parent > 0) end_with_parent(options.parent);
  check_options(options);
  if (!options.terms.model.empty()) InputFile(options.terms.model, FileKind::kRegular);  // throws if it is not there
  const std::optional<TlsFolder> tls = read_identity(options.identity, TlsRole::kNode);
  const std::string name = tls ? tls->name : options.name;
  if (!is_node_name(name))
    throw Error(ErrorKind::kInput, fmt::format("the common name of {}/cert.pem is no name of a node: letters, digits, "
                                               "dashes, dots and underscores; get another certificate",
                                               options.identity.folder));
  options.terms.name = name;
  options.terms.details = !options.simulation.empty();
  if (options.terms.memory.empty()) options.terms.memory = default_memory(name);
  ::umask(0077);                  // what a node remembers and logs is for its owner
  std::signal(SIGPIPE, SIG_IGN);  // who watches may go away, and the work goes on
  std::shared_ptr<SiteData> own;
  {  // which may take for ever, and can be stopped
    Progress progress;
    progress.show("reading " + options.data);
    if (!options.data.empty()) own = std::make_shared<SiteData>(options.data, options.lacks, options.ignore_columns);
  }
  const DeferInterrupt interrupt;  // before threads start, which take its mask over
  const MemoryLock memory(options.terms.memory);
  std::string where_it_logs;  // to be said before anything else, but not before an error in what was typed
  if (options.sent_log.empty() && options.simulation.empty()) {  // in a simulation nothing leaves
    options.sent_log = options.terms.memory + "/sent.jsonl";
    where_it_logs =
        fmt::format("all that leaves this node is logged in {}; choose another place with --log", options.sent_log);
  }
  use_one_torch_thread();
  keep_freed_memory();
  std::optional<NodeIdentity> identity;
  if (tls)
    identity.emplace(
        NodeIdentity::Files{.certificate = tls->certificate, .private_key = tls->key, .authority = tls->authority});
  ProgramMaker maker(data_source(options, own), options.terms, std::move(identity));
  std::mutex saying;
  const auto say = [&](const std::string& line) {
    const std::lock_guard lock(saying);
    if (!where_it_logs.empty()) log_line(std::exchange(where_it_logs, {}));
    if (!line.empty()) log_line(line);
  };
  const GrpcNodeSettings settings{.connect = options.connect,
                                  .seats = {{.name = name, .tls = as_identity(tls)}},
                                  .prepare_thread = flush_denormals_on_this_thread,
                                  .sent_log = options.sent_log,
                                  .give_up_after = std::chrono::seconds(options.give_up_after),
                                  .log = say};
  GrpcEnd end{};
  try {
    end = serve_grpc(
        settings,
        [&](const RunCard& card) {
          say("");
          return maker.make(card);
        },
        [&] { return interrupt.requested() || maker.is_hopeless(); });
  } catch (const Error&) {
    if (!maker.failure()) throw;
  }
  if (const auto failure = maker.failure()) throw *failure;
  if (end == GrpcEnd::kFinished && options.simulation.empty()) print("all done: the coordinator has no more to ask\n");
}

}  // namespace

void add_node(CLI::App& app) {
  const auto options = std::make_shared<NodeOptions>();
  CLI::App& command = *app.add_subcommand("node", "Take part in a federation between sites with the data of this one");
  command.add_option("--connect", options->connect, "Where the coordinator is")->type_name("HOST:PORT")->required();
  command
      .add_option(
          "--data", options->data,
          "A folder that has train and test: folders of images, or tables such as train.csv. Its data stay here")
      ->type_name("FILE");
  add_identity_options(command, options->identity, "this node");
  command.add_option("--name", options->name, "With --insecure: what this node is called")->type_name("NAME");
  command
      .add_option("--memory", options->terms.memory,
                  "A folder for what the node remembers from round to round; by default "
                  "~/.local/state/labelshift/NAME")
      ->type_name("FILE");
  command
      .add_option("--min-examples", options->terms.min_examples,
                  "With fewer training examples of any class than this, keep the label mix of this site to itself")
      ->transform(whole_number({.from = 0, .to = 1'000'000'000}))
      ->type_name("N");
  command.add_option("--lacks", options->lacks, "A class of which this site has no example; may be repeated")
      ->type_name("NAME")
      ->allow_extra_args(false);
  command
      .add_option(
          "--ignore-columns", options->ignore_columns,
          "Columns of this site's tables that are no part of an example, such as an id: names or numbers from 0, "
          "with commas between them")
      ->type_name("COLUMNS")
      ->delimiter(',')
      ->allow_extra_args(false);
  command.add_option("--model", options->terms.model, "The TorchScript file to train, if the coordinator asks for one")
      ->type_name("FILE");
  command
      .add_option("--log", options->sent_log,
                  "A file to which all that leaves is appended, as JSON lines; by default sent.jsonl in the folder of "
                  "--memory")
      ->type_name("FILE");
  command.add_option("--give-up-after", options->give_up_after, "Seconds to look for a coordinator that is not there")
      ->transform(whole_number({.from = 1, .to = 10'000'000}))
      ->capture_default_str();
  command.add_option("--simulation", options->simulation)->group("");
  command.add_option("--simulated-node", options->simulated)->group("");
  command.add_option("--parent", options->parent)->group("");
  command.footer(
      "The node dials out, and stays until the coordinator is done; if it is stopped and started again, it goes on. "
      "Its\n"
      "name is the common name of its certificate. See docs/sites.md.\n\n"
      "Example:\n  labelshift node --connect coordinator.example.org:5051 --data data --tls trial/hospital-a");
  command.callback([options] { serve(*options); });
}

}  // namespace labelshift::cli
