#include "labelshift/engine/grpc/grpc_engine.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "labelshift/core/base/observer.hpp"
#include "labelshift/engine/in_process/in_process_engine.hpp"
#include "tests/data/scratch.hpp"
#include "tests/engine/grpc/federation.hpp"

namespace labelshift {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr Patience kBounded{.give_up = 30s};

/// A coordinator of so many nodes that are not encrypted.
std::unique_ptr<GrpcEngine> plain_engine(Index nodes, Lines* lines = nullptr) {
  auto engine = make_grpc_engine({.names = node_names(nodes), .log = lines ? lines->log() : GrpcLog{}});
  engine->announce({.run = "run"});
  return engine;
}

TEST(GrpcEngine, SumsReportsAndTrafficHaveTheBitsOfOneProcess) {
  const auto engine = plain_engine(13);
  const ServedNodes nodes({.connect = engine->address(), .seats = plain_seats(13), .workers = 2}, rough_answer);
  const auto one_process = make_in_process_engine(13, programs(rough_answer), {.workers = 2});
  for (const auto& some : std::vector<std::vector<Index>>{
           {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, {0}, {12}, {5, 6}, {0, 3, 4, 7, 11, 12}, {}})
    for (const std::uint64_t round : {1, 2, 3}) {
      Request request = kRequest;
      request.round = round;
      expect_same(engine->run(request, cohort_of(some), kTerms, kBounded),
                  one_process->run(request, cohort_of(some), kTerms));
    }
}

TEST(GrpcEngine, ModelsLargerThanAMessageTravelInPieces) {
  const auto engine = plain_engine(3);
  const ServedNodes nodes({.connect = engine->address(), .seats = plain_seats(3)}, rough_answer);
  const auto one_process = make_in_process_engine(3, programs(rough_answer), {.workers = 2});
  Request request = kRequest;
  request.weights.assign(1'200'001, 0.25F);  // 4.8 MB, and gRPC takes 4 at once
  AnswerTerms terms = kTerms;
  terms.weights = request.weights.size();
  std::vector<Addressee> cohort = first(3);
  cohort[1].own = Bytes(600'000);
  terms.report = 600'000;
  expect_same(engine->run(request, cohort, terms, kBounded), one_process->run(request, cohort, terms));
}

}  // namespace
}  // namespace labelshift
