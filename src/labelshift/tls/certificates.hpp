#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace labelshift {

/// Certificates of a federation for a trial.
struct CertificateOrder {
  std::string folder;
  std::vector<std::string> nodes;                                   // the common name of each
  std::vector<std::string> hosts{"localhost", "127.0.0.1", "::1"};  // how nodes call the coordinator: names, addresses
  std::chrono::days valid{365};                                     // from now; not longer than the authority's own
};

/// What came of it: the names of folders, those of nodes or "coordinator".
struct CertificateDelivery {
  bool new_authority = false;
  std::vector<std::string> made;
  std::vector<std::string> kept;  // they were there, and are as they were
};

/// Makes a private authority in the folder (ca.pem, ca-key.pem), and with it a certificate for the coordinator and one
/// for each node: NAME/ca.pem, cert.pem and key.pem, so that the folder NAME can be copied to a site as it is. Keys are
/// for their owner alone from the moment they exist. Nothing is ever written over: a second call makes what is not
/// there yet, with the same authority, and a folder is there whole or not at all.
///
/// A node's certificate is good for a client alone and the coordinator's for a server alone, so that no node can pass
/// for the coordinator.
///
/// Throws Error{kUsage} for impossible names, Error{kInput} for an authority that is damaged, expired, or has no key
/// here, and Error{kSystem} for what cannot be written.
CertificateDelivery make_certificates(const CertificateOrder& order);

/// Who a process is, and whom it believes, as PEM texts.
struct TlsFolder {
  std::string authority;    // whom it trusts
  std::string certificate;  // its own, and those up to the authority if there are any between
  std::string key;
  std::string name;  // the certificate's common name; empty if it has none
};

/// Reads ca.pem, cert.pem and key.pem of a folder.
///
/// Throws Error{kInput} saying what to do: a file that is not what it should be, a key that is not the certificate's,
/// that others can read or that needs a password, a certificate that the authority did not sign, one that is expired
/// or not valid yet.
TlsFolder read_tls_folder(const std::string& folder);

}  // namespace labelshift
