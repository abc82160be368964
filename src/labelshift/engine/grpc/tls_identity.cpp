#include "labelshift/engine/grpc/tls_identity.hpp"

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <vector>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/printable.hpp"

namespace labelshift {
namespace {

template <auto kFree>
struct Free {
  template <typename Held>
  void operator()(Held* held) const {
    kFree(held);
  }
};
void free_stack(STACK_OF(X509) * held) {  // of certificates that others own
  sk_X509_free(held);
}
void free_text(unsigned char* held) {
  OPENSSL_free(held);
}
using Stack = std::unique_ptr<STACK_OF(X509), Free<free_stack>>;
using Text = std::unique_ptr<unsigned char, Free<free_text>>;
using Bio = std::unique_ptr<BIO, Free<BIO_free_all>>;
using Certificate = std::unique_ptr<X509, Free<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;
using Store = std::unique_ptr<X509_STORE, Free<X509_STORE_free>>;
using StoreContext = std::unique_ptr<X509_STORE_CTX, Free<X509_STORE_CTX_free>>;

/// OpenSSL keeps what went wrong for whoever asks next on this thread; gRPC would find it.
struct ErrorsForgotten {
  ~ErrorsForgotten() { ERR_clear_error(); }
};

Bio reader(std::string_view text) {
  Bio bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  if (!bio) throw std::bad_alloc();
  return bio;
}

/// For keys that ask for a password: nobody is there to be asked.
int no_password(char*, int, int, void*) {
  return -1;
}

std::vector<Certificate> read_certificates(std::string_view pem) {
  std::vector<Certificate> found;
  const Bio bio = reader(pem);
  while (X509* const one = PEM_read_bio_X509(bio.get(), nullptr, no_password, nullptr)) found.emplace_back(one);
  return found;
}

}  // namespace

std::optional<std::string> certificate_problem(std::string_view chain, std::string_view authority, TlsRole role) {
  const ErrorsForgotten errors;
  const std::vector<Certificate> shown = read_certificates(chain), trusted = read_certificates(authority);
  if (shown.empty()) return "is missing";
  const Store store(X509_STORE_new());
  const StoreContext context(X509_STORE_CTX_new());
  const Stack between(sk_X509_new_null());
  if (!store || !context || !between) throw std::bad_alloc();
  for (const Certificate& one : trusted)
    if (X509_STORE_add_cert(store.get(), one.get()) != 1) throw std::bad_alloc();
  for (std::size_t i = 1; i < shown.size(); ++i)
    if (sk_X509_push(between.get(), shown[i].get()) == 0) throw std::bad_alloc();
  if (X509_STORE_CTX_init(context.get(), store.get(), shown[0].get(), between.get()) != 1) throw std::bad_alloc();
  X509_STORE_CTX_set_purpose(context.get(), role == TlsRole::kNode ? X509_PURPOSE_SSL_CLIENT : X509_PURPOSE_SSL_SERVER);
  if (X509_verify_cert(context.get()) == 1) return std::nullopt;
  switch (const int why = X509_STORE_CTX_get_error(context.get())) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return "has expired";
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return "is not valid yet";
    case X509_V_ERR_INVALID_PURPOSE:
      return role == TlsRole::kNode ? "is not made for nodes" : "is not made for coordinators";
    default:
      return fmt::format("is not signed by the authority that is believed here ({})",
                         X509_verify_cert_error_string(why));
  }
}

std::string certificate_name(std::string_view certificate) {
  const ErrorsForgotten errors;
  const std::vector<Certificate> found = read_certificates(certificate);
  if (found.empty()) throw Error(ErrorKind::kPeer, "a certificate is missing or cannot be read");
  const X509_NAME* const subject = X509_get_subject_name(found[0].get());
  const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (at < 0 || X509_NAME_get_index_by_NID(subject, NID_commonName, at) >= 0)
    throw Error(ErrorKind::kPeer, "a certificate has no common name, or several; expected one, the node's");
  unsigned char* text = nullptr;
  const int size = ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
  const Text owner(text);
  if (size <= 0) throw Error(ErrorKind::kPeer, "a certificate has a common name that cannot be read");
  std::string name(reinterpret_cast<const char*>(text), static_cast<std::size_t>(size));
  if (printable(name) != name)
    throw Error(ErrorKind::kPeer, fmt::format("a certificate has the common name \"{}\", which has characters that "
                                              "cannot be shown",
                                              printable(name)));
  return name;
}

void check_identity(const TlsIdentity& identity, TlsRole role) {
  const ErrorsForgotten errors;
  if (read_certificates(identity.authority).empty())
    throw Error(ErrorKind::kInput, "the authority's certificate cannot be read, expected one in PEM format");
  const std::vector<Certificate> own = read_certificates(identity.certificate);
  if (own.empty()) throw Error(ErrorKind::kInput, "the certificate cannot be read, expected one in PEM format");
  const Key key(PEM_read_bio_PrivateKey(reader(identity.key).get(), nullptr, no_password, nullptr));
  if (!key) throw Error(ErrorKind::kInput, "the key cannot be read, expected one in PEM format without a password");
  if (X509_check_private_key(own[0].get(), key.get()) != 1)
    throw Error(ErrorKind::kInput, "the key does not belong to the certificate; give both of the same pair");
  if (const auto problem = certificate_problem(identity.certificate, identity.authority, role))
    throw Error(ErrorKind::kInput, fmt::format("the certificate {}; have a new one made", *problem));
  certificate_name(identity.certificate);
}

}  // namespace labelshift
