#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <memory>
#include <optional>
#include <utility>

#include "labelshift/cli/commands.hpp"
#include "labelshift/cli/comparison_output.hpp"
#include "labelshift/cli/input.hpp"
#include "labelshift/cli/site_options.hpp"
#include "labelshift/cli/terminal.hpp"
#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/observer.hpp"
#include "labelshift/data/files/errno_text.hpp"
#include "labelshift/engine/grpc/grpc_engine.hpp"
#include "labelshift/experiments/comparison.hpp"
#include "labelshift/experiments/node_list.hpp"
#include "labelshift/learning/training_threads.hpp"
#include "labelshift/sites/node_list_watch.hpp"
#include "labelshift/sites/site_nodes.hpp"

namespace labelshift::cli {
namespace {

struct CoordinatorOptions {
  std::string file;
  std::string listen;
  std::string nodes;
  SiteIdentityOptions identity;
  std::string show = kComparisonViews[0];
  std::string status;
  std::optional<std::int64_t> round_deadline;  // s
  std::int64_t quorum = 0;
  std::int64_t give_up_after = 3600;  // s
  ComparisonSettings comparison{.resume = false};
};

/// A file of lines, each of which is there as soon as it is written.
class LineFile {
 public:
  explicit LineFile(const std::string& path) : path_(path) {
    if (path.empty()) return;
    descriptor_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_CLOEXEC, 0666);
    if (descriptor_ < 0)
      throw Error(ErrorKind::kSystem,
                  fmt::format("cannot write {}: {}; choose another place with --status", path, errno_text(errno)));
  }
  LineFile(const LineFile&) = delete;
  ~LineFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  /// What cannot be written is lost, and that is said once: nobody's training ends for a full disk of who watches it.
  /// A line that a full disk cut short has the next one on a line of its own.
  void add(const std::string& line) {
    if (descriptor_ < 0) return;
    const std::string text = torn_ ? '\n' + line : line;
    const ssize_t written = ::write(descriptor_, text.data(), text.size());
    const int why = errno;
    torn_ = written > 0 ? written < std::ssize(text) : torn_;
    if (written == std::ssize(text) || std::exchange(told_, true)) return;
    log_line(fmt::format("{} cannot be written to ({}), so lines of it are missing; the work goes on", path_,
                         written < 0 ? errno_text(why) : "no space left"));
  }

 private:
  std::string path_;
  int descriptor_ = -1;
  bool torn_ = false, told_ = false;
};

double unix_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::vector<std::string> names_of(const std::vector<ListedNode>& list) {
  std::vector<std::string> names;
  for (const ListedNode& node : list) names.push_back(node.name);
  return names;
}

/// What is typed where a node is.
std::string invitation(const std::string& address, bool insecure) {
  std::string where = address;
  for (const std::string any : {"0.0.0.0:", "[::]:"})
    if (where.starts_with(any)) where = "HOST:" + where.substr(any.size());
  return fmt::format("labelshift node --connect {} --data DIR {}", where,
                     insecure ? "--insecure --name NAME" : "--tls DIR");
}

/// Puts the nodes that there are, and the patience with them, into every row.
void prepare(const CoordinatorOptions& options, const std::vector<ListedNode>& list, Experiment& experiment) {
  const Index nodes = std::ssize(list);
  const Index in = std::count_if(list.begin(), list.end(), [](const ListedNode& node) { return !node.excluded; });
  if (in == 0) throw Error(ErrorKind::kUsage, fmt::format("{} excludes every node; leave some in", options.nodes));
  const Index masked = options.comparison.resume ? nodes : in;  // phases 1 and 2 may be done
  if (!options.identity.insecure && masked < kFewestMasked)
    throw Error(ErrorKind::kUsage,
                fmt::format("{} has {} nodes, and masks need at least {}: of a sum of two, each would know the other's "
                            "part; list a third, or try it on one machine with --insecure",
                            options.nodes, masked, kFewestMasked));
  if (options.quorum > in)
    throw Error(ErrorKind::kUsage,
                fmt::format("--quorum is {}, expected at most the {} nodes of {}", options.quorum, in, options.nodes));
  if (options.quorum > 0 && options.quorum < in && !options.round_deadline)
    throw Error(ErrorKind::kUsage, "--quorum says who can be done without after a deadline; give --round-deadline too");
  Patience patience{.give_up = std::chrono::seconds(options.give_up_after)};
  if (options.round_deadline) {
    patience.deadline = std::chrono::seconds(*options.round_deadline);
    patience.quorum = options.quorum > 0 ? options.quorum : in / 2 + 1;
  }
  for (ComparedRun& run : experiment.runs) {
    DataSettings& data = run.settings.data;
    if (!data.at_sites())
      throw Error(ErrorKind::kUsage,
                  fmt::format("{}: a coordinator has no data, and must be told what those of the sites are like; give "
                              "classes, and shape or columns, in [data] instead of set or folders",
                              run.place_of("data.set")));
    if (data.nodes > 0 && data.nodes != nodes)
      throw Error(ErrorKind::kUsage, fmt::format("{}: data.nodes is {}, and {} lists {}; leave it out",
                                                 run.place_of("data.nodes"), data.nodes, options.nodes, nodes));
    const FederationSettings& federation = run.settings.federation;
    const bool theorem = federation.step.rule == StepRule::kTheorem;
    if (theorem && !federation.step.smoothness)
      throw Error(
          ErrorKind::kUsage,
          fmt::format("{}: step = \"theorem\" needs beta, and sites keep to themselves what it is made of; give "
                      "smoothness",
                      run.place_of("training.step")));
    if (theorem && federation.ratio.weighted() && !federation.ratio.max_ratio)
      throw Error(ErrorKind::kUsage,
                  fmt::format("{}: step = \"theorem\" needs r_max, and sites keep their weights to themselves; give "
                              "[ratio] a max-ratio",
                              run.place_of("training.step")));
    data.nodes = nodes;
    run.settings.federation.patience = patience;
    run.settings.federation.majority = options.quorum == 0;
  }
}

void coordinate(const CoordinatorOptions& options) {
  check_address("--listen", options.listen);
  const std::optional<TlsFolder> tls = read_identity(options.identity, TlsRole::kCoordinator);
  const std::vector<ListedNode> list = read_node_list(options.nodes);
  const std::vector<std::string> names = names_of(list);
  const DeferInterrupt interrupt;  // before threads start, which take its mask over
  std::signal(SIGPIPE, SIG_IGN);   // who watches may go away, and the work goes on
  Experiment experiment = read_experiment(options.file);
  prepare(options, list, experiment);
  check_comparison(experiment, options.comparison);  // before anybody can dial in
  LineFile status(options.status);
  use_one_torch_thread();
  keep_freed_memory();
  raise_file_limit();
  std::optional<Progress> progress(std::in_place);
  const std::unique_ptr<GrpcEngine> engine =
      make_grpc_engine({.listen = options.listen, .tls = as_identity(tls), .names = names, .log = log_line});
  log_line(fmt::format("listening on {} for {}", engine->address(), some_names(names)));
  NodeListWatch watch(options.nodes, *engine, names, log_line);
  watch.look();  // who is excluded
  ComparisonSettings settings = options.comparison;
  settings.prepare_thread = flush_denormals_on_this_thread;
  settings.open_nodes = [&](const RunTask& task) {
    return open_site_nodes(*engine, task,
                           {.masked = tls.has_value(),
                            .give_up_after = std::chrono::seconds(options.give_up_after),
                            .status =
                                [&](const SiteStatus& now) {
                                  progress->add(status_text(now));
                                  status.add(status_json(now, unix_time()));
                                },
                            .log = log_line,
                            .invitation = invitation(engine->address(), options.identity.insecure),
                            .tick = [&](Index fewest) { watch.look(static_cast<std::size_t>(fewest)); }});
  };
  try {
    const ComparisonResult result = run_comparison(experiment, settings, showing(*progress, interrupt));
    progress.reset();
    engine->finish();
    const auto shown = std::find(kComparisonViews.begin(), kComparisonViews.end(), options.show);
    show_comparison(experiment, result, static_cast<ComparisonView>(shown - kComparisonViews.begin()));
    if (const auto failure = failure_of(result)) throw *failure;
  } catch (const Stopped&) {
    progress.reset();
    warn("stopped; the same command with --resume goes on from here, and the nodes will find it again");
  }
}

}  // namespace

void add_coordinator(CLI::App& app) {
  const auto options = std::make_shared<CoordinatorOptions>();
  CLI::App& command = *app.add_subcommand("coordinator", "Run the federations of an experiment file between sites");
  command.add_option("file", options->file, "The experiment, in TOML, with data.classes")
      ->type_name("FILE")
      ->check(no_dash())
      ->required();
  command.add_option("--listen", options->listen, "Where nodes dial in; port 0 is any that is free")
      ->type_name("HOST:PORT")
      ->required();
  command.add_option("--nodes", options->nodes, "The list of nodes, in TOML: a [[node]] with a name for each")
      ->type_name("FILE")
      ->required();
  add_identity_options(command, options->identity, "the coordinator");
  command.add_option("--output", options->comparison.output, "Folder for results; whole runs in it are not repeated")
      ->type_name("FOLDER")
      ->capture_default_str();
  command.add_flag("--resume", options->comparison.resume, "Go on with runs that were stopped");
  command
      .add_option("--round-deadline", options->round_deadline,
                  "Seconds after which a round of training goes on without who has not answered; by default it waits. "
                  "Who was away when the round began is not waited for")
      ->transform(whole_number({.from = 1, .to = 10'000'000}))
      ->type_name("N");
  command
      .add_option("--quorum", options->quorum,
                  "How many nodes a round needs also after its deadline; by default more than half of them")
      ->transform(whole_number({.from = 1, .to = 1'000'000}))
      ->type_name("N");
  command
      .add_option("--give-up-after", options->give_up_after,
                  "Seconds to wait for nodes without which nothing can go on, then end with status 4")
      ->transform(whole_number({.from = 1, .to = 10'000'000}))
      ->capture_default_str();
  command.add_option("--status", options->status, "A file to which the state is appended every second, as JSON lines")
      ->type_name("FILE");
  add_choice(command, "--show", options->show, "view", kComparisonViews,
             "Which table: averages with weights and costs, every node, or the best and worst node");
  command.footer(
      "Phases 1 and 2 of the method need every node of the list. A name that is taken off the list while this runs is\n"
      "locked out. If the coordinator is stopped and started again with --resume, nodes find it by themselves. See\n"
      "docs/sites.md.\n\n"
      "Example:\n  labelshift coordinator study.toml --listen 0.0.0.0:5051 --nodes nodes.toml --tls trial/coordinator");
  command.callback([options] { coordinate(*options); });
}

}  // namespace labelshift::cli
