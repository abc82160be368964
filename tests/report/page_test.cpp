#include "labelshift/report/page.hpp"

#include <gmock/gmock.h>

#include <limits>
#include <regex>
#include <set>

#include "labelshift/data/files/sha256.hpp"
#include "labelshift/report/figure_style.hpp"
#include "labelshift/report/page_style.hpp"
#include "labelshift/report/prior_plot.hpp"
#include "labelshift/report/series_style.hpp"

namespace labelshift {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const std::string kEvil = "<script>alert('\"&')</script>";

DotPlot dots(const std::string& name) {
  return {.title = name,
          .row_label = "class",
          .x_label = "share",
          .rows = {name, "a,b\n\"c\""},
          .series = {{.name = name, .values = {0.5, 0.25}, .low = {0.4, 0.2}, .high = {0.6, 0.3}}}};
}

LinePlot lines(const std::string& name) {
  return {.title = name,
          .panels = {{.title = name,
                      .x_label = "rounds",
                      .y_label = "loss",
                      .x_scale = AxisScale::kLinear,
                      .y_scale = AxisScale::kLinear,
                      .series = {{.name = name, .x = {0, 1}, .y = {1, 2}, .low = {}, .high = {}}}}}};
}

/// A page with a name everywhere that a page has a place for one.
Page page_of(const std::string& name) {
  Table table{.title = name, .columns = {text_column(name, name), mean_column(name, "mean")}, .notes = {name}};
  table.rows.push_back({name, MeanDeviation{0.5, 0.25}});
  Page page{.title = name, .subtitle = name};
  page.add({Heading{name}});
  page.add({Paragraph{name}});
  page.add({Banner{Tone::kBad, name}});
  page.add({List{{name}}});
  page.add({Verbatim{name}});
  page.add({Facts{{{name, name}}}});
  page.add({table});
  page.add({Charts{{chart_of(dots(name)), charts_of(lines(name))[0]}}});
  page.add({Folded{name, {{Paragraph{name}}}}});
  return page;
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

/// What a browser makes of %41.
std::string uri_unescaped(const std::string& text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text[i] == '%') {
      plain += static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16));
      i += 2;
    } else {
      plain += text[i];
    }
  return plain;
}

std::string base64(const std::string& bytes) {
  constexpr const char* kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    unsigned word = 0;
    for (std::size_t k = 0; k < 3; ++k)
      word = word << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    for (std::size_t k = 0; k < 4; ++k) text += i + k > bytes.size() ? '=' : kDigits[word >> (18 - 6 * k) & 63u];
  }
  return text;
}

TEST(Page, ShowsNamesAsTextWhereverTheyStand) {
  const std::string html = page_html(page_of(kEvil));
  EXPECT_EQ(count(html, "<script"), 1u);  // its own
  EXPECT_THAT(html, Not(HasSubstr("alert('")));
  EXPECT_THAT(html, HasSubstr("<h1>&lt;script&gt;alert(&#39;&quot;&amp;&#39;)&lt;/script&gt;</h1>"));
  EXPECT_GE(count(html, "&lt;script&gt;alert("), 20u);
}

TEST(Page, HasTheDataOfEachChartAsCsvInALink) {
  const std::string html = page_html(page_of("x"));
  const std::regex link("download=\"([a-z0-9-]+)\\.csv\" href=\"data:text/csv;charset=utf-8,([^\"]*)\"");
  std::vector<std::string> found;
  for (auto at = std::sregex_iterator(html.begin(), html.end(), link); at != std::sregex_iterator(); ++at) {
    EXPECT_EQ((*at)[2].str().find_first_of("<>&'\" \n#"), std::string::npos);
    found.push_back(uri_unescaped((*at)[2]));
  }
  EXPECT_THAT(found, testing::ElementsAre("class,mark,value,value_low,value_high\nx,x,0.5,0.4,0.6\n"
                                          "\"a,b\n\"\"c\"\"\",x,0.25,0.2,0.3\n",
                                          "panel,series,rounds,loss,loss_low,loss_high\nx,x,0,1,,\nx,x,1,2,,\n"));
}

TEST(Page, NamesTheHashOfItsOneScript) {
  std::string bytes;
  const std::string hex = sha256_of(kPageScript);
  for (std::size_t i = 0; i < hex.size(); i += 2) bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  EXPECT_EQ("sha256-" + base64(bytes), kPageScriptHash);
  EXPECT_THAT(page_html({}), HasSubstr(std::string("script-src '") + kPageScriptHash + "'"));
}

TEST(Page, NeedsNoOtherFile) {
  const std::string html = page_html(page_of("x"));
  for (const char* other : {"src=", "@import", "url(", "http://", "https://"})
    EXPECT_EQ(count(html, other), other == std::string("http://") ? 2u : 0u) << other;  // the name space of each SVG
  EXPECT_EQ(count(html, "xmlns=\"http://www.w3.org/2000/svg\""), 2u);
}

TEST(Page, FoldsALongTable) {
  Table table{.title = "t", .columns = {count_column("n", "n")}};
  table.rows.assign(31, {std::int64_t{1}});
  EXPECT_THAT(page_html({.blocks = {{table}}}), HasSubstr("<details><summary>t: 31 rows</summary>"));
  table.rows.pop_back();
  EXPECT_THAT(page_html({.blocks = {{table}}}), Not(HasSubstr("<details>")));
}

TEST(Page, LinksToEachOfItsSections) {
  Page page{.title = "t"};
  page.add({Heading{"Did it work?"}});
  page.add({Heading{"Why?"}});
  const std::string html = page_html(page);
  EXPECT_THAT(html, HasSubstr("<a href=\"#did-it-work\">Did it work?</a>\n<a href=\"#why\">Why?</a>"));
  EXPECT_THAT(html, HasSubstr("<h2 id=\"did-it-work\">Did it work?</h2>"));
}

TEST(Page, ShowsEveryColourOfAFigureInTheDarkToo) {
  std::set<std::string> known;
  for (const SchemeColour& colour : scheme_colours()) known.insert(colour.light);
  LinePlot line = lines("x");
  line.panels[0].series.clear();
  DotPlot dot = dots("x");
  dot.joined = true;
  dot.series.clear();
  for (std::size_t i = 0; i < kMaxSeriesStyles; ++i) {
    line.panels[0].series.push_back(
        {.name = std::to_string(i), .x = {0, 1, 2}, .y = {1, 2, 3}, .low = {0, 1, 2}, .high = {2, 3, 4}});
    dot.series.push_back({.name = std::to_string(i),
                          .values = {0.5, 0.1 + 0.01 * static_cast<double>(i)},
                          .low = {0.4, 0.0},
                          .high = {0.6, 0.4}});
  }
  line.panels[0].y_scale = AxisScale::kLog;
  PriorPlot prior{.title = "t", .classes = {"a", "b"}};
  prior.source_prior = prior.target_prior = prior.target_prior_low = prior.target_prior_high =
      Eigen::Vector2d(0.5, 0.5);
  const std::string svgs = line_plot(line) + dot_plot(dot) + prior_plot(prior);
  const std::regex colour("(?:fill|stroke)=\"(#[0-9a-f]+)\"");
  std::set<std::string> unknown;
  std::size_t found = 0;
  for (auto at = std::sregex_iterator(svgs.begin(), svgs.end(), colour); at != std::sregex_iterator(); ++at, ++found)
    if (!known.contains((*at)[1])) unknown.insert((*at)[1]);
  EXPECT_THAT(unknown, IsEmpty());
  EXPECT_GT(found, 200u);
}

TEST(Page, GivesPanelsOfOneFigureTheSameLegend) {
  LinePlot plot = lines("x");
  plot.panels.push_back(plot.panels[0]);
  plot.panels[1].title = "second";
  plot.panels[1].series[0].name = "other";
  plot.names = {"x", "other"};
  const auto charts = charts_of(plot);
  ASSERT_EQ(charts.size(), 2u);
  EXPECT_EQ(charts[1].title, "second");
  for (const Chart& chart : charts) EXPECT_EQ(count(chart.svg, "class=\"legend\""), 2u);
}

}  // namespace
}  // namespace labelshift
