#include <gmock/gmock.h>

#include "tests/cli/run_command.hpp"

namespace labelshift {
namespace {

using testing::HasSubstr;

class CertsCommand : public CommandTest {};

TEST_F(CertsCommand, MakesCertificatesThatOpensslVerifies) {
  const CommandResult made = labelshift("certs trial --nodes hospital-a,hospital-b --host localhost --days 30");
  EXPECT_EQ(made.status, 0) << made.err;
  EXPECT_THAT(made.out, testing::StartsWith("trial/ca.pem: a new authority; its key, trial/ca-key.pem, stays here\n"
                                            "trial/coordinator: made\ntrial/hospital-a: made\n"));
  const CommandResult more = labelshift("certs trial --nodes hospital-b,hospital-c");
  EXPECT_EQ(more.status, 0) << more.err;
  EXPECT_THAT(more.out, HasSubstr("trial/hospital-c: made\n"));
  EXPECT_THAT(more.out, HasSubstr("trial/hospital-b: was there and is as it was; remove it to have it made again\n"));
  const CommandResult verified = shell(
      "openssl verify -x509_strict -purpose sslserver -verify_hostname localhost -CAfile trial/ca.pem "
      "trial/coordinator/cert.pem && for node in a b c; do openssl verify -x509_strict -purpose sslclient "
      "-CAfile trial/hospital-$node/ca.pem trial/hospital-$node/cert.pem || exit; done");
  EXPECT_EQ(verified.status, 0) << verified.out << verified.err;
  EXPECT_EQ(shell("openssl x509 -checkend $((29 * 86400)) -in trial/hospital-a/cert.pem").status, 0);
  EXPECT_EQ(shell("openssl x509 -checkend $((31 * 86400)) -in trial/hospital-a/cert.pem").status, 1);
}

TEST_F(CertsCommand, TakesSeveralHostsWithCommas) {
  const CommandResult made =
      labelshift("certs trial --nodes a --host one.example.org,192.0.2.7 --host two.example.org");
  EXPECT_EQ(made.status, 0) << made.err;
  const CommandResult verified = shell(
      "for host in one.example.org two.example.org; do openssl verify -verify_hostname $host -CAfile trial/ca.pem "
      "trial/coordinator/cert.pem || exit; done; openssl verify -verify_ip 192.0.2.7 -CAfile trial/ca.pem "
      "trial/coordinator/cert.pem");
  EXPECT_EQ(verified.status, 0) << verified.out << verified.err;
  expect_failure("certs other --nodes a --host \"one two\"", kUsage,
                 "the host of the coordinator is \"one two\", expected a name such as coordinator.example.org, or an "
                 "address");
}

TEST_F(CertsCommand, RefusesNamesThatLeadElsewhere) {
  expect_failure("certs trial --nodes a,../b", kUsage,
                 "the name of a node is \"../b\", expected at most 64 letters (a to z), digits, dashes, dots and "
                 "underscores, beginning with a letter or a digit");
  EXPECT_FALSE(std::filesystem::exists(path("trial")));
}

TEST_F(CertsCommand, SaysWhereItCannotWrite) {
  file("trial", "a file");
  const CommandResult result = labelshift("certs trial --nodes a");
  EXPECT_EQ(result.status, kSystem);
  EXPECT_THAT(result.err, testing::StartsWith("error: cannot write trial: "));
}

}  // namespace
}  // namespace labelshift
