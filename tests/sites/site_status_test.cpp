#include "labelshift/sites/site_status.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace labelshift {
namespace {

SiteStatus in_the_middle() {
  return {.run = "iw-erm-seed-0",
          .task = "training",
          .round = 12,
          .rounds = 200,
          .nodes = 4,
          .connected = {"a", "b", "c"},
          .away = {"d"},
          .waiting_for = {"b", "d"},
          .accuracy = 0.8123,
          .traffic = {.down = 300'000, .up = 1'000'000},
          .seconds_left = 40.4};
}

TEST(SiteStatusAsJson, IsALineWithEverythingThatIsKnown) {
  const std::string line = status_json(in_the_middle(), 1700000000.25);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  EXPECT_EQ(nlohmann::json::parse(line), nlohmann::json::parse(R"({
    "time": 1700000000.25, "run": "iw-erm-seed-0", "task": "training", "round": 12, "rounds": 200, "nodes": 4,
    "connected": ["a", "b", "c"], "waiting_for": ["b", "d"], "bytes_down": 300000, "bytes_up": 1000000,
    "accuracy": 0.8123, "seconds_left": 40.4})"));
}

TEST(SiteStatusAsJson, SaysWhatStandsInForAnAccuracyAndWhatIsNotKnown) {
  SiteStatus status = in_the_middle();
  status.reweighted = true;
  status.seconds_left = {};
  const auto json = nlohmann::json::parse(status_json(status, 0.0));
  EXPECT_EQ(json["reweighted_source_accuracy"], 0.8123);
  EXPECT_FALSE(json.contains("accuracy"));
  EXPECT_TRUE(json.at("seconds_left").is_null());
  status = {};
  EXPECT_TRUE(nlohmann::json::parse(status_json(status, 0.0)).at("accuracy").is_null());
}

TEST(SiteStatusAsText, NamesWhoIsInAndWhoIsAway) {
  SiteStatus status = in_the_middle();
  EXPECT_EQ(status_text(status),
            "round 12 of 200; in: a, b, c; away: d; accuracy 0.812; 1.3 MB; 40 s left of this run");
  status.connected.push_back("d");
  status.away.clear();
  status.reweighted = true;
  status.seconds_left = 3725.0;
  EXPECT_EQ(status_text(status),
            "round 12 of 200; in: a, b, c, d; reweighted source accuracy 0.812; 1.3 MB; 1 h 02 min left of this run");
  status = {.rounds = 200, .nodes = 2, .away = {"a", "b"}};
  EXPECT_EQ(status_text(status), "round 0 of 200; in: nobody; away: a, b; 0.0 MB");
}

TEST(SiteStatusAsText, NamesSomeOfMany) {
  SiteStatus status{.round = 1, .rounds = 2, .nodes = 1000, .seconds_left = 61.0};
  for (int k = 0; k < 995; ++k) status.connected.push_back("n" + std::to_string(k));
  for (int k = 995; k < 1000; ++k) status.away.push_back("n" + std::to_string(k));
  EXPECT_EQ(status_text(status),
            "round 1 of 2; in: n0, n1, n2, n3 and 991 others; away: n995, n996, n997, n998 and 1 other; 0.0 MB; "
            "1 min 01 s left of this run");
}

TEST(SomeNames, AreTenAtMostAndSayHowManyMoreThereAre) {
  std::vector<std::string> names;
  EXPECT_EQ(some_names(names), "");
  for (int k = 1; k <= 10; ++k) names.push_back(std::to_string(k));
  EXPECT_EQ(some_names(names), "1, 2, 3, 4, 5, 6, 7, 8, 9, 10");
  names.push_back("11");
  EXPECT_EQ(some_names(names), "1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 1 other");
  names.push_back("12");
  EXPECT_EQ(some_names(names), "1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 2 others");
}

}  // namespace
}  // namespace labelshift
