#pragma once

#include <grpcpp/support/channel_arguments.h>

#include <string>

namespace labelshift {

/// HOST:PORT, where the host may be an IPv6 address in brackets.
struct Endpoint {
  std::string host;  // without brackets
  int port = 0;

  bool is_loopback() const;
  std::string text() const;
};

/// Throws Error{kUsage} for what is none.
Endpoint read_endpoint(const std::string& text);

/// Starts gRPC. It writes to standard error what peers make it write; this stops it in this process, unless the user
/// asked for it by gRPC's own variable GRPC_VERBOSITY.
void start_grpc();

}  // namespace labelshift
