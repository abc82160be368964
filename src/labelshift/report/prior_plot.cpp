#include "labelshift/report/prior_plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "labelshift/core/base/error.hpp"
#include "labelshift/report/axis.hpp"
#include "labelshift/report/figure_style.hpp"
#include "labelshift/report/svg.hpp"

namespace labelshift {
namespace {

using Eigen::Index;

constexpr std::size_t kMaxShown = 30;  // fills one page and can still be read
constexpr double kWidth = 720.0;
constexpr double kMaxNameWidth = 220.0;

// Grey and blue that differ in lightness too, so that they stay apart in grey print and with any colour blindness.
constexpr const char* kSourceColour = kBarColour;
constexpr const char* kTargetColour = "#3a8dc7";
constexpr Stroke kIntervalStroke{.colour = kInkColour, .width = 1.25};

/// Throws unless `shares` has an entry from 0 to 1 for every class; rounding may take them past the ends.
void check_shares(const PriorPlot& plot, const Eigen::VectorXd& shares, const char* name) {
  if (plot.classes.empty() || shares.size() != static_cast<Index>(plot.classes.size()))
    throw Error(ErrorKind::kInput, fmt::format("figure of priors: {} has {} entries for {} classes; give one a class",
                                               name, shares.size(), plot.classes.size()));
  for (Index c = 0; c < shares.size(); ++c)
    if (!(shares[c] >= -1e-9 && shares[c] <= 1.0 + 1e-9))
      throw Error(ErrorKind::kInput, fmt::format("figure of priors: {} of class \"{}\" is {}, expected 0 to 1", name,
                                                 plot.classes[static_cast<std::size_t>(c)], shares[c]));
}

/// All classes in their order, or if they are too many the ones with the largest |q_c - p_c|, largest first.
std::vector<Index> shown_classes(const PriorPlot& plot) {
  std::vector<Index> shown(plot.classes.size());
  std::iota(shown.begin(), shown.end(), Index{0});
  if (shown.size() <= kMaxShown) return shown;
  const Eigen::VectorXd change = (plot.target_prior - plot.source_prior).cwiseAbs();
  std::stable_sort(shown.begin(), shown.end(), [&](Index a, Index b) { return change[a] > change[b]; });
  shown.resize(kMaxShown);
  return shown;
}

/// "1,000", whatever the locale.
std::string with_thousands(std::size_t count) {
  std::string digits = fmt::format("{}", count);
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<std::size_t>(at), 1, ',');
  return digits;
}

/// A share as percent. Nothing but zero is printed as zero.
std::string percent(double share, int decimals) {
  if (share == 0.0) return "0%";
  const double least = std::pow(10.0, -decimals);
  if (100.0 * share < least / 2.0) return fmt::format("<{:.{}f}%", least, decimals);
  return fmt::format("{:.{}f}%", 100.0 * share, decimals);
}

/// The horizontal axis: shares from 0 to the first tick that no value exceeds, in about five steps.
struct ShareAxis {
  double left, right;  // x of 0 and of `max`
  double step, max;    // as shares
  int tick_decimals, value_decimals;

  double x(double share) const { return left + (right - left) * share / max; }
};

ShareAxis make_share_axis(double left, double right, double largest) {
  const double step = nice_step(largest / 6.0);
  // Steps of 1 % or more need no decimals; values get one digit more than ticks, and never fewer than one decimal.
  const int tick_decimals = std::max(0, -static_cast<int>(std::floor(std::log10(100.0 * step) + 1e-9)));
  return {.left = left,
          .right = right,
          .step = step,
          .max = step * std::ceil(largest / step - 1e-9),
          .tick_decimals = tick_decimals,
          .value_decimals = tick_decimals + 1};
}

/// A horizontal whisker around `y`, capped at the upper end and, if it has one, at the lower end.
std::string whisker(double low, double high, double y, double cap, bool two_sided) {
  const std::string top = svg_number(y - cap), bottom = svg_number(y + cap);
  std::string data = fmt::format("M{} {}H{}M{} {}V{}", svg_number(low), svg_number(y), svg_number(high),
                                 svg_number(high), top, bottom);
  if (two_sided) data += fmt::format("M{} {}V{}", svg_number(low), top, bottom);
  return data;
}

std::string tooltip(const PriorPlot& plot, Index c, int decimals) {
  std::string text = fmt::format("{}: source {}, target {}", plot.classes[static_cast<std::size_t>(c)],
                                 percent(plot.source_prior[c], decimals), percent(plot.target_prior[c], decimals));
  if (plot.target_prior_high.size() == 0) return text;
  const std::string high = percent(plot.target_prior_high[c], decimals);
  if (plot.target_prior[c] == 0.0) return text + fmt::format(" ({:.4g}% upper bound {})", 100.0 * plot.level, high);
  return text + fmt::format(" ({:.4g}% interval {} to {})", 100.0 * plot.level,
                            percent(plot.target_prior_low[c], decimals), high);
}

}  // namespace

std::string prior_plot(const PriorPlot& plot) {
  const bool has_intervals = plot.target_prior_low.size() > 0 || plot.target_prior_high.size() > 0;
  check_shares(plot, plot.source_prior, "source_prior");
  check_shares(plot, plot.target_prior, "target_prior");
  if (has_intervals) {
    check_shares(plot, plot.target_prior_low, "target_prior_low");
    check_shares(plot, plot.target_prior_high, "target_prior_high");
  }

  const std::vector<Index> shown = shown_classes(plot);
  const bool dense = shown.size() > 12;
  const double bar = dense ? 10.0 : 13.0;    // thickness of one bar
  const double pitch = dense ? 28.0 : 38.0;  // from class to class
  const double font = dense ? 10.0 : 11.5;

  std::vector<std::string> subtitles = plot.subtitles;
  if (shown.size() < plot.classes.size())
    subtitles.push_back(
        fmt::format("{} of {} classes: the largest changes", shown.size(), with_thousands(plot.classes.size())));

  double name_width = 0.0;
  double largest = 1e-9;  // an axis has a length even if all it shows is zero
  for (const Index c : shown) {
    name_width = std::max(name_width, text_width(plot.classes[static_cast<std::size_t>(c)], font));
    largest = std::max({largest, plot.source_prior[c], plot.target_prior[c]});
    if (has_intervals) largest = std::max(largest, plot.target_prior_high[c]);
  }
  name_width = std::min(name_width, kMaxNameWidth);
  std::vector<std::string> shown_names;
  for (const Index c : shown) shown_names.push_back(plot.classes[static_cast<std::size_t>(c)]);
  const std::vector<std::string> labels = distinct_labels(shown_names, font, kMaxNameWidth);
  const double value_room = 6.0 + text_width("<0.000%", font);  // right of the longest bar
  const ShareAxis axis = make_share_axis(kMargin + name_width + 8.0, kWidth - kMargin - value_room, largest);

  const double subtitles_top = kMargin + 26.0;
  const double legend_y = subtitles_top + kLineHeight * static_cast<double>(subtitles.size()) + 12.0;
  const double rows_top = legend_y + 20.0;
  const double rows_bottom = rows_top + pitch * static_cast<double>(shown.size());
  const double height = rows_bottom + 48.0;

  Svg svg(kWidth, height, plot.title,
          fmt::format("Bar chart of the share of each class in the source and in the target{}, for {} of {} classes.",
                      has_intervals ? fmt::format(" with {:.4g}% intervals", 100.0 * plot.level) : "", shown.size(),
                      plot.classes.size()));
  const double full_width = kWidth - 2.0 * kMargin;
  svg.text(kMargin, kMargin + 9.0, plot.title,
           {.size = 15.0, .fill = kInkColour, .bold = true, .max_width = full_width});
  svg.lines(kMargin, subtitles_top + 6.0, kLineHeight, subtitles,
            {.size = kLabelSize, .fill = kQuietColour, .max_width = full_width});

  const TextStyle legend_style{.size = kLabelSize, .fill = kInkColour};
  double x = axis.left;
  svg.rect(x, legend_y - 5.0, 18.0, 10.0, kSourceColour);
  svg.text(x + 24.0, legend_y, "source", legend_style);
  x += 24.0 + text_width("source", kLabelSize) + 18.0;
  svg.rect(x, legend_y - 5.0, 18.0, 10.0, kTargetColour);
  svg.text(x + 24.0, legend_y, "target", legend_style);
  x += 24.0 + text_width("target", kLabelSize) + 18.0;
  if (has_intervals) {
    svg.path(whisker(x, x + 18.0, legend_y, 4.0, true), kIntervalStroke);
    svg.text(x + 24.0, legend_y, fmt::format("{:.4g}% interval of the target", 100.0 * plot.level), legend_style);
  }

  const auto ticks = static_cast<int>(std::lround(axis.max / axis.step));
  for (int i = 0; i <= ticks; ++i) {
    const double share = i * axis.step;
    svg.line(axis.x(share), rows_top, axis.x(share), rows_bottom + 4.0, {.colour = kGridColour}, "grid");
    svg.text(axis.x(share), rows_bottom + 14.0, percent(share, axis.tick_decimals),
             {.size = 10.5, .fill = kQuietColour, .anchor = Anchor::kMiddle}, "tick");
  }
  svg.text((axis.left + axis.right) / 2.0, rows_bottom + 32.0, "share of examples",
           {.size = kLabelSize, .fill = kQuietColour, .anchor = Anchor::kMiddle});

  for (std::size_t i = 0; i < shown.size(); ++i) {
    const Index c = shown[i];
    const double middle = rows_top + pitch * (static_cast<double>(i) + 0.5);
    const double source_y = middle - bar / 2.0 - 0.5;  // of the middle of the bar; the bars stand 1 apart
    const double target_y = middle + bar / 2.0 + 0.5;
    svg.begin_group(tooltip(plot, c, axis.value_decimals));
    svg.text(axis.left - 8.0, middle, labels[i], {.size = font, .fill = kInkColour, .anchor = Anchor::kEnd}, "name");

    const double source_end = axis.x(plot.source_prior[c]);
    svg.rect(axis.left, source_y - bar / 2.0, source_end - axis.left, bar, kSourceColour, "source");
    svg.text(source_end + 5.0, source_y, percent(plot.source_prior[c], axis.value_decimals),
             {.size = font - 1.0, .fill = kQuietColour}, "source-value");

    double target_end = axis.x(plot.target_prior[c]);
    svg.rect(axis.left, target_y - bar / 2.0, target_end - axis.left, bar, kTargetColour, "target");
    if (has_intervals) {
      const double high = axis.x(plot.target_prior_high[c]);
      svg.path(whisker(axis.x(plot.target_prior_low[c]), high, target_y, bar * 0.3, plot.target_prior[c] > 0.0),
               kIntervalStroke, "interval");
      target_end = std::max(target_end, high);
    }
    svg.text(target_end + 5.0, target_y, percent(plot.target_prior[c], axis.value_decimals),
             {.size = font - 1.0, .fill = kInkColour, .bold = true}, "target-value");
    svg.end_group();
  }
  svg.line(axis.left, rows_top, axis.left, rows_bottom + 4.0, {.colour = kQuietColour}, "axis");
  return svg.str();
}

}  // namespace labelshift
