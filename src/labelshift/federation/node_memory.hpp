#pragma once

#include <optional>
#include <string>
#include <vector>

#include "labelshift/engine/wire.hpp"
#include "labelshift/federation/parts.hpp"

namespace labelshift {

/// What one node remembers of a run: bytes by name. A name has letters, digits and dashes.
class NodeMemory {
 public:
  virtual ~NodeMemory() = default;
  /// Throws Error{kInput} if it is there and is not what was put.
  virtual std::optional<Bytes> get(const std::string& name) const = 0;
  /// What is there of this name is replaced, whole or not at all. It is as safe as the memory is when this returns.
  virtual void put(const std::string& name, Bytes bytes) = 0;
  virtual void erase(const std::string& name) = 0;
  /// The names that begin so, in order.
  virtual std::vector<std::string> names(const std::string& prefix) const = 0;
};

/// A memory in a folder of its own, for a node that is a process: what is put is on the disk, and is there again when
/// the node is started again.
class FolderMemory : public NodeMemory {
 public:
  /// Makes the folder if it is not there. Throws Error{kSystem} if it cannot.
  explicit FolderMemory(std::string folder);
  std::optional<Bytes> get(const std::string& name) const override;
  void put(const std::string& name, Bytes bytes) override;
  void erase(const std::string& name) override;
  std::vector<std::string> names(const std::string& prefix) const override;

 private:
  std::string folder_;
};

/// A struct that lists its fields, see engine/wire.hpp. Throws Error{kInput} if what is there is no such struct.
template <typename Message>
std::optional<Message> recall(const NodeMemory& memory, const std::string& name);
template <typename Message>
void remember(NodeMemory& memory, const std::string& name, const Message& message) {
  memory.put(name, to_bytes(message));
}

// What a node keeps from round to round is kept for every round apart, until nobody can ask for it any more. A request
// says which round of this node counts; the node goes on from there, so an answer that was lost leaves no trace.

/// What was left by a round; nothing by round 0. Throws Error{kInput} if it is not there any more.
NamedParts recall_round(const NodeMemory& memory, std::uint64_t round);
void remember_round(NodeMemory& memory, std::uint64_t round, const NamedParts& parts);
/// Forgets rounds before `durable`, to which a coordinator cannot go back, and those after `counted`, which never
/// counted.
void forget_rounds(NodeMemory& memory, std::uint64_t counted, std::uint64_t durable);

[[noreturn]] void throw_damaged_memory(const std::string& name);

template <typename Message>
std::optional<Message> recall(const NodeMemory& memory, const std::string& name) {
  const std::optional<Bytes> bytes = memory.get(name);
  if (!bytes) return std::nullopt;
  try {
    return from_bytes<Message>(*bytes);
  } catch (const std::exception&) {
    throw_damaged_memory(name);
  }
}

}  // namespace labelshift
