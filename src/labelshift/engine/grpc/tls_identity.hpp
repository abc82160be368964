#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace labelshift {

/// What a process shows of itself and believes of others. All three are PEM texts.
struct TlsIdentity {
  std::string authority;    // the certificate of the CA that signs everybody's
  std::string certificate;  // its own, and those between it and the CA, if any
  std::string key;          // its own
};

/// What a certificate is to be good for.
enum class TlsRole { kCoordinator, kNode };

/// Why a certificate is not to be believed, in words that follow "its certificate"; nothing if it is. `chain` is the
/// certificate and those between it and the CA.
std::optional<std::string> certificate_problem(std::string_view chain, std::string_view authority, TlsRole role);

/// The common name of a certificate: who it is for. Throws Error{kPeer} for what is no certificate, or has no such name
/// or several.
std::string certificate_name(std::string_view certificate);

/// Throws Error{kInput} unless the parts belong together and others will believe them now.
void check_identity(const TlsIdentity& identity, TlsRole role);

}  // namespace labelshift
