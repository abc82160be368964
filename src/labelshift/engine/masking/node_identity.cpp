#include "labelshift/engine/masking/node_identity.hpp"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <optional>

#include "labelshift/engine/masking/openssl_error.hpp"

namespace labelshift {
namespace {

constexpr std::size_t kMostCertificateBytes = 1 << 16;

template <auto free>
struct Free {
  template <typename T>
  void operator()(T* object) const {
    free(object);
  }
};
void free_stack(STACK_OF(X509) * certificates) {
  sk_X509_pop_free(certificates, X509_free);
}
using Certificate = std::unique_ptr<X509, Free<X509_free>>;
using Certificates = std::unique_ptr<STACK_OF(X509), Free<free_stack>>;
using Key = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;
using Digest = std::unique_ptr<EVP_MD_CTX, Free<EVP_MD_CTX_free>>;
using Store = std::unique_ptr<X509_STORE, Free<X509_STORE_free>>;
using Verification = std::unique_ptr<X509_STORE_CTX, Free<X509_STORE_CTX_free>>;
using Memory = std::unique_ptr<BIO, Free<BIO_free_all>>;

const unsigned char* raw(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

Memory reader_of(const std::string& text) {
  Memory memory(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  if (!memory) openssl_failed("reading from memory");
  return memory;
}

/// Nobody is asked for a password: a key that has one cannot be read.
int no_password(char*, int, int, void*) {
  return -1;
}

/// All that the text has, the node's own first. Empty if there is none.
Certificates certificates_of(const std::string& pem) {
  Certificates found(sk_X509_new_null());
  if (!found) openssl_failed("making a list");
  const Memory memory = reader_of(pem);
  while (Certificate one{PEM_read_bio_X509(memory.get(), nullptr, no_password, nullptr)}) {
    if (sk_X509_push(found.get(), one.get()) <= 0) openssl_failed("making a list");
    one.release();
  }
  ERR_clear_error();  // the last error is that there are no more
  return found;
}

/// The one common name of its subject; nothing if there is none, or more than one.
std::optional<std::string> common_name(const X509& certificate) {
  const X509_NAME* subject = X509_get_subject_name(&certificate);
  const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (at < 0 || X509_NAME_get_index_by_NID(subject, NID_commonName, at) >= 0) return std::nullopt;
  unsigned char* text = nullptr;
  const int size = ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
  if (size < 0) {
    ERR_clear_error();
    return std::nullopt;
  }
  std::string name(reinterpret_cast<const char*>(text), static_cast<std::size_t>(size));
  OPENSSL_free(text);
  return name;
}

/// Ed25519 and Ed448 hash by themselves.
const EVP_MD* digest_for(const EVP_PKEY& key) {
  const bool own = EVP_PKEY_is_a(&key, "ED25519") == 1 || EVP_PKEY_is_a(&key, "ED448") == 1;
  return own ? nullptr : EVP_sha256();
}

}  // namespace

struct NodeIdentity::Parts {
  Key private_key;
  Store trusted;
};

NodeIdentity::NodeIdentity(NodeIdentity&&) noexcept = default;
NodeIdentity& NodeIdentity::operator=(NodeIdentity&&) noexcept = default;
NodeIdentity::~NodeIdentity() = default;

NodeIdentity::NodeIdentity(const Files& files) : parts_(std::make_unique<Parts>()), certificate_(files.certificate) {
  const Certificates own = certificates_of(files.certificate);
  if (sk_X509_num(own.get()) == 0 || files.certificate.size() > kMostCertificateBytes)
    throw Error(ErrorKind::kInput, "the node's certificate cannot be read, expected PEM; make a new one");
  X509* mine = sk_X509_value(own.get(), 0);
  const auto name = common_name(*mine);
  if (!name || name->empty())
    throw Error(ErrorKind::kInput, "the node's certificate has no common name; make one with the node's name");
  name_ = *name;
  parts_->private_key.reset(PEM_read_bio_PrivateKey(reader_of(files.private_key).get(), nullptr, no_password, nullptr));
  if (!parts_->private_key)
    throw Error(ErrorKind::kInput, fmt::format("the private key of {} cannot be read ({}), expected PEM without a "
                                               "password; make a new one",
                                               name_, openssl_reason()));
  if (X509_check_private_key(mine, parts_->private_key.get()) != 1) {
    ERR_clear_error();
    throw Error(ErrorKind::kInput,
                fmt::format("the private key is not that of the certificate of {}; make both anew", name_));
  }
  const Certificates authorities = certificates_of(files.authority);
  if (sk_X509_num(authorities.get()) == 0)
    throw Error(ErrorKind::kInput,
                "the authority's certificate cannot be read, expected PEM; ask for it whoever signed the node's");
  parts_->trusted.reset(X509_STORE_new());
  if (!parts_->trusted) openssl_failed("making a store of certificates");
  for (int i = 0; i < sk_X509_num(authorities.get()); ++i)
    if (X509_STORE_add_cert(parts_->trusted.get(), sk_X509_value(authorities.get(), i)) != 1)
      openssl_failed("storing a certificate");
}

Bytes NodeIdentity::sign(std::span<const std::byte> message) const {
  EVP_PKEY* key = parts_->private_key.get();
  const Digest digest(EVP_MD_CTX_new());
  std::size_t size = 0;
  if (!digest || EVP_DigestSignInit(digest.get(), nullptr, digest_for(*key), nullptr, key) != 1 ||
      EVP_DigestSign(digest.get(), nullptr, &size, raw(message), message.size()) != 1)
    openssl_failed("preparing a signature");
  Bytes signature(size);
  if (EVP_DigestSign(digest.get(), reinterpret_cast<unsigned char*>(signature.data()), &size, raw(message),
                     message.size()) != 1)
    openssl_failed("signing");
  signature.resize(size);
  return signature;
}

void NodeIdentity::verify(const std::string& name, const std::string& certificate, std::span<const std::byte> message,
                          std::span<const std::byte> signature) const {
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorKind::kPeer, fmt::format("the key of {} is not to be trusted: {}", name, what));
  };
  if (certificate.size() > kMostCertificateBytes)
    refuse(fmt::format("its certificate has {} bytes, expected at most {}", certificate.size(), kMostCertificateBytes));
  const Certificates chain = certificates_of(certificate);
  if (sk_X509_num(chain.get()) == 0) refuse("its certificate cannot be read");
  X509* own = sk_X509_value(chain.get(), 0);
  const Verification verification(X509_STORE_CTX_new());
  if (!verification || X509_STORE_CTX_init(verification.get(), parts_->trusted.get(), own, chain.get()) != 1 ||
      X509_STORE_CTX_set_purpose(verification.get(), X509_PURPOSE_SSL_CLIENT) != 1)
    openssl_failed("preparing to verify a certificate");
  if (X509_verify_cert(verification.get()) != 1) {
    ERR_clear_error();
    refuse(fmt::format("its certificate is not valid: {}",
                       X509_verify_cert_error_string(X509_STORE_CTX_get_error(verification.get()))));
  }
  if (const auto found = common_name(*own); found != name)
    refuse(found ? "its certificate is that of another node" : "its certificate has no common name, or several");
  EVP_PKEY* key = X509_get0_pubkey(own);
  const Digest digest(EVP_MD_CTX_new());
  const bool good = key != nullptr && digest &&
                    EVP_DigestVerifyInit(digest.get(), nullptr, digest_for(*key), nullptr, key) == 1 &&
                    EVP_DigestVerify(digest.get(), raw(signature), signature.size(), raw(message), message.size()) == 1;
  ERR_clear_error();
  if (!good) refuse("it is not signed by it for this run, exchange and set of nodes");
}

}  // namespace labelshift
