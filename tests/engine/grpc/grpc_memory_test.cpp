#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "tests/engine/grpc/federation.hpp"

// A coordinator that lacks memory. Of this program every allocation of a thread can be made to fail, if our code makes
// it: what libraries do without memory is theirs. Nothing here is inlined, so that callers are seen.

extern "C" char __executable_start, etext;

namespace {

thread_local long allocations_left = -1;  // of this thread; below 0: as many as it likes
thread_local bool has_failed = false;

bool is_ours(const void* caller) {
  return caller >= &__executable_start && caller < &etext;
}

}  // namespace

[[gnu::noinline]] void* operator new(std::size_t size) {
  if (allocations_left >= 0 && is_ours(__builtin_return_address(0)) && allocations_left-- == 0) {
    has_failed = true;
    throw std::bad_alloc();
  }
  if (void* const found = std::malloc(size == 0 ? 1 : size)) return found;
  throw std::bad_alloc();
}

[[gnu::noinline]] void operator delete(void* what) noexcept {
  std::free(what);
}

[[gnu::noinline]] void operator delete(void* what, std::size_t) noexcept {
  std::free(what);
}

namespace labelshift {
namespace {

using namespace std::chrono_literals;

/// For as long as it lives, the allocation of this thread fails that comes after so many.
class LackOfMemory {
 public:
  explicit LackOfMemory(long after) {
    has_failed = false;
    allocations_left = after;
  }
  ~LackOfMemory() { allocations_left = -1; }
  bool was_felt() const { return has_failed; }
};

TEST(GrpcEngineWithoutMemory, ARunThatFailsAnywhereLeavesNothingBehindAndTheNextSucceeds) {
  const auto engine = make_grpc_engine({.names = node_names(3)});
  engine->announce({.run = "run"});
  const ServedNodes nodes({.connect = engine->address(), .seats = plain_seats(3)}, rough_answer);
  const auto run = [&] { return engine->run(kRequest, first(3), kTerms, {.give_up = 30s}); };
  const CohortOutcome expected = run();
  ASSERT_TRUE(expected.failed.empty());
  long after = 0, thrown = 0;
  for (bool felt = true; felt; ++after) {
    {
      const LackOfMemory lack(after);
      try {
        run();
      } catch (const std::bad_alloc&) {
        ++thrown;
      }
      felt = lack.was_felt();
    }
    expect_same(run(), expected);
  }
  EXPECT_GT(thrown, 5);  // of the request, of what is addressed to each node, of its messages
  EXPECT_LT(after, 1000);
}

}  // namespace
}  // namespace labelshift
