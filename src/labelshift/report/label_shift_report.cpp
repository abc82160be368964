#include "labelshift/report/label_shift_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "labelshift/core/base/version.hpp"
#include "labelshift/core/estimators/estimators.hpp"
#include "labelshift/core/likelihood/sample_summary.hpp"
#include "labelshift/report/adaptation_report.hpp"
#include "labelshift/report/json_parts.hpp"

namespace labelshift {
namespace {

/// Fewer target rows than this say next to nothing of a mix, however few its classes are.
constexpr double kFewRows = 10.0;

Json choice_object(const CalibrationChoice& choice) {
  Json candidates = Json::array();
  for (const CalibrationCandidate& candidate : choice.candidates) {
    candidates.push_back({{"name", to_string(candidate.kind)},
                          {"cross_validated_nll", json_number(candidate.nll)},
                          {"standard_error", json_number(candidate.nll_error)},
                          {"excess", json_number(candidate.excess)},
                          {"excess_standard_error", json_number(candidate.excess_error)}});
    if (candidate.kind == CalibrationKind::kMatrix) candidates.back()["strength"] = candidate.strength;
  }
  return {{"chosen", to_string(choice.for_estimate().kind)},
          {"for_intervals", to_string(choice.for_intervals().kind)},
          {"candidates", candidates}};
}

const char* objective(const LabelShiftOptions& options) {
  return find_estimator(options.estimator).penalised ? "penalised likelihood" : "likelihood";
}

/// Which kind was chosen and what the others would have been.
std::string choice_line(const CalibrationChoice& choice, const CalibrationFit& fit) {
  std::string others;
  for (const CalibrationCandidate& candidate : choice.candidates)
    if (candidate.kind != fit.kind)
      others += fmt::format("{}{} {:.4f}", others.empty() ? "" : ", ", to_string(candidate.kind), candidate.nll);
  const CalibrationKind widest = choice.for_intervals().kind;
  const double best = std::min_element(choice.candidates.begin(), choice.candidates.end(), [](auto& a, auto& b) {
                        return a.nll < b.nll;
                      })->nll;
  return fmt::format(
      "Calibration auto chose {}, {}: cross-validated NLL {:.4f}, {}; "
      "ECE {}.{}",
      to_string(fit.kind), choice.for_estimate().nll <= best ? "the best" : "the simplest within noise of the best",
      choice.for_estimate().nll, others,
      fit.kind == CalibrationKind::kNone ? fmt::format("{:.4f}", fit.ece_before)
                                         : fmt::format("from {:.4f} to {:.4f}", fit.ece_before, fit.ece_after),
      widest == fit.kind ? "" : fmt::format(" The intervals are those of {}.", to_string(widest)));
}

/// How the answer was found and what the tests say.
std::vector<std::string> summary_lines(const LabelShiftReport& report) {
  std::vector<std::string> lines{interval_sentence(report), solver_sentence(report)};
  if (const auto& evidence = report.result.source_evidence)
    lines.push_back(fmt::format("The classifier is right on {:.1f} % of the source.", 100.0 * evidence->accuracy));
  if (report.result.source_is_weighted)
    lines.push_back(
        "The source examples have another mix than the source prior that was given, so they are weighted to have it.");
  if (report.result.calibration_fit) lines.push_back(calibration_sentence(report));
  lines.push_back(verdict_line(report));
  if (const auto& bound = report.result.bound_terms) {
    lines.push_back(fmt::format("Thm. 5.1: mu {:.3g}, p_min {:.3g}, 2 / (mu p_min) {:.3g}, 2 / (mu p_min^2) {:.3g},",
                                bound->mu, bound->p_min, bound->scale, bound->strict_scale));
    lines.push_back(
        fmt::format("  4 sqrt(log(4 / delta) / n) {:.3g} at delta {:.3g}; its B, L and Rad(F) cannot be "
                    "computed, so this is no interval.",
                    bound->sampling_term, bound->delta));
  }
  return lines;
}

/// Decimals that show a probability among this many classes.
int prior_decimals(std::size_t classes) {
  return 3 + static_cast<int>(std::ceil(std::log10(static_cast<double>(classes))));
}

}  // namespace

std::string solver_sentence(const LabelShiftReport& report) {
  const RatioEstimate& estimate = report.result.estimate;
  switch (estimate.stopped_by) {
    case StopReason::kClosedForm:
      return fmt::format("Found by {} in closed form.", report.options.estimator);
    case StopReason::kTolerance:
    case StopReason::kIterationLimit:
    case StopReason::kRounding:
      break;
  }
  return fmt::format(
      "Found by {} in {} iterations{}{}.", report.options.estimator, estimate.iterations,
      estimate.stopped_by == StopReason::kIterationLimit ? ", its limit" : "",
      estimate.gap ? fmt::format(", within {:.1g} of the best {}", *estimate.gap, objective(report.options)) : "");
}

std::string interval_sentence(const LabelShiftReport& report) {
  return fmt::format(
      "low and high are the ends of {:.4g} % intervals, each on its own{}.", 100.0 * report.options.level,
      report.options.bootstrap > 0 ? fmt::format(", from {} bootstrap replicates", report.options.bootstrap) : "");
}

std::string calibration_sentence(const LabelShiftReport& report) {
  const CalibrationFit& fit = *report.result.calibration_fit;
  if (report.result.calibration_choice->candidates.size() > 1)
    return choice_line(*report.result.calibration_choice, fit);
  const auto& unseen = report.result.unseen;
  const std::string why_not =
      unseen.empty() ? ":"
                     : fmt::format(", since the source has no example of {};", list_classes(unseen, report.classes));
  if (fit.kind == CalibrationKind::kNone)
    return fmt::format("Not calibrated{} NLL {:.4f}, ECE {:.4f} on the source{}.", why_not, fit.nll_before,
                       fit.ece_before,
                       unseen.empty() && fit.ece_before > 0.02 && report.result.source_evidence->says_labels()
                           ? "; the calibration auto may give a better answer"
                           : "");
  return fmt::format("Calibration {} took the source's NLL from {:.4f} to {:.4f} and its ECE from {:.4f} to {:.4f}.",
                     report.options.calibration, fit.nll_before, fit.nll_after, fit.ece_before, fit.ece_after);
}

Table mix_table(const std::vector<std::string>& classes, const Eigen::VectorXd& source_prior,
                const Eigen::VectorXd& target_prior, const Intervals& intervals, const Eigen::VectorXd* ratio) {
  const int decimals = prior_decimals(classes.size());
  const auto prior = [&](const char* name, const char* key) { return number_column(name, key, decimals); };
  Table table{.columns = {text_column("class", "class"), prior("source", "source_prior"),
                          prior("target", "target_prior"), prior("low", "target_prior_low"),
                          prior("high", "target_prior_high")}};
  std::vector<const Eigen::VectorXd*> values{&source_prior, &target_prior, &intervals.prior_low, &intervals.prior_high};
  if (ratio) {
    for (const auto& [name, key] : {std::pair{"ratio", "ratio"}, {"low", "ratio_low"}, {"high", "ratio_high"}})
      table.columns.push_back(number_column(name, key, 3));
    values.insert(values.end(), {ratio, &intervals.ratio_low, &intervals.ratio_high});
  }
  for (std::size_t c = 0; c < classes.size(); ++c) {
    std::vector<Cell>& row = table.rows.emplace_back(std::vector<Cell>{classes[c]});
    for (const Eigen::VectorXd* column : values) row.emplace_back((*column)[static_cast<Index>(c)]);
  }
  return table;
}

Table report_table(const LabelShiftReport& report) {
  const LabelShiftResult& result = report.result;
  Table table =
      mix_table(report.classes, result.source_prior, result.target_prior, result.intervals, &result.estimate.ratio);
  table.notes = summary_lines(report);
  return table;
}

std::string report_text(const LabelShiftReport& report) {
  Table table = report_table(report);
  const std::vector<std::string> lines = std::exchange(table.notes, {});
  std::string text = table_text(table) + '\n';
  for (const std::string& line : lines) text += line + '\n';
  return text;
}

std::string report_json(const LabelShiftReport& report) {
  const LabelShiftResult& result = report.result;
  const RatioEstimate& estimate = result.estimate;
  Json json;
  json["estimator"] = report.options.estimator;
  json["calibration"] = report.options.calibration;
  json["source_is_weighted"] = report.result.source_is_weighted;
  json["classes"] = report.classes;
  json["source_prior"] = json_numbers(result.source_prior);
  json["target_prior"] = json_numbers(result.target_prior);
  json["ratio"] = json_numbers(estimate.ratio);
  json["target_prior_low"] = json_numbers(result.intervals.prior_low);
  json["target_prior_high"] = json_numbers(result.intervals.prior_high);
  json["ratio_low"] = json_numbers(result.intervals.ratio_low);
  json["ratio_high"] = json_numbers(result.intervals.ratio_high);
  json["level"] = report.options.level;
  json["mean_log_likelihood"] = json_number(estimate.mean_log_likelihood);
  json["gap"] = estimate.gap ? json_number(*estimate.gap) : Json(nullptr);
  json["iterations"] = estimate.iterations;
  json["stopped_by"] = to_string(estimate.stopped_by);
  json["calibration_fit"] = nullptr;
  if (const auto& fit = result.calibration_fit)
    json["calibration_fit"] = {{"nll_before", json_number(fit->nll_before)},
                               {"nll_after", json_number(fit->nll_after)},
                               {"ece_before", json_number(fit->ece_before)},
                               {"ece_after", json_number(fit->ece_after)}};
  json["source_evidence"] = nullptr;
  if (const auto& evidence = result.source_evidence)
    json["source_evidence"] = {{"accuracy", json_number(evidence->accuracy)},
                               {"nll", json_number(evidence->nll)},
                               {"nll_error", json_number(evidence->nll_error)},
                               {"prior_entropy", json_number(evidence->prior_entropy)}};
  json["calibration_choice"] = nullptr;
  if (const auto& choice = result.calibration_choice) json["calibration_choice"] = choice_object(*choice);
  json["shift_test"] = test_object(result.shift_test);
  json["fit_test"] = test_object(result.fit_test);
  const Verdict verdict = verdict_on(result, report.classes);
  json["verdict"] = to_string(verdict.finding);
  json["verdict_text"] = verdict.text;
  json["target_rows"] = result.target_rows;
  json["seed"] = report.options.seed;
  json["version"] = version();
  if (report.options.bootstrap > 0) json["bootstrap"] = report.options.bootstrap;
  if (const auto& bound = result.bound_terms)
    json["bound_terms"] = {{"mu", json_number(bound->mu)},
                           {"p_min", json_number(bound->p_min)},
                           {"scale", json_number(bound->scale)},
                           {"strict_scale", json_number(bound->strict_scale)},
                           {"sampling_term", json_number(bound->sampling_term)},
                           {"delta", json_number(bound->delta)}};
  if (const auto& adaptation = report.adaptation)
    json["adaptation"] = {{"corrected", adaptation->corrected},
                          {"rows", adaptation->rows},
                          {"changed", adaptation->changed},
                          {"changed_by_calibration", adaptation->changed_by_calibration}};
  if (!report.warnings.empty()) json["warnings"] = report.warnings;
  return json_text(json);
}

PriorPlot report_plot(const LabelShiftReport& report) {
  return {.title = "Label mix of source and target",
          .subtitles = {verdict_line(report)},
          .classes = report.classes,
          .source_prior = report.result.source_prior,
          .target_prior = report.result.target_prior,
          .target_prior_low = report.result.intervals.prior_low,
          .target_prior_high = report.result.intervals.prior_high,
          .level = report.options.level};
}

std::string unusable_source(const SourceEvidence& evidence) {
  if (!evidence.permuted.empty()) return "the columns and the source labels are in different orders";
  return evidence.says_labels() ? "" : "the probabilities do not clearly predict the source labels";
}

std::optional<std::string> source_warning(const SourceEvidence& evidence, const std::vector<std::string>& classes) {
  const auto name = [&](std::size_t i) { return classes[static_cast<std::size_t>(evidence.permuted[i])]; };
  if (!evidence.permuted.empty())
    return fmt::format(
        "columns look permuted: where the probabilities say {}, the source label is mostly {}, so shares would be "
        "those of other classes; check that columns are in the order of the classes",
        name(0), name(1));
  if (evidence.says_labels()) return std::nullopt;
  return fmt::format(
      "the probabilities do not clearly say more of the source labels than the label mix does (their NLL after "
      "calibration is {:.3f} +- {:.3f}, that of the mix {:.3f}), so nothing can be estimated from them; check that "
      "source probabilities and labels are of the same rows in the same order, and that columns are in the order of "
      "the classes",
      evidence.nll, evidence.nll_error, evidence.prior_entropy);
}

std::string why_fit_is_untested(const std::vector<Index>& unseen, const std::vector<std::string>& classes) {
  return unseen.empty() ? "there are too few rows, or too few different predictions"
                        : "the source has no example of " + list_classes(unseen, classes);
}

Verdict verdict_on(const LabelShiftResult& result, const std::vector<std::string>& classes) {
  const bool source = result.calibration_fit.has_value();
  return judge({.shift_test = result.shift_test,
                .fit_test = result.fit_test,
                .why_untested = source ? why_fit_is_untested(result.unseen, classes)
                                       : "there are no source probabilities and labels",
                .needs_calibrated = !source || !result.unseen.empty(),
                .unusable_source = result.source_evidence ? unusable_source(*result.source_evidence) : ""});
}

std::string verdict_line(const LabelShiftReport& report) {
  return fmt::format("Verdict: {}.", verdict_on(report.result, report.classes).text);
}

bool label_shift_fits(const LabelShiftReport& report) {
  const Finding finding = verdict_on(report.result, report.classes).finding;
  return report.result.fit_test && finding != Finding::kDoesNotFit && finding != Finding::kWrongSource;
}

std::vector<Warning> result_warnings(const LabelShiftReport& report) {
  const LabelShiftOptions& options = report.options;
  const LabelShiftResult& result = report.result;
  const RatioEstimate& estimate = result.estimate;
  std::vector<Warning> warnings;
  if (result.target_rows < std::max(kFewRows, static_cast<double>(result.target_prior.size())))
    warnings.push_back(
        {fmt::format("the target has {:.4g} row{}, too few to tell its class mix: what is estimated from them, or "
                     "corrected by them, says little",
                     result.target_rows, result.target_rows == 1.0 ? "" : "s")});
  if (estimate.stopped_by == StopReason::kRounding)
    warnings.push_back(
        {fmt::format("{} could not reach its tolerance: rounding keeps it within {:.1g} of the best {}; ask for a "
                     "larger one",
                     options.estimator, *estimate.gap, objective(options)),
         Remedy::kTolerance});
  if (estimate.stopped_by == StopReason::kIterationLimit) {
    const bool has_limit = has_setting(find_estimator(options.estimator), "max-iterations");
    warnings.push_back({fmt::format("{} stopped at its limit of {} iterations, before it reached its tolerance{}; {}",
                                    options.estimator, estimate.iterations,
                                    estimate.gap ? fmt::format(" (it is within {:.1g} of the best {})", *estimate.gap,
                                                               objective(options))
                                                 : "",
                                    has_limit ? "raise the limit, or ask for a larger tolerance"
                                              : fmt::format("use {}", LabelShiftOptions().estimator)),
                        has_limit ? Remedy::kIterations : Remedy::kEstimator});
  }
  if (result.source_evidence)
    if (const auto warning = source_warning(*result.source_evidence, report.classes)) warnings.push_back({*warning});
  if (result.calibration_fit && !result.calibration_fit->converged)
    warnings.push_back({fmt::format("calibration {} did not converge; use a simpler one, such as ts",
                                    to_string(result.calibration_fit->kind)),
                        Remedy::kCalibration});
  if (report.adaptation)
    if (const auto warning = adaptation_warning(report)) warnings.push_back(*warning);
  return warnings;
}

}  // namespace labelshift
