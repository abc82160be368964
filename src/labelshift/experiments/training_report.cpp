#include "labelshift/experiments/training_report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "labelshift/core/base/json.hpp"
#include "labelshift/core/base/version.hpp"

namespace labelshift {
namespace {

constexpr int kErrorDigits = 5;

Json quality_object(const Evaluation& evaluation) {
  return {{"accuracy", json_number(evaluation.accuracy)},
          {"nll", json_number(evaluation.quality.nll)},
          {"ece", json_number(evaluation.quality.ece)}};
}

}  // namespace

Table candidates_table(const Selection& selection) {
  Table table{
      .columns = {significant_column("zeta", "zeta", 6), count_column("epochs", "epochs"),
                  text_column("calibration", "calibration"), number_column("MSE of ratios", "error", kErrorDigits),
                  number_column("standard error", "standard_error", kErrorDigits), text_column("chosen", "chosen")}};
  for (const Candidate& candidate : selection.candidates)
    table.rows.push_back({candidate.zeta, std::int64_t{candidate.epochs}, candidate.calibration, candidate.error,
                          candidate.standard_error, &candidate == &selection.best() ? Cell("yes") : Cell()});
  return table;
}

Table quality_table(const std::vector<PartQuality>& parts) {
  Table table{.columns = {text_column("", "part"), count_column("examples", "examples"),
                          number_column("accuracy", "accuracy"), number_column("NLL", "nll"),
                          number_column("ECE", "ece"), number_column("calibrated: accuracy", "calibrated_accuracy"),
                          number_column("NLL", "calibrated_nll"), number_column("ECE", "calibrated_ece")}};
  for (const auto& [name, examples, raw, calibrated] : parts)
    table.rows.push_back({name, static_cast<std::int64_t>(examples), raw.accuracy, raw.quality.nll, raw.quality.ece,
                          calibrated.accuracy, calibrated.quality.nll, calibrated.quality.ece});
  return table;
}

std::string choice_text(const Selection& selection, const std::string& hint) {
  const Candidate& best = selection.best();
  int most = 0;
  for (const Candidate& candidate : selection.candidates) most = std::max(most, candidate.epochs);
  return fmt::format(
      "Chose zeta {}, {} epoch{} and calibration {} among {} candidates{}.\nIt errs least where held-out examples are "
      "resampled to known class mixes: MSE of ratios {:.{}f}, standard error {:.{}f}.\n{}",
      best.zeta, best.epochs, best.epochs == 1 ? "" : "s", best.calibration, selection.candidates.size(), hint,
      best.error, kErrorDigits, best.standard_error, kErrorDigits,
      best.epochs == most ? fmt::format("More than {} epochs were not tried and may do better.\n", most) : "");
}

std::string training_text(const TrainingReport& report, const SearchView& search) {
  std::string text;
  if (report.selection) {
    if (search.listed) text += table_text(candidates_table(*report.selection)) + '\n';
    text += choice_text(*report.selection, search.listed ? "" : search.hint);
  }
  text += fmt::format("Trained {} on {} examples of {} with zeta {}: {} epochs", report.model, report.examples,
                      report.data, report.zeta, report.epochs);
  if (report.resumed_from > 0)
    text += fmt::format(" ({} {}before)", report.resumed_from, report.selection ? "of all trainings " : "of them ");
  if (!report.cross_entropy.empty())
    text += fmt::format(", cross-entropy {:.4f} in the last", report.cross_entropy.back());
  text += ".\n";
  if (!report.parts.empty()) text += '\n' + table_text(quality_table(report.parts)) + '\n';
  if (report.calibration != "none")
    text += fmt::format("Calibration {} was fitted on the held-out examples.\n", report.calibration);
  return text + fmt::format("Predictor: {}\n", report.predictor);
}

std::string training_json(const TrainingReport& report) {
  Json json;
  json["data"] = report.data;
  json["model"] = report.model;
  json["examples"] = report.examples;
  json["zeta"] = report.zeta;
  json["epochs"] = report.epochs;
  json["stopped_by"] = report.stopped_by;
  json["resumed_from"] = report.resumed_from;
  json["cross_entropy"] = report.cross_entropy;
  json["calibration"] = report.calibration;
  for (const PartQuality& part : report.parts)
    json["quality"][part.name] = {{"examples", part.examples},
                                  {"raw", quality_object(part.raw)},
                                  {"calibrated", quality_object(part.calibrated)}};
  if (report.selection)
    for (const Candidate& candidate : report.selection->candidates)
      json["candidates"].push_back({{"zeta", candidate.zeta},
                                    {"epochs", candidate.epochs},
                                    {"calibration", candidate.calibration},
                                    {"error", json_number(candidate.error)},
                                    {"standard_error", json_number(candidate.standard_error)}});
  json["predictor"] = report.predictor;
  json["seed"] = report.seed;
  json["version"] = version();
  return json_text(json);
}

}  // namespace labelshift
