#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "labelshift/cli/commands.hpp"
#include "labelshift/cli/input.hpp"
#include "labelshift/cli/terminal.hpp"
#include "labelshift/tls/certificates.hpp"

namespace labelshift::cli {
namespace {

struct CertsOptions {
  CertificateOrder order;
  std::int64_t days = CertificateOrder().valid.count();
};

void make(const CertsOptions& options) {
  CertificateOrder order = options.order;
  order.valid = std::chrono::days(options.days);
  const DeferInterrupt whole;
  const CertificateDelivery result = make_certificates(order);
  std::string text;
  if (result.new_authority)
    text += fmt::format("{0}/ca.pem: a new authority; its key, {0}/ca-key.pem, stays here\n", order.folder);
  for (const std::string& name : result.made) text += fmt::format("{}/{}: made\n", order.folder, name);
  for (const std::string& name : result.kept)
    text += fmt::format("{0}/{1}: was there and is as it was; remove it to have it made again\n", order.folder, name);
  text += "Each folder is for one machine: copy it there on a way that others cannot read, and give it with --tls.\n";
  print(text);
}

}  // namespace

void add_certs(CLI::App& app) {
  const auto options = std::make_shared<CertsOptions>();
  CLI::App& command = *app.add_subcommand("certs", "Make certificates for a trial of a federation between sites");
  command.add_option("folder", options->order.folder, "Where to put them; what is there already is kept")
      ->type_name("FILE")
      ->required();
  command.add_option("--nodes", options->order.nodes, "The names of the nodes, with commas between them")
      ->type_name("NAME,NAME,...")
      ->delimiter(',')
      ->required();
  command
      .add_option("--host", options->order.hosts,
                  "Names and addresses by which nodes reach the coordinator, with commas between them; may be "
                  "repeated. By default this machine alone: localhost, 127.0.0.1, ::1")
      ->type_name("NAME")
      ->delimiter(',')
      ->allow_extra_args(false);
  command.add_option("--days", options->days, "How long certificates are valid")
      ->transform(whole_number({.from = 1, .to = 3650}))
      ->capture_default_str();
  command.footer(
      "Makes a private authority (ca.pem, ca-key.pem), and a folder for the coordinator and for each node with "
      "ca.pem,\n"
      "cert.pem and key.pem. Nothing is written over: called again with other nodes, it adds them. An institution "
      "that\n"
      "has an authority of its own uses that instead, with the same names of files; a node is known by the common "
      "name\n"
      "of its certificate.\n\n"
      "Example:\n  labelshift certs trial --nodes hospital-a,hospital-b,hospital-c --host coordinator.example.org");
  command.callback([options] { make(*options); });
}

}  // namespace labelshift::cli
