#include "labelshift/engine/grpc/tls_identity.hpp"

#include <gmock/gmock.h>

#include "tests/data/scratch.hpp"
#include "tests/engine/grpc/certificates.hpp"

namespace labelshift {
namespace {

using testing::HasSubstr;
using testing::Optional;

TEST(CertificateProblem, IsFoundForEveryCertificateThatIsNotToBeBelieved) {
  const TestAuthority authority;
  const TlsIdentity good = authority.node("north");
  const auto problem = [&](const TlsIdentity& identity, TlsRole role = TlsRole::kNode) {
    return certificate_problem(identity.certificate, good.authority, role);
  };
  EXPECT_EQ(problem(good), std::nullopt);
  EXPECT_EQ(problem(good, TlsRole::kCoordinator), std::nullopt);
  EXPECT_THAT(problem({}), Optional(std::string("is missing")));
  EXPECT_THAT(problem(TestAuthority().node("north")), Optional(HasSubstr("is not signed by the authority")));
  EXPECT_THAT(problem(authority.identity("north", {.from = -7200, .until = -3600})),
              Optional(std::string("has expired")));
  EXPECT_THAT(problem(authority.identity("north", {.from = 3600, .until = 7200})),
              Optional(std::string("is not valid yet")));
  EXPECT_THAT(certificate_problem(good.certificate, "", TlsRole::kNode),
              Optional(HasSubstr("is not signed by the authority")));
  // What is shown beside a certificate makes nobody believe it.
  const TlsIdentity other = TestAuthority().node("north");
  EXPECT_THAT(certificate_problem(other.certificate + other.authority, good.authority, TlsRole::kNode),
              Optional(HasSubstr("is not signed by the authority")));
}

TEST(CertificateName, IsTheOneCommonName) {
  const TestAuthority authority;
  EXPECT_EQ(certificate_name(authority.node("Zürich 1").certificate), "Zürich 1");
  expect_error(ErrorKind::kPeer, "a certificate is missing or cannot be read", [] { certificate_name("x"); });
  expect_error(ErrorKind::kPeer,
               "a certificate has the common name \"\\x1b[1m\", which has characters that cannot be shown",
               [&] { certificate_name(authority.node("\x1b[1m").certificate); });
}

}  // namespace
}  // namespace labelshift
