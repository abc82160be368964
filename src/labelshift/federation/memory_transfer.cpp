#include "labelshift/federation/memory_transfer.hpp"

#include <algorithm>
#include <limits>

namespace labelshift {
namespace {

// Far from the tasks of the protocol.
constexpr std::uint32_t kCollect = 1000, kGive = 1001;
constexpr Index kNodesAtOnce = 16;  // whose memories are on their way together

struct MemoryEntry {
  std::string name;
  Bytes bytes;

  template <typename Self, typename Visit>
  static void fields(Self& self, Visit& visit) {
    visit(self.name, self.bytes);
  }
};

struct NodeEntries {
  std::vector<MemoryEntry> entries;

  template <typename Self, typename Visit>
  static void fields(Self& self, Visit& visit) {
    visit(self.entries);
  }
};

NodeEntries entries_of(const NodeMemory& memory) {
  NodeEntries result;
  for (const std::string& name : memory.names("")) result.entries.push_back({name, memory.get(name).value()});
  return result;
}

void replace_entries(NodeMemory& memory, NodeEntries entries) {
  for (const std::string& name : memory.names(""))
    if (std::none_of(entries.entries.begin(), entries.entries.end(),
                     [&](const MemoryEntry& entry) { return entry.name == name; }))
      memory.erase(name);
  for (MemoryEntry& entry : entries.entries) memory.put(entry.name, std::move(entry.bytes));
}

class TransferProgram : public NodeProgram {
 public:
  TransferProgram(std::unique_ptr<NodeProgram> program, NodeStore& store)
      : program_(std::move(program)), store_(store) {}

  Answer run(const NodeCall& call) override {
    if (call.request.task == kCollect) return {.report = to_bytes(entries_of(*store_.of(call.to.node)))};
    if (call.request.task != kGive) return program_->run(call);
    replace_entries(*store_.of(call.to.node), from_bytes<NodeEntries>(call.to.own));
    return {};
  }

 private:
  const std::unique_ptr<NodeProgram> program_;
  NodeStore& store_;
};

CohortOutcome ask(Engine& engine, std::uint32_t task, std::span<const Addressee> cohort) {
  CohortOutcome outcome =
      engine.run({.task = task}, cohort, {.report = std::numeric_limits<std::size_t>::max()}, {}, {});
  if (!outcome.failed.empty()) outcome.failed.front().raise();
  return outcome;
}

}  // namespace

NodeProgramFactory with_memory_transfer(NodeProgramFactory make_program, NodeStore& store) {
  return [make_program = std::move(make_program), &store] {
    return std::make_unique<TransferProgram>(make_program(), store);
  };
}

void collect_memories(Engine& engine, NodeStore& store) {
  for (Index first = 0; first < engine.nodes(); first += kNodesAtOnce) {
    std::vector<Addressee> cohort;
    for (Index node = first; node < std::min(first + kNodesAtOnce, engine.nodes()); ++node)
      cohort.push_back({.node = node});
    for (const Contribution& one : ask(engine, kCollect, cohort).contributed)
      replace_entries(*store.of(one.node), from_bytes<NodeEntries>(one.report));
  }
}

void give_memories(Engine& engine, NodeStore& store) {
  for (Index first = 0; first < engine.nodes(); first += kNodesAtOnce) {
    std::vector<Addressee> cohort;
    for (Index node = first; node < std::min(first + kNodesAtOnce, engine.nodes()); ++node)
      if (NodeEntries entries = entries_of(*store.of(node)); !entries.entries.empty())
        cohort.push_back({.node = node, .own = to_bytes(entries)});
    if (!cohort.empty()) ask(engine, kGive, cohort);
  }
}

}  // namespace labelshift
