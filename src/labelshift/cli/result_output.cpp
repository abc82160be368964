#include "labelshift/cli/result_output.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "labelshift/cli/input.hpp"
#include "labelshift/cli/terminal.hpp"
#include "labelshift/core/base/version.hpp"
#include "labelshift/core/estimators/estimators.hpp"
#include "labelshift/core/likelihood/probabilities.hpp"

namespace labelshift::cli {
namespace {

using Json = nlohmann::ordered_json;

/// Fewer target rows than this say next to nothing of a mix, however few its classes are.
constexpr double kFewRows = 10.0;

/// JSON has no infinities and no NaN.
Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

Json numbers(const Eigen::VectorXd& values) {
  Json array = Json::array();
  for (const double value : values) array.push_back(number(value));
  return array;
}

Json test_object(const HypothesisTest& test) {
  return {{"statistic", number(test.statistic)}, {"p_value", number(test.p_value)}};
}

Json choice_object(const CalibrationChoice& choice) {
  Json candidates = Json::array();
  for (const CalibrationCandidate& candidate : choice.candidates) {
    candidates.push_back({{"name", to_string(candidate.kind)},
                          {"cross_validated_nll", number(candidate.nll)},
                          {"standard_error", number(candidate.nll_error)},
                          {"excess", number(candidate.excess)},
                          {"excess_standard_error", number(candidate.excess_error)}});
    if (candidate.kind == CalibrationKind::kMatrix) candidates.back()["strength"] = candidate.strength;
  }
  return {{"chosen", to_string(choice.for_estimate().kind)},
          {"for_intervals", to_string(choice.for_intervals().kind)},
          {"candidates", candidates}};
}

std::string json_text(const Report& report) {
  const LabelShiftResult& result = report.result;
  const RatioEstimate& estimate = result.estimate;
  Json json;
  json["estimator"] = report.options.estimator;
  json["calibration"] = report.options.calibration;
  json["source_is_weighted"] = report.result.source_is_weighted;
  json["classes"] = report.classes;
  json["source_prior"] = numbers(result.source_prior);
  json["target_prior"] = numbers(result.target_prior);
  json["ratio"] = numbers(estimate.ratio);
  json["target_prior_low"] = numbers(result.intervals.prior_low);
  json["target_prior_high"] = numbers(result.intervals.prior_high);
  json["ratio_low"] = numbers(result.intervals.ratio_low);
  json["ratio_high"] = numbers(result.intervals.ratio_high);
  json["level"] = report.options.level;
  json["mean_log_likelihood"] = number(estimate.mean_log_likelihood);
  json["gap"] = estimate.gap ? number(*estimate.gap) : Json(nullptr);
  json["iterations"] = estimate.iterations;
  json["stopped_by"] = to_string(estimate.stopped_by);
  json["calibration_fit"] = nullptr;
  if (const auto& fit = result.calibration_fit)
    json["calibration_fit"] = {{"nll_before", number(fit->nll_before)},
                               {"nll_after", number(fit->nll_after)},
                               {"ece_before", number(fit->ece_before)},
                               {"ece_after", number(fit->ece_after)}};
  json["source_evidence"] = nullptr;
  if (const auto& evidence = result.source_evidence)
    json["source_evidence"] = {{"accuracy", number(evidence->accuracy)},
                               {"nll", number(evidence->nll)},
                               {"nll_error", number(evidence->nll_error)},
                               {"prior_entropy", number(evidence->prior_entropy)}};
  json["calibration_choice"] = nullptr;
  if (const auto& choice = result.calibration_choice) json["calibration_choice"] = choice_object(*choice);
  json["shift_test"] = test_object(result.shift_test);
  json["fit_test"] = result.fit_test ? test_object(*result.fit_test) : Json(nullptr);
  const Verdict verdict = verdict_on(result, report.classes);
  json["verdict"] = to_string(verdict.finding);
  json["verdict_text"] = verdict.text;
  json["target_rows"] = result.target_rows;
  json["seed"] = report.options.seed;
  json["version"] = version();
  if (report.options.bootstrap > 0) json["bootstrap"] = report.options.bootstrap;
  if (const auto& bound = result.bound_terms)
    json["bound_terms"] = {{"mu", number(bound->mu)},
                           {"p_min", number(bound->p_min)},
                           {"scale", number(bound->scale)},
                           {"strict_scale", number(bound->strict_scale)},
                           {"sampling_term", number(bound->sampling_term)},
                           {"delta", number(bound->delta)}};
  if (const auto& adaptation = report.adaptation)
    json["adaptation"] = {{"corrected", adaptation->corrected},
                          {"rows", adaptation->rows},
                          {"changed", adaptation->changed},
                          {"changed_by_calibration", adaptation->changed_by_calibration}};
  if (!report.warnings.empty()) json["warnings"] = report.warnings;
  // Class names are the user's bytes, which may not be UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::string csv_text(const Report& report) {
  const LabelShiftResult& result = report.result;
  std::string text = "class,source_prior,target_prior,target_prior_low,target_prior_high,ratio,ratio_low,ratio_high\n";
  for (Index c = 0; c < result.source_prior.size(); ++c) {
    text += csv_cell(report.classes[static_cast<std::size_t>(c)]);
    for (const Eigen::VectorXd* column :
         {&result.source_prior, &result.target_prior, &result.intervals.prior_low, &result.intervals.prior_high,
          &result.estimate.ratio, &result.intervals.ratio_low, &result.intervals.ratio_high})
      text += fmt::format(",{}", (*column)[c]);
    text += '\n';
  }
  return text;
}

const char* objective(const LabelShiftOptions& options) {
  return find_estimator(options.estimator).penalised ? "penalised likelihood" : "likelihood";
}

std::string how_found(const Report& report) {
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

std::string interval_line(const Report& report) {
  return fmt::format(
      "low and high are the ends of {:.4g} % intervals, each on its own{}.", 100.0 * report.options.level,
      report.options.bootstrap > 0 ? fmt::format(", from {} bootstrap replicates", report.options.bootstrap) : "");
}

/// Which kind was chosen and what the others would have been.
std::string choice_line(const CalibrationChoice& choice, const CalibrationFit& fit) {
  std::string others;
  for (const CalibrationCandidate& candidate : choice.candidates)
    if (candidate.kind != fit.kind)
      others += fmt::format("{}{} {:.4f}", others.empty() ? "" : ", ", to_string(candidate.kind), candidate.nll);
  const CalibrationKind widest = choice.for_intervals().kind;
  return fmt::format(
      "Calibration auto chose {}, the simplest within noise of the best: cross-validated NLL {:.4f}, {}; "
      "ECE {}.{}",
      to_string(fit.kind), choice.for_estimate().nll, others,
      fit.kind == CalibrationKind::kNone ? fmt::format("{:.4f}", fit.ece_before)
                                         : fmt::format("from {:.4f} to {:.4f}", fit.ece_before, fit.ece_after),
      widest == fit.kind ? "" : fmt::format(" The intervals are those of {}.", to_string(widest)));
}

std::string calibration_line(const Report& report, const CalibrationFit& fit) {
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
                           ? "; --calibration auto may give a better answer"
                           : "");
  return fmt::format("Calibration {} took the source's NLL from {:.4f} to {:.4f} and its ECE from {:.4f} to {:.4f}.",
                     report.options.calibration, fit.nll_before, fit.nll_after, fit.ece_before, fit.ece_after);
}

/// How the answer was found and what the tests say.
std::vector<std::string> summary_lines(const Report& report) {
  std::vector<std::string> lines{interval_line(report), how_found(report)};
  if (const auto& evidence = report.result.source_evidence)
    lines.push_back(fmt::format("The classifier is right on {:.1f} % of the source.", 100.0 * evidence->accuracy));
  if (report.result.source_is_weighted)
    lines.push_back("The source examples have another mix than --source-prior, so they are weighted to have it.");
  if (report.result.calibration_fit) lines.push_back(calibration_line(report, *report.result.calibration_fit));
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

std::string table_text(const Report& report) {
  const LabelShiftResult& result = report.result;
  std::vector<std::vector<std::string>> rows{{"class", "source", "target", "low", "high", "ratio", "low", "high"}};
  const int decimals = prior_decimals(report.classes.size());
  const auto prior = [&](double value) { return fmt::format("{:.{}f}", value, decimals); };
  const auto ratio = [](double value) { return fmt::format("{:.3f}", value); };
  for (Index c = 0; c < result.source_prior.size(); ++c) {
    rows.push_back({report.classes[static_cast<std::size_t>(c)], prior(result.source_prior[c]),
                    prior(result.target_prior[c]), prior(result.intervals.prior_low[c]),
                    prior(result.intervals.prior_high[c]), ratio(result.estimate.ratio[c]),
                    ratio(result.intervals.ratio_low[c]), ratio(result.intervals.ratio_high[c])});
  }
  std::string text = aligned(rows) + '\n';
  for (const std::string& line : summary_lines(report)) text += line + '\n';
  return text;
}

}  // namespace

std::string format_report(const Report& report, const std::string& format) {
  if (format == "json") return json_text(report);
  if (format == "csv") return csv_text(report);
  return table_text(report);
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

Verdict verdict_on(const LabelShiftResult& result, const std::vector<std::string>& classes) {
  const bool source = result.calibration_fit.has_value();
  return judge({.shift_test = result.shift_test,
                .fit_test = result.fit_test,
                .why_untested = !source ? "there are no source probabilities and labels"
                                : !result.unseen.empty()
                                    ? "the source has no example of " + list_classes(result.unseen, classes)
                                    : "there are too few rows, or too few different predictions",
                .needs_calibrated = !source || !result.unseen.empty(),
                .unusable_source = result.source_evidence ? unusable_source(*result.source_evidence) : ""});
}

std::string verdict_line(const Report& report) {
  return fmt::format("Verdict: {}.", verdict_on(report.result, report.classes).text);
}

std::vector<std::string> result_warnings(const Report& report) {
  const LabelShiftOptions& options = report.options;
  const LabelShiftResult& result = report.result;
  std::vector<std::string> warnings;
  const RatioEstimate& estimate = result.estimate;
  if (result.target_rows < std::max(kFewRows, static_cast<double>(result.target_prior.size())))
    warnings.push_back(
        fmt::format("the target has {:.4g} row{}, too few to tell its class mix: what is estimated from them, or "
                    "corrected by them, says little",
                    result.target_rows, result.target_rows == 1.0 ? "" : "s"));
  if (estimate.stopped_by == StopReason::kRounding)
    warnings.push_back(
        fmt::format("{} could not reach its tolerance: rounding keeps it within {:.1g} of the best {}; ask for "
                    "less with --tolerance",
                    options.estimator, *estimate.gap, objective(options)));
  if (estimate.stopped_by == StopReason::kIterationLimit)
    warnings.push_back(fmt::format(
        "{} stopped at its limit of {} iterations, before it reached its tolerance{}; {}", options.estimator,
        estimate.iterations,
        estimate.gap ? fmt::format(" (it is within {:.1g} of the best {})", *estimate.gap, objective(options)) : "",
        has_setting(options.estimator, "max-iterations")
            ? "raise the limit with --set max-iterations=N, or ask for less with --tolerance"
            : fmt::format("use --estimator {}", EstimatorOptions().estimator)));
  if (result.source_evidence)
    if (const auto warning = source_warning(*result.source_evidence, report.classes)) warnings.push_back(*warning);
  if (result.calibration_fit && !result.calibration_fit->converged)
    warnings.push_back(fmt::format("calibration {} did not converge; use a simpler one, such as --calibration ts",
                                   to_string(result.calibration_fit->kind)));
  return warnings;
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(" \t\r\n\",;") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted.append(c == '"' ? 2 : 1, c);
  return quoted + '"';
}

std::string aligned(std::vector<std::vector<std::string>> rows) {
  for (auto& row : rows)
    for (std::string& cell : row) cell = printable(cell);
  const auto width_of = [](const std::string& cell) {  // in characters: bytes that do not continue one, in UTF-8
    return static_cast<std::size_t>(
        std::count_if(cell.begin(), cell.end(), [](char c) { return (static_cast<unsigned char>(c) >> 6) != 2; }));
  };
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto& row : rows)
    for (std::size_t k = 0; k < row.size(); ++k) widths[k] = std::max(widths[k], width_of(row[k]));
  std::string text;
  for (const auto& row : rows) {
    for (std::size_t k = 0; k < row.size(); ++k) {
      const std::string padding(widths[k] - width_of(row[k]), ' ');
      text += k == 0 ? row[k] + padding : "  " + padding + row[k];
    }
    text += '\n';
  }
  return text;
}

int prior_decimals(std::size_t classes) {
  return 3 + static_cast<int>(std::ceil(std::log10(static_cast<double>(classes))));
}

}  // namespace labelshift::cli
