#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <stdexcept>
#include <string>

#include "labelshift/engine/grpc/tls_identity.hpp"

namespace labelshift {

/// A CA for tests, and certificates that it signs.
class TestAuthority {
 public:
  TestAuthority() : key_(new_key()) {
    certificate_.reset(X509_new());
    fill(certificate_.get(), "test authority", key_.get(), -3600, 3600);
    extend(certificate_.get(), NID_basic_constraints, "critical,CA:TRUE");
    sign(certificate_.get());
  }

  struct Wish {
    long from = -3600, until = 3600;     // seconds from now
    const char* alternatives = nullptr;  // subjectAltName
  };
  TlsIdentity identity(const std::string& name, Wish wish) const {
    const Key key = new_key();
    const Certificate certificate(X509_new());
    fill(certificate.get(), name, key.get(), wish.from, wish.until);
    if (wish.alternatives) extend(certificate.get(), NID_subject_alt_name, wish.alternatives);
    sign(certificate.get());
    return {.authority = pem(certificate_.get()), .certificate = pem(certificate.get()), .key = pem(key.get())};
  }
  TlsIdentity node(const std::string& name) const { return identity(name, {}); }
  TlsIdentity coordinator() const { return identity("coordinator", {.alternatives = "IP:127.0.0.1"}); }

 private:
  struct Free {
    void operator()(X509* held) const { X509_free(held); }
    void operator()(EVP_PKEY* held) const { EVP_PKEY_free(held); }
    void operator()(BIO* held) const { BIO_free_all(held); }
  };
  using Certificate = std::unique_ptr<X509, Free>;
  using Key = std::unique_ptr<EVP_PKEY, Free>;

  static void need(bool good) {
    if (!good) throw std::runtime_error("OpenSSL makes no certificate");
  }
  static Key new_key() {
    Key key(EVP_EC_gen("P-256"));
    need(key != nullptr);
    return key;
  }
  void fill(X509* to, const std::string& name, EVP_PKEY* key, long from, long until) const {
    std::uint64_t serial = 0;
    need(RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof serial) == 1);
    need(X509_set_version(to, 2) == 1 && ASN1_INTEGER_set_uint64(X509_get_serialNumber(to), serial >> 1) == 1);
    need(X509_gmtime_adj(X509_getm_notBefore(to), from) && X509_gmtime_adj(X509_getm_notAfter(to), until));
    X509_NAME* const subject = X509_get_subject_name(to);
    need(X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, reinterpret_cast<const unsigned char*>(name.data()),
                                    static_cast<int>(name.size()), -1, 0) == 1);
    need(X509_set_issuer_name(to, X509_get_subject_name(certificate_.get())) == 1);
    need(X509_set_pubkey(to, key) == 1);
  }
  void extend(X509* to, int kind, const char* value) const {
    X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, nullptr, kind, value);
    need(extension && X509_add_ext(to, extension, -1) == 1);
    X509_EXTENSION_free(extension);
  }
  void sign(X509* to) const { need(X509_sign(to, key_.get(), EVP_sha256()) > 0); }
  template <typename Held>
  static std::string pem(Held* held) {
    const std::unique_ptr<BIO, Free> bio(BIO_new(BIO_s_mem()));
    if constexpr (std::is_same_v<Held, X509>)
      need(PEM_write_bio_X509(bio.get(), held) == 1);
    else
      need(PEM_write_bio_PrivateKey(bio.get(), held, nullptr, nullptr, 0, nullptr, nullptr) == 1);
    char* data = nullptr;
    const long size = BIO_get_mem_data(bio.get(), &data);
    return {data, static_cast<std::size_t>(size)};
  }

  Key key_;
  Certificate certificate_;
};

}  // namespace labelshift
