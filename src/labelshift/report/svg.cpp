#include "labelshift/report/svg.hpp"

#include <fmt/format.h>

#include <cassert>
#include <cmath>

#include "labelshift/core/base/printable.hpp"
#include "labelshift/core/base/utf8.hpp"

namespace labelshift {
namespace {

constexpr char32_t kReplacement = 0xFFFD;
constexpr std::string_view kEllipsis = "\u2026";

/// The first character of a text that is not empty; U+FFFD for a byte that does not start one XML 1.0 allows.
Utf8Character first_xml_character(std::string_view text) {
  const Utf8Character c = first_character(text);
  const bool allowed =
      c.code >= 0x20 ? c.code != 0xFFFE && c.code != 0xFFFF : c.code == '\t' || c.code == '\n' || c.code == '\r';
  return c.bytes > 0 && allowed ? c : Utf8Character{kReplacement, 1};
}

/// The advance of a character in ems of DejaVu Sans, or a little more.
double advance(char32_t c) {
  if (c >= 0x1100) return 1.0;  // CJK, emoji; more than enough for the rest
  if (c >= 0x80) return 0.75;
  const char ascii = static_cast<char>(c);
  const auto one_of = [&](std::string_view set) { return set.find(ascii) != std::string_view::npos; };
  if (one_of("ijlI .,:;'|!/\\")) return 0.35;
  if (one_of("frt()[]\"-")) return 0.46;
  if (one_of("mMW@%")) return 1.0;
  if (one_of("w+=<>~#&")) return 0.84;
  return ascii >= 'A' && ascii <= 'Z' ? 0.75 : 0.64;
}

std::string class_attribute(const char* css_class) {
  return css_class ? fmt::format(" class=\"{}\"", xml_escaped(css_class)) : std::string();
}

std::string stroke_attributes(const Stroke& stroke) {
  return fmt::format("stroke=\"{}\" stroke-width=\"{}\"{}", stroke.colour, svg_number(stroke.width),
                     stroke.dashes ? fmt::format(" stroke-dasharray=\"{}\"", stroke.dashes) : std::string());
}

/// Where a text starts and what it looks like.
std::string text_attributes(double x, double y, const TextStyle& style, const char* css_class) {
  // Capitals are about 0.72 em high. dominant-baseline would say "middle" directly, but not every viewer knows it.
  const double drop = 0.36 * style.size;
  const char* anchor = style.anchor == Anchor::kEnd      ? " text-anchor=\"end\""
                       : style.anchor == Anchor::kMiddle ? " text-anchor=\"middle\""
                                                         : "";
  const std::string place =
      style.upwards ? fmt::format("transform=\"translate({} {}) rotate(-90)\"", svg_number(x + drop), svg_number(y))
                    : fmt::format("x=\"{}\" y=\"{}\"", svg_number(x), svg_number(y + drop));
  return fmt::format("{} {} font-size=\"{}\"{}{} fill=\"{}\"", class_attribute(css_class), place,
                     svg_number(style.size), anchor, style.bold ? " font-weight=\"bold\"" : "", style.fill);
}

/// The start and the end of a text, with an ellipsis between them.
std::string without_middle(std::string_view text, double size, double width) {
  std::vector<std::string_view> characters;
  for (std::string_view rest = text; !rest.empty(); rest.remove_prefix(characters.back().size()))
    characters.push_back(rest.substr(0, first_xml_character(rest).bytes));
  double room = width - text_width(kEllipsis, size);
  std::string start, end;
  std::size_t first = 0, last = characters.size();
  while (first < last) {
    const bool at_start = start.size() <= end.size();
    const std::string_view next = at_start ? characters[first] : characters[last - 1];
    room -= text_width(next, size);
    if (room < 0.0) break;
    if (at_start) {
      start += next;
      ++first;
    } else {
      end.insert(0, next);
      --last;
    }
  }
  return fmt::format("{}{}{}", start, kEllipsis, end);
}

}  // namespace

std::string xml_escaped(std::string_view text) {
  std::string escaped;
  while (!text.empty()) {
    const Utf8Character c = first_xml_character(text);
    if (c.code == '&') {
      escaped += "&amp;";
    } else if (c.code == '<') {
      escaped += "&lt;";
    } else if (c.code == '>') {
      escaped += "&gt;";
    } else if (c.code == '"') {
      escaped += "&quot;";
    } else if (c.code == '\'') {
      escaped += "&#39;";
    } else if (c.code == kReplacement || (c.code >= ' ' && !is_shown(c))) {
      escaped += "\uFFFD";
    } else {
      escaped += text.substr(0, c.bytes);
    }
    text.remove_prefix(c.bytes);
  }
  return escaped;
}

std::string svg_number(double value) {
  assert(std::isfinite(value));
  std::string digits = fmt::format("{:.2f}", value);
  digits.erase(digits.find_last_not_of('0') + 1);
  if (digits.back() == '.') digits.pop_back();
  return digits == "-0" ? "0" : digits;
}

std::string svg_polyline(const std::vector<SvgPoint>& points) {
  std::string data;
  for (const SvgPoint& point : points)
    data += fmt::format("{}{} {}", data.empty() ? "M" : "L", svg_number(point.x), svg_number(point.y));
  return data;
}

std::string svg_polygon(const std::vector<SvgPoint>& points) {
  return svg_polyline(points) + "Z";
}

double text_width(std::string_view text, double size) {
  double ems = 0.0;
  while (!text.empty()) {
    const Utf8Character c = first_xml_character(text);
    ems += advance(c.code);
    text.remove_prefix(c.bytes);
  }
  return ems * size;
}

std::vector<std::string> wrapped(const std::string& text, double size, double width) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    if (!lines.empty() && text_width(lines.back() + " " + word, size) <= width)
      lines.back() += " " + word;
    else
      lines.push_back(word);
    at = end + 1;
  }
  return lines;
}

std::string ellipsised(std::string_view text, double size, double width) {
  if (text_width(text, size) <= width) return std::string(text);
  double used = text_width(kEllipsis, size);
  std::size_t kept = 0;
  while (true) {
    const Utf8Character c = first_xml_character(text.substr(kept));
    used += advance(c.code) * size;
    if (used > width) break;
    kept += c.bytes;
  }
  while (kept > 0 && text[kept - 1] == ' ') --kept;
  return fmt::format("{}{}", text.substr(0, kept), kEllipsis);
}

std::vector<std::string> distinct_labels(const std::vector<std::string>& texts, double size, double width) {
  std::vector<std::string> labels;
  for (const std::string& text : texts) labels.push_back(ellipsised(text, size, width));
  const auto looks_like_another = [&](std::size_t i) {
    for (std::size_t j = 0; j < texts.size(); ++j)
      if (texts[j] != texts[i] && labels[j] == labels[i]) return true;
    return false;
  };
  const auto mend = [&](auto&& shortened) {
    std::vector<std::string> mended = labels;
    for (std::size_t i = 0; i < texts.size(); ++i)
      if (looks_like_another(i)) mended[i] = shortened(i);
    labels = std::move(mended);
  };
  mend([&](std::size_t i) { return without_middle(texts[i], size, width); });
  mend([&](std::size_t i) {
    const std::string number = fmt::format(" ({})", i + 1);
    return ellipsised(texts[i], size, width - text_width(number, size)) + number;
  });
  return labels;
}

Svg::Svg(double width, double height, std::string_view title, std::string_view description) {
  const std::string w = svg_number(width), h = svg_number(height);
  body_ = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" role=\"img\" "
      "font-family=\"Helvetica, Arial, sans-serif\">\n"
      "<title>{2}</title>\n<desc>{3}</desc>\n",
      w, h, xml_escaped(title), xml_escaped(description));
  // A page in dark mode would otherwise show dark text on its own dark background.
  rect(0, 0, width, height, "#ffffff", "background");
}

void Svg::rect(double x, double y, double width, double height, const char* fill, const char* css_class) {
  body_ +=
      fmt::format("<rect{} x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>\n", class_attribute(css_class),
                  svg_number(x), svg_number(y), svg_number(width), svg_number(height), fill);
}

void Svg::line(double x1, double y1, double x2, double y2, const Stroke& stroke, const char* css_class) {
  body_ += fmt::format("<line{} x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" {}/>\n", class_attribute(css_class),
                       svg_number(x1), svg_number(y1), svg_number(x2), svg_number(y2), stroke_attributes(stroke));
}

void Svg::path(std::string_view data, const Stroke& stroke, const char* css_class) {
  body_ += fmt::format("<path{} d=\"{}\" fill=\"none\" {}/>\n", class_attribute(css_class), xml_escaped(data),
                       stroke_attributes(stroke));
}

void Svg::area(std::string_view data, const Fill& fill, const char* css_class) {
  body_ +=
      fmt::format("<path{} d=\"{}\" fill=\"{}\"{}{}/>\n", class_attribute(css_class), xml_escaped(data), fill.colour,
                  fill.opacity < 1.0 ? fmt::format(" fill-opacity=\"{}\"", svg_number(fill.opacity)) : "",
                  fill.outline ? " " + stroke_attributes(*fill.outline) : "");
}

void Svg::text(double x, double y, std::string_view text, const TextStyle& style, const char* css_class) {
  const std::string shown = ellipsised(text, style.size * (style.bold ? kBoldWidth : 1.0), style.max_width);
  body_ += fmt::format("<text{}>{}{}</text>\n", text_attributes(x, y, style, css_class),
                       shown == text ? "" : fmt::format("<title>{}</title>", xml_escaped(text)), xml_escaped(shown));
}

void Svg::lines(double x, double y, double pitch, const std::vector<std::string>& lines, const TextStyle& style,
                const char* css_class) {
  for (std::size_t i = 0; i < lines.size(); ++i)
    text(x, y + pitch * static_cast<double>(i), lines[i], style, css_class);
}

void Svg::power(double x, double y, std::string_view base, std::string_view exponent, const TextStyle& style,
                const char* css_class) {
  // baseline-shift says this directly, but Firefox does not know it.
  body_ += fmt::format("<text{}>{}<tspan dy=\"{}\" font-size=\"{}\">{}</tspan></text>\n",
                       text_attributes(x, y, style, css_class), xml_escaped(base), svg_number(-0.4 * style.size),
                       svg_number(0.75 * style.size), xml_escaped(exponent));
}

void Svg::hit_area(double x, double y, double width, double height) {
  body_ += fmt::format(
      "<rect class=\"hit\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" pointer-events=\"all\"/>\n",
      svg_number(x), svg_number(y), svg_number(width), svg_number(height));
}

void Svg::begin_group(std::string_view tooltip, const char* css_class) {
  body_ += fmt::format("<g{}>\n<title>{}</title>\n", class_attribute(css_class), xml_escaped(tooltip));
  ++open_groups_;
}

void Svg::end_group() {
  assert(open_groups_ > 0);
  body_ += "</g>\n";
  --open_groups_;
}

std::string Svg::str() const {
  assert(open_groups_ == 0);
  return body_ + "</svg>\n";
}

}  // namespace labelshift
