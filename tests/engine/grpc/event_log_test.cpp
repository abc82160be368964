#include "labelshift/engine/grpc/event_log.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <sstream>
#include <stdexcept>

#include "tests/engine/grpc/federation.hpp"
#include "tests/engine/grpc/raw_peers.hpp"

namespace labelshift {
namespace {

using Clock = std::chrono::steady_clock;

/// What lines say was left out.
int left_out(const Lines& lines) {
  int sum = 0;
  std::istringstream in(lines.all());
  for (std::string line; std::getline(in, line);)
    if (line.ends_with(" left out")) sum += std::stoi(line);
  return sum;
}

/// How many lines there may be since `begin`, of a kind that has so many at once and then so many a second.
int most(int at_once, int a_second, Clock::time_point begin) {
  return at_once + a_second * (1 + static_cast<int>(std::chrono::duration<double>(Clock::now() - begin).count()));
}

TEST(EventLog, HandsOverEveryLineInItsOrder) {
  Lines lines;
  EventLog log(lines.log());
  std::string expected;
  for (int i = 0; i < 10; ++i) {
    log.of_node(fmt::format("node {}", i));
    log.of_stranger(fmt::format("stranger {}", i));
    expected += fmt::format("node {}\nstranger {}\n", i, i);
  }
  log.close();
  EXPECT_EQ(lines.all(), expected);
}

TEST(EventLog, LimitsAFloodOfStrangersAndSaysHowManyLinesItLeftOut) {
  constexpr int kFlood = 10'000;
  Lines lines;
  EventLog log(lines.log());
  const Clock::time_point begin = Clock::now();
  for (int i = 0; i < kFlood; ++i) log.of_stranger("refused somebody");
  const int allowed = most(20, 1, begin);
  log.close();
  const int shown = lines.count("refused somebody");
  EXPECT_GE(shown, 20);
  EXPECT_LE(shown, allowed);
  EXPECT_EQ(shown + left_out(lines), kFlood);
}

TEST(EventLog, SaysHowManyLinesItLeftOutBeforeTheNextThatItShows) {
  Lines lines;
  EventLog log(lines.log());
  for (int i = 0; i < 100; ++i) log.of_stranger("of the flood");
  await(
      [&] {
        log.of_stranger("later");
        return lines.count("later") > 0;
      },
      "there was room for a line again");
  log.close();
  EXPECT_THAT(lines.all(), testing::ContainsRegex("of the flood\n[1-9][0-9]+ lines were left out\nlater\n"));
}

TEST(EventLog, SaysHowManyLinesItLeftOutAlsoWhereNoOtherComes) {
  Lines lines;
  EventLog log(lines.log());
  for (int i = 0; i < 100; ++i) log.of_stranger("of the flood");
  lines.await_line(" left out");
  EXPECT_EQ(lines.count("of the flood") + left_out(lines), 100) << lines.all();
  log.close();
  EXPECT_EQ(lines.count(" left out"), 1) << lines.all();
}

TEST(EventLog, LimitsAFloodOfNodesToo) {
  constexpr int kFlood = 50'000;
  Lines lines;
  EventLog log(lines.log());
  const Clock::time_point begin = Clock::now();
  for (int i = 0; i < kFlood; ++i) log.of_node("a node joined");
  const int allowed = most(2000, 10, begin);
  log.close();
  const int shown = lines.count("a node joined");
  EXPECT_GE(shown, 2000);
  EXPECT_LE(shown, allowed);
  EXPECT_EQ(shown + left_out(lines), kFlood);
}

TEST(EventLog, StrangersTakeNoLineFromNodes) {
  Lines lines;
  EventLog log(lines.log());
  for (int i = 0; i < 1000; ++i) log.of_stranger("refused somebody");
  for (int i = 0; i < 1000; ++i) log.of_node("a node joined");
  log.close();
  EXPECT_EQ(lines.count("a node joined"), 1000);
}

TEST(EventLog, GoesOnAfterALineThatCouldNotBeWritten) {
  Lines lines;
  EventLog log([&, write = lines.log()](const std::string& line) {
    if (line == "first") throw std::runtime_error("the terminal has gone");
    if (line == "second") throw 2;  // no exception at all
    write(line);
  });
  for (const char* line : {"first", "second", "third"}) log.of_node(line);
  log.close();
  EXPECT_EQ(lines.all(), "third\n");
}

TEST(EventLog, HandsOverNothingOnceItIsClosed) {
  Lines lines;
  EventLog log(lines.log());
  log.of_node("before");
  log.close();
  log.of_node("after");
  log.close();
  EXPECT_EQ(lines.all(), "before\n");
}

TEST(EventLog, ThatIsAbandonedSaysALastLineAndNothingElse) {
  Lines lines;
  EventLog log(lines.log());
  for (int i = 0; i < 100; ++i) log.of_stranger("of the flood");
  log.abandon("the last");
  log.of_node("after");
  log.close();
  EXPECT_THAT(lines.all(), testing::EndsWith("of the flood\nthe last\n"));
}

TEST(EventLog, IsQuietWhereNobodyListens) {
  EventLog log({});
  log.of_node("to nobody");
  log.of_stranger("to nobody");
}

TEST(Shown, QuotesEscapesAndShortensWhatAPeerSays) {
  EXPECT_EQ(shown("north"), "\"north\"");
  EXPECT_EQ(shown("\x1b[2J\r\n\x7f\xff"), "\"\\x1b[2J\\x0d\\x0a\\x7f\\xff\"");
  EXPECT_EQ(shown("\xe2\x80\xae"), "\"\\xe2\\x80\\xae\"");  // turns the direction of what follows
  EXPECT_EQ(shown(std::string(100, 'a')), '"' + std::string(100, 'a') + '"');
  EXPECT_EQ(shown(std::string(101, 'a')), '"' + std::string(100, 'a') + "...\"");
}

// ---- what a coordinator logs

TEST(GrpcLogOfACoordinator, IsNotFilledByStrangersAndHasNoneOfTheirControlCharacters) {
  constexpr int kStrangers = 60;
  Lines lines;
  auto engine = make_grpc_engine({.names = node_names(1), .log = lines.log()});
  const Clock::time_point begin = Clock::now();
  for (int i = 0; i < kStrangers; ++i) {
    RawNode stranger(engine->address());
    stranger.hello("\x1b[2J\nnode-0 (ipv4:192.0.2.1:1) joined");
    EXPECT_EQ(stranger.finish().error_code(), grpc::StatusCode::PERMISSION_DENIED);
  }
  const int allowed = most(20, 1, begin);
  engine.reset();
  const int shown = lines.count("the name \"\\x1b[2J\\x0anode-0 (ipv4:192.0.2.1:1) joined\" is not on the list");
  EXPECT_GE(shown, 20);
  EXPECT_LE(shown, allowed);
  EXPECT_EQ(shown + left_out(lines), kStrangers);
  EXPECT_EQ(lines.count("\x1b"), 0);
  EXPECT_EQ(lines.count("\n"), 0);
}

TEST(GrpcLogOfACoordinator, IsNotFilledByANode) {
  constexpr int kStreams = 30;
  constexpr int kLines = 103;  // of a stream: it joined, 101 messages are refused, and it is ended
  Lines lines;
  auto engine = make_grpc_engine({.names = node_names(1), .log = lines.log()});
  const Clock::time_point begin = Clock::now();
  for (int i = 0; i < kStreams; ++i) {
    RawNode hostile(engine->address());
    hostile.hello("node-0");
    for (int k = 0; k < 101; ++k) hostile.send(peer::Failure{{"run", 1, 1}, ErrorKind::kInput, Remedy::kNone, "no"});
    EXPECT_EQ(hostile.finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  }
  const int allowed = most(2000, 10, begin);
  engine.reset();
  const int shown = lines.count("node-0 (");
  EXPECT_LE(shown, allowed);
  EXPECT_EQ(shown + left_out(lines), kStreams * kLines);
}

}  // namespace
}  // namespace labelshift
