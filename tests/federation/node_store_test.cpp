#include "labelshift/federation/node_store.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "labelshift/core/rng.hpp"
#include "labelshift/data/safetensors.hpp"
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
    for (Index node = 0; node < 3; ++node) store.put(node, "control", values_of(node, 100));
    store.save(new_folder(name));
    return path(name);
  }
};

TEST_F(NodeStoreTest, RemembersByNodeAndName) {
  NodeStore store(settings(1'000'000));
  EXPECT_TRUE(store.get(0, "control").empty());
  store.put(0, "control", {1.0F, 2.0F});
  store.put(1, "control", {3.0F});
  store.put(1, "ratio", {4.0F});
  store.put(11, "ratio", {5.0F});
  EXPECT_EQ(store.get(0, "control"), (std::vector<float>{1.0F, 2.0F}));
  EXPECT_EQ(store.get(1, "control"), std::vector<float>{3.0F});
  EXPECT_EQ(store.get(1, "ratio"), std::vector<float>{4.0F});
  EXPECT_EQ(store.get(11, "ratio"), std::vector<float>{5.0F});
  EXPECT_TRUE(store.get(0, "ratio").empty());
  store.put(1, "ratio", {});
  EXPECT_TRUE(store.get(1, "ratio").empty());
  EXPECT_EQ(own_files(), 0U);
}

TEST_F(NodeStoreTest, KeepsWhatGoesBeyondTheLimitInFiles) {
  {
    NodeStore store(settings(4 * 100 * sizeof(float)));
    for (Index node = 0; node < 10; ++node) store.put(node, "control", values_of(node, 100));
    EXPECT_EQ(own_files(), 6U);
    for (Index node = 0; node < 10; ++node) EXPECT_EQ(store.get(node, "control"), values_of(node, 100)) << node;
  }
  EXPECT_FALSE(fs::exists(path("own")));
}

TEST_F(NodeStoreTest, TakesItsFolderAwayAfterASingleFileToo) {
  {
    NodeStore store(settings(0));
    store.put(0, "control", values_of(0, 100));
    EXPECT_EQ(own_files(), 1U);
  }
  EXPECT_FALSE(fs::exists(path("own")));
}

TEST_F(NodeStoreTest, ReplacesValuesInMemoryAndInFiles) {
  NodeStore store(settings(100 * sizeof(float)));
  store.put(0, "control", values_of(0, 100));
  store.put(1, "control", values_of(1, 100));
  EXPECT_EQ(own_files(), 1U);
  store.put(1, "control", values_of(2, 50));  // from file to file
  EXPECT_EQ(own_files(), 1U);
  EXPECT_EQ(store.get(1, "control"), values_of(2, 50));
  store.put(0, "control", values_of(3, 40));  // leaves room for 60
  store.put(1, "control", values_of(4, 60));
  EXPECT_EQ(own_files(), 0U);
  EXPECT_EQ(store.get(0, "control"), values_of(3, 40));
  EXPECT_EQ(store.get(1, "control"), values_of(4, 60));
  store.put(0, "control", values_of(5, 41));  // one float too many
  EXPECT_EQ(own_files(), 1U);
  EXPECT_EQ(store.get(0, "control"), values_of(5, 41));
  store.put(0, "control", {});
  store.put(1, "control", {});
  EXPECT_EQ(own_files(), 0U);
  store.put(2, "control", values_of(6, 100));  // there is room for all of it again
  EXPECT_EQ(own_files(), 0U);
}

TEST_F(NodeStoreTest, IsLoadedAsItWasSaved) {
  for (const std::uint64_t limit : {1'000'000, 1'500, 0}) {  // all in memory, some of it, nothing
    const std::string folder = new_folder("saved");
    {
      NodeStore store(settings(limit));
      for (Index node = 0; node < 12; ++node) store.put(node, "control", values_of(node, 100));
      store.put(3, "ratio", {7.0F});
      store.save(folder);
      store.put(0, "control", {8.0F});  // a saved store does not change
      store.put(11, "control", {9.0F});
    }
    for (const std::uint64_t other_limit : {1'000'000, 1'500, 0}) {
      NodeStore store(settings(other_limit));
      store.put(0, "control", {6.0F});
      store.put(99, "control", {6.0F});
      store.load(folder);
      for (Index node = 0; node < 12; ++node) EXPECT_EQ(store.get(node, "control"), values_of(node, 100)) << node;
      EXPECT_EQ(store.get(3, "ratio"), std::vector<float>{7.0F});
      EXPECT_TRUE(store.get(99, "control").empty());
      store.put(5, "control", values_of(55, 100));
      EXPECT_EQ(store.get(5, "control"), values_of(55, 100));
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
  EXPECT_EQ(fs::hard_link_count(folder + "/0.f32"), 2U);
  fs::remove_all(folder);
  store.save(new_folder("again"));
  NodeStore other({path("other"), 1'000'000});
  other.load(path("again"));
  for (Index node = 0; node < 3; ++node) {
    EXPECT_EQ(store.get(node, "control"), values_of(node, 100));
    EXPECT_EQ(other.get(node, "control"), values_of(node, 100));
  }
}

TEST_F(NodeStoreTest, CountsWhatItLoadedAsMemory) {
  NodeStore store(settings(250 * sizeof(float)));
  store.load(saved_folder("saved"));  // two entries of 100 in memory
  store.put(7, "control", values_of(7, 50));
  EXPECT_EQ(own_files(), 1U);
  store.put(8, "control", {1.0F});
  EXPECT_EQ(own_files(), 2U);
}

TEST_F(NodeStoreTest, IsSavedAndLoadedEmpty) {
  NodeStore(settings(0)).save(new_folder("saved"));
  NodeStore store(settings(0));
  store.put(0, "control", {1.0F});
  store.load(path("saved"));
  EXPECT_TRUE(store.get(0, "control").empty());
  EXPECT_EQ(own_files(), 0U);
}

TEST_F(NodeStoreTest, RemovesFilesOfAKilledStoreInsteadOfWritingOverThem) {
  const std::string folder = saved_folder("saved");
  fs::create_directory(path("own"));
  fs::create_hard_link(folder + "/0.f32", path("own/0.f32"));  // as a killed store leaves it
  file("own/7.f32", "abc");
  NodeStore store(settings(0));
  store.put(0, "control", {1.0F});
  EXPECT_EQ(own_files(), 1U);
  NodeStore other({path("other"), 0});
  other.load(folder);
  EXPECT_EQ(other.get(2, "control"), values_of(2, 100));
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
            EXPECT_EQ(store.get(node, "c"), before);
            store.put(node, "c", values_of(100 * round + node, 100));
          }
      });
  }
  EXPECT_EQ(own_files(), 20U);
}

TEST_F(NodeStoreTest, RefusesADamagedFolderAndStaysAsItWas) {
  NodeStore store(settings(0));
  store.put(9, "control", {9.0F});
  const std::string folder = saved_folder("saved");
  const auto refused = [&](const std::string& message) {
    expect_error(ErrorKind::kInput, message, [&] { store.load(folder); });
    EXPECT_EQ(store.get(9, "control"), std::vector<float>{9.0F});
    EXPECT_EQ(own_files(), 1U);
  };
  const std::string whole = bytes_of(folder + "/0.f32");
  file("saved/0.f32", whole.substr(4));
  refused("DIR/saved/0.f32: found 396 bytes, expected 100 numbers of 4; copy it again");
  file("saved/0.f32", whole + "a");
  refused("DIR/saved/0.f32: found 401 bytes, expected 100 numbers of 4; copy it again");
  std::string flipped = whole;
  for (const std::size_t at : {17, 203}) flipped[at] = static_cast<char>(flipped[at] ^ 0x20);
  file("saved/0.f32", flipped);
  refused("DIR/saved/0.f32: its bytes are not those it was written with, by its SHA-256; copy it again");
  fs::remove(folder + "/0.f32");
  refused("DIR/saved/0.f32: is missing or no file; copy it again");
  fs::create_symlink(file("elsewhere", whole), folder + "/0.f32");
  refused("DIR/saved/0.f32: is missing or no file; copy it again");
  const std::string index = bytes_of(folder + "/nodes.safetensors");
  file("saved/nodes.safetensors", index.substr(0, index.size() - 1));
  EXPECT_THROW(store.load(folder), Error);
  fs::remove(folder + "/nodes.safetensors");
  refused("cannot read DIR/saved/nodes.safetensors: no such file or directory; check the path");
}

TEST_F(NodeStoreTest, RefusesAnIndexThatItDidNotWrite) {
  NodeStore store(settings(1'000'000));
  new_folder("saved");
  const std::vector<float> value{1.0F};
  const auto refused = [&](const std::string& message, const std::string& tensor,
                           const std::map<std::string, std::string>& metadata) {
    write_safetensors(path("saved/nodes.safetensors"), std::vector<NamedTensor>{{tensor, {1}, value}}, metadata);
    expect_error(ErrorKind::kInput, "DIR/saved/nodes.safetensors: " + message, [&] { store.load(path("saved")); });
  };
  for (const char* key : {"weight", "-1/a", "01/a", "1/", "/a", "99999999999999999999/a"}) {
    refused(std::string("found an entry \"") + key + "\", expected NODE/NAME; it is no memory of nodes", key, {});
    refused(std::string("found an entry \"") + key + "\", expected NODE/NAME; it is no memory of nodes", "0/a",
            {{key, "1"}});
  }
  for (const char* count : {"", "-1 a", "1", "0x1 a", " a", "99999999999999999999 a"})
    refused(std::string("\"0/b\" has \"") + count + "\", expected a number of values and a sum", "0/a",
            {{"0/b", count}});
  refused("names \"0/a\" twice", "0/a", {{"0/a", "1 a"}});
  // A number that times four is none.
  file("saved/0.f32", "");
  write_safetensors(path("saved/nodes.safetensors"), {}, {{"0/a", "4611686018427387904 a"}});
  expect_error(ErrorKind::kInput,
               "DIR/saved/0.f32: found 0 bytes, expected 4611686018427387904 numbers of 4; copy it again",
               [&] { store.load(path("saved")); });
}

TEST_F(NodeStoreTest, SaysWhereItCannotWrite) {
  file("own", "a file where the folder should be");
  NodeStore store(settings(0));
  try {
    store.put(0, "control", {1.0F});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kSystem);
    EXPECT_TRUE(std::string(error.what()).starts_with("cannot write " + path("own") + ": ")) << error.what();
  }
  EXPECT_TRUE(store.get(0, "control").empty());
}

}  // namespace
}  // namespace labelshift
