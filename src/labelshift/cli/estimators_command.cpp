#include <memory>
#include <string>

#include "labelshift/cli/commands.hpp"
#include "labelshift/cli/input.hpp"
#include "labelshift/cli/terminal.hpp"
#include "labelshift/core/base/json.hpp"
#include "labelshift/core/calibration/calibration.hpp"
#include "labelshift/core/estimators/estimators.hpp"
#include "labelshift/report/table.hpp"
#ifdef LABELSHIFT_WITH_TORCH
#include "labelshift/learning/methods.hpp"
#endif

namespace labelshift::cli {
namespace {

#ifdef LABELSHIFT_WITH_TORCH
const std::string kNone;  // no method is the default: an experiment names its own
#endif

template <typename Entry>
Json as_json(std::span<const Entry> entries, const std::string& chosen) {
  Json array = Json::array();
  for (const Entry& entry : entries)
    array.push_back({{"name", entry.name}, {"summary", entry.summary}, {"default", entry.name == chosen}});
  return array;
}

template <typename Entry>
Table as_table(const std::string& title, std::span<const Entry> entries, const std::string& chosen) {
  Table table{.title = title,
              .columns = {text_column("name", "name"), text_column("default", "default"),
                          text_column("what it does", "summary")},
              .rows = {},
              .notes = {}};
  for (const Entry& entry : entries)
    table.rows.push_back({std::string(entry.name), entry.name == chosen ? "yes" : "", std::string(entry.summary)});
  return table;
}

std::vector<CalibrationEntry> all_calibrations() {
  std::vector<CalibrationEntry> all = {{kAutoCalibration,
                                        "choose among these by cross-validated likelihood, the simplest within noise",
                                        CalibrationKind::kNone}};
  all.insert(all.end(), calibrations().begin(), calibrations().end());
  return all;
}

void list(const std::string& format) {
  const EstimatorOptions defaults;
  const std::vector<CalibrationEntry> known = all_calibrations();
  if (format == "json") {
    Json json{{"estimators", as_json(estimators(), defaults.estimator)},
              {"calibrations", as_json(std::span(known), defaults.calibration)}};
#ifdef LABELSHIFT_WITH_TORCH
    json["methods"] = as_json(methods(), kNone);
#endif
    print_json(json_text(json));
    return;
  }
  std::string text = table_text(as_table("Estimators (--estimator)", estimators(), defaults.estimator)) + '\n' +
                     table_text(as_table("Calibrations (--calibration)", std::span(known), defaults.calibration));
#ifdef LABELSHIFT_WITH_TORCH
  Table of_methods = as_table(
      "Methods: a way to train a predictor, a calibration and an estimator (labelshift reproduce)", methods(), kNone);
  text += '\n' + table_text(of_methods);
#endif
  print(text);
}

}  // namespace

void add_estimators(CLI::App& app) {
  const auto format = std::make_shared<std::string>("table");
  CLI::App& command = *app.add_subcommand("estimators", "List estimators, calibrations and methods");
  add_choice(command, "--format", *format, "format", {"table", "json"}, "How to print the list");
  command.footer("Example:\n  labelshift estimators");
  command.callback([format] { list(*format); });
}

}  // namespace labelshift::cli
