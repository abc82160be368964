#include "labelshift/federation/node_store.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <thread>

#include "labelshift/core/base/rng.hpp"
#include "labelshift/data/files/sha256.hpp"
#include "tests/data/scratch.hpp"

namespace labelshift {
namespace {

namespace fs = std::filesystem;

std::vector<float> values_of(Index node, std::size_t count) {
  Rng rng(3, static_cast<std::uint64_t>(node));
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(rng.normal());
  return values;
}

/// Floats among the bytes; without any the name is erased.
void put(NodeStore& store, Index node, const std::string& name, const std::vector<float>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  if (values.empty())
    store.of(node)->erase(name);
  else
    store.of(node)->put(name, {bytes.begin(), bytes.end()});
}
std::vector<float> get(NodeStore& store, Index node, const std::string& name) {
  const std::optional<Bytes> bytes = store.of(node)->get(name);
  std::vector<float> values(bytes ? bytes->size() / sizeof(float) : 0);
  if (!values.empty()) std::memcpy(values.data(), bytes->data(), bytes->size());
  return values;
}

class NodeStoreTest : public Scratch {
 protected:
  NodeStoreSettings settings(std::uint64_t memory_limit) const { return {path("own"), memory_limit}; }
  std::string new_folder(const std::string& name) const {
    fs::create_directory(path(name));
    return path(name);
  }
  std::size_t own_files() const {
    if (!fs::exists(path("own"))) return 0;
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(path("own")), fs::directory_iterator()));
  }
  /// A store of three entries, of which one is on disk, saved.
  std::string saved_folder(const std::string& name) const {
    NodeStore store({path("first"), 2 * 100 * sizeof(float)});
    for (Index node = 0; node < 3; ++node) put(store, node, "control", values_of(node, 100));
    store.save(new_folder(name));
    return path(name);
  }
};

TEST_F(NodeStoreTest, RemembersByNodeAndName) {
  NodeStore store(settings(1'000'000));
  EXPECT_TRUE(get(store, 0, "control").empty());
  put(store, 0, "control", {1.0F, 2.0F});
  put(store, 1, "control", {3.0F});
  put(store, 1, "ratio", {4.0F});
  put(store, 11, "ratio", {5.0F});
  EXPECT_EQ(get(store, 0, "control"), (std::vector<float>{1.0F, 2.0F}));
  EXPECT_EQ(get(store, 1, "control"), std::vector<float>{3.0F});
  EXPECT_EQ(get(store, 1, "ratio"), std::vector<float>{4.0F});
  EXPECT_EQ(get(store, 11, "ratio"), std::vector<float>{5.0F});
  EXPECT_TRUE(get(store, 0, "ratio").empty());
  put(store, 1, "ratio", {});
  EXPECT_TRUE(get(store, 1, "ratio").empty());
  EXPECT_EQ(own_files(), 0U);
}

TEST_F(NodeStoreTest, KeepsWhatGoesBeyondTheLimitInFiles) {
  {
    NodeStore store(settings(4 * 100 * sizeof(float)));
    for (Index node = 0; node < 10; ++node) put(store, node, "control", values_of(node, 100));
    EXPECT_EQ(own_files(), 6U);
    for (Index node = 0; node < 10; ++node) EXPECT_EQ(get(store, node, "control"), values_of(node, 100)) << node;
  }
  EXPECT_FALSE(fs::exists(path("own")));
}

TEST_F(NodeStoreTest, TakesItsFolderAwayAfterASingleFileToo) {
  {
    NodeStore store(settings(0));
    put(store, 0, "control", values_of(0, 100));
    EXPECT_EQ(own_files(), 1U);
  }
  EXPECT_FALSE(fs::exists(path("own")));
}

TEST_F(NodeStoreTest, ReplacesValuesInMemoryAndInFiles) {
  NodeStore store(settings(100 * sizeof(float)));
  put(store, 0, "control", values_of(0, 100));
  put(store, 1, "control", values_of(1, 100));
  EXPECT_EQ(own_files(), 1U);
  put(store, 1, "control", values_of(2, 50));  // from file to file
  EXPECT_EQ(own_files(), 1U);
  EXPECT_EQ(get(store, 1, "control"), values_of(2, 50));
  put(store, 0, "control", values_of(3, 40));  // leaves room for 60
  put(store, 1, "control", values_of(4, 60));
  EXPECT_EQ(own_files(), 0U);
  EXPECT_EQ(get(store, 0, "control"), values_of(3, 40));
  EXPECT_EQ(get(store, 1, "control"), values_of(4, 60));
  put(store, 0, "control", values_of(5, 41));  // one float too many
  EXPECT_EQ(own_files(), 1U);
  EXPECT_EQ(get(store, 0, "control"), values_of(5, 41));
  put(store, 0, "control", {});
  put(store, 1, "control", {});
  EXPECT_EQ(own_files(), 0U);
  put(store, 2, "control", values_of(6, 100));  // there is room for all of it again
  EXPECT_EQ(own_files(), 0U);
}

TEST_F(NodeStoreTest, IsLoadedAsItWasSaved) {
  for (const std::uint64_t limit : {1'000'000, 1'500, 0}) {  // all in memory, some of it, nothing
    const std::string folder = new_folder("saved");
    {
      NodeStore store(settings(limit));
      for (Index node = 0; node < 12; ++node) put(store, node, "control", values_of(node, 100));
      put(store, 3, "ratio", {7.0F});
      store.save(folder);
      put(store, 0, "control", {8.0F});  // a saved store does not change
      put(store, 11, "control", {9.0F});
    }
    for (const std::uint64_t other_limit : {1'000'000, 1'500, 0}) {
      NodeStore store(settings(other_limit));
      put(store, 0, "control", {6.0F});
      put(store, 99, "control", {6.0F});
      store.load(folder);
      for (Index node = 0; node < 12; ++node) EXPECT_EQ(get(store, node, "control"), values_of(node, 100)) << node;
      EXPECT_EQ(get(store, 3, "ratio"), std::vector<float>{7.0F});
      EXPECT_TRUE(get(store, 99, "control").empty());
      put(store, 5, "control", values_of(55, 100));
      EXPECT_EQ(get(store, 5, "control"), values_of(55, 100));
      EXPECT_EQ(own_files() == 0, limit == 1'000'000 && other_limit == 1'000'000);
    }
    fs::remove_all(folder);
  }
}

TEST_F(NodeStoreTest, GoesOnWithoutTheFolderItWasLoadedFrom) {
  const std::string folder = saved_folder("saved");
  NodeStore store(settings(1'000'000));
  store.load(folder);
  EXPECT_EQ(own_files(), 1U);  // what was on disk stays there, and is not copied
  EXPECT_EQ(fs::hard_link_count(folder + "/0.bin"), 2U);
  fs::remove_all(folder);
  store.save(new_folder("again"));
  NodeStore other({path("other"), 1'000'000});
  other.load(path("again"));
  for (Index node = 0; node < 3; ++node) {
    EXPECT_EQ(get(store, node, "control"), values_of(node, 100));
    EXPECT_EQ(get(other, node, "control"), values_of(node, 100));
  }
}

TEST_F(NodeStoreTest, CountsWhatItLoadedAsMemory) {
  NodeStore store(settings(250 * sizeof(float)));
  store.load(saved_folder("saved"));  // two entries of 100 in memory
  put(store, 7, "control", values_of(7, 50));
  EXPECT_EQ(own_files(), 1U);
  put(store, 8, "control", {1.0F});
  EXPECT_EQ(own_files(), 2U);
}

TEST_F(NodeStoreTest, IsSavedAndLoadedEmpty) {
  NodeStore(settings(0)).save(new_folder("saved"));
  NodeStore store(settings(0));
  put(store, 0, "control", {1.0F});
  store.load(path("saved"));
  EXPECT_TRUE(get(store, 0, "control").empty());
  EXPECT_EQ(own_files(), 0U);
}

TEST_F(NodeStoreTest, RemovesFilesOfAKilledStoreInsteadOfWritingOverThem) {
  const std::string folder = saved_folder("saved");
  fs::create_directory(path("own"));
  fs::create_hard_link(folder + "/0.bin", path("own/0.bin"));  // as a killed store leaves it
  file("own/7.bin", "abc");
  NodeStore store(settings(0));
  put(store, 0, "control", {1.0F});
  EXPECT_EQ(own_files(), 1U);
  NodeStore other({path("other"), 0});
  other.load(folder);
  EXPECT_EQ(get(other, 2, "control"), values_of(2, 100));
}

TEST_F(NodeStoreTest, MayBeUsedByManyThreadsForDifferentNodes) {
  NodeStore store(settings(20 * 100 * sizeof(float)));
  {
    std::vector<std::jthread> threads;
    for (Index thread = 0; thread < 4; ++thread)
      threads.emplace_back([&store, thread] {
        for (int round = 0; round < 20; ++round)
          for (Index node = thread; node < 40; node += 4) {
            const std::vector<float> before =
                round == 0 ? std::vector<float>{} : values_of(100 * (round - 1) + node, 100);
            EXPECT_EQ(get(store, node, "c"), before);
            put(store, node, "c", values_of(100 * round + node, 100));
          }
      });
  }
  EXPECT_EQ(own_files(), 20U);
}

TEST_F(NodeStoreTest, RefusesADamagedFolderAndStaysAsItWas) {
  NodeStore store(settings(0));
  put(store, 9, "control", {9.0F});
  const std::string folder = saved_folder("saved");
  const auto refused = [&](const std::string& message) {
    expect_error(ErrorKind::kInput, message, [&] { store.load(folder); });
    EXPECT_EQ(get(store, 9, "control"), std::vector<float>{9.0F});
    EXPECT_EQ(own_files(), 1U);
  };
  const std::string whole = bytes_of(folder + "/0.bin");
  file("saved/0.bin", whole.substr(4));
  refused("DIR/saved/0.bin: found 396 bytes, expected 400; copy it again");
  file("saved/0.bin", whole + "a");
  refused("DIR/saved/0.bin: found 401 bytes, expected 400; copy it again");
  std::string flipped = whole;
  for (const std::size_t at : {17, 203}) flipped[at] = static_cast<char>(flipped[at] ^ 0x20);
  file("saved/0.bin", flipped);
  refused("DIR/saved/0.bin: its bytes are not those it was written with, by its SHA-256; copy it again");
  fs::remove(folder + "/0.bin");
  refused("DIR/saved/0.bin: is missing or no file; copy it again");
  fs::create_symlink(file("elsewhere", whole), folder + "/0.bin");
  refused("DIR/saved/0.bin: is missing or no file; copy it again");
  const std::string index = bytes_of(folder + "/nodes.bin");
  for (const std::size_t size : {index.size() - 1, std::size_t{80}, std::size_t{64}, std::size_t{0}}) {
    file("saved/nodes.bin", index.substr(0, size));
    EXPECT_THROW(store.load(folder), Error) << size;
  }
  for (const std::size_t at : {std::size_t{2}, std::size_t{20}, index.size() / 2, index.size() - 3}) {
    std::string damaged = index;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    file("saved/nodes.bin", damaged);
    refused("DIR/saved/nodes.bin: its bytes are not those it was written with, by its SHA-256; copy it again");
  }
  fs::remove(folder + "/nodes.bin");
  refused("cannot read DIR/saved/nodes.bin: no such file or directory; check the path");
}

/// An index as somebody else might write it.
struct ForeignIndex {
  struct Entry {
    std::string key;
    std::uint64_t size = 0;
    std::string sum;

    template <typename Self, typename Visit>
    static void fields(Self& self, Visit& visit) {
      visit(self.key, self.size, self.sum);
    }
  };
  std::uint32_t format = 2;
  std::vector<Entry> entries;

  template <typename Self, typename Visit>
  static void fields(Self& self, Visit& visit) {
    visit(self.format, self.entries);
  }
};

TEST_F(NodeStoreTest, RefusesAnIndexThatItDidNotWrite) {
  NodeStore store(settings(1'000'000));
  new_folder("saved");
  const auto write = [&](const Bytes& index, const std::string& rest, std::uint64_t length) {
    std::string text(reinterpret_cast<const char*>(&length), sizeof length);
    text.append(reinterpret_cast<const char*>(index.data()), index.size());
    text += rest;
    file("saved/nodes.bin", text + sha256_of(text));
  };
  const auto refused = [&](const std::string& message, const ForeignIndex& index, const std::string& rest = "") {
    const Bytes bytes = to_bytes(index);
    write(bytes, rest, bytes.size());
    expect_error(ErrorKind::kInput, "DIR/saved/nodes.bin: " + message, [&] { store.load(path("saved")); });
  };
  for (const char* key : {"weight", "-1/a", "01/a", "1/", "/a", "99999999999999999999/a", ""})
    refused(std::string("found an entry \"") + key + "\", expected NODE/NAME; it is no memory of nodes",
            {.entries = {{key, 0, ""}}});
  refused("it names \"0/a\" twice", {.entries = {{"0/a", 0, ""}, {"0/a", 0, ""}}});
  refused("\"0/a\" is cut short; copy it again", {.entries = {{"0/a", 4, ""}}}, "abc");
  refused("it has 1 bytes after its end; copy it again", {.entries = {{"0/a", 3, ""}}}, "abcd");
  refused("it has format 3, expected 2; another version wrote it", {.format = 3});
  write(Bytes(3), "", 3);
  expect_error(ErrorKind::kInput,
               "DIR/saved/nodes.bin: its index is damaged: a message ends 3 bytes on, expected 1 items of 4 bytes",
               [&] { store.load(path("saved")); });
  write(Bytes(3), "", 4);
  expect_error(ErrorKind::kInput, "DIR/saved/nodes.bin: its index is cut short; copy it again",
               [&] { store.load(path("saved")); });
  file("saved/0.bin", "");
  const Bytes huge = to_bytes(ForeignIndex{.entries = {{"0/a", std::uint64_t{1} << 62, "sum"}}});
  write(huge, "", huge.size());
  expect_error(ErrorKind::kInput, "DIR/saved/0.bin: found 0 bytes, expected 4611686018427387904; copy it again",
               [&] { store.load(path("saved")); });
}

TEST_F(NodeStoreTest, ListsAndErasesNamesOfOneNode) {
  NodeStore store(settings(1'000'000));
  for (const char* name : {"round-3", "round-1", "rounds", "ratio"}) put(store, 1, name, {1.0F});
  put(store, 11, "round-2", {1.0F});
  EXPECT_EQ(store.of(1)->names("round-"), (std::vector<std::string>{"round-1", "round-3"}));
  store.of(1)->erase("round-1");
  store.of(1)->erase("round-7");  // which is not there
  EXPECT_EQ(store.of(1)->names(""), (std::vector<std::string>{"ratio", "round-3", "rounds"}));
  EXPECT_EQ(store.of(11)->names("round-"), std::vector<std::string>{"round-2"});
}

class FolderMemoryTest : public Scratch {};

TEST_F(FolderMemoryTest, IsThereAgainForWhoeverOpensItNext) {
  {
    FolderMemory memory(path("node"));
    EXPECT_FALSE(memory.get("round-1"));
    memory.put("round-1", Bytes(5));
    memory.put("round-1", Bytes(3));
    memory.put("ratio", {});
  }
  FolderMemory memory(path("node"));
  EXPECT_EQ(memory.get("round-1"), Bytes(3));
  EXPECT_EQ(memory.get("ratio"), Bytes());
  EXPECT_EQ(memory.names("r"), (std::vector<std::string>{"ratio", "round-1"}));
  EXPECT_EQ(memory.names("round"), std::vector<std::string>{"round-1"});
  memory.erase("round-1");
  EXPECT_FALSE(memory.get("round-1"));
}

TEST_F(FolderMemoryTest, RefusesWhatIsDamaged) {
  FolderMemory memory(path("node"));
  memory.put("ratio", Bytes(8));
  const std::string whole = bytes_of(path("node/ratio"));
  std::string flipped = whole;
  flipped.back() ^= 1;
  for (const std::string& damaged : {flipped, whole.substr(0, whole.size() - 1), whole.substr(0, 10), std::string()}) {
    file("node/ratio", damaged);
    expect_error(ErrorKind::kInput, "what it remembers as ratio is damaged; start again in another folder",
                 [&] { memory.get("ratio"); });
  }
}

TEST_F(FolderMemoryTest, KeepsTheRoundsThatSomebodyCanAskFor) {
  FolderMemory memory(path("node"));
  for (const std::uint64_t round : {2, 9, 10, 11, 30})
    remember_round(memory, round, {{"control", {static_cast<float>(round), 1.0F}}, {"other", {}}});
  EXPECT_TRUE(recall_round(memory, 0).empty());
  EXPECT_EQ(recall_round(memory, 10).at("control"), (std::vector<float>{10.0F, 1.0F}));
  forget_rounds(memory, /*counted=*/11, /*durable=*/9);
  EXPECT_EQ(memory.names("round-").size(), 3U);
  for (const std::uint64_t round : {9, 10, 11}) EXPECT_EQ(recall_round(memory, round).size(), 2U);
  for (const std::uint64_t round : {2, 30}) EXPECT_THROW(recall_round(memory, round), Error);
}

TEST_F(NodeStoreTest, SaysWhereItCannotWrite) {
  file("own", "a file where the folder should be");
  NodeStore store(settings(0));
  try {
    put(store, 0, "control", {1.0F});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kSystem);
    EXPECT_TRUE(std::string(error.what()).starts_with("cannot write " + path("own") + ": ")) << error.what();
  }
  EXPECT_TRUE(get(store, 0, "control").empty());
}

}  // namespace
}  // namespace labelshift
