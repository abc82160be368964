#include <gtest/gtest.h>

#include <filesystem>

#include "fuzz/readers.hpp"

namespace labelshift {
namespace {

struct Reader {
  const char* name;
  void (*read)(const std::string& path);
  friend void PrintTo(const Reader& reader, std::ostream* out) { *out << reader.name; }
};

class FuzzCorpus : public testing::TestWithParam<Reader> {};

TEST_P(FuzzCorpus, IsReadOrRefused) {
  const auto corpus = std::filesystem::path(LABELSHIFT_EXAMPLES).parent_path() / "fuzz/corpus" / GetParam().name;
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(corpus)) {
    EXPECT_NO_THROW(GetParam().read(entry.path().string())) << entry.path();
    ++files;
  }
  EXPECT_GT(files, 0);
}

INSTANTIATE_TEST_SUITE_P(Data, FuzzCorpus,
                         testing::Values(Reader{"npy", fuzz::read_npy}, Reader{"csv", fuzz::read_csv},
                                         Reader{"labels", fuzz::read_labels}, Reader{"rows", fuzz::read_rows},
                                         Reader{"idx", fuzz::read_idx}, Reader{"cifar", fuzz::read_cifar},
                                         Reader{"image", fuzz::read_image}, Reader{"table", fuzz::read_table},
                                         Reader{"tar", fuzz::read_tar}, Reader{"safetensors", fuzz::read_safetensors}),
                         [](const auto& reader) { return std::string(reader.param.name); });

}  // namespace
}  // namespace labelshift
