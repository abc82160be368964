#include "labelshift/federation/node_memory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <system_error>

#include "labelshift/core/base/error.hpp"
#include "labelshift/data/files/errno_text.hpp"
#include "labelshift/data/files/input_file.hpp"
#include "labelshift/data/files/output_file.hpp"
#include "labelshift/data/files/sha256.hpp"

namespace labelshift {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kSumDigits = 64;
constexpr const char* kRound = "round-";

std::string_view text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// In an order that is that of the numbers.
std::string round_name(std::uint64_t round) {
  return fmt::format("{}{:020}", kRound, round);
}

struct SavedParts {
  struct Part {
    std::string name;
    std::vector<float> values;

    template <typename Self, typename Visit>
    static void fields(Self& self, Visit& visit) {
      visit(self.name, self.values);
    }
  };
  std::vector<Part> parts;

  template <typename Self, typename Visit>
  static void fields(Self& self, Visit& visit) {
    visit(self.parts);
  }
};

}  // namespace

void throw_damaged_memory(const std::string& name) {
  throw Error(ErrorKind::kInput,
              fmt::format("what it remembers as {} is damaged; start again in another folder", name));
}

NamedParts recall_round(const NodeMemory& memory, std::uint64_t round) {
  if (round == 0) return {};
  auto saved = recall<SavedParts>(memory, round_name(round));
  if (!saved)
    throw Error(ErrorKind::kInput, fmt::format("it does not remember its round {} any more, from which it is to go on; "
                                               "bring its memory back, or start again in another folder",
                                               round));
  NamedParts parts;
  for (SavedParts::Part& part : saved->parts) parts[part.name] = std::move(part.values);
  return parts;
}

void remember_round(NodeMemory& memory, std::uint64_t round, const NamedParts& parts) {
  SavedParts saved;
  for (const auto& [name, values] : parts) saved.parts.push_back({name, values});
  remember(memory, round_name(round), saved);
}

void forget_rounds(NodeMemory& memory, std::uint64_t counted, std::uint64_t durable) {
  for (const std::string& name : memory.names(kRound))
    if (name < round_name(durable) || name > round_name(counted)) memory.erase(name);
}

FolderMemory::FolderMemory(std::string folder) : folder_(std::move(folder)) {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error)
    throw Error(ErrorKind::kSystem,
                fmt::format("cannot make the folder {}: {}; choose another place", folder_, errno_text(error.value())));
}

std::optional<Bytes> FolderMemory::get(const std::string& name) const {
  const std::string path = folder_ + "/" + name;
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return std::nullopt;
  const std::string text = read_file(path);
  if (text.size() < kSumDigits || sha256_of(std::string_view(text).substr(kSumDigits)) != text.substr(0, kSumDigits))
    throw_damaged_memory(name);
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return Bytes(begin + kSumDigits, begin + text.size());
}

void FolderMemory::put(const std::string& name, Bytes bytes) {
  OutputFile file(folder_ + "/" + name);
  file.write(sha256_of(text_of(bytes)));
  file.write(text_of(bytes));
  file.commit();
  const int directory = ::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return;
  ::fsync(directory);  // so that the name is on the disk too; some file systems cannot
  ::close(directory);
}

void FolderMemory::erase(const std::string& name) {
  std::error_code ignored;
  fs::remove(folder_ + "/" + name, ignored);
}

std::vector<std::string> FolderMemory::names(const std::string& prefix) const {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator at(folder_, error), end; !error && at != end; at.increment(error))
    if (const std::string name = at->path().filename().string(); name.starts_with(prefix)) found.push_back(name);
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace labelshift
