#include "labelshift/sites/node_list_watch.hpp"

#include <gmock/gmock.h>

#include "tests/await.hpp"
#include "tests/data/scratch.hpp"
#include "tests/engine/grpc/federation.hpp"

namespace labelshift {
namespace {

class ANodeListThatIsWatched : public Scratch {
 protected:
  ANodeListThatIsWatched() {
    file("nodes.toml", list({"north", "south", "west"}));
    watch_ = std::make_unique<NodeListWatch>(path("nodes.toml"), *engine_, names_, lines_.log());
    watch_->look();
  }
  static std::string list(const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names) text += "[[node]]\nname = \"" + name + "\"\n";
    return text;
  }
  /// Puts another file in its place, and looks until something was said of it.
  void replace(const std::string& text, const std::string& said, std::size_t fewest = 1) {
    const int before = lines_.count(said);
    std::filesystem::rename(file("new", text), path("nodes.toml"));
    await(
        [&] {
          watch_->look(fewest);
          return lines_.count(said) > before;
        },
        said.c_str());
  }
  std::vector<bool> allowed() const {
    std::vector<bool> all;
    for (const GrpcNodeStatus& node : engine_->status().nodes) all.push_back(node.allowed);
    return all;
  }

  const std::vector<std::string> names_ = {"north", "south", "west"};
  Lines lines_;
  std::unique_ptr<GrpcEngine> engine_ = make_grpc_engine({.names = names_});
  std::unique_ptr<NodeListWatch> watch_;
};

TEST_F(ANodeListThatIsWatched, LocksOutWhoIsTakenOffOrExcludedAndLetsInWhoComesBack) {
  EXPECT_EQ(lines_.all(), "");
  replace(list({"north", "west"}) + "exclude = true\n", "west is locked out by ");
  EXPECT_EQ(lines_.count("south is locked out by "), 1);
  EXPECT_EQ(allowed(), (std::vector<bool>{true, false, false}));
  replace(list({"north", "south"}), "south is let in again by ");
  EXPECT_EQ(allowed(), (std::vector<bool>{true, true, false}));
}

TEST_F(ANodeListThatIsWatched, ThatCannotBeReadChangesNothing) {
  replace("[[node]\n", "; who is in stays as it was");
  std::filesystem::remove(path("nodes.toml"));
  await(
      [&] {
        watch_->look();
        return lines_.count("; who is in stays as it was") > 1;
      },
      "it said that there is no file");
  EXPECT_EQ(allowed(), (std::vector<bool>{true, true, true}));
}

TEST_F(ANodeListThatIsWatched, ThatLeavesTooFewWaitsUntilFewerAreEnough) {
  replace(list({"north", "south"}), "leaves fewer than 3 nodes in", 3);
  EXPECT_EQ(allowed(), (std::vector<bool>{true, true, true}));
  await(
      [&] {
        watch_->look(1);
        return !allowed()[2];
      },
      "fewer were enough");
  EXPECT_EQ(lines_.count("leaves fewer than 3"), 1) << lines_.all();
  replace(list({"nobody"}), "leaves no node in");
}

TEST_F(ANodeListThatIsWatched, SaysOnceThatANewNodeIsTooLate) {
  replace(list({"north", "south", "west", "east"}), "east is new in ");
  replace(list({"north", "south", "east"}), "west is locked out by ");
  EXPECT_EQ(lines_.count("east is new in "), 1) << lines_.all();
}

}  // namespace
}  // namespace labelshift
