#pragma once

#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace labelshift {

/// `text` as XML character data or attribute value: special characters are escaped, and what XML 1.0 cannot hold at all
/// (control characters, broken UTF-8) becomes U+FFFD, so that no class name can make a figure unreadable.
std::string xml_escaped(std::string_view text);

/// The texts, each at most `width` wide. One that is wider loses its end or, where it would then look like another, its
/// middle; those that look alike even so end in their numbers.
std::vector<std::string> distinct_labels(const std::vector<std::string>& texts, double size, double width);

/// A coordinate: two decimals at most, no trailing zeros, the same in every locale.
std::string svg_number(double value);

struct SvgPoint {
  double x, y;
};

/// The SVG commands for straight lines from point to point.
std::string svg_polyline(const std::vector<SvgPoint>& points);

/// The same, and back to the first.
std::string svg_polygon(const std::vector<SvgPoint>& points);

/// How much wider bold letters are.
inline constexpr double kBoldWidth = 1.12;

/// About how wide `text` is at this font size. The viewer's font is unknown, so this follows DejaVu Sans, the widest of
/// the usual sans-serif fonts: room left over looks better than an overlap.
double text_width(std::string_view text, double size);

/// The text in lines of at most this width, broken between words.
std::vector<std::string> wrapped(const std::string& text, double size, double width);

/// `text`, or if that is wider than `width` as much of its start as fits and an ellipsis.
std::string ellipsised(std::string_view text, double size, double width);

/// Which point of a text its x is.
enum class Anchor { kStart, kMiddle, kEnd };

struct TextStyle {
  double size = 11.0;
  const char* fill = "#222222";
  Anchor anchor = Anchor::kStart;
  bool bold = false;
  double max_width = std::numeric_limits<double>::infinity();  // a wider text is ellipsised, with itself as tooltip
  bool upwards = false;                                        // turned to read from bottom to top
};

struct Stroke {
  const char* colour = "#222222";
  double width = 1.0;
  const char* dashes = nullptr;  // lengths drawn and left out in turn, such as "6 3"; nullptr: solid
};

struct Fill {
  const char* colour = "#222222";
  double opacity = 1.0;
  std::optional<Stroke> outline;
};

/// A picture that is written from back to front, with presentation attributes only: style sheets are lost by several of
/// the programs that turn SVG into PDF. `css_class` says what a mark stands for to pages that embed the picture.
class Svg {
 public:
  /// `title` and `description` are what a screen reader reads out.
  Svg(double width, double height, std::string_view title, std::string_view description);

  void rect(double x, double y, double width, double height, const char* fill, const char* css_class = nullptr);
  void line(double x1, double y1, double x2, double y2, const Stroke& stroke, const char* css_class = nullptr);
  /// An open path of the SVG commands `data`, such as "M0 0H10".
  void path(std::string_view data, const Stroke& stroke, const char* css_class = nullptr);
  /// Nothing to be seen: it makes what it covers a part of its group's tooltip, since a mark alone is hard to hit.
  void hit_area(double x, double y, double width, double height);
  /// The inside of the SVG commands `data`.
  void area(std::string_view data, const Fill& fill, const char* css_class = nullptr);
  /// `y` is the middle of the text's capitals.
  void text(double x, double y, std::string_view text, const TextStyle& style, const char* css_class = nullptr);

  /// Texts below each other, `pitch` apart; `y` is that of the first.
  void lines(double x, double y, double pitch, const std::vector<std::string>& lines, const TextStyle& style,
             const char* css_class = nullptr);

  /// `base` with a small raised `exponent`. Not in Unicode's superscripts: few fonts have all of them at one height.
  void power(double x, double y, std::string_view base, std::string_view exponent, const TextStyle& style,
             const char* css_class = nullptr);

  /// What is drawn until end_group() shares this tooltip.
  void begin_group(std::string_view tooltip, const char* css_class = nullptr);
  void end_group();

  /// The whole document. All groups must have been ended.
  std::string str() const;

 private:
  std::string body_;
  int open_groups_ = 0;
};

}  // namespace labelshift
