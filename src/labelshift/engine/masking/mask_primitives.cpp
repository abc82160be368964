#include "labelshift/engine/masking/mask_primitives.hpp"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "labelshift/engine/masking/openssl_error.hpp"

namespace labelshift {
namespace {

static_assert(std::endian::native == std::endian::little, "bytes of a stream become words as they are");

template <auto free>
struct Free {
  template <typename T>
  void operator()(T* object) const {
    free(object);
  }
};
using Context = std::unique_ptr<EVP_PKEY_CTX, Free<EVP_PKEY_CTX_free>>;
using Key = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;

const unsigned char* raw(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}
unsigned char* raw(std::span<std::byte, 32> bytes) {
  return reinterpret_cast<unsigned char*>(bytes.data());
}

}  // namespace

Secret::Secret(std::span<const std::byte, 32> bytes) {
  std::copy(bytes.begin(), bytes.end(), bytes_.begin());
}

Secret::Secret(Secret&& other) noexcept : bytes_(other.bytes_) {
  OPENSSL_cleanse(other.bytes_.data(), other.bytes_.size());
}

Secret& Secret::operator=(Secret&& other) noexcept {
  if (this == &other) return *this;
  bytes_ = other.bytes_;
  OPENSSL_cleanse(other.bytes_.data(), other.bytes_.size());
  return *this;
}

Secret::~Secret() {
  OPENSSL_cleanse(bytes_.data(), bytes_.size());
}

struct KeyPair::Key {
  labelshift::Key key;
};

KeyPair::KeyPair() : key_(std::make_unique<Key>()) {
  key_->key.reset(EVP_PKEY_Q_keygen(nullptr, nullptr, "X25519"));
  if (!key_->key) openssl_failed("making a key");
}

KeyPair::KeyPair(const Secret& private_key) : key_(std::make_unique<Key>()) {
  key_->key.reset(EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, nullptr, raw(private_key.bytes()), 32));
  if (!key_->key) openssl_failed("taking a key");
}

KeyPair::KeyPair(KeyPair&&) noexcept = default;
KeyPair& KeyPair::operator=(KeyPair&&) noexcept = default;
KeyPair::~KeyPair() = default;

PublicKey KeyPair::public_key() const {
  PublicKey key;
  std::size_t size = key.size();
  if (EVP_PKEY_get_raw_public_key(key_->key.get(), raw(std::span<std::byte, 32>(key)), &size) != 1 ||
      size != key.size())
    openssl_failed("reading a key");
  return key;
}

Secret KeyPair::shared_with(const PublicKey& other) const {
  const labelshift::Key peer(EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, nullptr, raw(other), other.size()));
  const Context context(EVP_PKEY_CTX_new(key_->key.get(), nullptr));
  if (!peer || !context || EVP_PKEY_derive_init(context.get()) != 1 ||
      EVP_PKEY_derive_set_peer(context.get(), peer.get()) != 1)
    openssl_failed("preparing a shared secret");
  Secret secret;
  std::size_t size = 32;
  const bool derived = EVP_PKEY_derive(context.get(), raw(secret.bytes()), &size) == 1;
  const Secret zero;
  if (!derived || CRYPTO_memcmp(secret.bytes().data(), zero.bytes().data(), 32) == 0) {
    ERR_clear_error();
    throw Error(ErrorKind::kPeer, "a public key is a point of low order, with which no secret can be shared");
  }
  return secret;
}

Secret derive_key(std::span<const std::byte> input, std::span<const std::byte> salt, std::span<const std::byte> info) {
  const Context context(EVP_PKEY_CTX_new_id(EVP_PKEY_HKDF, nullptr));
  Secret key;
  std::size_t size = 32;
  if (!context || EVP_PKEY_derive_init(context.get()) != 1 ||
      EVP_PKEY_CTX_set_hkdf_md(context.get(), EVP_sha256()) != 1 ||
      EVP_PKEY_CTX_set1_hkdf_salt(context.get(), raw(salt), static_cast<int>(salt.size())) != 1 ||
      EVP_PKEY_CTX_set1_hkdf_key(context.get(), raw(input), static_cast<int>(input.size())) != 1 ||
      EVP_PKEY_CTX_add1_hkdf_info(context.get(), raw(info), static_cast<int>(info.size())) != 1 ||
      EVP_PKEY_derive(context.get(), raw(key.bytes()), &size) != 1)
    openssl_failed("deriving a key");
  return key;
}

void add_stream(const Secret& key, std::uint64_t stream, MaskSign sign, std::span<std::uint64_t> words) {
  // OpenSSL's IV is the first block's number, the lowest byte first, and the nonce.
  std::array<unsigned char, 16> iv{};
  for (int i = 0; i < 8; ++i) iv[15 - i] = static_cast<unsigned char>(stream >> (8 * i));
  const std::unique_ptr<EVP_CIPHER_CTX, Free<EVP_CIPHER_CTX_free>> cipher(EVP_CIPHER_CTX_new());
  if (!cipher || EVP_EncryptInit_ex(cipher.get(), EVP_chacha20(), nullptr, raw(key.bytes()), iv.data()) != 1)
    openssl_failed("starting a stream");
  constexpr std::size_t kAtOnce = 512;
  constexpr std::array<std::uint64_t, kAtOnce> kZeros{};
  std::array<std::uint64_t, kAtOnce> block;
  for (std::size_t at = 0; at < words.size(); at += kAtOnce) {
    const std::size_t count = std::min(kAtOnce, words.size() - at);
    int size = 0;
    if (EVP_EncryptUpdate(cipher.get(), reinterpret_cast<unsigned char*>(block.data()), &size,
                          reinterpret_cast<const unsigned char*>(kZeros.data()), static_cast<int>(8 * count)) != 1 ||
        static_cast<std::size_t>(size) != 8 * count)
      openssl_failed("drawing from a stream");
    for (std::size_t i = 0; i < count; ++i) words[at + i] += sign == MaskSign::kAdd ? block[i] : -block[i];
  }
  OPENSSL_cleanse(block.data(), sizeof block);
}

}  // namespace labelshift
