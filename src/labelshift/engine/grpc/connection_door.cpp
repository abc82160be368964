#include "labelshift/engine/grpc/connection_door.hpp"

#include <arpa/inet.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <utility>

#include "labelshift/core/base/error.hpp"

namespace labelshift {
namespace {

constexpr std::chrono::milliseconds kMoment{1};  // in which gRPC closes what was ended
constexpr std::size_t kOtherFiles = 64;          // that a process needs besides its connections
constexpr std::size_t kSpareConnections = 8;     // besides one a node
constexpr std::size_t kClosedAtOnce = 16;        // so that a flood of strangers does not cost a moment each
constexpr int kGreetingBytes = 11;               // the first of a ClientHello, up to the version that it offers

struct Peer {
  std::string text;  // as gRPC writes it
  std::string host;
};

Peer peer_of(int connection) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getpeername(connection, reinterpret_cast<sockaddr*>(&address), &size) != 0) return {};
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET) {
    const auto& four = reinterpret_cast<const sockaddr_in&>(address);
    ::inet_ntop(AF_INET, &four.sin_addr, text, sizeof text);
    return {fmt::format("ipv4:{}:{}", text, ntohs(four.sin_port)), text};
  }
  const auto& six = reinterpret_cast<const sockaddr_in6&>(address);
  if (IN6_IS_ADDR_V4MAPPED(&six.sin6_addr)) {
    ::inet_ntop(AF_INET, &six.sin6_addr.s6_addr[12], text, sizeof text);
    return {fmt::format("ipv4:{}:{}", text, ntohs(six.sin6_port)), text};
  }
  ::inet_ntop(AF_INET6, &six.sin6_addr, text, sizeof text);
  return {fmt::format("ipv6:%5B{}%5D:{}", text, ntohs(six.sin6_port)), text};
}

/// Why who begins like this cannot be a node; nothing if he may be one.
std::optional<std::string> greeting_problem(std::span<const unsigned char> bytes) {
  // A record of a handshake of at most 2^14 bytes, and in it a ClientHello. Who offers TLS 1.2 or newer says 3.3 in it,
  // whatever else he offers (RFC 8446, 4.1.2 and 5.1).
  constexpr unsigned char kHandshake = 22, kClientHello = 1, kMostHigh = 0x40;
  if (bytes.size() < kGreetingBytes || bytes[0] != kHandshake || bytes[1] != 3 || bytes[3] > kMostHigh ||
      bytes[5] != kClientHello || bytes[9] != 3)
    return "it speaks no TLS; if it is a node, give it its certificate, else look who comes to this port";
  if (bytes[10] < 3)
    return "it speaks no newer TLS than 1.1, expected 1.2 or newer; if it is a node, look what is between";
  return std::nullopt;
}

void set_lowest_water(int connection, int bytes) {
  ::setsockopt(connection, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof bytes);
}

}  // namespace

bool ConnectionDoor::Connection::is_open() const {
  struct stat found {};
  return ::fstat(descriptor, &found) == 0 && S_ISSOCK(found.st_mode) && found.st_ino == inode;
}

ConnectionDoor::ConnectionDoor(const Endpoint& endpoint, std::size_t most,
                               std::optional<std::chrono::milliseconds> tls_within)
    : most_(most), tls_within_(tls_within), port_(endpoint.port) {
  const Error nobody(ErrorKind::kSystem,
                     fmt::format("nobody can listen on {}; does another program, or is it no address of this machine?",
                                 endpoint.text()));
  const addrinfo hints{.ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  addrinfo* found = nullptr;
  if (::getaddrinfo(endpoint.host.c_str(), "0", &hints, &found) != 0) throw nobody;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, ::freeaddrinfo);
  bool taken = false;
  for (const addrinfo* one = found; one && !taken; one = one->ai_next) taken = !listen_on(*one) && errno == EADDRINUSE;
  if (!taken && !listeners_.empty()) return;
  close();
  throw nobody;
}

ConnectionDoor::~ConnectionDoor() {
  close();
}

bool ConnectionDoor::listen_on(const addrinfo& address) {
  const int listener =
      ::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, /*any protocol of that*/ 0);
  if (listener < 0) return false;
  const int yes = 1, no = 0;
  ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);  // after a coordinator that was killed
  ::setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);  // for its connections too
  sockaddr_storage to{};
  std::copy_n(reinterpret_cast<const char*>(address.ai_addr), address.ai_addrlen, reinterpret_cast<char*>(&to));
  const auto port = htons(static_cast<std::uint16_t>(port_));
  if (address.ai_family == AF_INET6) {
    ::setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    reinterpret_cast<sockaddr_in6&>(to).sin6_port = port;
  } else {
    reinterpret_cast<sockaddr_in&>(to).sin_port = port;
  }
  socklen_t size = address.ai_addrlen;
  if (::bind(listener, reinterpret_cast<const sockaddr*>(&to), size) != 0 || ::listen(listener, SOMAXCONN) != 0 ||
      ::getsockname(listener, reinterpret_cast<sockaddr*>(&to), &size) != 0) {
    const int why = errno;
    ::close(listener);
    errno = why;
    return false;
  }
  port_ = ntohs(address.ai_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(to).sin6_port
                                              : reinterpret_cast<const sockaddr_in&>(to).sin_port);
  listeners_.push_back(listener);
  return true;
}

void ConnectionDoor::open(Calls calls) {
  calls_ = std::move(calls);
  thread_ = std::jthread([this](const std::stop_token& stop) { take(stop); });
}

void ConnectionDoor::close() {
  thread_.request_stop();
  for (const int listener : listeners_) ::shutdown(listener, SHUT_RDWR);  // which wakes the thread
  if (thread_.joinable()) thread_.join();
  for (const int listener : listeners_) ::close(listener);
  listeners_.clear();
  const std::lock_guard lock(mutex_);
  for (const Connection& one : connections_)
    if (one.silent_until) ::close(one.descriptor);
  connections_.clear();
}

void ConnectionDoor::set_known(const std::string& peer, bool known) {
  const std::lock_guard lock(mutex_);
  for (Connection& one : connections_)
    if (one.peer == peer) one.known = known;
}

void ConnectionDoor::take(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    try {
      take_some(stop);
    } catch (...) {
      // There was no memory for a connection, or to say something of one. Others may have it later.
      std::this_thread::sleep_for(kMoment);
    }
  }
}

void ConnectionDoor::take_some(const std::stop_token& stop) {
  std::vector<pollfd> waiting;
  std::chrono::milliseconds patience(1000);
  for (const int listener : listeners_) waiting.push_back({listener, POLLIN, 0});
  const Clock::time_point now = Clock::now();
  for (const Connection& one : connections_) {
    if (!one.silent_until) continue;
    waiting.push_back({one.descriptor, POLLIN, 0});
    patience = std::clamp(std::chrono::ceil<std::chrono::milliseconds>(*one.silent_until - now),
                          std::chrono::milliseconds(0), patience);
  }
  ::poll(waiting.data(), waiting.size(), static_cast<int>(patience.count()));
  const std::span<const pollfd> all(waiting);
  hear(all.subspan(listeners_.size()));
  for (const pollfd& one : all.first(listeners_.size())) {
    if (stop.stop_requested() || one.revents == 0 || !make_room(stop, /*at_any_rate=*/false)) continue;
    const int connection = ::accept4(one.fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (connection >= 0)
      add(one.fd, connection);
    else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
      make_room(stop, /*at_any_rate=*/true);
  }
}

void ConnectionDoor::add(int listener, int connection) {
  Connections added;
  try {
    struct stat found {};
    ::fstat(connection, &found);
    Peer peer = peer_of(connection);
    added.push_back({listener, connection, found.st_ino, std::move(peer.text), std::move(peer.host)});
  } catch (...) {
    ::close(connection);
    throw;
  }
  const auto one = added.begin();
  if (tls_within_) {
    one->silent_until = Clock::now() + *tls_within_;
    set_lowest_water(connection, kGreetingBytes);  // poll() waits for as many, or for the end
  }
  {
    const std::lock_guard lock(mutex_);
    connections_.splice(connections_.end(), added);
  }
  if (!one->silent_until) hand_on(one);
}

/// Decides about those that have said enough, have left, or were silent for too long. `silent` is about all that have
/// not been handed on.
void ConnectionDoor::hear(std::span<const pollfd> silent) {
  const Clock::time_point now = Clock::now();
  auto heard = silent.begin();
  for (auto next = connections_.begin(); next != connections_.end();) {
    const auto one = next++;
    if (!one->silent_until || (heard++->revents == 0 && now < *one->silent_until)) continue;
    std::array<unsigned char, kGreetingBytes> bytes{};
    const ssize_t size = ::recv(one->descriptor, bytes.data(), bytes.size(), MSG_PEEK | MSG_DONTWAIT);
    std::optional<std::string> problem;
    if (size > 0)
      problem = greeting_problem(std::span(bytes).first(static_cast<std::size_t>(size)));
    else if (now >= *one->silent_until)
      problem = fmt::format("it did not begin to speak TLS within {}", *tls_within_);
    if (problem) calls_.refused(one->peer, *problem);
    if (size == kGreetingBytes) {
      set_lowest_water(one->descriptor, 1);
      hand_on(one);  // in any case: gRPC knows how to refuse it, so that its end is told why
    } else {
      forget(one);
    }
  }
}

void ConnectionDoor::hand_on(Connections::iterator one) {
  {
    const std::lock_guard lock(mutex_);
    one->silent_until.reset();
  }
  calls_.hand_on(one->listener, one->descriptor);
}

/// Ends one that was not handed on.
void ConnectionDoor::forget(Connections::iterator one) {
  ::close(one->descriptor);
  const std::lock_guard lock(mutex_);
  connections_.erase(one);
}

/// Until there is room for one more; `at_any_rate`: closes some in any case.
bool ConnectionDoor::make_room(const std::stop_token& stop, bool at_any_rate) {
  std::size_t closed = 0;
  while (!stop.stop_requested()) {
    {
      const std::lock_guard lock(mutex_);
      if (connections_.size() >= most_ || at_any_rate)
        std::erase_if(connections_, [](const Connection& one) { return !one.is_open(); });
      if (connections_.size() < most_ && !at_any_rate) break;
      closed += close_some();
    }
    at_any_rate = false;
    std::this_thread::sleep_for(kMoment);
  }
  if (closed > 0) calls_.closed(closed);
  return !stop.stop_requested();
}

/// Ends some that are not known, and says how many; gRPC sees that and closes them.
std::size_t ConnectionDoor::close_some() {
  std::map<std::string, std::size_t> strangers;  // by host
  for (const Connection& one : connections_)
    if (!one.known && !one.closed) ++strangers[one.host];
  std::size_t count = 0;
  while (count < std::max<std::size_t>(most_ / kClosedAtOnce, 1)) {
    const auto most = std::max_element(strangers.begin(), strangers.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most == strangers.end() || most->second == 0) break;
    const auto oldest = std::find_if(connections_.begin(), connections_.end(), [&](const Connection& one) {
      return !one.known && !one.closed && one.host == most->first;
    });
    --most->second;
    ++count;
    if (oldest->silent_until) {  // gRPC does not know it
      ::close(oldest->descriptor);
      connections_.erase(oldest);
      continue;
    }
    oldest->closed = true;
    // Should gRPC close it at this very moment, another may be hit that has its descriptor now. Its node comes back.
    if (oldest->is_open()) ::shutdown(oldest->descriptor, SHUT_RDWR);
  }
  return count;
}

std::size_t most_connections(std::size_t wanted, std::size_t nodes) {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == RLIM_INFINITY) return wanted;
  const std::size_t needed = nodes + kSpareConnections + kOtherFiles;
  if (files.rlim_cur < needed)
    throw Error(ErrorKind::kSystem,
                fmt::format("this process may open {} files, and {} nodes need {}; raise the limit with ulimit -n",
                            files.rlim_cur, nodes, needed));
  return std::min<std::size_t>(wanted, files.rlim_cur - kOtherFiles);
}

}  // namespace labelshift
