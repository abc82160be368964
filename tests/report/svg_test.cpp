#include "labelshift/report/svg.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/report/parse_xml.hpp"

namespace labelshift {
namespace {

TEST(XmlEscaped, EscapesTheFiveSpecialCharacters) {
  EXPECT_EQ(xml_escaped("<b>&\"it's\"</b>"), "&lt;b&gt;&amp;&quot;it&#39;s&quot;&lt;/b&gt;");
}

TEST(XmlEscaped, KeepsUnicodeOfEveryLength) {
  const std::string text = "a\u00e9\u65e5\U0001F389\t\n";  // one to four bytes
  EXPECT_EQ(xml_escaped(text), text);
}

TEST(XmlEscaped, ReplacesWhatXmlCannotHold) {
  EXPECT_EQ(xml_escaped(std::string_view("a\0b", 3)), "a\uFFFDb");
  EXPECT_EQ(xml_escaped("\x1b[0m"), "\uFFFD[0m");
  EXPECT_EQ(xml_escaped("\u202E04 \u2067%"), "\uFFFD04 \uFFFD%");          // the digits would stand the other way round
  EXPECT_EQ(xml_escaped("caf\xe9"), "caf\uFFFD");                          // Latin-1
  EXPECT_EQ(xml_escaped("\xe9t\xe9"), "\uFFFDt\uFFFD");                    // a lead byte without its followers
  EXPECT_EQ(xml_escaped("\xc0\xaf"), "\uFFFD\uFFFD");                      // an overlong "/"
  EXPECT_EQ(xml_escaped("\xe0\x80\xaf"), "\uFFFD\uFFFD\uFFFD");            // the same in three bytes
  EXPECT_EQ(xml_escaped("\xed\xa0\x80"), "\uFFFD\uFFFD\uFFFD");            // half of a surrogate pair
  EXPECT_EQ(xml_escaped("\xef\xbf\xbf"), "\uFFFD\uFFFD\uFFFD");            // U+FFFF, a noncharacter
  EXPECT_EQ(xml_escaped("\xf4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");  // beyond U+10FFFF
}

TEST(SvgNumber, IsShort) {
  EXPECT_EQ(svg_number(12.0), "12");
  EXPECT_EQ(svg_number(100.0), "100");
  EXPECT_EQ(svg_number(0.5), "0.5");
  EXPECT_EQ(svg_number(1.0 / 3.0), "0.33");
  EXPECT_EQ(svg_number(-2.25), "-2.25");
  EXPECT_EQ(svg_number(-0.001), "0");
  EXPECT_EQ(svg_number(0.0), "0");
}

TEST(Ellipsised, KeepsTextThatFits) {
  EXPECT_EQ(ellipsised("Coat", 10.0, text_width("Coat", 10.0)), "Coat");
}

TEST(Ellipsised, CutsTextToTheWidth) {
  const std::string text(200, 'x');
  const std::string cut = ellipsised(text, 10.0, 100.0);
  EXPECT_TRUE(cut.ends_with("x\u2026"));
  EXPECT_LE(text_width(cut, 10.0), 100.0);
  EXPECT_GT(text_width("x" + cut, 10.0), 100.0);  // one more would not have fitted
}

TEST(Ellipsised, NeverCutsInsideACharacter) {
  std::string text;
  for (int i = 0; i < 50; ++i) text += "\u65e5";
  for (double width = 5.0; width < 100.0; width += 1.0)
    EXPECT_EQ(xml_escaped(ellipsised(text, 10.0, width)).find("\uFFFD"), std::string::npos) << width;
}

TEST(Ellipsised, LeavesNoSpaceBeforeTheEllipsis) {
  EXPECT_EQ(ellipsised("a          b", 10.0, text_width("a     ", 10.0) + 10.0), "a\u2026");
}

TEST(Svg, IsWellFormedWhateverTheTexts) {
  const std::string nasty = "]]><script>\"&'\x01\xff</svg>";
  Svg svg(100.0, 50.0, nasty, nasty);
  svg.begin_group(nasty);
  svg.rect(1.0, 2.0, 3.0, 4.0, "#000000", nasty.c_str());
  svg.line(1.0, 2.0, 3.0, 4.0, {});
  svg.path("M0 0H10", {.colour = "#123456", .width = 1.5, .dashes = "2 2"});
  svg.area("M0 0H10V10Z", {.colour = "#123456", .opacity = 0.5, .outline = Stroke{}}, nasty.c_str());
  svg.power(10.0, 20.0, nasty, nasty, {}, nasty.c_str());
  svg.text(10.0, 20.0, nasty, {.anchor = Anchor::kMiddle, .bold = true});
  svg.end_group();
  std::vector<std::string> names;
  for (const XmlElement& element : parse_xml(svg.str())) names.push_back(element.name);
  EXPECT_THAT(names, testing::ElementsAre("svg", "title", "desc", "rect", "g", "title", "rect", "line", "path", "path",
                                          "text", "tspan", "text"));
}

TEST(Svg, CarriesItsTitleAndDescriptionForScreenReaders) {
  const auto elements = parse_xml(Svg(100.0, 50.0, "A & B", "what it shows").str());
  EXPECT_EQ(elements[0].attributes.at("role"), "img");
  EXPECT_EQ(elements[1].text, "A & B");
  EXPECT_EQ(elements[2].text, "what it shows");
}

TEST(Svg, GivesATextThatIsCutAsItsTooltip) {
  const std::string name(100, 'n');
  Svg svg(100.0, 50.0, "", "");
  svg.text(0.0, 0.0, name, {.max_width = 50.0});
  svg.text(0.0, 0.0, "short", {.max_width = 50.0});
  const auto elements = parse_xml(svg.str());
  ASSERT_EQ(elements.size(), 7u);  // svg, title, desc, background, text, its title, text
  EXPECT_TRUE(elements[4].text.ends_with("\u2026"));
  EXPECT_EQ(elements[5].name, "title");
  EXPECT_EQ(elements[5].text, name);
  EXPECT_EQ(elements[6].text, "short");
}

TEST(Svg, DrawsDashesAndAreasAsAsked) {
  Svg svg(100.0, 50.0, "", "");
  svg.line(0.0, 0.0, 1.0, 1.0, {});
  svg.line(0.0, 0.0, 1.0, 1.0, {.dashes = "6 3"});
  svg.area("M0 0H10V10Z", {.colour = "#123456", .opacity = 0.25});
  svg.area("M0 0H10V10Z", {.outline = Stroke{.colour = "#ffffff", .width = 0.5}});
  const auto elements = parse_xml(svg.str());
  ASSERT_EQ(elements.size(), 8u);  // svg, title, desc, background, then these
  EXPECT_FALSE(elements[4].attributes.contains("stroke-dasharray"));
  EXPECT_EQ(elements[5].attributes.at("stroke-dasharray"), "6 3");
  EXPECT_EQ(elements[6].attributes.at("fill"), "#123456");
  EXPECT_EQ(elements[6].attributes.at("fill-opacity"), "0.25");
  EXPECT_FALSE(elements[6].attributes.contains("stroke"));
  EXPECT_FALSE(elements[7].attributes.contains("fill-opacity"));
  EXPECT_EQ(elements[7].attributes.at("stroke"), "#ffffff");
}

TEST(Svg, TurnsATextAboutTheMiddleOfItsCapitals) {
  Svg svg(100.0, 50.0, "", "");
  svg.text(10.0, 20.0, "upwards", {.size = 10.0, .upwards = true});
  const auto elements = parse_xml(svg.str());
  EXPECT_EQ(elements[4].attributes.at("transform"), "translate(13.6 20) rotate(-90)");  // half of 0.72 em
  EXPECT_FALSE(elements[4].attributes.contains("x"));
}

TEST(Svg, RaisesTheExponentOfAPower) {
  Svg svg(100.0, 50.0, "", "");
  svg.power(10.0, 20.0, "10", "3", {.size = 10.0});
  const auto elements = parse_xml(svg.str());
  ASSERT_EQ(elements.size(), 6u);
  EXPECT_EQ(elements[4].text, "10");
  EXPECT_EQ(elements[5].text, "3");
  EXPECT_LT(elements[5].number("dy"), 0.0);
  EXPECT_LT(elements[5].number("font-size"), elements[4].number("font-size"));
}

TEST(SvgPolyline, GoesFromPointToPoint) {
  EXPECT_EQ(svg_polyline({{1.0, 2.0}, {3.5, 4.0}, {5.0, -6.25}}), "M1 2L3.5 4L5 -6.25");
  EXPECT_EQ(svg_polygon({{1.0, 2.0}, {3.5, 4.0}, {5.0, -6.25}}), "M1 2L3.5 4L5 -6.25Z");
}

TEST(DistinctLabels, CutWhereTheyMustAndNeverTwoToTheSame) {
  const std::string start(40, 'x');
  const std::vector<std::string> texts = {"short", start + " one", start + " two", "short"};
  const auto labels = distinct_labels(texts, 10.0, 120.0);
  EXPECT_EQ(labels[0], "short");
  EXPECT_EQ(labels[3], "short");  // the same name
  EXPECT_NE(labels[1], labels[2]);
  EXPECT_TRUE(labels[1].ends_with(" one")) << labels[1];
  for (const std::string& label : labels) EXPECT_LE(text_width(label, 10.0), 120.0) << label;
}

TEST(DistinctLabels, GiveNumbersToTextsThatDifferInTheMiddleOnly) {
  const std::string edge(40, 'x');
  const auto labels = distinct_labels({edge + "a" + edge, edge + "b" + edge, edge}, 10.0, 120.0);
  EXPECT_TRUE(labels[0].ends_with(" (1)")) << labels[0];
  EXPECT_TRUE(labels[1].ends_with(" (2)")) << labels[1];
  EXPECT_NE(labels[2], labels[0]);
  for (const std::string& label : labels) EXPECT_LE(text_width(label, 10.0), 120.0) << label;
}

TEST(DistinctLabels, KeepCharactersOfSeveralBytesWhole) {
  std::string umlauts;
  for (int i = 0; i < 40; ++i) umlauts += "\u00e4";
  for (const std::string& label : distinct_labels({umlauts + "1", umlauts + "2"}, 10.0, 100.0))
    EXPECT_EQ(xml_escaped(label).find("\uFFFD"), std::string::npos) << label;
}

TEST(Svg, SetsLinesBelowEachOther) {
  Svg svg(100.0, 100.0, "", "");
  svg.lines(5.0, 20.0, 16.0, {"one", "two", "three"}, {.size = 10.0}, "note");
  const auto lines = with_class(parse_xml(svg.str()), "note");
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[2].text, "three");
  EXPECT_EQ(lines[1].number("y") - lines[0].number("y"), 16.0);
  EXPECT_EQ(lines[2].number("y") - lines[1].number("y"), 16.0);
  EXPECT_EQ(lines[2].number("x"), 5.0);
}

}  // namespace
}  // namespace labelshift
