#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "labelshift/engine/grpc/tls_identity.hpp"
#include "labelshift/tls/certificates.hpp"

namespace labelshift::cli {

/// Who a process of a federation between sites is.
struct SiteIdentityOptions {
  std::string folder;  // of its certificate
  bool insecure = false;
};

/// --tls and --insecure; `whose` is "this node".
void add_identity_options(CLI::App& command, SiteIdentityOptions& options, const std::string& whose);

/// Throws Error{kUsage} that names the option for what is no HOST:PORT.
void check_address(const char* option, const std::string& address);

/// Nothing with --insecure. Throws Error{kUsage} unless one of both is given, what read_tls_folder() throws, and
/// Error{kInput} for a certificate that is not for this role.
std::optional<TlsFolder> read_identity(const SiteIdentityOptions& options, TlsRole role);
std::optional<TlsIdentity> as_identity(const std::optional<TlsFolder>& folder);

/// Lets this process open as many files as it may: each node is a connection.
void raise_file_limit();

/// Writes a line with the time to standard error.
void log_line(const std::string& line);

}  // namespace labelshift::cli
