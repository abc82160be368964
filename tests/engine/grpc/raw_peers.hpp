#pragma once

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "federation.grpc.pb.h"
#include "labelshift/engine/grpc/peer_messages.hpp"
#include "labelshift/engine/message.hpp"
#include "tests/await.hpp"

// Peers that say what a test wants, whether the protocol has it or not.

namespace labelshift {

/// A TCP connection to 127.0.0.1:PORT, on which nothing is awaited for ever.
class RawConnection {
 public:
  explicit RawConnection(const std::string& address) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.find(':') + 1))));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval patience{kPatience, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (::connect(socket_, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0)
      throw std::runtime_error("nobody listens");
  }
  ~RawConnection() { ::close(socket_); }
  int descriptor() const { return socket_; }
  void send(std::string_view bytes) const { ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  /// Reads on; whether the other end closes it before patience ends.
  bool is_closed() const {
    for (char bytes[1000];;) {
      const ssize_t size = ::recv(socket_, bytes, sizeof bytes, 0);
      if (size <= 0) return size == 0 || errno == ECONNRESET;
    }
  }

 private:
  const int socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
};

/// A node, or what pretends to be one.
class RawNode {
 public:
  explicit RawNode(const std::string& address,
                   const std::shared_ptr<grpc::ChannelCredentials>& credentials = grpc::InsecureChannelCredentials()) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    channel_ = grpc::CreateCustomChannel(address, credentials, arguments);
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    stream_.reset(grpc::internal::ClientReaderWriterFactory<grpc::ByteBuffer, grpc::ByteBuffer>::Create(
        channel_.get(),
        grpc::internal::RpcMethod("/labelshift.wire.v1.Federation/Attend", nullptr,
                                  grpc::internal::RpcMethod::BIDI_STREAMING),
        &context_));
  }
  ~RawNode() { leave(); }

  void send_bytes(std::string bytes) { stream_->Write(peer::to_buffer(std::move(bytes))); }
  void send(const peer::FromNode& message) { send_bytes(peer::encode(message)); }
  void hello(const std::string& name) { send(peer::Hello{kProtocolVersion, name, session}); }
  /// All of an answer but its head, in pieces.
  void pieces(const peer::CallId& call, const Bytes& bytes) {
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    for (std::size_t at = 0; at < text.size(); at += peer::kPieceBytes)
      send(peer::Piece{call, false, at, text.substr(at, peer::kPieceBytes)});
  }
  void answer(const peer::CallId& call, const Answer& answer) {
    for (const grpc::ByteBuffer& message : peer::answer_messages(call, std::make_shared<const Bytes>(to_bytes(answer))))
      stream_->Write(message);
  }

  /// The next message, if one comes.
  std::optional<peer::FromCoordinator> read() {
    grpc::ByteBuffer buffer;
    if (!stream_->Read(&buffer)) return std::nullopt;
    return peer::from_coordinator(buffer);
  }
  /// Reads until a request has come whole; throws if none comes.
  peer::RequestHead read_request() {
    peer::RequestHead head;
    std::uint64_t left = 0;
    for (bool begun = false; !begun || left > 0;) {
      const auto message = read();
      if (!message) throw std::runtime_error("no request came: " + finish().error_message());
      if (const auto* found = std::get_if<peer::RequestHead>(&*message)) {
        head = *found;
        left = head.own_size + head.size - head.own.size() - head.data.size();
        begun = true;
      } else if (const auto* piece = std::get_if<peer::Piece>(&*message)) {
        left -= piece->data.size();
      }
    }
    return head;
  }
  /// How the coordinator ended the stream.
  grpc::Status finish() {
    while (read()) continue;
    finished_ = true;
    return stream_->Finish();
  }
  void leave() {
    if (finished_) return;
    context_.TryCancel();
    finish();
  }
  peer::SessionId session{};

 private:
  std::shared_ptr<grpc::Channel> channel_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>> stream_;
  bool finished_ = false;
};

/// A coordinator that says the same to everybody who comes, and listens. It leaves the first `cut` of them.
class RawCoordinator
    : labelshift::wire::v1::Federation::WithRawCallbackMethod_Attend<labelshift::wire::v1::Federation::Service> {
 public:
  explicit RawCoordinator(std::vector<std::string> messages, int cut = 0) : messages_(std::move(messages)), cut_(cut) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~RawCoordinator() override { server_->Shutdown(std::chrono::system_clock::now()); }

  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  int visits() const { return visits_; }
  /// What nodes sent, but for hellos.
  std::vector<peer::FromNode> came() const {
    const std::lock_guard lock(mutex_);
    return came_;
  }

 private:
  class Reactor : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
   public:
    Reactor(RawCoordinator& of, bool cut) : of_(of), cut_(cut) {
      StartRead(&read_);
      OnWriteDone(true);
    }
    void OnWriteDone(bool good) override {
      if (good && at_ == of_.messages_.size() && cut_) end();
      if (!good || at_ >= of_.messages_.size()) return;
      written_ = peer::to_buffer(of_.messages_[at_++]);
      StartWrite(&written_);
    }
    void OnReadDone(bool good) override {
      if (!good) return end();
      peer::FromNode message = peer::from_node(read_);
      if (!std::holds_alternative<peer::Hello>(message)) {
        const std::lock_guard lock(of_.mutex_);
        of_.came_.push_back(std::move(message));
      }
      if (!ended_) StartRead(&read_);
    }
    void OnDone() override { delete this; }

   private:
    void end() {
      if (!ended_.exchange(true)) Finish({grpc::StatusCode::UNAVAILABLE, "lost"});
    }
    RawCoordinator& of_;
    const bool cut_;
    std::atomic<bool> ended_ = false;
    std::size_t at_ = 0;
    grpc::ByteBuffer read_, written_;
  };
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Attend(grpc::CallbackServerContext*) override {
    return new Reactor(*this, ++visits_ <= cut_);
  }

  const std::vector<std::string> messages_;
  const int cut_;
  int port_ = 0;
  std::atomic<int> visits_ = 0;
  mutable std::mutex mutex_;
  std::vector<peer::FromNode> came_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace labelshift
