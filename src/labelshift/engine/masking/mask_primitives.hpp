#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

// The three operations that masks are made of, as OpenSSL has them: X25519 (RFC 7748), HKDF with SHA-256 (RFC 5869) and
// ChaCha20 (RFC 8439).

namespace labelshift {

/// 32 bytes that nobody else may know. They are overwritten when they go, and are never copied.
class Secret {
 public:
  Secret() = default;
  explicit Secret(std::span<const std::byte, 32> bytes);
  Secret(Secret&& other) noexcept;
  Secret& operator=(Secret&& other) noexcept;
  ~Secret();

  std::span<const std::byte, 32> bytes() const { return bytes_; }
  std::span<std::byte, 32> bytes() { return bytes_; }

 private:
  std::array<std::byte, 32> bytes_{};
};

using PublicKey = std::array<std::byte, 32>;

/// A pair of X25519 keys.
class KeyPair {
 public:
  /// Of random numbers. Throws Error{kSystem} if there are none.
  KeyPair();
  /// Of this private key: for tests against published values.
  explicit KeyPair(const Secret& private_key);
  KeyPair(KeyPair&&) noexcept;
  KeyPair& operator=(KeyPair&&) noexcept;
  ~KeyPair();

  PublicKey public_key() const;
  /// What both sides know. Throws Error{kPeer} if it would be 0 whatever this side's key is: the other's is a point of
  /// low order, with which a peer makes sure that everybody knows the secret.
  Secret shared_with(const PublicKey& other) const;

 private:
  struct Key;
  std::unique_ptr<Key> key_;  // overwritten by OpenSSL when it is freed
};

/// HKDF-SHA256 with 32 bytes of output.
Secret derive_key(std::span<const std::byte> input, std::span<const std::byte> salt, std::span<const std::byte> info);

enum class MaskSign { kAdd, kSubtract };

/// Adds to words, or subtracts from them, mod 2^64, the ChaCha20 stream of this key: its bytes from block 0 on, eight a
/// word, the lowest first. The nonce is 4 zeros and `stream`, the highest byte first. One stream of a key is for one
/// vector: whoever sees two under the same knows their difference.
void add_stream(const Secret& key, std::uint64_t stream, MaskSign sign, std::span<std::uint64_t> words);

}  // namespace labelshift
