#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "labelshift/engine/masking/node_identity.hpp"

namespace labelshift {

/// A certificate and the key to it.
struct TestCertificate {
  std::shared_ptr<EVP_PKEY> key;
  std::shared_ptr<X509> certificate;

  std::string certificate_pem() const {
    return text([&](BIO* to) { return PEM_write_bio_X509(to, certificate.get()); });
  }
  std::string key_pem() const {
    return text(
        [&](BIO* to) { return PEM_write_bio_PrivateKey(to, key.get(), nullptr, nullptr, 0, nullptr, nullptr); });
  }

 private:
  template <typename Write>
  static std::string text(Write write) {
    const std::unique_ptr<BIO, decltype(&BIO_free_all)> memory(BIO_new(BIO_s_mem()), BIO_free_all);
    if (write(memory.get()) != 1) throw std::runtime_error("a certificate was not written");
    char* data = nullptr;
    const long size = BIO_get_mem_data(memory.get(), &data);
    return {data, static_cast<std::size_t>(size)};
  }
};

enum class KeyKind { kEllipticCurve, kRsa, kEd25519 };

struct CertificateWish {
  std::vector<std::string> names;  // common names
  KeyKind kind = KeyKind::kEllipticCurve;
  long from = -3600, until = 3600;   // seconds from now
  const char* usage = "clientAuth";  // nullptr: any
  bool authority = false;            // may sign others
};

/// By `issuer`, or by itself.
inline TestCertificate make_certificate(const CertificateWish& wish, const TestCertificate* issuer = nullptr) {
  const auto need = [](bool good) {
    if (!good) throw std::runtime_error("a certificate was not made");
  };
  TestCertificate made;
  made.key.reset(wish.kind == KeyKind::kEllipticCurve ? EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256")
                 : wish.kind == KeyKind::kRsa         ? EVP_PKEY_Q_keygen(nullptr, nullptr, "RSA", std::size_t{2048})
                                                      : EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"),
                 EVP_PKEY_free);
  need(made.key != nullptr);
  made.certificate.reset(X509_new(), X509_free);
  X509* certificate = made.certificate.get();
  static long serial = 0;
  need(X509_set_version(certificate, 2) == 1);
  need(ASN1_INTEGER_set(X509_get_serialNumber(certificate), ++serial) == 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), wish.from);
  X509_gmtime_adj(X509_getm_notAfter(certificate), wish.until);
  for (const std::string& name : wish.names)
    need(X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_UTF8,
                                    reinterpret_cast<const unsigned char*>(name.data()), static_cast<int>(name.size()),
                                    -1, 0) == 1);
  const TestCertificate& signer = issuer != nullptr ? *issuer : made;
  need(X509_set_issuer_name(certificate, X509_get_subject_name(signer.certificate.get())) == 1);
  need(X509_set_pubkey(certificate, made.key.get()) == 1);
  const auto extend = [&](int what, const char* value) {
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, signer.certificate.get(), certificate, nullptr, nullptr, 0);
    const std::unique_ptr<X509_EXTENSION, decltype(&X509_EXTENSION_free)> extension(
        X509V3_EXT_conf_nid(nullptr, &context, what, value), X509_EXTENSION_free);
    need(extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1);
  };
  extend(NID_basic_constraints, wish.authority ? "critical,CA:TRUE" : "critical,CA:FALSE");
  if (!wish.authority && wish.usage != nullptr) extend(NID_ext_key_usage, wish.usage);
  const bool hashes_itself = EVP_PKEY_is_a(signer.key.get(), "ED25519") == 1;
  need(X509_sign(certificate, signer.key.get(), hashes_itself ? nullptr : EVP_sha256()) > 0);
  return made;
}

inline TestCertificate make_authority(const std::string& name = "test authority") {
  return make_certificate({.names = {name}, .authority = true});
}

inline NodeIdentity identity_of(const TestCertificate& certificate, const TestCertificate& authority) {
  return NodeIdentity({.certificate = certificate.certificate_pem(),
                       .private_key = certificate.key_pem(),
                       .authority = authority.certificate_pem()});
}

}  // namespace labelshift
