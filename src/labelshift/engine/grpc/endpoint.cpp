#include "labelshift/engine/grpc/endpoint.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <grpc/grpc.h>
#include <grpc/support/log.h>

#include <charconv>
#include <cstdlib>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/printable.hpp"

namespace labelshift {

bool Endpoint::is_loopback() const {
  in_addr four;
  in6_addr six;
  if (inet_pton(AF_INET, host.c_str(), &four) == 1) return ntohl(four.s_addr) >> 24 == 127;
  if (inet_pton(AF_INET6, host.c_str(), &six) == 1) return IN6_IS_ADDR_LOOPBACK(&six);
  return host == "localhost";
}

std::string Endpoint::text() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

Endpoint read_endpoint(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  Endpoint endpoint{.host = text.substr(0, colon)};
  bool good = colon != std::string::npos && !endpoint.host.empty();
  if (good) {
    const char* const end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data() + colon + 1, end, endpoint.port);
    good = error == std::errc{} && at == end && endpoint.port >= 0 && endpoint.port <= 65535;
  }
  if (good && endpoint.host.front() == '[' && endpoint.host.back() == ']')
    endpoint.host = endpoint.host.substr(1, endpoint.host.size() - 2);
  else if (good)
    good = endpoint.host.find(':') == std::string::npos;
  for (const char letter : endpoint.host)
    good = good && (std::isalnum(static_cast<unsigned char>(letter)) ||
                    std::string_view(".-_:").find(letter) != std::string_view::npos);
  if (!good)
    throw Error(ErrorKind::kUsage,
                fmt::format("the address \"{}\" is none, expected HOST:PORT, such as 127.0.0.1:5051", printable(text)));
  return endpoint;
}

void start_grpc() {
  // Once it is started it stays, so that it is not ended and started again between one engine and the next.
  static const bool started = (grpc_init(), true);
  static_cast<void>(started);
  if (std::getenv("GRPC_VERBOSITY") == nullptr) gpr_set_log_function([](gpr_log_func_args*) {});
}

}  // namespace labelshift
