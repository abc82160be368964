#include "labelshift/experiments/study_pages.hpp"

#include <gmock/gmock.h>

namespace labelshift {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

template <typename Part>
std::vector<Part> parts(const Page& page) {
  std::vector<Part> found;
  for (const Block& block : page.blocks)
    if (const auto* part = std::get_if<Part>(&block.value)) found.push_back(*part);
  return found;
}

const Provenance kHere{.command = "labelshift reproduce f", .version = "1.2.3", .machine = "a machine"};

TEST(RatioPage, HasTheClaimWhatCameOfItTheFigureAndHowToGetItAgain) {
  RatioFigure figure{.name = "f", .title = "Figure", .summary = "Fig. 0", .claim = "vrls is best."};
  figure.panels = {{.title = "Digits", .sweep = Sweep::kSize, .methods = {"vrls", "mlls"}},
                   {.title = "Clothes", .sweep = Sweep::kSize, .methods = {"vrls"}}};
  PanelSummary digits{.title = "Digits", .values = {100.0, 1000.0}};
  digits.methods = {{.method = "vrls", .mse = {{4.0, 2.0, 8.0}, {1.0, 0.5, 2.0}}, .geometric_mean = 2.0},
                    {.method = "mlls", .mse = {{2.0, 1.0, 4.0}, {0.5, 0.25, 1.0}}, .geometric_mean = 1.0}};
  PanelSummary clothes{.title = "Clothes", .values = {100.0, 1000.0}};
  clothes.methods = {digits.methods[0]};
  const Page page =
      ratio_page(figure, {.trials = 7, .seed = 5}, {.panels = {digits, clothes}, .quality = {{}, {}}}, kHere);
  EXPECT_EQ(parts<Banner>(page)[0].text, "vrls is best.");
  EXPECT_THAT(parts<List>(page)[0].items,
              testing::ElementsAre("Digits: mlls has the least error, an MSE of 1; vrls has 2 times that.",
                                   "Clothes: vrls has the least error, an MSE of 2."));
  const auto charts = parts<Charts>(page)[0].charts;
  ASSERT_THAT(charts, SizeIs(2));
  EXPECT_EQ(charts[1].title, "Clothes");
  EXPECT_THAT(charts[0].data.rows, SizeIs(4));
  const std::string html = page_html(page);
  EXPECT_THAT(html, HasSubstr("<dd>labelshift reproduce f</dd>"));
  EXPECT_THAT(html, HasSubstr("<dt>Seed</dt><dd>5</dd>"));
  EXPECT_THAT(html, HasSubstr("<dd>a machine</dd>"));
}

TEST(ConvergencePage, CountsThePredictedSlopesThatHold) {
  ConvergenceFigure figure{.name = "thm", .title = "Thm. 0"};
  figure.panels = {{.title = "one", .knob = Knob::kNodes, .values = {1, 2}, .series = {}}};
  ConvergencePanelResult panel;
  const ConvergenceLine line{.name = "weighted",
                             .x = {1, 2},
                             .y = {{4, 3, 5}, {2, 1, 3}},
                             .predicted = -1.0,
                             .slope = {-1, -1.1, -0.9},
                             .verdict = SlopeVerdict::kAsPredicted};
  panel.lines = {line, line, line};
  panel.lines[1].name = "other";
  panel.lines[1].verdict = SlopeVerdict::kMore;
  panel.lines[2].name = "baseline";
  panel.lines[2].predicted = {};
  panel.lines[2].verdict = SlopeVerdict::kBaseline;
  const Page page =
      convergence_page(std::vector{figure}, {.data = "clothes", .seeds = 3, .seed = 9}, {.figures = {{panel}}}, kHere);
  const auto banners = parts<Banner>(page);
  ASSERT_THAT(banners, SizeIs(1));
  EXPECT_EQ(banners[0].text, "Of 2 predicted slopes 1 hold, 1 do not, and 0 could not be judged.");
  EXPECT_EQ(banners[0].tone, Tone::kBad);
  EXPECT_THAT(parts<Charts>(page)[0].charts[0].data.rows, SizeIs(3 * 2 + 2));  // and the predicted line
  EXPECT_THAT(page_html(page), HasSubstr("<h2 id=\"thm-0\">Thm. 0</h2>"));
}

}  // namespace
}  // namespace labelshift
