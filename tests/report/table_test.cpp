#include "labelshift/report/table.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace labelshift {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

/// A column of every kind, a row with everything and one with next to nothing.
Table every_kind() {
  return {
      .title = "Kinds",
      .columns = {{.name = "run", .key = "run"},
                  {.name = "nodes", .key = "nodes", .kind = ColumnKind::kCount},
                  {.name = "loss", .key = "loss", .kind = ColumnKind::kNumber, .digits = 2},
                  {.name = "weight", .key = "weight", .kind = ColumnKind::kNumber, .digits = 3, .significant = true},
                  {.name = "share", .key = "share", .kind = ColumnKind::kNumber, .digits = 1, .unit = "%"},
                  {.name = "accuracy", .key = "accuracy", .kind = ColumnKind::kMeanDeviation},
                  {.name = "interval", .key = "ratio", .kind = ColumnKind::kInterval, .digits = 1},
                  {.name = "sent", .key = "sent", .kind = ColumnKind::kTransfer}},
      .rows = {{"IW-ERM, \"true\"", std::int64_t{5}, 0.123456789, 19490.0, 81.25, MeanDeviation{0.83, 0.004},
                IntervalEnds{0.25, 1.5}, Transfer{2, 40.0, 12'345'678.0}},
               {"FedAvg", Cell(), kUnknown, Cell(), kUnknown, MeanDeviation{0.5}, Cell(), Cell()}},
      .notes = {"One seed.", "No paper."}};
}

TEST(Table, IsAlignedForPeopleWhoSeeAFewDigits) {
  EXPECT_EQ(table_text(every_kind()),
            "Kinds\n"
            "run             nodes  loss    weight   share          accuracy    interval             sent\n"
            "IW-ERM, \"true\"      5  0.12  1.95e+04  81.2 %  0.8300 +- 0.0040  0.2 to 1.5  2, 40 B / 12 MB\n"
            "FedAvg                    -                 -            0.5000\n"
            "One seed.\n"
            "No paper.\n");
}

TEST(Table, GivesProgramsAllDigitsAndAColumnForEveryPart) {
  const std::string rows =
      "\"IW-ERM, \"\"true\"\"\",5,0.123456789,19490,81.25,0.83,0.004,0.25,1.5,2,40,12345678\n"
      "FedAvg,,,,,0.5,,,,,,\n";
  EXPECT_EQ(
      table_csv(every_kind()),
      "run,nodes,loss,weight,share,accuracy,accuracy_sd,ratio_low,ratio_high,sent_rounds,sent_up,sent_down\n" + rows);
  EXPECT_EQ(table_csv(every_kind(), /*with_keys=*/false), rows);
}

TEST(Table, IsJsonWithTheSameKeysAndNullForWhatIsNotKnown) {
  const auto json = nlohmann::json::parse(table_json(every_kind()));
  EXPECT_EQ(json["title"], "Kinds");
  EXPECT_EQ(json["notes"], (nlohmann::json{"One seed.", "No paper."}));
  EXPECT_EQ(json["columns"][4], (nlohmann::json{{"key", "share"}, {"name", "share"}, {"unit", "%"}}));
  EXPECT_EQ(json["rows"][0]["run"], "IW-ERM, \"true\"");
  EXPECT_EQ(json["rows"][0]["nodes"], 5);
  EXPECT_EQ(json["rows"][0]["loss"], 0.123456789);
  EXPECT_EQ(json["rows"][0]["accuracy_sd"], 0.004);
  EXPECT_EQ(json["rows"][0]["ratio_high"], 1.5);
  EXPECT_EQ(json["rows"][0]["sent_down"], 12'345'678.0);
  EXPECT_TRUE(json["rows"][1]["loss"].is_null());
  EXPECT_TRUE(json["rows"][1]["accuracy_sd"].is_null());
  EXPECT_TRUE(json["rows"][1]["sent_up"].is_null());
  EXPECT_EQ(json["rows"][1].size(), 12u);
}

TEST(Table, CountsLettersNotBytesAndShowsNoControlCharacter) {
  const Table table{
      .columns = {{.name = "class", .key = "class"}, {.name = "n", .key = "n", .kind = ColumnKind::kCount}},
      .rows = {{"Käse", std::int64_t{1}}, {"\x1b[31m", std::int64_t{22}}}};
  EXPECT_EQ(table_text(table),
            "class      n\n"
            "Käse       1\n"
            "\\x1b[31m  22\n");
}

TEST(Table, WithoutRowsHasItsColumnsAndNotes) {
  const Table table{.columns = {{.name = "class", .key = "class"}}, .notes = {"Nothing."}};
  EXPECT_EQ(table_text(table), "class\nNothing.\n");
  EXPECT_EQ(table_csv(table), "class\n");
  EXPECT_EQ(nlohmann::json::parse(table_json(table))["rows"].size(), 0u);
}

struct ByteCase {
  double bytes;
  const char* text;

  friend void PrintTo(const ByteCase& one, std::ostream* out) { *out << one.text; }
};

class EveryNumberOfBytes : public testing::TestWithParam<ByteCase> {};

TEST_P(EveryNumberOfBytes, IsShownInTheUnitThatKeepsItShort) {
  const Table table{.columns = {{.name = "sent", .key = "sent", .kind = ColumnKind::kTransfer}},
                    .rows = {{Transfer{1, GetParam().bytes, 0.0}}}};
  EXPECT_THAT(table_text(table), testing::HasSubstr(std::string("1, ") + GetParam().text + " / 0 B"));
}

INSTANTIATE_TEST_SUITE_P(Report, EveryNumberOfBytes,
                         testing::Values(ByteCase{9'999.0, "9999 B"}, ByteCase{10'000.0, "10 kB"},
                                         ByteCase{9'999'000.0, "9999 kB"}, ByteCase{1e7, "10 MB"},
                                         ByteCase{9.999e9, "9999 MB"}, ByteCase{1e10, "10 GB"}),
                         [](const auto& tested) {
                           std::string name = tested.param.text;
                           std::erase(name, ' ');
                           return name;
                         });

}  // namespace
}  // namespace labelshift
