#include "labelshift/cli/site_options.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <ctime>
#include <iostream>

#include "labelshift/cli/terminal.hpp"
#include "labelshift/core/base/error.hpp"
#include "labelshift/data/files/text_lines.hpp"
#include "labelshift/engine/grpc/endpoint.hpp"

namespace labelshift::cli {

void add_identity_options(CLI::App& command, SiteIdentityOptions& options, const std::string& whose) {
  command
      .add_option("--tls", options.folder,
                  fmt::format("The folder with ca.pem, cert.pem and key.pem of {}; labelshift certs makes such", whose))
      ->type_name("FILE");
  command.add_flag("--insecure", options.insecure,
                   "Without certificates: anybody on this machine can read and take part. For a loopback address only");
}

void check_address(const char* option, const std::string& address) {
  try {
    read_endpoint(address);
  } catch (const Error& error) {
    const bool bare = address.find(':') == std::string::npos;
    throw error.reworded(fmt::format("{} is {}, expected HOST:PORT; {}", option, excerpt(address),
                                     bare ? fmt::format("add the port, such as {}:5051", printable(address))
                                          : "the host stands first, and the port is a number up to 65535, such as "
                                            "127.0.0.1:5051"));
  }
}

std::optional<TlsFolder> read_identity(const SiteIdentityOptions& options, TlsRole role) {
  if (options.insecure != options.folder.empty())
    throw Error(ErrorKind::kUsage,
                options.insecure ? "found both --tls and --insecure; give one"
                                 : "no certificate; write --tls DIR, the folder with ca.pem, cert.pem and key.pem");
  if (options.insecure) return std::nullopt;
  TlsFolder folder = read_tls_folder(options.folder);
  try {
    check_identity(*as_identity(folder), role);
  } catch (const Error& error) {
    throw error.reworded(fmt::format("{}: {}", options.folder, error.what()));
  }
  return folder;
}

std::optional<TlsIdentity> as_identity(const std::optional<TlsFolder>& folder) {
  if (!folder) return std::nullopt;
  return TlsIdentity{folder->authority, folder->certificate, folder->key};
}

void raise_file_limit() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);  // if it fails, the engine says whether that is too few
}

void log_line(const std::string& line) {
  const char* clear = ::isatty(STDERR_FILENO) ? "\r\033[K" : "";  // of a line that shows progress
  std::cerr << clear << fmt::format("{:%H:%M:%S} {}\n", fmt::localtime(std::time(nullptr)), printable(line));
}

}  // namespace labelshift::cli
