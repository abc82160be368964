#include "labelshift/data/files/sha256.hpp"

#include "tests/data/scratch.hpp"

namespace labelshift {
namespace {

class Sha256Test : public Scratch {};

TEST_F(Sha256Test, GivesTheStandardsOwnExamples) {  // FIPS 180-2, appendix B
  EXPECT_EQ(sha256_of_file(file("abc", "abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_of_file(file("a", std::string(1'000'000, 'a'))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_F(Sha256Test, LooksAtUnpackedBytes) {
  EXPECT_EQ(sha256_of_file(file("abc.gz", gzipped("abc"))), sha256_of_file(file("abc", "abc")));
}

TEST_F(Sha256Test, FindsWhatIsDamagedInAFolderAsSha256sumDoes) {
  std::filesystem::create_directories(path("run/sub"));
  file("run/a", "abc");
  file("run/sub/b c", "");
  const std::string list = sum_line("abc", "a") + sum_line("", "sub/b c");
  const auto damage = [&] { return damage_of(path("run"), {"a"}).value_or("none"); };
  EXPECT_EQ(damage(), path("run/SHA256SUMS") + " is missing, or no file that can be read");
  file("run/SHA256SUMS", list);
  EXPECT_EQ(damage(), "none");
  EXPECT_EQ(std::system(("cd '" + path("run") + "' && sha256sum --quiet -c SHA256SUMS").c_str()), 0);
  EXPECT_EQ(damage_of(path("run"), {"a", "c"}), path("run/SHA256SUMS") + " does not list c");
  file("run/a", "abd");
  EXPECT_EQ(damage(), path("run/a") + " is damaged: its SHA-256 is not the one in SHA256SUMS");
  std::filesystem::remove(path("run/a"));
  EXPECT_EQ(damage(), path("run/a") + " is missing, or no file that can be read");
  std::filesystem::create_directory(path("run/a"));
  EXPECT_EQ(damage(), path("run/a") + " is missing, or no file that can be read");
  for (const std::string& cut : {list.substr(0, list.size() - 1), list.substr(0, 40), std::string("\n")}) {
    file("run/SHA256SUMS", cut);
    EXPECT_NE(damage(), "none") << cut;
  }
}

}  // namespace
}  // namespace labelshift
