#include "labelshift/report/adaptation_report.hpp"

#include <fmt/format.h>

namespace labelshift {

std::string adaptation_text(const LabelShiftReport& report) {
  const LabelShiftResult& result = report.result;
  const Adaptation& adapted = *report.adaptation;
  Index most = 0;
  (result.target_prior - result.source_prior).cwiseAbs().maxCoeff(&most);
  const char* rows = adapted.rows == 1 ? "row" : "rows";
  const std::string by_calibration =
      adapted.changed_by_calibration > 0
          ? fmt::format("; the calibration alone changes {}", adapted.changed_by_calibration)
          : "";
  std::string text =
      adapted.corrected
          ? fmt::format("Corrected {} {} for the class mix found by {}; {} predictions changed ({:.1f} %){}.\n",
                        adapted.rows, rows, report.options.estimator, adapted.changed,
                        100.0 * static_cast<double>(adapted.changed) / static_cast<double>(adapted.rows),
                        by_calibration)
          : fmt::format("Left {} {} as the classifier gave them, not calibrated either.\n", adapted.rows, rows);
  if (adapted.corrected && verdict_on(result, report.classes).finding == Finding::kMoved)
    text += fmt::format("Most moved: {}, from {:.4f} to {:.4f}.\n", report.classes[static_cast<std::size_t>(most)],
                        result.source_prior[most], result.target_prior[most]);
  return text + verdict_line(report) + '\n';
}

std::optional<Warning> adaptation_warning(const LabelShiftReport& report) {
  const Finding finding = verdict_on(report.result, report.classes).finding;
  if (!report.adaptation->corrected && finding == Finding::kWrongSource)
    return Warning{"the source tells nothing, so the predictions were left alone"};
  if (!report.adaptation->corrected && report.result.fit_test)
    return Warning{"the label-shift assumption does NOT fit, so the predictions were left alone"};
  if (!report.adaptation->corrected)
    return Warning{"the label-shift assumption could not be tested, so the predictions were left alone",
                   Remedy::kCorrectAnyway};
  if (finding == Finding::kWrongSource)
    return Warning{"the source tells nothing, so the corrected predictions are likely worse than the classifier's own",
                   Remedy::kCorrectIfFits};
  if (finding != Finding::kDoesNotFit) return std::nullopt;
  return Warning{fmt::format("the label-shift assumption does NOT fit ({}), so the corrected predictions may be worse "
                             "than the classifier's own",
                             p_value_text(report.result.fit_test->p_value)),
                 Remedy::kCorrectIfFits};
}

}  // namespace labelshift
