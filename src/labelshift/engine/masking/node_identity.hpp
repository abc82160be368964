#pragma once

#include <memory>
#include <span>
#include <string>

#include "labelshift/engine/wire.hpp"

namespace labelshift {

/// Who a node is to others: its TLS certificate, the private key to it, and the authority that all nodes trust.
class NodeIdentity {
 public:
  /// All three as PEM: what is read from the files that the node's TLS uses. Certificates of authorities between the
  /// node's own and the trusted one follow the node's own. Throws Error{kInput} for what cannot be read or does not
  /// belong together.
  struct Files {
    std::string certificate;
    std::string private_key;
    std::string authority;
  };
  explicit NodeIdentity(const Files& files);
  NodeIdentity(NodeIdentity&&) noexcept;
  NodeIdentity& operator=(NodeIdentity&&) noexcept;
  ~NodeIdentity();

  const std::string& name() const { return name_; }                // the common name of the certificate
  const std::string& certificate() const { return certificate_; }  // PEM

  /// By the private key, of whatever kind the certificate's is: RSA and elliptic curves with SHA-256, Ed25519.
  Bytes sign(std::span<const std::byte> message) const;

  /// Throws Error{kPeer} unless `signature` is by the key of `certificate` (PEM), and that is a certificate for a TLS
  /// client, by the authority, valid today, whose common name is `name`.
  void verify(const std::string& name, const std::string& certificate, std::span<const std::byte> message,
              std::span<const std::byte> signature) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
  std::string name_, certificate_;
};

}  // namespace labelshift
