#include "labelshift/report/page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "labelshift/core/base/version.hpp"
#include "labelshift/report/figure_style.hpp"
#include "labelshift/report/page_style.hpp"
#include "labelshift/report/svg.hpp"

namespace labelshift {
namespace {

constexpr std::size_t kMostRows = 30;  // of a table that is shown before it is opened

/// `text` as a part of a data: URI: letters and digits as they are, all else by its bytes.
std::string uri_escaped(std::string_view text) {
  std::string escaped;
  for (const unsigned char byte : text) {
    const bool plain = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') ||
                       byte == '-' || byte == '.' || byte == '_';
    if (plain)
      escaped += static_cast<char>(byte);
    else
      escaped += fmt::format("%{:02X}", byte);
  }
  return escaped;
}

/// A name in letters that any file and any anchor may have.
std::string slug(std::string_view text) {
  std::string name;
  for (const char letter : text) {
    const char lower = letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
    const bool plain = (lower >= 'a' && lower <= 'z') || (lower >= '0' && lower <= '9');
    if (plain)
      name += lower;
    else if (!name.empty() && name.back() != '-')
      name += '-';
  }
  while (!name.empty() && name.back() == '-') name.pop_back();
  return name.empty() ? "data" : name.substr(0, 60);
}

struct ToneLook {
  const char* css_class;
  const char* sign;  // a second cue beside the colour
};

ToneLook look_of(Tone tone) {
  switch (tone) {
    case Tone::kGood:
      return {"good", "\u2713"};
    case Tone::kDoubtful:
      return {"doubtful", "!"};
    case Tone::kBad:
      return {"bad", "\u2717"};
    case Tone::kNeutral:
      break;
  }
  return {"neutral", "i"};
}

class Writer {
 public:
  void write(const std::vector<Block>& blocks) {
    for (const Block& block : blocks) std::visit([this](const auto& one) { write(one); }, block.value);
  }

  std::string text;

 private:
  void element(const char* name, const std::string& content) {
    text += fmt::format("<{0}>{1}</{0}>\n", name, xml_escaped(content));
  }

  void write(const Heading& heading) {
    text += fmt::format("<h2 id=\"{}\">{}</h2>\n", slug(heading.text), xml_escaped(heading.text));
  }
  void write(const Paragraph& paragraph) { element("p", paragraph.text); }
  void write(const Banner& banner) {
    const ToneLook look = look_of(banner.tone);
    text +=
        fmt::format("<p class=\"banner {}\"><span class=\"sign\" aria-hidden=\"true\">{}</span><span>{}</span></p>\n",
                    look.css_class, look.sign, xml_escaped(banner.text));
  }
  void write(const List& list) {
    text += "<ul>\n";
    for (const std::string& item : list.items) element("li", item);
    text += "</ul>\n";
  }
  void write(const Verbatim& verbatim) { text += fmt::format("<pre>{}</pre>\n", xml_escaped(verbatim.text)); }
  void write(const Facts& facts) {
    text += "<dl>\n";
    for (const Fact& fact : facts.facts)
      text += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", xml_escaped(fact.name), xml_escaped(fact.value));
    text += "</dl>\n";
  }
  void write(const Table& table) {
    const bool folded = table.rows.size() > kMostRows;
    if (folded)
      text += fmt::format("<details><summary>{}{} rows</summary>\n",
                          table.title.empty() ? "" : xml_escaped(table.title) + ": ", table.rows.size());
    text += fmt::format("<div class=\"table\" tabindex=\"0\" role=\"region\" aria-label=\"{}\">\n{}</div>\n",
                        xml_escaped(table.title.empty() ? "table" : table.title), table_html(table));
    for (const std::string& note : table.notes) text += fmt::format("<p class=\"note\">{}</p>\n", xml_escaped(note));
    if (folded) text += "</details>\n";
  }
  void write(const Charts& charts) {
    text += fmt::format("<div class=\"charts{}\">\n", charts.charts.size() == 1 ? " alone" : "");
    for (const Chart& chart : charts.charts) {
      text += fmt::format("<figure class=\"chart\">\n<figcaption><strong>{}</strong>{}</figcaption>\n{}",
                          xml_escaped(chart.title), chart.text.empty() ? "" : " " + xml_escaped(chart.text), chart.svg);
      text += fmt::format(
          "<p class=\"data\"><a download=\"{}.csv\" href=\"data:text/csv;charset=utf-8,{}\">Data as "
          "CSV</a></p>\n</figure>\n",
          slug(chart.title), uri_escaped(table_csv(chart.data)));
    }
    text += "</div>\n";
  }
  void write(const Folded& folded) {
    text += fmt::format("<details><summary>{}</summary>\n", xml_escaped(folded.summary));
    write(folded.blocks);
    text += "</details>\n";
  }
};

/// The colours of figures as variables, and figures that take theirs from them.
std::string colour_css() {
  std::string light, dark, rules;
  for (const SchemeColour& colour : scheme_colours()) {
    const std::string name = fmt::format("--{}", colour.light + 1);
    light += fmt::format("{}:{};", name, colour.light);
    dark += fmt::format("{}:{};", name, colour.dark);
    rules += fmt::format(".chart [fill=\"{0}\"]{{fill:var({1})}}.chart [stroke=\"{0}\"]{{stroke:var({1})}}\n",
                         colour.light, name);
  }
  return fmt::format(":root{{{}}}\n@media screen and (prefers-color-scheme: dark){{:root{{{}}}}}\n{}", light, dark,
                     rules);
}

std::string navigation(const Page& page) {
  std::string links;
  for (const Block& block : page.blocks)
    if (const auto* heading = std::get_if<Heading>(&block.value))
      links += fmt::format("<a href=\"#{}\">{}</a>\n", slug(heading->text), xml_escaped(heading->text));
  return links.empty() ? "" : fmt::format("<nav aria-label=\"Sections\">\n{}</nav>\n", links);
}

}  // namespace

Chart chart_of(DotPlot plot) {
  Chart chart{
      .title = std::exchange(plot.title, ""), .text = std::exchange(plot.subtitle, ""), .data = figure_data(plot)};
  chart.svg = dot_plot(plot);
  return chart;
}

std::vector<Chart> charts_of(const LinePlot& plot) {
  std::vector<Chart> charts;
  for (const LinePanel& panel : plot.panels) {
    LinePlot one{.panels = {panel}, .names = plot.names, .for_page = true};
    Chart chart{.title = plot.title, .text = plot.subtitle};
    if (plot.panels.size() > 1) {
      chart.title = std::exchange(one.panels[0].title, "");
      chart.text = "";
    }
    chart.data = figure_data(one);
    chart.svg = line_plot(one);
    charts.push_back(std::move(chart));
  }
  return charts;
}

Table figure_data(const DotPlot& plot) {
  Table table{.columns = {text_column(plot.row_label, plot.row_label), text_column("mark", "mark"),
                          number_column("value", "value"), interval_column("interval", "value")}};
  for (std::size_t i = 0; i < plot.rows.size(); ++i)
    for (const DotSeries& series : plot.series)
      table.rows.push_back({plot.rows[i], series.name, series.values[i],
                            series.low.empty() ? Cell() : Cell(IntervalEnds{series.low[i], series.high[i]})});
  return table;
}

Table figure_data(const LinePlot& plot) {
  Table table{.columns = {text_column("panel", "panel"), text_column("series", "series"), number_column("x", "x"),
                          number_column("y", "y"), interval_column("interval", "y")}};
  if (!plot.panels.empty()) {
    table.columns[2].key = plot.panels[0].x_label;
    table.columns[3].key = table.columns[4].key = plot.panels[0].y_label;
  }
  for (const LinePanel& panel : plot.panels)
    for (const LineSeries& series : panel.series)
      for (std::size_t i = 0; i < series.x.size(); ++i)
        table.rows.push_back({panel.title, series.name, series.x[i], series.y[i],
                              series.low.empty() ? Cell() : Cell(IntervalEnds{series.low[i], series.high[i]})});
  return table;
}

std::string page_html(const Page& page) {
  Writer body;
  body.write(page.blocks);
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      // Nothing is loaded and no other script is run, whatever a name in the page may be.
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; style-src "
      "'unsafe-inline'; "
      "script-src '{}'; base-uri 'none'; form-action 'none'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n"
      "<title>{}</title>\n<style>\n{}{}</style>\n</head>\n<body>\n<main>\n"
      "<header>\n<h1>{}</h1>\n{}{}</header>\n{}<footer>Made by labelshift {}.</footer>\n</main>\n"
      "<script>{}</script>\n</body>\n</html>\n",
      kPageScriptHash, xml_escaped(page.title), kPageStyle, colour_css(), xml_escaped(page.title),
      page.subtitle.empty() ? "" : fmt::format("<p class=\"lead\">{}</p>\n", xml_escaped(page.subtitle)),
      navigation(page), body.text, version(), kPageScript);
}

}  // namespace labelshift
