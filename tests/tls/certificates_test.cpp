#include "labelshift/tls/certificates.hpp"

#include <gmock/gmock.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <memory>

#include "labelshift/tls/node_name.hpp"
#include "tests/data/scratch.hpp"

namespace labelshift {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

namespace fs = std::filesystem;

mode_t mode_of(const std::string& path) {
  struct stat status {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
  return status.st_mode & 0777;
}

class Certificates : public Scratch {
 protected:
  CertificateDelivery make(std::vector<std::string> nodes, const std::string& folder = "trial") const {
    return make_certificates({.folder = path(folder), .nodes = std::move(nodes)});
  }
  std::string kind_of_failure(const std::string& folder) const {
    try {
      read_tls_folder(path(folder));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      return error.what();
    }
    return "none";
  }
  struct FreeCertificate {
    void operator()(X509* certificate) const { X509_free(certificate); }
  };
  using Certificate = std::unique_ptr<X509, FreeCertificate>;
  Certificate certificate(const std::string& name) const {
    const std::string text = bytes_of(path("trial/" + name + "/cert.pem"));
    BIO* memory = BIO_new_mem_buf(text.data(), static_cast<int>(text.size()));
    Certificate result(PEM_read_bio_X509(memory, nullptr, nullptr, nullptr));
    BIO_free(memory);
    return result;
  }
};

TEST_F(Certificates, GiveEverybodyAFolderThatCanBeCopied) {
  const CertificateDelivery made = make({"hospital-a", "b.2_x"});
  EXPECT_TRUE(made.new_authority);
  EXPECT_THAT(made.made, ElementsAre("coordinator", "hospital-a", "b.2_x"));
  EXPECT_THAT(made.kept, IsEmpty());
  for (const char* name : {"coordinator", "hospital-a", "b.2_x"}) {
    const TlsFolder identity = read_tls_folder(path("trial/" + std::string(name)));
    EXPECT_EQ(identity.name, name);
    EXPECT_EQ(identity.authority, bytes_of(path("trial/ca.pem")));
    EXPECT_THAT(identity.key, HasSubstr("-----BEGIN PRIVATE KEY-----"));
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(path("trial")), {}), 5);
}

TEST_F(Certificates, KeepKeysForTheirOwner) {
  const mode_t before = ::umask(0);  // so that nothing but the code itself keeps others out
  make({"a"});
  ::umask(before);
  for (const char* name : {"trial/ca-key.pem", "trial/a/key.pem", "trial/coordinator/key.pem"})
    EXPECT_EQ(mode_of(path(name)), 0600u) << name;
  EXPECT_EQ(mode_of(path("trial/a")), 0700u);
}

TEST_F(Certificates, AreAddedByTheSameAuthorityAndNeverWrittenOver) {
  make({"a"});
  const std::string authority = bytes_of(path("trial/ca.pem")), key = bytes_of(path("trial/a/key.pem"));
  const CertificateDelivery more = make({"a", "b"});
  EXPECT_FALSE(more.new_authority);
  EXPECT_THAT(more.made, ElementsAre("b"));
  EXPECT_THAT(more.kept, ElementsAre("coordinator", "a"));
  EXPECT_EQ(bytes_of(path("trial/ca.pem")), authority);
  EXPECT_EQ(bytes_of(path("trial/a/key.pem")), key);
  EXPECT_EQ(read_tls_folder(path("trial/b")).authority, authority);
}

TEST_F(Certificates, LeaveAloneWhatIsInTheWay) {
  fs::create_directory(path("trial"));
  fs::create_symlink(path("elsewhere"), path("trial/a"));
  EXPECT_THAT(make({"a"}).kept, ElementsAre("a"));
  EXPECT_FALSE(fs::exists(path("elsewhere")));
}

TEST_F(Certificates, OfANodeDoNotPassForTheCoordinator) {
  make({"localhost"});
  const auto good_for = [&](const char* name, int purpose) {
    return X509_check_purpose(certificate(name).get(), purpose, /*ca=*/0) == 1;
  };
  EXPECT_TRUE(good_for("localhost", X509_PURPOSE_SSL_CLIENT));
  EXPECT_FALSE(good_for("localhost", X509_PURPOSE_SSL_SERVER));
  EXPECT_TRUE(good_for("coordinator", X509_PURPOSE_SSL_SERVER));
  EXPECT_FALSE(good_for("coordinator", X509_PURPOSE_SSL_CLIENT));
  const auto called = [&](const char* name, const char* host) {
    return X509_check_host(certificate(name).get(), host, 0, 0, nullptr) == 1;
  };
  EXPECT_TRUE(called("coordinator", "localhost"));
  EXPECT_FALSE(called("coordinator", "coordinator"));
  EXPECT_EQ(X509_check_ip_asc(certificate("coordinator").get(), "::1", 0), 1);
  EXPECT_EQ(X509_check_ip_asc(certificate("coordinator").get(), "127.0.0.2", 0), 0);
}

TEST_F(Certificates, NameTheHostsThatAreGiven) {
  make_certificates({.folder = path("trial"), .hosts = {"sum.example.org", "192.0.2.7"}});
  EXPECT_EQ(X509_check_host(certificate("coordinator").get(), "sum.example.org", 0, 0, nullptr), 1);
  EXPECT_EQ(X509_check_host(certificate("coordinator").get(), "localhost", 0, 0, nullptr), 0);
  EXPECT_EQ(X509_check_ip_asc(certificate("coordinator").get(), "192.0.2.7", 0), 1);
}

TEST_F(Certificates, RefuseNamesThatAreNone) {
  EXPECT_TRUE(is_node_name(std::string(64, 'a')));
  for (const std::string& name :
       {std::string(), std::string(65, 'a'), std::string("a/b"), std::string(".."), std::string("-a"),
        std::string("a b"), std::string("\xc3\xa9"), std::string("a\0", 2)})
    EXPECT_FALSE(is_node_name(name)) << name;
  expect_error(ErrorKind::kUsage,
               "the name of a node is \"../a\", expected at most 64 letters (a to z), digits, dashes, dots and "
               "underscores, beginning with a letter or a digit",
               [&] { make({"../a"}); });
  expect_error(ErrorKind::kUsage, "no node can be called coordinator, as something else is; choose another name",
               [&] { make({"coordinator"}); });
  expect_error(ErrorKind::kUsage, "the node a is there twice; give each name once", [&] { make({"a", "b", "a"}); });
  expect_error(ErrorKind::kUsage,
               "the host of the coordinator is \"a,DNS:evil\", expected a name such as coordinator.example.org, or an "
               "address",
               [&] { make_certificates({.folder = path("trial"), .hosts = {"a,DNS:evil"}}); });
  EXPECT_FALSE(fs::exists(path("trial")));
}

TEST_F(Certificates, SayWhatIsWrongWithAnAuthority) {
  make({"a"});
  fs::rename(path("trial/ca-key.pem"), path("kept"));
  expect_error(ErrorKind::kInput,
               "DIR/trial/ca.pem is there and DIR/trial/ca-key.pem is not, so nothing can be signed; bring it back, or "
               "make all certificates anew in another folder",
               [&] { make({"b"}); });
  fs::copy(path("trial/a/key.pem"), path("trial/ca-key.pem"));
  expect_error(ErrorKind::kInput,
               "DIR/trial/ca-key.pem is not the key of DIR/trial/ca.pem; make all certificates anew in another folder",
               [&] { make({"b"}); });
  EXPECT_FALSE(fs::exists(path("trial/b")));
}

TEST_F(Certificates, AreRefusedWhereOthersCanReadTheKey) {
  make({"a"});
  fs::permissions(path("trial/a/key.pem"), fs::perms(0640));
  expect_error(ErrorKind::kInput,
               "DIR/trial/a/key.pem is a key that others can read (mode 640), expected one for its owner alone; type: "
               "chmod 600 DIR/trial/a/key.pem",
               [&] { read_tls_folder(path("trial/a")); });
}

TEST_F(Certificates, AreRefusedWhereTheyDoNotBelongTogether) {
  make({"a", "b"});
  make({"a"}, "other");
  fs::copy(path("trial/a"), path("key"));
  fs::copy(path("trial/b/key.pem"), path("key/key.pem"), fs::copy_options::overwrite_existing);
  EXPECT_EQ(kind_of_failure("key"),
            path("key/key.pem") + " is not the key of " + path("key/cert.pem") + "; take both from one place");
  fs::copy(path("trial/a"), path("authority"));
  fs::copy(path("other/ca.pem"), path("authority/ca.pem"), fs::copy_options::overwrite_existing);
  EXPECT_THAT(kind_of_failure("authority"),
              HasSubstr("authority/cert.pem is not signed by " + path("authority/ca.pem") + " ("));
}

TEST_F(Certificates, AreRefusedBeforeTheirTimeAndAfterIt) {
  make({"a"});
  const std::string key_text = bytes_of(path("trial/ca-key.pem"));
  BIO* memory = BIO_new_mem_buf(key_text.data(), static_cast<int>(key_text.size()));
  EVP_PKEY* key = PEM_read_bio_PrivateKey(memory, nullptr, nullptr, nullptr);
  BIO_free(memory);
  const auto date = [&](const char* from, const char* until) {
    const Certificate again = certificate("a");
    ASN1_TIME_set_string(X509_getm_notBefore(again.get()), from);
    ASN1_TIME_set_string(X509_getm_notAfter(again.get()), until);
    ASSERT_GT(X509_sign(again.get(), key, EVP_sha256()), 0);
    std::FILE* out = std::fopen(path("trial/a/cert.pem").c_str(), "w");
    PEM_write_X509(out, again.get());
    std::fclose(out);
  };
  date("20200101000000Z", "20210203040506Z");
  EXPECT_EQ(kind_of_failure("trial/a"), path("trial/a/cert.pem") +
                                            " expired on 2021-02-03 04:05 UTC; get a new "
                                            "certificate from whoever made it");
  date("29990101000000Z", "29990203040506Z");
  EXPECT_EQ(kind_of_failure("trial/a"), path("trial/a/cert.pem") +
                                            " is not valid before 2999-01-01 00:00 UTC; set the "
                                            "clock of this machine, or get a new certificate");
  EVP_PKEY_free(key);
}

TEST_F(Certificates, AreRefusedWhereTheyAreNone) {
  make({"a"});
  file("trial/a/cert.pem", "a certificate, honestly\n");
  EXPECT_EQ(kind_of_failure("trial/a"), path("trial/a/cert.pem") +
                                            " has no certificate, expected one that begins with "
                                            "\"-----BEGIN CERTIFICATE\"");
  file("trial/a/cert.pem", bytes_of(path("trial/a/ca.pem")));
  file("trial/a/key.pem", "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n");
  EXPECT_EQ(kind_of_failure("trial/a"),
            path("trial/a/key.pem") + " needs a password, which nobody is there to type; give a key without one");
  file("trial/a/key.pem", "");
  EXPECT_EQ(kind_of_failure("trial/a"), path("trial/a/key.pem") +
                                            " has no private key, expected one that begins with "
                                            "\"-----BEGIN PRIVATE KEY\"");
  fs::remove(path("trial/a/key.pem"));
  EXPECT_THAT(kind_of_failure("trial/a"), HasSubstr(path("trial/a/key.pem")));
  fs::create_directory(path("trial/a/key.pem"));
  EXPECT_THAT(kind_of_failure("trial/a"), HasSubstr(path("trial/a/key.pem")));
}

}  // namespace
}  // namespace labelshift
