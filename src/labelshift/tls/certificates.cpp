#include "labelshift/tls/certificates.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <filesystem>
#include <memory>

#include "labelshift/core/base/error.hpp"
#include "labelshift/data/files/errno_text.hpp"
#include "labelshift/data/files/input_file.hpp"
#include "labelshift/data/files/text_lines.hpp"
#include "labelshift/tls/node_name.hpp"

namespace labelshift {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAuthority = "ca.pem";
constexpr const char* kAuthorityKey = "ca-key.pem";
constexpr const char* kCertificate = "cert.pem";
constexpr const char* kKey = "key.pem";
constexpr const char* kCoordinator = "coordinator";

constexpr std::int64_t kLargestPem = 1 << 20;
constexpr auto kAuthorityLasts = std::chrono::days(3650);
constexpr auto kClocksDiffer = std::chrono::hours(1);  // a certificate is good from so long ago

template <auto free_it>
struct Free {
  void operator()(auto* what) const { free_it(what); }
};
using Certificate = std::unique_ptr<X509, Free<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;
using Memory = std::unique_ptr<BIO, Free<BIO_free_all>>;
using Number = std::unique_ptr<BIGNUM, Free<BN_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Free<X509_EXTENSION_free>>;
using Store = std::unique_ptr<X509_STORE, Free<X509_STORE_free>>;
using StoreContext = std::unique_ptr<X509_STORE_CTX, Free<X509_STORE_CTX_free>>;

/// Throws unless OpenSSL did what it should, as it does but where memory or random numbers are out.
void need(bool done) {
  if (done) return;
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  const char* reason = ERR_reason_error_string(code);
  throw Error(ErrorKind::kSystem, fmt::format("OpenSSL cannot make a certificate: {}", reason ? reason : "no reason"));
}

template <typename Owner, typename Raw>
Owner owned(Raw* raw) {
  need(raw != nullptr);
  return Owner(raw);
}

template <typename Write>
std::string pem_text(Write&& write) {
  const auto memory = owned<Memory>(BIO_new(BIO_s_mem()));
  need(write(memory.get()) == 1);
  char* data = nullptr;
  const long size = BIO_get_mem_data(memory.get(), &data);
  return {data, static_cast<std::size_t>(size)};
}

std::string pem_of(X509* certificate) {
  return pem_text([&](BIO* to) { return PEM_write_bio_X509(to, certificate); });
}

std::string pem_of(EVP_PKEY* key) {
  return pem_text(
      [&](BIO* to) { return PEM_write_bio_PKCS8PrivateKey(to, key, nullptr, nullptr, 0, nullptr, nullptr); });
}

Memory memory_of(const std::string& text) {
  return owned<Memory>(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

/// Gives no password, where OpenSSL would ask for one on the terminal.
int no_password(char*, int, int, void*) {
  return -1;
}

Key parse_key(const std::string& text) {
  Key key(PEM_read_bio_PrivateKey(memory_of(text).get(), nullptr, no_password, nullptr));
  ERR_clear_error();
  return key;
}

/// All certificates of a text, up to the first that is none.
std::vector<Certificate> parse_certificates(const std::string& text) {
  std::vector<Certificate> result;
  const Memory memory = memory_of(text);
  while (X509* next = PEM_read_bio_X509(memory.get(), nullptr, no_password, nullptr)) result.emplace_back(next);
  ERR_clear_error();
  return result;
}

std::string read_pem(const std::string& path) {
  const InputFile file(path, FileKind::kRegular);
  if (file.size() > kLargestPem)
    throw Error(ErrorKind::kInput,
                fmt::format("{} has {} bytes, expected a PEM file of at most {}", path, file.size(), kLargestPem));
  return read_file(path);
}

std::vector<Certificate> read_certificates(const std::string& path, const std::string& text) {
  std::vector<Certificate> found = parse_certificates(text);
  if (found.empty())
    throw Error(ErrorKind::kInput, fmt::format("{} has no certificate, expected one that begins with "
                                               "\"-----BEGIN CERTIFICATE\"",
                                               path));
  return found;
}

Key read_key(const std::string& path, const std::string& text) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && (status.st_mode & 077) != 0)
    throw Error(ErrorKind::kInput, fmt::format("{} is a key that others can read (mode {:03o}), expected one for its "
                                               "owner alone; type: chmod 600 {}",
                                               path, status.st_mode & 0777, path));
  Key key = parse_key(text);
  if (key) return key;
  const bool locked = text.find("ENCRYPTED") != text.npos;
  throw Error(
      ErrorKind::kInput,
      locked ? fmt::format("{} needs a password, which nobody is there to type; give a key without one", path)
             : fmt::format("{} has no private key, expected one that begins with \"-----BEGIN PRIVATE KEY\"", path));
}

std::string date_text(const ASN1_TIME* time) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return "an impossible date";
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02} UTC", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                     parts.tm_hour, parts.tm_min);
}

bool is_over(const X509* certificate) {
  return X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0;
}

std::string common_name(const X509* certificate) {
  X509_NAME* subject = X509_get_subject_name(certificate);
  const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (at < 0) return "";
  unsigned char* text = nullptr;
  const int size = ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
  if (size < 0) return "";
  std::string name(reinterpret_cast<char*>(text), static_cast<std::size_t>(size));  // which may hold a NUL
  OPENSSL_free(text);
  return name;
}

/// Throws unless the first of `chain` leads to one of `authorities`, and all of that is valid today.
void check_chain(const std::string& folder, const std::vector<Certificate>& chain,
                 const std::vector<Certificate>& authorities) {
  const auto store = owned<Store>(X509_STORE_new());
  for (const Certificate& one : authorities) X509_STORE_add_cert(store.get(), one.get());
  ERR_clear_error();  // one that is there twice
  std::unique_ptr<STACK_OF(X509), Free<[](STACK_OF(X509) * stack) { sk_X509_free(stack); }>> between(
      sk_X509_new_null());
  for (std::size_t i = 1; i < chain.size(); ++i) need(sk_X509_push(between.get(), chain[i].get()) > 0);
  const auto context = owned<StoreContext>(X509_STORE_CTX_new());
  need(X509_STORE_CTX_init(context.get(), store.get(), chain.front().get(), between.get()) == 1);
  if (X509_verify_cert(context.get()) == 1) return;
  const int error = X509_STORE_CTX_get_error(context.get());
  ERR_clear_error();
  const X509* at = X509_STORE_CTX_get_current_cert(context.get());
  const std::string which = at && at != chain.front().get() ? fmt::format("{}/{}", folder, kAuthority)
                                                            : fmt::format("{}/{}", folder, kCertificate);
  if (at && error == X509_V_ERR_CERT_HAS_EXPIRED)
    throw Error(ErrorKind::kInput, fmt::format("{} expired on {}; get a new certificate from whoever made it", which,
                                               date_text(X509_get0_notAfter(at))));
  if (at && error == X509_V_ERR_CERT_NOT_YET_VALID)
    throw Error(ErrorKind::kInput,
                fmt::format("{} is not valid before {}; set the clock of this machine, or get a new certificate", which,
                            date_text(X509_get0_notBefore(at))));
  throw Error(ErrorKind::kInput, fmt::format("{}/{} is not signed by {}/{} ({}); take all files from one place", folder,
                                             kCertificate, folder, kAuthority, X509_verify_cert_error_string(error)));
}

// --- What follows makes certificates.

[[noreturn]] void cannot_write(const std::string& path, int error) {
  throw Error(ErrorKind::kSystem, fmt::format("cannot write {}: {}; choose another place", path, errno_text(error)));
}

/// Writes a file that must not be there yet, and has this mode from the moment it exists.
void write_new(const std::string& path, const std::string& text, mode_t mode) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
  if (file < 0) cannot_write(path, errno);
  std::size_t done = 0;
  int error = 0;
  while (done < text.size() && error == 0) {
    const ssize_t written = ::write(file, text.data() + done, text.size() - done);
    if (written > 0) done += static_cast<std::size_t>(written);
    if (written < 0 && errno != EINTR) error = errno;
  }
  if (error == 0 && ::fsync(file) != 0) error = errno;
  if (::close(file) != 0 && error == 0) error = errno;
  if (error == 0) return;
  ::unlink(path.c_str());
  cannot_write(path, error);
}

constexpr mode_t kForAll = 0644, kForOwner = 0600;

/// Keeps a second process from making another authority in the same folder at the same time.
class FolderInUse {
 public:
  explicit FolderInUse(const std::string& folder)
      : descriptor_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (descriptor_ < 0) cannot_write(folder, errno);
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
    ::close(descriptor_);
    throw Error(ErrorKind::kUsage, fmt::format("{} is in use by another process; wait until it ends", folder));
  }
  FolderInUse(const FolderInUse&) = delete;
  ~FolderInUse() { ::close(descriptor_); }

 private:
  int descriptor_;
};

struct Authority {
  Certificate certificate;
  Key key;
};

Key new_key() {
  return owned<Key>(EVP_EC_gen("P-256"));  // which every TLS knows, also those that know no Ed25519
}

void extend(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const auto extension = owned<Extension>(X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
  need(X509_add_ext(certificate, extension.get(), -1) == 1);
}

/// A certificate of this key that says who, since when and until when; it is not signed yet.
Certificate draft(EVP_PKEY* key, const std::string& name, std::time_t until) {
  auto result = owned<Certificate>(X509_new());
  X509* const made = result.get();
  need(X509_set_version(made, X509_VERSION_3) == 1);
  const auto serial = owned<Number>(BN_new());
  need(BN_rand(serial.get(), 127, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1 &&
       BN_to_ASN1_INTEGER(serial.get(), X509_get_serialNumber(made)) != nullptr);
  const std::time_t now = std::time(nullptr);
  need(ASN1_TIME_set(X509_getm_notBefore(made), now - std::chrono::seconds(kClocksDiffer).count()) != nullptr &&
       ASN1_TIME_set(X509_getm_notAfter(made), until) != nullptr);
  need(X509_NAME_add_entry_by_NID(X509_get_subject_name(made), NID_commonName, MBSTRING_UTF8,
                                  reinterpret_cast<const unsigned char*>(name.data()), static_cast<int>(name.size()),
                                  -1, 0) == 1);
  need(X509_set_pubkey(made, key) == 1);
  return result;
}

std::time_t after(std::chrono::days days) {
  return std::time(nullptr) + std::chrono::seconds(days).count();
}

Authority new_authority() {
  std::array<unsigned char, 4> mark{};  // so that no two authorities have one name
  need(RAND_bytes(mark.data(), static_cast<int>(mark.size())) == 1);
  Authority made{.key = new_key()};
  made.certificate = draft(made.key.get(),
                           fmt::format("labelshift trial {:02x}{:02x}{:02x}{:02x}", mark[0], mark[1], mark[2], mark[3]),
                           after(kAuthorityLasts));
  X509* const own = made.certificate.get();
  need(X509_set_issuer_name(own, X509_get_subject_name(own)) == 1);
  extend(own, own, NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
  extend(own, own, NID_key_usage, "critical,keyCertSign,cRLSign");
  extend(own, own, NID_subject_key_identifier, "hash");
  need(X509_sign(own, made.key.get(), EVP_sha256()) > 0);
  return made;
}

Certificate signed_by(const Authority& authority, Certificate draft, const char* purpose, const std::string& names) {
  X509* const own = draft.get();
  X509* const issuer = authority.certificate.get();
  need(X509_set_issuer_name(own, X509_get_subject_name(issuer)) == 1);
  extend(own, issuer, NID_basic_constraints, "critical,CA:FALSE");
  extend(own, issuer, NID_key_usage, "critical,digitalSignature");
  extend(own, issuer, NID_ext_key_usage, purpose);
  extend(own, issuer, NID_subject_key_identifier, "hash");
  extend(own, issuer, NID_authority_key_identifier, "keyid");
  extend(own, issuer, NID_subject_alt_name, names);
  need(X509_sign(own, authority.key.get(), EVP_sha256()) > 0);
  return draft;
}

bool is_address(const std::string& host) {
  std::array<unsigned char, 16> ignored{};
  return ::inet_pton(AF_INET, host.c_str(), ignored.data()) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), ignored.data()) == 1;
}

/// Whether it looks like one, and is nothing else to OpenSSL, which separates names by commas.
bool is_host_name(const std::string& host) {
  constexpr std::size_t kLongestHost = 253;
  return !host.empty() && host.size() <= kLongestHost && host.front() != '.' && host.front() != '-' &&
         std::all_of(host.begin(), host.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
         });
}

std::string alternative_names(const std::vector<std::string>& hosts) {
  std::string names;
  for (const std::string& host : hosts)
    names += fmt::format("{}{}:{}", names.empty() ? "" : ",", is_address(host) ? "IP" : "DNS", host);
  return names;
}

void check_order(const CertificateOrder& order) {
  if (order.folder.empty()) throw Error(ErrorKind::kUsage, "the name of the folder is empty; choose one");
  if (order.hosts.empty())
    throw Error(ErrorKind::kUsage, "the coordinator has no host name; give the one that nodes call it by");
  if (order.valid < std::chrono::days(1) || order.valid > kAuthorityLasts)
    throw Error(ErrorKind::kUsage, fmt::format("certificates are to be valid for {} days, expected 1 to {}",
                                               order.valid.count(), kAuthorityLasts.count()));
  for (auto name = order.nodes.begin(); name != order.nodes.end(); ++name) {
    check_node_name(*name);
    for (const char* taken : {kCoordinator, kAuthority, kAuthorityKey})
      if (*name == taken)
        throw Error(ErrorKind::kUsage, fmt::format("no node can be called {}, as something else is; choose another "
                                                   "name",
                                                   taken));
    if (std::find(order.nodes.begin(), name, *name) != name)
      throw Error(ErrorKind::kUsage, fmt::format("the node {} is there twice; give each name once", *name));
  }
  for (const std::string& host : order.hosts) {
    if (!is_address(host) && !is_host_name(host))
      throw Error(ErrorKind::kUsage, fmt::format("the host of the coordinator is {}, expected a name such as "
                                                 "coordinator.example.org, or an address",
                                                 excerpt(host)));
  }
}

/// The authority of the folder, made if there is none.
Authority find_authority(const std::string& folder, bool& is_new) {
  const std::string path = fmt::format("{}/{}", folder, kAuthority);
  const std::string key_path = fmt::format("{}/{}", folder, kAuthorityKey);
  std::error_code ignored;
  const bool has_certificate = fs::exists(path, ignored), has_key = fs::exists(key_path, ignored);
  is_new = !has_certificate && !has_key;
  if (is_new) {
    Authority made = new_authority();
    write_new(key_path, pem_of(made.key.get()), kForOwner);
    write_new(path, pem_of(made.certificate.get()), kForAll);
    return made;
  }
  if (!has_certificate || !has_key)
    throw Error(ErrorKind::kInput, fmt::format("{} is there and {} is not, so nothing can be signed; bring it back, or "
                                               "make all certificates anew in another folder",
                                               has_key ? key_path : path, has_key ? path : key_path));
  Authority found{.certificate = std::move(read_certificates(path, read_pem(path)).front()),
                  .key = read_key(key_path, read_pem(key_path))};
  const bool own_key = X509_check_private_key(found.certificate.get(), found.key.get()) == 1;
  ERR_clear_error();
  if (!own_key)
    throw Error(ErrorKind::kInput,
                fmt::format("{} is not the key of {}; make all certificates anew in another folder", key_path, path));
  if (is_over(found.certificate.get()))
    throw Error(ErrorKind::kInput, fmt::format("{} expired on {}; make all certificates anew in another folder", path,
                                               date_text(X509_get0_notAfter(found.certificate.get()))));
  return found;
}

/// No certificate outlives its authority.
std::time_t end_of(const Authority& authority, std::chrono::days valid) {
  std::tm end{};
  need(ASN1_TIME_to_tm(X509_get0_notAfter(authority.certificate.get()), &end) == 1);
  return std::min(after(valid), ::timegm(&end));
}

/// A folder that is there whole or not at all: it has another name until all its files are there.
class NewFolder {
 public:
  explicit NewFolder(const std::string& path) : path_(path), temporary_(path + ".new-XXXXXX") {
    if (!::mkdtemp(temporary_.data())) cannot_write(path_, errno);  // for its owner alone
  }
  NewFolder(const NewFolder&) = delete;
  ~NewFolder() {
    std::error_code ignored;
    if (!temporary_.empty()) fs::remove_all(temporary_, ignored);
  }
  void add(const char* name, const std::string& text, mode_t mode) {
    write_new(fmt::format("{}/{}", temporary_, name), text, mode);
  }
  void commit() {
    if (::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, path_.c_str(), RENAME_NOREPLACE) != 0)
      cannot_write(path_, errno);
    temporary_.clear();
  }

 private:
  std::string path_;
  std::string temporary_;
};

}  // namespace

CertificateDelivery make_certificates(const CertificateOrder& order) {
  check_order(order);
  std::error_code error;
  fs::create_directories(order.folder, error);
  if (error) cannot_write(order.folder, error.value());
  const FolderInUse lock(order.folder);
  CertificateDelivery result;
  const Authority authority = find_authority(order.folder, result.new_authority);
  const std::string authority_text = pem_of(authority.certificate.get());
  const std::time_t until = end_of(authority, order.valid);
  const auto deliver = [&](const std::string& name, const char* purpose, const std::string& names) {
    const std::string path = fmt::format("{}/{}", order.folder, name);
    std::error_code ignored;
    if (fs::exists(fs::symlink_status(path, ignored))) {
      result.kept.push_back(name);
      return;
    }
    const Key key = new_key();
    const Certificate made = signed_by(authority, draft(key.get(), name, until), purpose, names);
    NewFolder folder(path);
    folder.add(kAuthority, authority_text, kForAll);
    folder.add(kCertificate, pem_of(made.get()), kForAll);
    folder.add(kKey, pem_of(key.get()), kForOwner);
    folder.commit();
    result.made.push_back(name);
  };
  deliver(kCoordinator, "serverAuth", alternative_names(order.hosts));
  // A certificate without alternative names would pass for a server that is called like its common name.
  for (const std::string& node : order.nodes) deliver(node, "clientAuth", fmt::format("URI:labelshift:node:{}", node));
  return result;
}

TlsFolder read_tls_folder(const std::string& folder) {
  const auto path = [&](const char* name) { return fmt::format("{}/{}", folder, name); };
  TlsFolder result{.authority = read_pem(path(kAuthority)),
                   .certificate = read_pem(path(kCertificate)),
                   .key = read_pem(path(kKey))};
  const std::vector<Certificate> authorities = read_certificates(path(kAuthority), result.authority);
  const std::vector<Certificate> chain = read_certificates(path(kCertificate), result.certificate);
  const Key key = read_key(path(kKey), result.key);
  const bool own_key = X509_check_private_key(chain.front().get(), key.get()) == 1;
  ERR_clear_error();
  if (!own_key)
    throw Error(ErrorKind::kInput,
                fmt::format("{} is not the key of {}; take both from one place", path(kKey), path(kCertificate)));
  check_chain(folder, chain, authorities);
  result.name = common_name(chain.front().get());
  return result;
}

}  // namespace labelshift
