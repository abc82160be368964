#include <fmt/format.h>

#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "labelshift/cli/commands.hpp"
#include "labelshift/cli/input.hpp"
#include "labelshift/cli/progress.hpp"
#include "labelshift/cli/terminal.hpp"
#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/json.hpp"
#include "labelshift/data/datasets/dataset_install.hpp"
#include "labelshift/data/datasets/known_datasets.hpp"
#include "labelshift/report/table.hpp"

namespace labelshift::cli {
namespace {

struct DataOptions {
  std::string action;  // empty: list
  std::string name;
  std::string from;
  std::string format = "table";
};

/// What to type to have a data set.
std::string how_to_get(const KnownDataset& known) {
  if (!known.package.empty()) return "apt-get install " + known.package;
  return fmt::format("labelshift data get {}{}", known.name, known.archive.empty() ? "" : " --from " + known.archive);
}

Json as_json(const KnownDataset& known) {
  const std::vector<DatasetPlace> places = find_dataset(known);
  Json looked_in = Json::array();
  for (const DatasetPlace& place : places)
    looked_in.push_back({{"directory", place.directory}, {"missing", place.missing}});
  const DatasetPlace* found = first_complete(places);
  return {{"name", known.name},       {"summary", known.summary},
          {"classes", known.classes}, {"train", known.train_size},
          {"test", known.test_size},  {"directory", found ? Json(found->directory) : Json(nullptr)},
          {"looked_in", looked_in},   {"get", how_to_get(known)}};
}

/// A row for each place where data sets are looked for, up to the one that has it.
Table as_table(std::span<const KnownDataset> sets) {
  Table table{.title = "",
              .columns = {text_column("data set", "name"), text_column("what it is", "summary"),
                          text_column("found", "found"), text_column("directory", "directory")},
              .rows = {},
              .notes = {}};
  for (const KnownDataset& known : sets) {
    const std::vector<DatasetPlace> places = find_dataset(known);
    const DatasetPlace* found = first_complete(places);
    std::string name = known.name, summary = known.summary;  // in the first row of a set alone
    for (const DatasetPlace& place : places) {
      const bool partly = !place.complete() && place.missing.size() < known.files.size();
      table.rows.push_back({std::exchange(name, ""), std::exchange(summary, ""),
                            place.complete() ? "yes"
                            : partly         ? fmt::format("no, {} is missing", place.missing[0])
                                             : "no",
                            place.directory});
      if (&place == found) break;  // nobody looks further
    }
    if (places.empty()) table.rows.push_back({name, summary, "no", {}});
    if (!found) table.notes.push_back(fmt::format("To get {}: {}", known.name, how_to_get(known)));
  }
  return table;
}

void list(const std::string& format) {
  if (format == "json") {
    Json sets = Json::array();
    for (const KnownDataset& known : known_datasets()) sets.push_back(as_json(known));
    print_json(json_text({{"datasets", sets}}));
    return;
  }
  print(table_text(as_table(known_datasets())));
}

/// Files that are there need not be whole.
void check_found(const KnownDataset& known, const std::string& directory) {
  std::optional<Progress> progress(std::in_place);
  progress->show("checking " + directory);
  std::string note;
  try {
    note = load_known_dataset(known, directory).note;
  } catch (const Error& error) {
    throw error.reworded(fmt::format("{}; remove {} first to get {} again", error.what(), directory, known.name));
  }
  progress.reset();
  if (!note.empty()) warn(directory + ": " + note);
  print(fmt::format("{} is already in {}\n", known.name, directory));
}

void get(const DataOptions& options) {
  const KnownDataset& known = find_known_dataset(options.name);
  const std::vector<DatasetPlace> places = find_dataset(known);
  if (const DatasetPlace* found = first_complete(places); found && options.from.empty())
    return check_found(known, found->directory);
  if (places.empty() || places[0].directory == known.package_directory)
    throw Error(ErrorKind::kSystem, "there is no place to put data, since neither LABELSHIFT_DATA nor HOME is set");
  const DeferInterrupt interrupt;
  Progress progress;
  const std::string note =
      install_dataset(known, places[0].directory, {.from = options.from, .observer = showing(progress, interrupt)});
  if (!note.empty()) warn(places[0].directory + ": " + note);
  print(fmt::format("{} is now in {}\n", known.name, places[0].directory));
}

void run(const DataOptions& options) {
  if (options.action.empty()) {
    if (!options.from.empty()) throw Error(ErrorKind::kUsage, "--from goes with labelshift data get NAME");
    return list(options.format);
  }
  if (options.name.empty())
    throw Error(ErrorKind::kUsage, "labelshift data get needs the name of a data set; labelshift data lists them");
  if (options.format != "table") throw Error(ErrorKind::kUsage, "--format is for the list of data sets; leave it out");
  get(options);
}

}  // namespace

void add_data(CLI::App& app) {
  const auto options = std::make_shared<DataOptions>();
  CLI::App& command = *app.add_subcommand("data", "List data sets and where they are, or get one");
  add_choice(command, "action", options->action, "action", {"get"}, "Put a data set where it is looked for");
  add_choice(command, "name", options->name, "data set", known_dataset_names(), "The data set to get");
  command.add_option("--from", options->from, "A directory or .tar.gz archive that has its files")->type_name("FILE");
  add_choice(command, "--format", options->format, "format", {"table", "json"}, "How to print the list");
  command.footer(
      "Data sets are looked for in $LABELSHIFT_DATA, then in $XDG_DATA_HOME/labelshift (~/.local/share/labelshift),\n"
      "then where their Debian package puts them. \"labelshift data get cifar-10 --from cifar-10-binary.tar.gz\" puts\n"
      "one there.\n\n"
      "Example:\n  labelshift data");
  command.callback([options] { run(*options); });
}

}  // namespace labelshift::cli
