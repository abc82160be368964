#include "labelshift/cli/local_sites.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
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

}  // namespace

LocalSites::Scratch::Scratch() {
  std::error_code error;
  path = (fs::temp_directory_path(error) / "labelshift-sites-XXXXXX").string();
  if (error || !::mkdtemp(path.data()))  // for its owner alone
    throw Error(ErrorKind::kSystem, fmt::format("cannot make the folder {}: {}; set TMPDIR to another place", path,
                                                errno_text(error ? error.value() : errno)));
}

LocalSites::Scratch::~Scratch() {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

LocalSites::LocalSites(const Experiment& experiment, std::string memory) : memory_(std::move(memory)) {
  const Index nodes = nodes_of(experiment);
  CertificateOrder order{.folder = scratch_.path + "/certs", .hosts = {kHost}, .valid = std::chrono::days(30)};
  for (Index node = 0; node < nodes; ++node) order.nodes.push_back(node_name(node));
  make_certificates(order);
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
                          .tick = [this] { check_alive(); },
                          .announcing =
                              [this](const std::string& run, const RunTask& announced) {
                                write_file(fmt::format("{}/runs/{}.toml", scratch_.path, run), announced.settings_file);
                              }});
}

void LocalSites::forget() {
  std::error_code ignored;
  fs::remove_all(memory_, ignored);
}

void LocalSites::check_alive() {
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    if (const auto status = nodes_[i]->status())
      throw Error(ErrorKind::kPeer,
                  fmt::format("the process of node {} ended with status {}: {}", i + 1, *status,
                              last_line(fmt::format("{}/{}.log", scratch_.path, node_name(static_cast<Index>(i))))));
}

}  // namespace labelshift::cli
