#include "labelshift/cli/local_sites.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "labelshift/cli/site_options.hpp"
#include "labelshift/core/base/error.hpp"
#include "labelshift/data/files/errno_text.hpp"
#include "labelshift/data/files/input_file.hpp"
#include "labelshift/data/files/output_file.hpp"
#include "labelshift/learning/net.hpp"
#include "labelshift/sites/site_nodes.hpp"
#include "labelshift/tls/certificates.hpp"

namespace labelshift::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHost = "127.0.0.1";
constexpr auto kLongEnough = std::chrono::minutes(2);  // for a node of this machine to come back
constexpr auto kFarewell = std::chrono::seconds(2);

std::string node_name(Index node) {
  return fmt::format("node-{}", node + 1);
}

/// K of all rows.
Index nodes_of(const Experiment& experiment) {
  std::optional<Index> nodes;
  for (const ComparedRun& run : experiment.runs) {
    check_data_settings(run.settings.data);
    if (run.settings.data.at_sites())
      throw Error(ErrorKind::kUsage,
                  fmt::format("{}: the data of this experiment are at sites; run it with labelshift coordinator",
                              run.place_of("data.classes")));
    const Index found = node_count(run.settings.data);
    if (nodes && *nodes != found)
      throw Error(ErrorKind::kUsage, fmt::format("{}: this row has {} nodes and others have {}; --engine grpc needs as "
                                                 "many for all rows",
                                                 run.place, found, *nodes));
    nodes = found;
  }
  return nodes.value_or(0);
}

/// The TorchScript file of all rows; empty if there is none.
std::string model_of(const Experiment& experiment) {
  const auto entries = nets();
  std::string model;
  for (const ComparedRun& run : experiment.runs)
    for (const std::string& net : {run.settings.federation.model.name, run.settings.federation.ratio.net.name}) {
      if (std::any_of(entries.begin(), entries.end(), [&](const NetEntry& entry) { return entry.name == net; }))
        continue;
      if (!model.empty() && model != net)
        throw Error(ErrorKind::kUsage, fmt::format("{}: found the TorchScript files {} and {}, and a node takes one; "
                                                   "use one",
                                                   run.place, model, net));
      model = net;
    }
  return model;
}

std::string last_line(const std::string& path) {
  std::string text;
  try {
    text = read_file(path);
  } catch (const Error&) {
    return "";
  }
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

/// How a process ended, by its status as a shell sees it and the file that it wrote.
std::string how_it_ended(int status, const std::string& log) {
  constexpr int kSignal = 128;
  if (status > kSignal)
    return fmt::format("was ended by signal {} ({}); {}", status - kSignal, ::strsignal(status - kSignal),
                       status == kSignal + SIGKILL ? "if nobody did that, memory was short: use fewer nodes or a "
                                                     "smaller model, and go on with --resume"
                                                   : "go on with --resume");
  const std::string line = last_line(log);
  if (line.starts_with("error: ") || line.starts_with("internal error"))
    return fmt::format("ended with status {}: {}", status, line);
  return fmt::format("ended with status {} and did not say why; go on with --resume", status);
}

constexpr const char* kScratch = "labelshift-sites-";

/// A file that its process holds locked; -1 if it is not there or another process holds it.
int lock_of(const fs::path& folder, int flags) {
  const int descriptor = ::open((folder / "lock").c_str(), flags | O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (descriptor >= 0 && ::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return descriptor;
  if (descriptor >= 0) ::close(descriptor);
  return -1;
}

/// Removes what processes left here that were killed. A folder that nobody holds is nobody's.
void remove_leftovers(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> found;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (at->path().filename().string().starts_with(kScratch)) found.push_back(at->path());
  for (const fs::path& one : found) {
    const int lock = lock_of(one, 0);
    if (lock < 0) continue;
    fs::remove_all(one, error);
    ::close(lock);
  }
}

}  // namespace

LocalSites::Scratch::Scratch() {
  std::error_code error;
  const fs::path place = fs::temp_directory_path(error);
  if (!error) remove_leftovers(place);
  std::string made = (place / "labelshift-new-XXXXXX").string();
  if (error || !::mkdtemp(made.data()))  // for its owner alone
    throw Error(ErrorKind::kSystem, fmt::format("cannot make the folder {}: {}; set TMPDIR to another place", made,
                                                errno_text(error ? error.value() : errno)));
  lock = lock_of(made, O_CREAT);
  path = (place / kScratch).string() + made.substr(made.size() - 6);
  fs::rename(made, path, error);  // once it is locked, lest another process take it for a leftover
  if (error)
    throw Error(ErrorKind::kSystem, fmt::format("cannot make the folder {}: {}; set TMPDIR to another place", path,
                                                errno_text(error.value())));
}

LocalSites::Scratch::~Scratch() {
  std::error_code ignored;
  fs::remove_all(path, ignored);
  if (lock >= 0) ::close(lock);
}

LocalSites::LocalSites(const Experiment& experiment, std::string memory) : memory_(std::move(memory)) {
  const Index nodes = nodes_of(experiment);
  if (nodes < kFewestMasked)
    throw Error(
        ErrorKind::kUsage,
        fmt::format("this experiment has {} nodes, and masks need at least {}: of a sum of two, each would know "
                    "the other's part; add a node, or leave --engine grpc out",
                    nodes, kFewestMasked));
  CertificateOrder order{.folder = certificates(), .hosts = {kHost}, .valid = std::chrono::days(30)};
  for (Index node = 0; node < nodes; ++node) order.nodes.push_back(node_name(node));
  make_certificates(order);
  fs::remove(certificates() + "/ca-key.pem");  // nobody will need another
  const TlsFolder own = read_tls_folder(order.folder + "/coordinator");
  raise_file_limit();
  engine_ = make_grpc_engine({.listen = fmt::format("{}:0", kHost),
                              .tls = TlsIdentity{own.authority, own.certificate, own.key},
                              .names = order.nodes});
  fs::create_directory(scratch_.path + "/runs");
  const std::string model = model_of(experiment);
  for (Index node = 0; node < nodes; ++node) {
    const std::string& name = order.nodes[static_cast<std::size_t>(node)];
    std::vector<std::string> arguments{"/proc/self/exe", "node"};
    const auto add = [&](const char* option, const std::string& value) {
      arguments.emplace_back(option);
      arguments.push_back(value);
    };
    add("--connect", engine_->address());
    add("--tls", fmt::format("{}/{}", order.folder, name));
    add("--memory", fs::absolute(fmt::format("{}/{}", memory_, name)));
    add("--simulation", scratch_.path + "/runs");
    add("--simulated-node", std::to_string(node));
    add("--parent", std::to_string(::getpid()));
    if (!model.empty()) add("--model", model);
    nodes_.push_back(std::make_unique<BackgroundProgram>(
        arguments,
        ChildOptions{.directory = fs::current_path(), .output = fmt::format("{}/{}.log", scratch_.path, name)}));
  }
}

LocalSites::~LocalSites() {
  try {
    engine_->finish(kFarewell);
  } catch (...) {  // they will be ended all the same
  }
}

std::unique_ptr<RunNodes> LocalSites::open(const RunTask& task) {
  return open_site_nodes(*engine_, task,
                         {.give_up_after = kLongEnough,
                          .tick = [this](Index) { check_alive(); },
                          .announcing =
                              [this](const std::string& run, const RunTask& announced) {
                                write_file(fmt::format("{}/runs/{}.toml", scratch_.path, run), announced.settings_file);
                              }});
}

void LocalSites::forget() {
  std::error_code ignored;
  fs::remove_all(memory_, ignored);
}

/// Nodes have read their keys before they connect.
void LocalSites::remove_keys() {
  if (keys_removed_) return;
  const GrpcStatus now = engine_->status();
  if (!std::all_of(now.nodes.begin(), now.nodes.end(), [](const GrpcNodeStatus& node) { return node.connected; }))
    return;
  std::error_code ignored;
  fs::remove_all(certificates(), ignored);
  keys_removed_ = true;
}

void LocalSites::check_alive() {
  remove_keys();
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    if (const auto status = nodes_[i]->status())
      throw Error(ErrorKind::kPeer, fmt::format("the process of node {} {}", i + 1,
                                                how_it_ended(*status, fmt::format("{}/{}.log", scratch_.path,
                                                                                  node_name(static_cast<Index>(i))))));
}

}  // namespace labelshift::cli
