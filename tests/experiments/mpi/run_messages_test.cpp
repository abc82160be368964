#include "fuzz/run_messages.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/data/scratch.hpp"

namespace labelshift {
namespace {

class RunMessages : public Scratch {
 protected:
  const std::filesystem::path corpus_ =
      std::filesystem::path(LABELSHIFT_EXAMPLES).parent_path() / "fuzz/corpus/run_message";

  std::string seed(const char* name) const { return bytes_of(corpus_ / name); }
  template <typename Message>
  static std::string text_of(const Message& message) {
    const Bytes bytes = to_bytes(message);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
};

TEST_F(RunMessages, AreInTheFuzzCorpus) {
  const PartFacts train{.path = "train.csv",
                        .channels = 1,
                        .height = 1,
                        .width = 2,
                        .columns = {"age", "dose"},
                        .classes = {"ill", "well"},
                        .counts = {3, 4},
                        .examples = 7,
                        .labelled = true,
                        .fingerprint = "f"};
  const PartFacts test{.path = "test", .channels = 3, .height = 8, .width = 8, .images = true, .examples = 5};
  EXPECT_EQ(seed("next-run.bin"), text_of(NextRun{.settings_file = "name = \"run\"\n"}));
  EXPECT_EQ(seed("found-data.bin"), text_of(FoundData{.facts = {{train, test}, {train, {}}}}));
  EXPECT_EQ(seed("found-broken.bin"), text_of(FoundData{.broken = "train.csv: no rows"}));
  EXPECT_EQ(seed("all-data.bin"), text_of(AllData{.facts = {{train, test}}}));
  EXPECT_EQ(seed("start-run.bin"), text_of(StartRun{.go = true, .source_holdout = 0.2}));
}

TEST_F(RunMessages, OfTheFuzzCorpusAreReadOrRefused) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(corpus_)) {
    const std::string bytes = bytes_of(entry.path());
    EXPECT_NO_THROW(fuzz::read_run_message(std::as_bytes(std::span(bytes)))) << entry.path();
    ++files;
  }
  EXPECT_GE(files, 8);
}

}  // namespace
}  // namespace labelshift
