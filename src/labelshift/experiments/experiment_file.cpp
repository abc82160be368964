#include "labelshift/experiments/experiment_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/named_entries.hpp"
#include "labelshift/core/base/version.hpp"
#include "labelshift/data/files/errno_text.hpp"
#include "labelshift/data/files/text_lines.hpp"
#include "labelshift/experiments/experiment_schema.hpp"
#include "labelshift/experiments/toml_values.hpp"

namespace labelshift {
namespace {

namespace fs = std::filesystem;

/// What stands in a message for a value.
std::string shown(const toml::node& value) {
  if (const auto* text = value.as_string()) return excerpt(text->get());
  if (value.is_array()) return "a list";
  if (value.is_table()) return "a table";
  return toml_text(value);
}

/// Runs `act`, and puts the place before what it complains of.
template <typename Act>
void at_place(const std::string& place, Act&& act) {
  try {
    act();
  } catch (const Error& error) {
    throw error.reworded(fmt::format("{}: {}", place, error.what()));
  }
}

/// A file as it is read.
class Reader {
 public:
  Reader(std::string name, fs::path folder) : name_(std::move(name)), folder_(std::move(folder)) {}

  Experiment read(const toml::table& file) const {
    Experiment result;
    result.name = fs::path(name_).stem().string();
    ComparedRun base{.place = name_};
    std::vector<std::string> known{"name", "title", "note",        "claim",  "version",
                                   "seed", "seeds", "report-node", "compare"};
    const std::vector<std::string> sections = section_names();
    known.insert(known.end(), sections.begin(), sections.end());
    for (const auto& [key_text, value] : file) {
      const std::string key(key_text.str());
      if (key == "name")
        result.name = text(key, value);
      else if (key == "title")
        result.title = text(key, value);
      else if (key == "note")
        result.note = text(key, value);
      else if (key == "claim")
        result.claim = text(key, value);
      else if (key == "version")
        result.version = text(key, value);
      else if (key == "seed")
        result.seeds = {seed(value)};
      else if (key == "seeds")
        result.seeds = seeds(value);
      else if (key == "report-node") {
        result.report_node = static_cast<int>(whole_from_0(key, value, 1'000'000));
        base.places[key] = place(value);
      } else if (std::find(sections.begin(), sections.end(), key) != sections.end())
        section(key, value, base);
      else if (key != "compare")
        unknown("key", key, value, known);
    }
    if (file.contains("seed") && file.contains("seeds"))
      fail(*file.get("seeds"), "found both seed and seeds; give one");
    const bool plain = !result.name.empty() && result.name.front() != '.' &&
                       std::all_of(result.name.begin(), result.name.end(),
                                   [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_' || c == '.'; });
    if (!plain) {
      const toml::node* name = file.get("name");
      throw Error(ErrorKind::kUsage, fmt::format("{}: the name is {}, expected letters, digits, - and _: a folder is "
                                                 "called so",
                                                 name ? place(*name) : name_, excerpt(result.name)));
    }
    if (result.title.empty()) result.title = result.name;
    if (const toml::node* list = file.get("compare")) {
      const auto* entries = list->as_array();
      if (!entries || entries->empty()) fail(*list, "compare is no list of tables; write [[compare]] above each");
      for (const toml::node& entry : *entries) result.runs.push_back(compared(entry, base, result.runs));
    } else {
      base.name = base.settings.federation.algorithm;
      result.runs.push_back(std::move(base));
    }
    return result;
  }

 private:
  std::string place(const toml::node& value) const {
    return fmt::format("{}, line {}", name_, value.source().begin.line);
  }
  [[noreturn]] void fail(const toml::node& value, const std::string& why) const {
    throw Error(ErrorKind::kUsage, fmt::format("{}: {}", place(value), why));
  }
  [[noreturn]] void unknown(const char* kind, const std::string& key, const toml::node& value,
                            const std::vector<std::string>& known) const {
    fail(value, unknown_name(kind, key, known).what());
  }
  [[noreturn]] void unexpected(const std::string& key, const toml::node& value, const std::string& expected) const {
    fail(value, fmt::format("{} is {}, expected {}", key, shown(value), expected));
  }

  std::string text(const std::string& key, const toml::node& value) const {
    const auto* found = value.as_string();
    if (!found) unexpected(key, value, "a text in quotes");
    for (const unsigned char letter : found->get())
      if ((letter < 0x20 && letter != '\n' && letter != '\t') || letter == 0x7f)
        unexpected(key, value, "a text without control characters: terminals obey them");
    return found->get();
  }
  std::int64_t whole_from_0(const std::string& key, const toml::node& value, std::int64_t most) const {
    const auto* found = value.as_integer();
    if (!found || found->get() < 0 || found->get() > most)
      unexpected(key, value, fmt::format("a whole number from 0 to {}", most));
    return found->get();
  }
  std::uint64_t seed(const toml::node& value) const {
    return static_cast<std::uint64_t>(whole_from_0("seed", value, std::numeric_limits<std::int64_t>::max()));
  }
  std::vector<std::uint64_t> seeds(const toml::node& value) const {
    const auto* list = value.as_array();
    if (!list) unexpected("seeds", value, "a list of whole numbers");
    if (list->empty()) fail(value, "seeds is an empty list; give at least one, such as [1, 2, 3], or leave it out");
    std::vector<std::uint64_t> result;
    for (const toml::node& entry : *list) {
      result.push_back(seed(entry));
      if (std::count(result.begin(), result.end(), result.back()) > 1)
        fail(entry, fmt::format("the seed {} is there twice; give each once", result.back()));
    }
    return result;
  }
  double accuracy(const std::string& key, const toml::node& value) const {
    const auto found = value.value<double>();
    if (!value.is_number() || !found || !(*found >= 0.0 && *found <= 1.0))
      unexpected(key, value, "a number from 0 to 1");
    return *found;
  }

  void section(const std::string& name, const toml::node& value, ComparedRun& run) const {
    const auto* table = value.as_table();
    if (!table) unexpected(name, value, "a table");
    for (const auto& [key, entry] : *table)
      at_place(place(entry), [&, &key = key, &entry = entry] {  // by name, for clang before 16
        const SchemaRow& row = find_schema_row(name, std::string(key.str()));
        run.places[fmt::format("{}.{}", row.section, row.key)] = place(entry);
        if (!row.read(entry, run.settings, folder_))
          throw Error(ErrorKind::kUsage,
                      fmt::format("{}.{} is {}, expected {}", row.section, row.key, shown(entry), row.expected));
      });
  }

  std::vector<TunedSetting> tune(const toml::node& value, const RunSettings& run) const {
    const auto* table = value.as_table();
    if (!table || table->empty())
      unexpected("tune", value, "a table such as {\"training.learning-rate\" = [0.1, 1.0]}");
    std::vector<TunedSetting> result;
    std::size_t candidates = 1;
    for (const auto& [key, list] : *table) {
      TunedSetting& setting = result.emplace_back(TunedSetting{std::string(key.str()), {}});
      const auto* values = list.as_array();
      if (!values || values->empty()) unexpected(setting.key, list, "a list of candidates");
      for (const toml::node& candidate : *values) {
        setting.values.push_back(plain_text(candidate));
        RunSettings tried = run;
        change_setting(tried, setting.key, setting.values.back(), place(candidate));
      }
      candidates *= setting.values.size();
      if (candidates > 1000)
        fail(list, fmt::format("there are {} combinations to tune, expected at most 1000", candidates));
    }
    return result;
  }

  ComparedRun compared(const toml::node& value, const ComparedRun& base, const std::vector<ComparedRun>& before) const {
    const auto* table = value.as_table();
    if (!table) unexpected("compare", value, "a table");
    ComparedRun result = base;
    result.place = place(value);
    std::vector<std::string> known{"name", "paper", "paper-sd", "paper-nodes", "tune"};
    const std::vector<std::string> sections = section_names();
    known.insert(known.end(), sections.begin(), sections.end());
    for (const auto& [key_text, entry] : *table) {
      const std::string key(key_text.str());
      if (key == "name")
        result.name = text(key, entry);
      else if (key == "paper")
        result.paper.accuracy = accuracy(key, entry);
      else if (key == "paper-sd")
        result.paper.deviation = accuracy(key, entry);
      else if (key == "paper-nodes") {
        const auto* list = entry.as_array();
        if (!list) unexpected(key, entry, "a list of numbers from 0 to 1");
        for (const toml::node& one : *list) result.paper.nodes.push_back(accuracy(key, one));
      } else if (std::find(sections.begin(), sections.end(), key) != sections.end()) {
        section(key, entry, result);
      } else if (key != "tune") {
        unknown("key of [[compare]]", key, entry, known);
      }
    }
    if (const toml::node* list = table->get("tune")) result.tune = tune(*list, result.settings);
    result.row = fmt::format(" (\"{}\")", result.name);
    result.place += result.row;
    if (result.folder_name().empty())
      fail(value,
           "a [[compare]] has no name with a letter from a to z or a digit; every row of the comparison needs one");
    for (const ComparedRun& other : before)
      if (other.folder_name() == result.folder_name())
        fail(value, fmt::format("the names {} and {} would have the same folder; change one", excerpt(other.name),
                                excerpt(result.name)));
    return result;
  }

  std::string name_;
  fs::path folder_;
};

std::string line(const std::string& key, const toml::node& value) {
  return fmt::format("{} = {}\n", key, toml_text(value));
}

std::string read_text(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error))
    throw Error(ErrorKind::kUsage, fmt::format("{} is a folder, expected an experiment file such as {}", path,
                                               (fs::path(path) / "experiment.toml").string()));
  const auto size = fs::file_size(path, error);
  if (error)
    throw Error(ErrorKind::kInput,
                fmt::format("cannot read {}: {}; name an experiment file", path, errno_text(error.value())));
  if (size > kLongestToml)
    throw Error(ErrorKind::kUsage,
                fmt::format("{} has {} bytes, expected an experiment file of at most {}", path, size, kLongestToml));
  std::ifstream in(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in) throw Error(ErrorKind::kInput, fmt::format("cannot read {}; check its permissions", path));
  return text;
}

}  // namespace

Experiment parse_experiment(const std::string& text, const std::string& name, const std::string& folder) {
  return Reader(name, folder).read(parse_toml(text, name, "an experiment file"));
}

Experiment read_experiment(const std::string& path) {
  return parse_experiment(read_text(path), path, fs::absolute(path).parent_path());
}

void change_setting(RunSettings& settings, const std::string& key, const std::string& value, const std::string& place) {
  at_place(place, [&] {
    const std::size_t dot = key.find('.');
    const std::string section = key.substr(0, dot);
    const std::vector<std::string> sections = section_names();
    if (dot == std::string::npos || std::find(sections.begin(), sections.end(), section) == sections.end()) {
      std::vector<std::string> known;
      for (const SchemaRow& row : schema_rows()) known.push_back(fmt::format("{}.{}", row.section, row.key));
      throw unknown_name("key", key, known);
    }
    const SchemaRow& row = find_schema_row(section, key.substr(dot + 1));
    const auto read = [&](const toml::node& node) { return row.read(node, settings, fs::current_path()); };
    toml::table file;
    try {
      file = toml::parse("value = " + value);
    } catch (const toml::parse_error&) {  // a name whose quotes a shell has taken away
    }
    if (!(file.size() == 1 && read(*file.get("value"))) && !read(*text_value(value)))
      throw Error(ErrorKind::kUsage, fmt::format("{} is {}, expected {}", key, excerpt(value), row.expected));
  });
}

std::string write_experiment(const Experiment& experiment, const ComparedRun& run, std::uint64_t seed) {
  std::string text = line("name", *text_value(experiment.name)) + line("title", *text_value(experiment.title)) +
                     line("version", *text_value(version())) + fmt::format("seed = {}\n", seed);
  std::string section;
  for (const SchemaRow& row : schema_rows()) {  // one by one, since a toml::table has its own order
    const TomlValue value = row.write(run.settings);
    if (!value) continue;
    if (section != row.section) text += fmt::format("\n[{}]\n", section = row.section);
    text += line(row.key, *value);
  }
  return text + "\n[[compare]]\n" + line("name", *text_value(run.name));
}

std::string settings_json(const RunSettings& settings) {
  toml::table file;
  for (const SchemaRow& row : schema_rows())
    if (const TomlValue value = row.write(settings))
      file.insert(row.section, toml::table()).first->second.as_table()->insert(row.key, *value);
  std::ostringstream out;
  out << toml::json_formatter(file);
  return out.str();
}

std::vector<DifferingKey> differing_keys(const std::vector<ComparedRun>& runs) {
  std::vector<DifferingKey> keys;
  for (const SchemaRow& row : schema_rows()) {
    DifferingKey one{.key = fmt::format("{}.{}", row.section, row.key), .values = {}};
    for (const ComparedRun& run : runs) {
      const TomlValue value = row.write(run.settings);
      one.values.push_back(value ? toml_text(*value) : "");
    }
    if (std::adjacent_find(one.values.begin(), one.values.end(), std::not_equal_to<>()) != one.values.end())
      keys.push_back(std::move(one));
  }
  return keys;
}

std::vector<ExperimentKey> experiment_keys() {
  std::vector<ExperimentKey> keys;
  for (const SchemaRow& row : schema_rows()) {
    const TomlValue fallback = row.write({});
    keys.push_back({row.section, row.key, row.expected, row.summary, fallback ? toml_text(*fallback) : ""});
  }
  return keys;
}

}  // namespace labelshift
