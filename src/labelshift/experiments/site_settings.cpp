#include "labelshift/experiments/site_settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "labelshift/core/base/error.hpp"
#include "labelshift/data/files/input_file.hpp"
#include "labelshift/data/files/sha256.hpp"
#include "labelshift/data/files/text_lines.hpp"
#include "labelshift/experiments/experiment_file.hpp"
#include "labelshift/experiments/experiment_schema.hpp"
#include "labelshift/federation/federation_settings.hpp"
#include "labelshift/federation/site_data.hpp"
#include "labelshift/learning/net.hpp"

namespace labelshift {
namespace {

constexpr std::string_view kFileSum = "sha256:";
constexpr const char* kName = "the coordinator's settings";
constexpr std::size_t kLongestText = 1'000'000;

[[noreturn]] void refuse(const std::string& why) {
  throw Error(ErrorKind::kPeer, fmt::format("{}: {}", kName, why));
}

bool is_sum(const std::string& text) {
  return text.size() == sha256_of("").size() && text.find_first_not_of("0123456789abcdef") == text.npos;
}

bool is_known_net(const std::string& name) {
  const auto entries = nets();
  return std::any_of(entries.begin(), entries.end(), [&](const NetEntry& entry) { return entry.name == name; });
}

/// A net by its name or, of a file, by its sum.
std::string portable_net(const std::string& name) {
  return is_known_net(name) ? name : fmt::format("{}{}", kFileSum, sha256_of(read_file(name)));
}

/// Puts the path of the local file in the place of its sum. Anything else that is no known name is refused, so that
/// nobody looks for a file that a peer names.
void localise_net(toml::table& file, const char* section, const std::string& model) {
  auto* table = file.get_as<toml::table>(section);
  toml::node* net = table ? table->get("net") : nullptr;
  if (!net) return;
  const auto* name = net->as_string();
  if (!name) refuse(fmt::format("{}.net is no text", section));
  if (is_known_net(name->get())) return;
  if (!name->get().starts_with(kFileSum))
    refuse(
        fmt::format("{}.net is {}, which is no net of this version; no file is looked for by a name that comes over "
                    "the network",
                    section, excerpt(name->get())));
  const std::string wanted = name->get().substr(kFileSum.size());
  if (!is_sum(wanted)) refuse(fmt::format("{}.net is {}, which is no SHA-256", section, excerpt(name->get())));
  if (model.empty())
    throw SiteError(ErrorKind::kPeer,
                    fmt::format("{}: {}.net is a TorchScript file with the SHA-256 {}; get it from somebody you trust, "
                                "and name it",
                                kName, section, wanted),
                    SiteError::Wanted::kModel);
  const std::string found = sha256_of(read_file(model));
  if (found != wanted)
    refuse(fmt::format("{}.net is a TorchScript file with the SHA-256 {}, and the one that this site has has {}",
                       section, wanted, found));
  table->insert_or_assign("net", std::filesystem::absolute(model).string());
}

void check_keys(const toml::table& table, const std::vector<std::string>& allowed, const std::string& place) {
  for (const auto& [key, value] : table)
    if (std::find(allowed.begin(), allowed.end(), key.str()) == allowed.end())
      refuse(fmt::format("{}{} is nothing that a coordinator says to a site", place, excerpt(key.str())));
}

}  // namespace

std::string site_settings_text(const RunSettings& settings, const FederatedData& data) {
  RunSettings said = settings;
  said.data = {};
  said.data.nodes = std::ssize(data.nodes);
  said.data.classes = data.class_names;
  if (settings.data.columns.empty())
    said.data.shape = data.shape;
  else
    said.data.columns = settings.data.columns;
  said.federation.start.clear();  // which is the coordinator's affair
  said.federation.model.name = portable_net(settings.federation.model.name);
  said.federation.ratio.net.name = portable_net(settings.federation.ratio.net.name);
  toml::table file{{"name", "run"}, {"seed", static_cast<std::int64_t>(settings.federation.seed)}};
  for (const SchemaRow& row : schema_rows())
    if (const TomlValue value = row.write(said))
      file.insert(row.section, toml::table()).first->second.as_table()->insert(row.key, *value);
  return toml_text(file) + "\n";
}

RunSettings read_site_settings(const std::string& text, const std::string& model) {
  if (text.size() > kLongestText) refuse(fmt::format("they have {} bytes, expected fewer", text.size()));
  toml::table file;
  try {
    file = parse_toml(text, kName, "settings");
  } catch (const Error& error) {
    throw Error(ErrorKind::kPeer, error.what());
  }
  std::vector<std::string> sections = section_names();
  sections.insert(sections.end(), {"name", "seed"});
  check_keys(file, sections, "");
  const auto* data = file.get_as<toml::table>("data");
  if (!data) refuse("they do not say what the data are like");
  check_keys(*data, {"nodes", "alpha", "fraction", "only-node", "classes", "shape", "columns"}, "data.");
  file.insert_or_assign("name", "run");  // which says nothing here
  localise_net(file, "model", model);
  localise_net(file, "ratio", model);
  try {
    Experiment experiment = parse_experiment(toml_text(file), kName, "/");
    RunSettings result = std::move(experiment.runs.front().settings);
    result.federation.seed = experiment.seeds.front();
    if (!result.federation.start.empty()) refuse("model.start is nothing that a coordinator says to a site");
    if (!result.data.at_sites()) refuse("they do not say which classes there are");
    check_data_settings(result.data);
    check_settings(result.federation, result.data.nodes);
    return result;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kPeer) throw;
    throw Error(ErrorKind::kPeer, error.what());
  }
}

}  // namespace labelshift
