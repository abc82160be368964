#include "labelshift/engine/masking/mask_primitives.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "labelshift/core/base/error.hpp"
#include "tests/data/scratch.hpp"

namespace labelshift {
namespace {

std::vector<std::byte> unhex(const std::string& text) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < text.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(text.substr(i, 2), nullptr, 16)));
  return bytes;
}

template <typename Bytes>
std::string hex(const Bytes& bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    text += "0123456789abcdef"[static_cast<int>(byte) >> 4];
    text += "0123456789abcdef"[static_cast<int>(byte) & 15];
  }
  return text;
}

Secret secret(const std::string& text) {
  const auto bytes = unhex(text);
  return Secret(std::span<const std::byte, 32>(bytes.data(), 32));
}

PublicKey public_key(const std::string& text) {
  const auto bytes = unhex(text);
  PublicKey key;
  std::copy_n(bytes.begin(), 32, key.begin());
  return key;
}

TEST(MaskPrimitives, ShareTheSecretsOfRfc7748) {
  // Section 5.2.
  EXPECT_EQ(hex(KeyPair(secret("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4"))
                    .shared_with(public_key("e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c"))
                    .bytes()),
            "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552");
  // Section 6.1.
  const KeyPair alice(secret("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a"));
  const KeyPair bob(secret("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb"));
  EXPECT_EQ(hex(alice.public_key()), "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a");
  EXPECT_EQ(hex(bob.public_key()), "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f");
  const std::string shared = "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742";
  EXPECT_EQ(hex(alice.shared_with(bob.public_key()).bytes()), shared);
  EXPECT_EQ(hex(bob.shared_with(alice.public_key()).bytes()), shared);
}

TEST(MaskPrimitives, MakeAnotherKeyEveryTime) {
  const KeyPair first, second;
  EXPECT_NE(first.public_key(), second.public_key());
  EXPECT_EQ(hex(first.shared_with(second.public_key()).bytes()), hex(second.shared_with(first.public_key()).bytes()));
}

TEST(MaskPrimitives, ShareNothingOverAPointOfLowOrder) {
  const std::string zeros(62, '0');
  for (const std::string& point : {"00" + zeros, "01" + zeros,
                                   // of order 8, and p itself, which is 0
                                   std::string("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
                                   "ed" + std::string(60, 'f') + "7f"})
    expect_error(ErrorKind::kPeer, "a public key is a point of low order, with which no secret can be shared",
                 [&] { KeyPair().shared_with(public_key(point)); });
}

TEST(MaskPrimitives, DeriveTheKeyOfRfc5869) {
  // Test case 1, of which these are the first 32 bytes.
  EXPECT_EQ(hex(derive_key(std::vector(22, std::byte{0x0b}), unhex("000102030405060708090a0b0c"),
                           unhex("f0f1f2f3f4f5f6f7f8f9"))
                    .bytes()),
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf");
}

/// The words that a stream adds to zeros, as bytes.
std::string stream_of(const Secret& key, std::uint64_t stream, std::size_t words) {
  std::vector<std::uint64_t> drawn(words);
  add_stream(key, stream, MaskSign::kAdd, drawn);
  return hex(std::as_bytes(std::span(drawn)));
}

TEST(MaskPrimitives, AddTheStreamsOfRfc8439) {
  const Secret zero;
  // Appendix A.1: test vectors 1 and 2 are blocks 0 and 1 of one stream; the nonce of 5 is our stream 2.
  EXPECT_EQ(stream_of(zero, 0, 16),
            "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
            "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"
            "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
            "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f");
  EXPECT_EQ(stream_of(zero, 2, 8),
            "c2c64d378cd536374ae204b9ef933fcd1a8b2288b3dfa49672ab765b54ee27c7"
            "8a970e0e955c14f3a88e741b97c286f75f8fc299e8148362fa198a39531bed6d");
}

TEST(MaskPrimitives, AddStreamsOfAnyLengthThatCancel) {
  const Secret key = secret(std::string(64, '7'));
  const std::string longest = stream_of(key, 9, 3000);
  for (const std::size_t words : {0, 1, 7, 8, 511, 512, 513, 1024, 2999}) {
    EXPECT_EQ(stream_of(key, 9, words), longest.substr(0, 16 * words)) << words;
    std::vector<std::uint64_t> values(words, 42);
    add_stream(key, 9, MaskSign::kSubtract, values);
    EXPECT_TRUE(words == 0 || values != std::vector<std::uint64_t>(words, 42)) << words;
    add_stream(key, 9, MaskSign::kAdd, values);
    EXPECT_EQ(values, std::vector<std::uint64_t>(words, 42)) << words;
  }
  EXPECT_NE(stream_of(key, 1, 8), stream_of(key, std::uint64_t{1} << 56, 8));
}

TEST(MaskPrimitives, LeaveNothingOfASecretThatWasMovedAway) {
  Secret from = secret(std::string(64, '7'));
  const Secret to = std::move(from);
  EXPECT_EQ(hex(to.bytes()), std::string(64, '7'));
  EXPECT_EQ(hex(from.bytes()), std::string(64, '0'));  // NOLINT: what is left is the point
  alignas(Secret) std::byte memory[sizeof(Secret)];
  Secret* gone = new (memory) Secret(secret(std::string(64, '7')));
  const volatile std::byte* left = memory;  // what is there once it is gone is looked at on purpose
  gone->~Secret();
  for (std::size_t i = 0; i < sizeof memory; ++i) EXPECT_EQ(static_cast<int>(left[i]), 0);
}

}  // namespace
}  // namespace labelshift
