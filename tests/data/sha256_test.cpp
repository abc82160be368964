#include "labelshift/data/sha256.hpp"

#include "tests/data/scratch.hpp"

namespace labelshift {
namespace {

class Sha256 : public Scratch {};

TEST_F(Sha256, GivesTheStandardsOwnExamples) {  // FIPS 180-2, appendix B
  EXPECT_EQ(sha256_of_file(file("abc", "abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_of_file(file("a", std::string(1'000'000, 'a'))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_F(Sha256, LooksAtUnpackedBytes) {
  EXPECT_EQ(sha256_of_file(file("abc.gz", gzipped("abc"))), sha256_of_file(file("abc", "abc")));
}

}  // namespace
}  // namespace labelshift
