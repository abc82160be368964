#include "labelshift/federation/memory_transfer.hpp"

#include <gmock/gmock.h>

#include "labelshift/engine/in_process/in_process_engine.hpp"
#include "tests/data/scratch.hpp"

namespace labelshift {
namespace {

using testing::ElementsAre;

constexpr Index kNodes = 40;  // more than travel at once

/// A program that knows no task of its own but one, which it answers by its number.
class Silent : public NodeProgram {
  Answer run(const NodeCall& call) override { return {.numbers = {static_cast<double>(call.request.task)}}; }
};

class MemoryTransfer : public Scratch {
 protected:
  MemoryTransfer()
      : there_({.folder = path("there")}),
        here_({.folder = path("here")}),
        engine_(make_in_process_engine(kNodes, with_memory_transfer([] { return std::make_unique<Silent>(); }, there_),
                                       {.workers = 2})) {}

  NodeStore there_, here_;
  std::unique_ptr<Engine> engine_;
};

Bytes bytes(int value) {
  return Bytes(static_cast<std::size_t>(1 + value), static_cast<std::byte>(value));
}

TEST_F(MemoryTransfer, CollectsWhatEveryNodeRemembersInPlaceOfWhatThereWas) {
  for (Index node = 0; node < kNodes; ++node) {
    there_.of(node)->put("control", bytes(static_cast<int>(node)));
    if (node % 2 == 0) there_.of(node)->put("ratio", bytes(7));
    here_.of(node)->put("old", bytes(3));
    here_.of(node)->put("control", bytes(1));
  }
  collect_memories(*engine_, here_);
  for (Index node = 0; node < kNodes; ++node) {
    const auto memory = here_.of(node);
    EXPECT_EQ(memory->get("control"), bytes(static_cast<int>(node)));
    EXPECT_EQ(memory->get("ratio"), node % 2 == 0 ? std::optional(bytes(7)) : std::nullopt);
    EXPECT_EQ(memory->get("old"), std::nullopt);
  }
}

TEST_F(MemoryTransfer, GivesNodesWhatIsRememberedOfThem) {
  there_.of(3)->put("old", bytes(3));
  there_.of(4)->put("kept", bytes(4));
  for (Index node = 0; node < kNodes; ++node)
    if (node != 4) here_.of(node)->put("control", bytes(static_cast<int>(node)));
  give_memories(*engine_, here_);
  for (Index node = 0; node < kNodes; ++node) {
    if (node == 4) continue;
    EXPECT_THAT(there_.of(node)->names(""), ElementsAre("control")) << node;
    EXPECT_EQ(there_.of(node)->get("control"), bytes(static_cast<int>(node)));
  }
  EXPECT_THAT(there_.of(4)->names(""), ElementsAre("kept"));  // nothing is known of it, so nothing is taken away
}

TEST_F(MemoryTransfer, LeavesAllOtherTasksToTheProgram) {
  const std::vector<Addressee> cohort{{.node = 0}, {.node = 2}};
  const CohortOutcome outcome = engine_->run({.task = 5}, cohort, {.numbers = 1});
  EXPECT_THAT(outcome.sums.numbers, ElementsAre(10.0));
}

}  // namespace
}  // namespace labelshift
