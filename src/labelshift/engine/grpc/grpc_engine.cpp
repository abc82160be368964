#include "labelshift/engine/grpc/grpc_engine.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <openssl/rand.h>

#include <algorithm>
#include <cassert>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "federation.grpc.pb.h"
#include "labelshift/core/base/observer.hpp"
#include "labelshift/core/base/printable.hpp"
#include "labelshift/engine/grpc/connection_door.hpp"
#include "labelshift/engine/grpc/ending.hpp"
#include "labelshift/engine/grpc/endpoint.hpp"
#include "labelshift/engine/grpc/event_log.hpp"
#include "labelshift/engine/grpc/peer_messages.hpp"

namespace labelshift {
namespace {

namespace pb = labelshift::wire::v1;
using Clock = std::chrono::steady_clock;
using grpc::ByteBuffer;
using grpc::StatusCode;
using peer::CallId;

constexpr std::chrono::milliseconds kObserverInterval{50};
constexpr std::chrono::milliseconds kHousekeepingInterval{100};
constexpr std::chrono::seconds kLongEnding{1};   // after which a stream that is to end is cut off
constexpr std::chrono::seconds kLongSilence{2};  // after which an answer on its way does not keep others waiting
constexpr int kMostRefusals = 100;               // of messages of one stream, before it is ended
constexpr int kMostUnknown = 2;                  // streams of one certificate that have not said who they are
constexpr std::uint64_t kPackedOverhead = 4096;  // that a codec may add to what it packs
constexpr std::uint64_t kShortAnswer = peer::kPieceBytes;

std::string milliseconds_text(Clock::duration time) {
  if (time >= std::chrono::seconds(1)) return fmt::format("{:g} s", std::chrono::duration<double>(time).count());
  return fmt::format("{}", std::chrono::duration_cast<std::chrono::milliseconds>(time));
}

std::string locked_out_text(const std::string& name) {
  return fmt::format("{} is locked out by the coordinator's list of nodes; ask who runs it", shown(name));
}

class Coordinator;

/// A stream that a node opened. All but what gRPC calls is under the coordinator's lock, except for start_write(), in
/// which gRPC frames, encrypts and sends: with the lock that would be one node after another, and everybody's answers
/// would wait. A write belongs to whoever was told by take() to start it. Until it is done no other is taken, so nobody
/// else touches what is written; and the stream does not end, since finish() waits for it.
class Session : public grpc::ServerBidiReactor<ByteBuffer, ByteBuffer>, public std::enable_shared_from_this<Session> {
 public:
  Session(Coordinator& coordinator, grpc::CallbackServerContext& context)
      : coordinator_(coordinator), context_(context), address(printable(context.peer())) {}

  /// To be called once it is owned.
  void start() {
    self_ = shared_from_this();
    read();
  }

  void OnReadDone(bool good) override;
  void OnWriteDone(bool good) override;
  void OnCancel() override;
  void OnDone() override;

  void send(ByteBuffer message, bool of_call) {
    queue(std::move(message), of_call);
    if (take()) start_write();
  }
  void queue(ByteBuffer message, bool of_call) {
    if (!ending_) queue_.push_back({std::move(message), of_call});
  }
  /// Takes the next message to be written, if there is one and none is being written: then start_write() has to follow,
  /// at best without the lock.
  bool take() {
    if (writing_ || queue_.empty()) return false;
    written_ = std::move(queue_.front().message);
    queue_.pop_front();
    more_ = !queue_.empty();
    writing_ = true;
    return true;
  }
  /// What another message follows at once may wait for it, so that they share a packet.
  void start_write() { StartWrite(&written_, more_ ? grpc::WriteOptions().set_buffer_hint() : grpc::WriteOptions()); }
  /// Forgets what has not been sent of a request. Something has to be sent after it, for which what is being written
  /// may wait.
  void forget_call() {
    std::erase_if(queue_, [](const Item& item) { return item.of_call; });
  }
  /// Tells the node that it is who it says.
  void accept() { StartSendInitialMetadata(); }

  /// Ends the stream as soon as what is being written is.
  void end(grpc::Status status) {
    if (ending_) return;
    ending_ = std::move(status);
    ending_since = Clock::now();
    queue_.clear();
    if (!writing_) finish();
  }
  bool is_ending() const { return ending_.has_value(); }
  /// Cuts it off.
  void cut() {
    if (!finished_) context_.TryCancel();
  }

  /// Goes on with reading, which stops while an answer waits for its turn.
  void go_on() {
    if (!held) return;
    held = false;
    if (!ending_) read();
  }

 private:
  struct Item {
    ByteBuffer message;
    bool of_call;
  };
  void read() {
    if (std::exchange(reading_, true)) return;
    StartRead(&read_);
  }
  void finish() {
    if (finished_) return;
    finished_ = true;
    Finish(*ending_);
  }

  Coordinator& coordinator_;
  grpc::CallbackServerContext& context_;
  std::shared_ptr<Session> self_;  // until gRPC needs it no more
  ByteBuffer read_, written_;
  std::deque<Item> queue_;
  bool reading_ = false, writing_ = false, more_ = false, finished_ = false;
  std::optional<grpc::Status> ending_;

 public:
  const std::string address;
  std::string certified;  // the name in its certificate; empty without TLS
  Index node = -1;        // once it said who it is
  peer::SessionId id{};
  const Clock::time_point since = Clock::now();
  Clock::time_point ending_since{};
  int refusals = 0;
  bool held = false;

  /// An answer on its way.
  struct Incoming {
    CallId call;
    std::uint64_t left = 0;                  // bytes that have not come
    std::optional<peer::Assembly> assembly;  // nothing: it is read and thrown away
    Clock::time_point progress = Clock::now();
  };
  std::optional<Incoming> incoming;
};

/// The most bytes that an answer can have. What a codec packed may stand for all weights, and is not longer than these.
std::uint64_t most_bytes(const AnswerTerms& terms) {
  return encoded_size(Answer{}) + terms.words * sizeof(std::uint64_t) + terms.numbers * sizeof(double) +
         terms.weights * sizeof(float) + kPackedOverhead + terms.report;
}

/// A request on its way through a cohort; under the coordinator's lock, but for `sum` and the constants.
struct CallState {
  enum class Phase { kUnasked, kAsked, kReceiving, kChecking, kContributed, kFailed };
  struct Position {
    Phase phase = Phase::kUnasked;
    bool counted = false;  // in the traffic
    bool skipped = false;  // in the sum
    Bytes report;
    NodeFailure failure;
  };

  CallState(CallId call, const Request& asked, std::span<const Addressee> cohort_, std::vector<Index> whole_,
            const AnswerTerms& terms_, Index nodes, std::size_t quorum_, bool has_deadline_)
      : id(std::move(call)),
        request(id, to_bytes(asked)),
        cohort(cohort_),
        whole(std::move(whole_)),
        terms(terms_),
        quorum(quorum_),
        has_deadline(has_deadline_),
        has_short_answers(most_bytes(terms) <= kShortAnswer),
        sum(nodes, whole),
        positions(cohort_.size()) {}

  const CallId id;
  const peer::OutgoingRequest request;
  const std::span<const Addressee> cohort;
  const std::vector<Index> whole;
  const AnswerTerms& terms;
  const std::size_t quorum;
  const bool has_deadline;
  const bool has_short_answers;  // packed or not: to wake a worker would take longer than to check one
  TreeSum sum;
  std::vector<Position> positions;
  std::size_t checking = 0, contributed = 0, failed = 0;
  std::size_t to_skip = 0;  // that failed, for the thread of run() to take out of the sum
  bool over = false;        // nobody is waited for any more
  Traffic traffic;
  std::exception_ptr broken;

  bool finished() const { return checking == 0 && to_skip == 0 && settled() == cohort.size(); }
  std::size_t settled() const { return contributed + failed; }
  double done() const {
    return cohort.empty() ? 1.0 : static_cast<double>(settled()) / static_cast<double>(cohort.size());
  }
  std::optional<std::size_t> position_of(Index node) const {
    const auto found = std::lower_bound(whole.begin(), whole.end(), node);
    if (found == whole.end() || *found != node) return std::nullopt;
    return static_cast<std::size_t>(found - whole.begin());
  }
  bool open(std::size_t position) const {
    const Phase phase = positions[position].phase;
    return phase == Phase::kUnasked || phase == Phase::kAsked || phase == Phase::kReceiving;
  }
  bool hopeless() const { return failed + quorum > cohort.size(); }
  /// Whether nobody is left but nodes that were away all the time.
  bool only_absent_left() const {
    if (over || checking > 0 || settled() == cohort.size()) return false;
    for (std::size_t i = 0; i < cohort.size(); ++i)
      if (open(i) && positions[i].counted) return false;
    return true;
  }
  /// A node that was away when its round began and did not come in time does not hold up the others to their deadline.
  bool goes_on_without() const { return has_deadline && contributed >= quorum && only_absent_left(); }
  /// Whether the thread of run() has something to do at once, and not only now and then.
  bool has_work_for_run() const { return finished() || to_skip > 0 || (broken && !over) || goes_on_without(); }
  void fail(std::size_t position, NodeFailure failure) noexcept {
    Position& one = positions[position];
    if (one.phase == Phase::kChecking) --checking;
    one.phase = Phase::kFailed;
    one.failure = std::move(failure);
    ++failed;
    ++to_skip;
  }
};

/// Refuses certificates, and says why, before a connection can say anything.
class NodeVerifier : public grpc::experimental::ExternalCertificateVerifier {
 public:
  NodeVerifier(std::string authority, std::shared_ptr<EventLog> log)
      : authority_(std::move(authority)), log_(std::move(log)) {}
  bool Verify(grpc::experimental::TlsCustomVerificationCheckRequest* request, std::function<void(grpc::Status)>,
              grpc::Status* status) override {
    *status = grpc::Status(StatusCode::UNAUTHENTICATED, "no certificate that is believed here");
    try {
      // What gRPC calls the full chain is without the node's own certificate here, so that its first is anybody's.
      const auto own = request->peer_cert(), others = request->peer_cert_full_chain();
      const std::string_view shown_own(own.data(), own.size());
      std::string chain(shown_own), name;
      if (!chain.empty()) chain.append(others.data(), others.size());
      if (const auto problem = certificate_problem(chain, authority_, TlsRole::kNode)) {
        if (!shown_own.empty()) name = name_in(shown_own);
        log_->of_stranger(fmt::format("refused a connection{}: its certificate {}",
                                      name.empty() ? "" : " that calls itself " + shown(name), *problem));
      } else {
        *status = grpc::Status::OK;
      }
    } catch (const std::exception& error) {
      try_to([&] { log_->of_stranger(fmt::format("refused a connection: {}", printable(error.what()))); });
    } catch (...) {
      try_to([&] { log_->of_stranger("refused a connection: its certificate could not be looked at"); });
    }
    return true;
  }
  void Cancel(grpc::experimental::TlsCustomVerificationCheckRequest*) override {}

 private:
  static std::string name_in(std::string_view certificate) {
    try {
      return certificate_name(certificate);
    } catch (const Error&) {
      return {};
    }
  }
  const std::string authority_;
  const std::shared_ptr<EventLog> log_;
};

class Coordinator final : public GrpcEngine, pb::Federation::WithRawCallbackMethod_Attend<pb::Federation::Service> {
 public:
  explicit Coordinator(GrpcSettings settings);

  /// Ends all; to be called once, before it is destroyed.
  void close();
  std::chrono::milliseconds farewell() const { return settings_.limits.farewell; }
  std::shared_ptr<EventLog> log() const { return log_; }

  Index nodes() const override { return std::ssize(settings_.names); }
  std::string address() const override { return endpoint_.text(); }
  void announce(const RunCard& card) override;
  void lock_out(const std::string& name) override;
  void readmit(const std::string& name) override;
  GrpcStatus status() const override;
  void finish(std::chrono::milliseconds patience) override;
  CohortOutcome run(const Request& request, std::span<const Addressee> cohort, const AnswerTerms& terms,
                    const Patience& patience, const Observer& observer) override;

  // What sessions call.
  grpc::ServerBidiReactor<ByteBuffer, ByteBuffer>* Attend(grpc::CallbackServerContext* context) override;
  void came(Session& session, const ByteBuffer& buffer) noexcept;
  void left(Session& session) noexcept;
  void gone(Session& session) noexcept;
  std::mutex& mutex() { return mutex_; }

 private:
  struct Seat {
    std::shared_ptr<Session> session;  // while it is connected
    bool allowed = true;
  };
  struct Work {
    CallState* call;
    std::size_t position;
    peer::Assembly answer;
    std::shared_ptr<Session> session;
  };

  void handle(Session& session, peer::Hello& hello);
  void handle(Session& session, peer::AnswerHead& head);
  void handle(Session& session, peer::Piece& piece);
  void handle(Session& session, peer::Failure& failure);

  Index number_of(const std::string& name) const;
  std::string who(const Session& session) const;
  ByteBuffer card_for(Index node) const;
  bool ask(Session& session, std::size_t position);
  void turn_away(Session& session, StatusCode code, std::string_view why) noexcept;
  void break_off(Session& session, std::string_view why) noexcept;
  std::optional<Work> take_whole(Session& session);
  void leave_unread(Session& session, const std::string& why);
  void leave_unread(Session& session, const peer::AnswerHead& head, peer::Piece& first, const std::string& why);
  void detach(Session& session);
  void stop_call(CallState& call, const std::string& why, bool bystanders = false);
  void ask_all(CallState& call, std::unique_lock<std::mutex>& lock);
  bool await_all(CallState& call, const Patience& patience, const Observer& observer,
                 std::unique_lock<std::mutex>& lock);
  void admit_held();
  std::uint64_t receiving() const;
  void end_stalled();
  void work(const std::stop_token& stop);
  void check(Work work) noexcept;
  void keep_house(const std::stop_token& stop);
  void look_after_streams();

  const GrpcSettings settings_;
  Endpoint endpoint_;
  const std::shared_ptr<EventLog> log_;
  mutable std::mutex mutex_;  // for all below
  std::condition_variable changed_;
  std::condition_variable_any work_there_, house_;
  std::map<std::string, Index, std::less<>> numbers_;
  std::vector<Seat> seats_;  // by node
  std::set<std::shared_ptr<Session>> sessions_;
  std::optional<RunCard> card_;
  bool done_ = false, closing_ = false;
  CallState* call_ = nullptr;  // while run() waits
  std::uint64_t serial_ = 0;
  std::deque<Work> queue_;
  Traffic traffic_;
  std::uint64_t refused_ = 0;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::unique_ptr<ConnectionDoor> door_;
  std::vector<std::jthread> threads_;  // last: they are stopped and joined before anything else goes
};

// ---- streams

void Session::OnReadDone(bool good) {
  if (good) coordinator_.came(*this, read_);
  const std::lock_guard lock(coordinator_.mutex());
  reading_ = false;
  read_.Clear();
  if (!good) {
    coordinator_.left(*this);
    return end(grpc::Status::OK);
  }
  if (!ending_ && !held) read();
}

void Session::OnWriteDone(bool good) {
  {
    const std::lock_guard lock(coordinator_.mutex());
    writing_ = false;
    written_.Clear();
    if (ending_) return finish();
    if (!good) {
      coordinator_.left(*this);
      return end(grpc::Status::CANCELLED);
    }
    if (!take()) return;
  }
  start_write();
}

void Session::OnCancel() {
  const std::lock_guard lock(coordinator_.mutex());
  coordinator_.left(*this);
  end(grpc::Status::CANCELLED);
}

void Session::OnDone() {
  const std::shared_ptr<Session> last = std::move(self_);
  coordinator_.gone(*this);
}

// ---- the coordinator

Coordinator::Coordinator(GrpcSettings settings)
    : settings_(std::move(settings)),
      endpoint_(read_endpoint(settings_.listen)),
      log_(std::make_shared<EventLog>(settings_.log)),
      seats_(settings_.names.size()) {
  start_grpc();
  for (Index node = 0; node < nodes(); ++node) {
    const std::string& name = settings_.names[static_cast<std::size_t>(node)];
    if (name.empty() || name.size() > peer::kMostNameBytes || printable(name) != name)
      throw Error(ErrorKind::kUsage, fmt::format("node {} has the name {}, expected 1 to {} letters that can be shown",
                                                 node + 1, shown(name), peer::kMostNameBytes));
    if (!numbers_.emplace(name, node).second)
      throw Error(ErrorKind::kUsage, fmt::format("two nodes have the name {}; give each its own", shown(name)));
  }
  if (!settings_.tls && !endpoint_.is_loopback())
    throw Error(ErrorKind::kUsage,
                fmt::format("{} can be reached by others, but there are no certificates; give some, or listen on a "
                            "loopback address such as 127.0.0.1:0",
                            endpoint_.text()));
  // Serials are never used again, also not by a coordinator that takes the place of this one: nodes keep answers by
  // them.
  if (RAND_bytes(reinterpret_cast<unsigned char*>(&serial_), sizeof serial_) != 1) throw std::bad_alloc();
  serial_ = serial_ >> 1 & ~std::uint64_t{0xffffff};

  std::shared_ptr<grpc::ServerCredentials> credentials = grpc::InsecureServerCredentials();
  if (settings_.tls) {
    check_identity(*settings_.tls, TlsRole::kCoordinator);
    grpc::experimental::TlsServerCredentialsOptions options(
        std::make_shared<grpc::experimental::StaticDataCertificateProvider>(
            settings_.tls->authority,
            std::vector<grpc::experimental::IdentityKeyCertPair>{{settings_.tls->key, settings_.tls->certificate}}));
    options.watch_root_certs();
    options.watch_identity_key_cert_pairs();
    // gRPC would drop a connection without a word. NodeVerifier checks the same and says why.
    options.set_cert_request_type(GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_BUT_DONT_VERIFY);
    options.set_certificate_verifier(
        grpc::experimental::ExternalCertificateVerifier::Create<NodeVerifier>(settings_.tls->authority, log_));
    options.set_check_call_host(false);
    credentials = grpc::experimental::TlsServerCredentials(options);
  }
  const GrpcLimits& limits = settings_.limits;
  grpc::ServerBuilder builder;
  const std::size_t most = limits.most_connections == 0 ? 2 * seats_.size() + 64 : limits.most_connections;
  door_ = std::make_unique<ConnectionDoor>(endpoint_, most_connections(most, seats_.size()),
                                           settings_.tls ? std::optional(limits.handshake) : std::nullopt);
  endpoint_.port = door_->port();
  acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, credentials);
  builder.RegisterService(this);
  builder.SetMaxReceiveMessageSize(static_cast<int>(peer::kMostMessageBytes));
  const auto argument = [&](const char* name, auto value) {
    builder.AddChannelArgument(name, static_cast<int>(value));
  };
  argument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  argument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 2);
  argument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, limits.handshake.count());
  argument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, limits.handshake.count());
  argument(GRPC_ARG_KEEPALIVE_TIME_MS, limits.keepalive.count());
  argument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, limits.keepalive_timeout.count());
  argument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  argument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  argument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 500);
  server_ = builder.BuildAndStart();
  if (!server_) throw Error(ErrorKind::kSystem, "gRPC cannot be started; is there enough memory?");
  const auto refuse = [this](std::size_t connections, std::string line) {
    {
      const std::lock_guard lock(mutex_);
      refused_ += connections;
    }
    log_->of_stranger(std::move(line));
  };
  door_->open({.hand_on =
                   [this](int listener, int connection) {
                     grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters one;
                     one.listener_fd = listener;
                     one.fd = connection;
                     acceptor_->HandleNewConnection(&one);
                   },
               .closed =
                   [refuse](std::size_t connections) {
                     refuse(connections,
                            fmt::format("closed {} connections that had not said who they are, since there were too "
                                        "many",
                                        connections));
                   },
               .refused =
                   [refuse](const std::string& peer, const std::string& why) {
                     refuse(1, fmt::format("refused {}: {}", printable(peer), why));
                   }});
  unsigned workers = settings_.workers == 0 ? std::thread::hardware_concurrency() : settings_.workers;
  for (unsigned i = 0; i < std::max(workers, 1U); ++i)
    threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
  threads_.emplace_back([this](const std::stop_token& stop) { keep_house(stop); });
}

void Coordinator::close() {
  door_->close();
  {
    const std::lock_guard lock(mutex_);
    assert(call_ == nullptr);
    closing_ = true;
    for (const auto& session : std::set(sessions_))
      session->end({StatusCode::UNAVAILABLE, "the coordinator has ended"});
  }
  server_->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return sessions_.empty(); });  // gRPC has cancelled all
  lock.unlock();
  log_->close();
}

Index Coordinator::number_of(const std::string& name) const {
  const auto found = numbers_.find(name);
  if (found == numbers_.end())
    throw Error(ErrorKind::kUsage, fmt::format("no node has the name {}; look at the list of nodes", shown(name)));
  return found->second;
}

std::string Coordinator::who(const Session& session) const {
  if (session.node < 0) return session.address;
  return fmt::format("{} ({})", settings_.names[static_cast<std::size_t>(session.node)], session.address);
}

ByteBuffer Coordinator::card_for(Index node) const {
  return peer::to_buffer(peer::encode(peer::FromCoordinator(peer::Card{*card_, node, nodes()})));
}

void Coordinator::announce(const RunCard& card) {
  if (card.run.size() > kMostRunBytes || card.settings.size() > kMostSettingsBytes)
    throw Error(ErrorKind::kUsage,
                fmt::format("a run of {} bytes with settings of {} cannot be announced, expected at most {} and {}",
                            card.run.size(), card.settings.size(), kMostRunBytes, kMostSettingsBytes));
  const std::lock_guard lock(mutex_);
  if (call_) throw Error(ErrorKind::kUsage, "another run cannot be announced while nodes are asked; wait for them");
  if (card_ == card) return;
  card_ = card;
  for (Index node = 0; node < nodes(); ++node)
    if (const auto& session = seats_[static_cast<std::size_t>(node)].session) session->send(card_for(node), false);
}

void Coordinator::lock_out(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const Index node = number_of(name);
  Seat& seat = seats_[static_cast<std::size_t>(node)];
  seat.allowed = false;
  if (const auto session = seat.session) {
    log_->of_node(fmt::format("locked out {}", who(*session)));
    turn_away(*session, StatusCode::PERMISSION_DENIED, locked_out_text(name));
  }
  if (call_)
    if (const auto position = call_->position_of(node); position && call_->open(*position)) {
      call_->fail(*position, {node, ErrorKind::kPeer, "it is locked out"});
      changed_.notify_all();
    }
}

void Coordinator::readmit(const std::string& name) {
  const std::lock_guard lock(mutex_);
  seats_[static_cast<std::size_t>(number_of(name))].allowed = true;
}

GrpcStatus Coordinator::status() const {
  const std::lock_guard lock(mutex_);
  GrpcStatus status{.traffic = traffic_, .refused = refused_};
  for (std::size_t k = 0; k < seats_.size(); ++k) {
    GrpcNodeStatus node{.name = settings_.names[k], .allowed = seats_[k].allowed};
    if (const auto& session = seats_[k].session) {
      node.connected = true;
      node.address = session->address;
    }
    if (call_)
      if (const auto position = call_->position_of(static_cast<Index>(k))) node.awaited = call_->open(*position);
    status.nodes.push_back(std::move(node));
  }
  return status;
}

void Coordinator::finish(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  done_ = true;
  const ByteBuffer message = peer::to_buffer(peer::encode(peer::FromCoordinator(peer::Done{card_ ? card_->run : ""})));
  for (const Seat& seat : seats_)
    if (seat.session) seat.session->send(message, false);
  // They close their streams once they have read it.
  changed_.wait_for(lock, patience, [this] {
    return std::none_of(seats_.begin(), seats_.end(), [](const Seat& seat) { return seat.session != nullptr; });
  });
}

// ---- what nodes send

grpc::ServerBidiReactor<ByteBuffer, ByteBuffer>* Coordinator::Attend(grpc::CallbackServerContext* context) {
  const auto session = std::make_shared<Session>(*this, *context);
  const std::lock_guard lock(mutex_);
  sessions_.insert(session);
  session->start();
  try {
    if (closing_) {
      session->end({StatusCode::UNAVAILABLE, "the coordinator has ended"});
      return session.get();
    }
    if (settings_.tls) {
      const auto certificates = context->auth_context()->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
      if (certificates.size() != 1) throw Error(ErrorKind::kPeer, "it has no certificate");
      session->certified = certificate_name({certificates[0].data(), certificates[0].size()});
    }
    // Those that are ending hold nothing and are gone within a second, so whoever is refused takes nobody's place.
    const std::size_t most = settings_.limits.most_streams == 0 ? 2 * seats_.size() + 8 : settings_.limits.most_streams;
    std::size_t all = 0, unknown = 0;
    for (const auto& one : sessions_) {
      if (one->is_ending()) continue;
      ++all;
      unknown += one->node < 0 && one->certified == session->certified ? 1 : 0;
    }
    if (settings_.tls && unknown > kMostUnknown)
      turn_away(*session, StatusCode::RESOURCE_EXHAUSTED,
                fmt::format("{} has {} streams already that have not said who they are", shown(session->certified),
                            kMostUnknown));
    else if (all > most)
      turn_away(*session, StatusCode::RESOURCE_EXHAUSTED, fmt::format("there are {} streams already", most));
  } catch (const std::exception& error) {
    turn_away(*session, StatusCode::UNAUTHENTICATED, error.what());
  }
  return session.get();
}

void Coordinator::came(Session& session, const ByteBuffer& buffer) noexcept {
  const auto broken = [&](std::string_view why) {
    const std::lock_guard lock(mutex_);
    break_off(session, why);
  };
  try {
    peer::FromNode message = peer::from_node(buffer);
    std::unique_lock lock(mutex_);
    traffic_.up += buffer.Length();
    if (session.is_ending()) return;
    if (session.node < 0 && !std::holds_alternative<peer::Hello>(message))
      throw Error(ErrorKind::kPeer, "its first message does not say who it is");
    std::visit([&](auto& one) { handle(session, one); }, message);
    std::optional<Work> whole = take_whole(session);
    if (!whole) return;
    if (call_->has_short_answers) {
      lock.unlock();
      check(std::move(*whole));
      lock.lock();
      return admit_held();
    }
    try {
      queue_.push_back(std::move(*whole));
    } catch (...) {
      call_->fail(whole->position, failure_of_current_exception(session.node));
      changed_.notify_all();
      throw;
    }
    work_there_.notify_one();
  } catch (const std::exception& error) {
    broken(error.what());
  } catch (...) {
    broken("something was thrown that is no exception");
  }
}

void Coordinator::handle(Session& session, peer::Hello& hello) {
  if (session.node >= 0) throw Error(ErrorKind::kPeer, "it says twice who it is");
  if (hello.protocol != kProtocolVersion)
    return turn_away(session, StatusCode::FAILED_PRECONDITION,
                     fmt::format("it speaks version {} of the protocol, and the coordinator version {}; install the "
                                 "same version of the program on both",
                                 hello.protocol, kProtocolVersion));
  if (settings_.tls && hello.name != session.certified)
    return turn_away(
        session, StatusCode::UNAUTHENTICATED,
        fmt::format("it calls itself {}, but its certificate is for {}", shown(hello.name), shown(session.certified)));
  const auto found = numbers_.find(hello.name);
  if (found == numbers_.end())
    return turn_away(session, StatusCode::PERMISSION_DENIED,
                     fmt::format("the name {} is not on the list of nodes; ask who runs the coordinator to add it",
                                 shown(hello.name)));
  const Index node = found->second;
  Seat& seat = seats_[static_cast<std::size_t>(node)];
  if (!seat.allowed) return turn_away(session, StatusCode::PERMISSION_DENIED, locked_out_text(hello.name));
  if (seat.session) {
    if (seat.session->id != hello.session)
      return turn_away(session, StatusCode::ALREADY_EXISTS,
                       fmt::format("a node with the name {} is connected already, from {}; stop one of the two, or "
                                   "give this one a certificate of its own",
                                   shown(hello.name), seat.session->address));
    const auto before = seat.session;  // the same process: its old connection is lost, which has not been noticed here
    detach(*before);
    before->end({StatusCode::ABORTED, "the node has come back"});
  }
  session.node = node;
  session.id = hello.session;
  seat.session = session.shared_from_this();
  door_->set_known(session.address, true);
  log_->of_node(fmt::format("{} joined", who(session)));
  session.accept();
  if (card_) session.send(card_for(node), false);
  if (done_)
    session.send(peer::to_buffer(peer::encode(peer::FromCoordinator(peer::Done{card_ ? card_->run : ""}))), false);
  if (call_ && !call_->over)
    if (const auto position = call_->position_of(node); position && call_->open(*position))
      if (ask(session, *position)) session.start_write();
  changed_.notify_all();
}

/// Puts the request into the session's queue. Returns whether start_write() has to follow.
bool Coordinator::ask(Session& session, std::size_t position) {
  const Addressee& to = call_->cohort[position];
  CallState::Position& state = call_->positions[position];
  const auto own = std::make_shared<const Bytes>(to_bytes(to));
  session.forget_call();
  for (ByteBuffer& message : call_->request.messages(own)) session.queue(std::move(message), true);
  state.phase = CallState::Phase::kAsked;
  const std::size_t size = own->size() + call_->request.size();
  traffic_.down += size;
  if (!std::exchange(state.counted, true)) call_->traffic.down += size;
  return session.take();
}

/// What comes is not to be had.
void Coordinator::leave_unread(Session& session, const std::string& why) {
  ++refused_;
  log_->of_node(fmt::format("refused an answer of {}: {}", who(session), why));
  if (++session.refusals > kMostRefusals) throw Error(ErrorKind::kPeer, "too much of what it sends is refused");
}

/// The same of an answer, whose pieces are read and forgotten.
void Coordinator::leave_unread(Session& session, const peer::AnswerHead& head, peer::Piece& first,
                               const std::string& why) {
  if (head.size > settings_.limits.most_bytes)
    throw Error(ErrorKind::kPeer,
                fmt::format("it announces {} bytes, expected at most {}", head.size, settings_.limits.most_bytes));
  leave_unread(session, why);
  if (head.size > 0) session.incoming.emplace(Session::Incoming{.call = head.call, .left = head.size});
  if (!first.data.empty()) handle(session, first);
}

void Coordinator::handle(Session& session, peer::AnswerHead& head) {
  if (session.incoming) throw Error(ErrorKind::kPeer, "it begins an answer before the last has ended");
  peer::Piece first{head.call, /*own=*/false, /*offset=*/0, std::move(head.data)};
  if (!call_ || call_->id != head.call) {
    std::string why = "nothing is asked now";
    if (call_ && head.call.run != call_->id.run)
      why = fmt::format("it is of the run {}, expected {}", shown(head.call.run), shown(call_->id.run));
    else if (call_ && head.call.serial != call_->id.serial)
      why = "it answers another question than was asked last";
    else if (call_)
      why = fmt::format("it is of round {}, expected {}", head.call.round, call_->id.round);
    return leave_unread(session, head, first, why);
  }
  const auto position = call_->position_of(session.node);
  if (!position || !call_->open(*position) || call_->over)
    return leave_unread(session, head, first, "it is not waited for (any more)");
  peer::Assembly assembly(head.size, head.checksum, std::min(settings_.limits.most_bytes, most_bytes(call_->terms)));
  if (head.size == 0) throw Error(ErrorKind::kPeer, "it announces an answer of 0 bytes");
  const std::uint64_t others = first.data.size() < head.size ? receiving() : 0;  // one that is whole waits for nobody
  session.incoming.emplace(Session::Incoming{.call = head.call, .left = head.size, .assembly = std::move(assembly)});
  call_->positions[*position].phase = CallState::Phase::kReceiving;
  if (!first.data.empty()) handle(session, first);
  session.held = others > 0 && others + head.size > settings_.limits.most_receiving;
}

void Coordinator::handle(Session& session, peer::Piece& piece) {
  auto& incoming = session.incoming;
  if (!incoming || incoming->call != piece.call || piece.own)
    throw Error(ErrorKind::kPeer, "it sends a piece of nothing that it announced");
  const std::size_t size = piece.data.size();
  if (size > incoming->left)
    throw Error(ErrorKind::kPeer,
                fmt::format("it sends a piece of {} bytes where {} were to come", size, incoming->left));
  incoming->progress = Clock::now();
  if (incoming->assembly) incoming->assembly->add(piece.offset, std::move(piece.data));
  incoming->left -= size;
  if (incoming->left == 0 && !incoming->assembly) incoming.reset();
}

/// The answer of a node, once it is whole: it has to be checked.
std::optional<Coordinator::Work> Coordinator::take_whole(Session& session) {
  if (!session.incoming || session.incoming->left > 0) return std::nullopt;
  Session::Incoming whole = *std::exchange(session.incoming, std::nullopt);
  if (!call_ || call_->id != whole.call) return std::nullopt;  // it was given up, and there was no memory to say so
  const auto position = call_->position_of(session.node);
  call_->positions[*position].phase = CallState::Phase::kChecking;
  ++call_->checking;
  return Work{call_, *position, std::move(*whole.assembly), session.shared_from_this()};
}

void Coordinator::handle(Session& session, peer::Failure& failure) {
  if (session.incoming) throw Error(ErrorKind::kPeer, "it fails before its last answer has ended");
  const auto position = call_ ? call_->position_of(session.node) : std::nullopt;
  if (!position || call_->id != failure.call || !call_->open(*position) || call_->over)
    return leave_unread(session, "it is not waited for (any more)");
  call_->fail(*position, {session.node, failure.kind, std::move(failure.sentence), failure.remedy});
  changed_.notify_all();
}

/// For those who may not be here at all, or not now.
void Coordinator::turn_away(Session& session, StatusCode code, std::string_view why) noexcept {
  if (session.is_ending()) return;
  ++refused_;
  grpc::Status status(code, "");
  try_to([&] {
    if (session.node < 0) log_->of_stranger(fmt::format("refused {}: {}", who(session), printable(why)));
    status = {code, std::string(why.substr(0, peer::kMostSentenceBytes))};
  });
  detach(session);
  session.end(std::move(status));
}

/// For those who break the protocol: whatever they were asked, they have failed.
void Coordinator::break_off(Session& session, std::string_view why) noexcept {
  if (session.is_ending()) return;
  ++refused_;
  grpc::Status status(StatusCode::INVALID_ARGUMENT, "");
  NodeFailure failure{session.node, ErrorKind::kPeer, "out of memory"};
  try_to([&] {
    failure.sentence = printable(why);
    std::string line = fmt::format("ended the stream of {}: {}", who(session), failure.sentence);
    session.node < 0 ? log_->of_stranger(std::move(line)) : log_->of_node(std::move(line));
    status = {StatusCode::INVALID_ARGUMENT, std::string(why.substr(0, peer::kMostSentenceBytes))};
  });
  if (call_ && session.node >= 0)
    if (const auto position = call_->position_of(session.node); position && call_->open(*position)) {
      call_->fail(*position, std::move(failure));
      changed_.notify_all();
    }
  detach(session);
  session.end(std::move(status));
}

void Coordinator::left(Session& session) noexcept {
  if (session.node >= 0 && seats_[static_cast<std::size_t>(session.node)].session.get() == &session)
    try_to([&] { log_->of_node(fmt::format("{} left", who(session))); });
  detach(session);
}

/// Its node is connected no more. If it was asked, it will be asked again when it comes back.
void Coordinator::detach(Session& session) {
  session.incoming.reset();
  session.held = false;
  if (session.node < 0) return;
  Seat& seat = seats_[static_cast<std::size_t>(session.node)];
  if (seat.session.get() != &session) return;
  seat.session.reset();
  door_->set_known(session.address, false);
  if (call_)
    if (const auto position = call_->position_of(session.node); position && call_->open(*position))
      call_->positions[*position].phase = CallState::Phase::kUnasked;
  admit_held();
  changed_.notify_all();
}

void Coordinator::gone(Session& session) noexcept {
  const std::lock_guard lock(mutex_);
  left(session);
  sessions_.erase(session.shared_from_this());
  changed_.notify_all();
}

/// Bytes of answers that are on their way and get on.
std::uint64_t Coordinator::receiving() const {
  std::uint64_t bytes = 0;
  const Clock::time_point now = Clock::now();
  for (const Seat& seat : seats_)
    if (seat.session && seat.session->incoming && seat.session->incoming->assembly && !seat.session->held &&
        now - seat.session->incoming->progress < kLongSilence)
      bytes += seat.session->incoming->assembly->size();
  for (const Work& one : queue_) bytes += one.answer.size();
  return bytes;
}

/// Answers that do not get on make way for others, but keep the bytes that have come. Where these are more than may be
/// on their way, those end that have been silent for longest; their nodes will come back and be asked again.
void Coordinator::end_stalled() {
  const Clock::time_point now = Clock::now();
  std::vector<Session*> stalled;
  std::uint64_t bytes = 0;
  for (const Seat& seat : seats_)
    if (seat.session && seat.session->incoming && seat.session->incoming->assembly && !seat.session->held &&
        now - seat.session->incoming->progress >= kLongSilence) {
      stalled.push_back(seat.session.get());
      bytes += seat.session->incoming->assembly->held();
    }
  std::ranges::sort(stalled, {}, [](const Session* one) { return one->incoming->progress; });
  for (std::size_t i = 0; i + 1 < stalled.size() && bytes > settings_.limits.most_receiving; ++i) {
    bytes -= stalled[i]->incoming->assembly->held();
    const std::string why = fmt::format("its answer stopped on its way for {}, and there is no memory to wait for it",
                                        milliseconds_text(kLongSilence));
    log_->of_node(fmt::format("ended the stream of {}: {}", who(*stalled[i]), why));
    turn_away(*stalled[i], StatusCode::RESOURCE_EXHAUSTED, why);
  }
}

/// Lets answers go on for which there is room now, those of low nodes first: they are added first.
void Coordinator::admit_held() {
  std::optional<std::uint64_t> bytes;
  for (const Seat& seat : seats_) {
    if (!seat.session || !seat.session->held) continue;
    if (!bytes) bytes = receiving();
    auto& incoming = seat.session->incoming;
    const std::uint64_t size = incoming && incoming->assembly ? incoming->assembly->size() : 0;
    if (*bytes > 0 && *bytes + size > settings_.limits.most_receiving) return;
    *bytes += size;
    if (incoming) incoming->progress = Clock::now();
    seat.session->go_on();
  }
}

void Coordinator::work(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (work_there_.wait(lock, stop, [this] { return !queue_.empty(); })) {
    Work work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    check(std::move(work));
    lock.lock();
    admit_held();
  }
}

/// Checks an answer and adds it up.
void Coordinator::check(Work work) noexcept {
  CallState& call = *work.call;
  const Index node = call.cohort[work.position].node;
  std::optional<NodeFailure> failure;
  std::exception_ptr broken;
  bool forged = false;  // it is no answer at all
  Bytes report;
  const std::uint64_t bytes = work.answer.size();
  try {
    Answer answer;
    try {
      const std::string bytes_of_it = work.answer.take();
      answer = from_bytes<Answer>(std::as_bytes(std::span(bytes_of_it)));
    } catch (...) {
      forged = true;
      throw;
    }
    check_answer(node, answer, call.terms);
    report = std::move(answer.report);
    try {
      call.sum.add(node, std::move(answer.words), std::move(answer.numbers), std::move(answer.weights));
    } catch (...) {
      broken = std::current_exception();  // there is no memory for the sum
    }
  } catch (...) {
    failure = failure_of_current_exception(node);
  }
  const std::lock_guard lock(mutex_);
  if (broken) call.broken = broken;
  if (failure) {
    ++refused_;
    std::string why;
    try_to([&] { why = printable(failure->sentence); });
    call.fail(work.position, std::move(*failure));
    if (forged)
      break_off(*work.session, why);
    else
      try_to([&] { log_->of_node(fmt::format("refused an answer of {}: {}", who(*work.session), why)); });
  } else {
    CallState::Position& state = call.positions[work.position];
    state.phase = CallState::Phase::kContributed;
    state.report = std::move(report);
    --call.checking;
    ++call.contributed;
    call.traffic.up += bytes;
  }
  if (call.has_work_for_run()) changed_.notify_all();
}

// ---- a request

/// Nobody who has not answered is waited for any more.
void Coordinator::stop_call(CallState& call, const std::string& why, bool bystanders) {
  if (call.over) return;
  call.over = true;
  const ByteBuffer cancel = peer::to_buffer(peer::encode(peer::FromCoordinator(peer::Cancel{call.id})));
  for (std::size_t i = 0; i < call.cohort.size(); ++i) {
    if (!call.open(i)) continue;
    const Index node = call.cohort[i].node;
    const auto& session = seats_[static_cast<std::size_t>(node)].session;
    call.fail(i, {node, ErrorKind::kPeer,
                  session       ? why
                  : why.empty() ? "it is not connected"
                                : "it is not connected: " + why,
                  Remedy::kNone, bystanders});
    if (!session) continue;
    session->forget_call();
    session->send(cancel, false);  // the next question must not forget it: pieces of this one may have left
    if (session->incoming) session->incoming->assembly.reset();
    session->go_on();
  }
}

/// Asks those of the cohort who are connected.
void Coordinator::ask_all(CallState& call, std::unique_lock<std::mutex>& lock) {
  std::vector<std::shared_ptr<Session>> to_start;
  to_start.reserve(call.cohort.size());
  std::exception_ptr thrown;
  try {
    for (std::size_t i = 0; i < call.cohort.size(); ++i) {
      const Index node = call.cohort[i].node;
      const Seat& seat = seats_[static_cast<std::size_t>(node)];
      if (!seat.allowed)
        call.fail(i, {node, ErrorKind::kPeer, "it is locked out"});
      else if (seat.session && ask(*seat.session, i))
        to_start.push_back(seat.session);
    }
  } catch (...) {
    thrown = std::current_exception();  // who took a message to be written has to write it all the same
  }
  lock.unlock();
  for (const auto& session : to_start) session->start_write();
  to_start.clear();
  lock.lock();
  if (thrown) std::rethrow_exception(thrown);
}

/// Waits until nobody needs the call any more; returns whether the observer stopped it.
bool Coordinator::await_all(CallState& call, const Patience& patience, const Observer& observer,
                            std::unique_lock<std::mutex>& lock) {
  const Clock::time_point started = Clock::now();
  bool stopped = false;
  std::exception_ptr observer_failure;
  Clock::time_point told = started;
  for (bool finished = false; !finished;) {
    // Only what is to be done at once: where there is nothing to do the lock would never be let go.
    changed_.wait_until(lock, told + kObserverInterval, [&] { return call.has_work_for_run(); });
    if (call.to_skip > 0) {
      std::vector<Index> skipped;
      for (std::size_t i = 0; i < call.cohort.size(); ++i)
        if (call.positions[i].phase == CallState::Phase::kFailed && !std::exchange(call.positions[i].skipped, true))
          skipped.push_back(call.cohort[i].node);
      call.to_skip = 0;
      lock.unlock();
      try {
        for (const Index node : skipped) call.sum.skip(node);
        lock.lock();
      } catch (...) {
        lock.lock();
        call.broken = std::current_exception();
      }
    }
    if (call.broken) stop_call(call, "the sums could not be added");
    if (call.hopeless() && !call.over) {
      // Those before the first that failed may say something that comes before it; nobody else is waited for.
      std::size_t first = 0;
      while (call.positions[first].phase != CallState::Phase::kFailed) ++first;
      bool awaited = false;
      for (std::size_t i = 0; i < first; ++i)
        awaited = awaited || (call.open(i) && seats_[static_cast<std::size_t>(call.cohort[i].node)].session);
      if (!awaited) stop_call(call, "its answer was not waited for, since others failed", /*bystanders=*/true);
    }
    if (call.goes_on_without()) stop_call(call, "");
    const Clock::duration waited = Clock::now() - started;
    if (!call.over)
      for (const auto& limit :
           {call.contributed >= call.quorum || call.hopeless() ? patience.deadline : patience.give_up,
            patience.give_up})
        if (limit && waited >= *limit)
          stop_call(call, fmt::format("it sent nothing for {}", milliseconds_text(*limit)));
    finished = call.finished();
    if (!finished && Clock::now() - told < kObserverInterval) continue;
    told = Clock::now();
    if (!observer || stopped || observer_failure) continue;
    const double done = call.done();
    lock.unlock();
    try {
      stopped = !observer(/*stage=*/"", done);
    } catch (...) {
      observer_failure = std::current_exception();  // to be thrown once nobody needs the call any more
    }
    lock.lock();
    if (stopped || observer_failure) stop_call(call, "it was stopped before it answered");
    finished = call.finished();
  }
  if (observer_failure) std::rethrow_exception(observer_failure);
  return stopped;
}

CohortOutcome Coordinator::run(const Request& request, std::span<const Addressee> cohort, const AnswerTerms& terms,
                               const Patience& patience, const Observer& observer) {
  check_cohort(cohort, nodes());
  const std::size_t all = cohort.size();
  const std::size_t quorum = patience.quorum == 0 ? all : std::min(all, static_cast<std::size_t>(patience.quorum));
  std::vector<Index> whole;
  for (const Addressee& one : cohort) whole.push_back(one.node);
  std::unique_lock lock(mutex_);
  if (!card_) throw Error(ErrorKind::kUsage, "no run was announced to the nodes; announce it first");
  CallId id{card_->run, ++serial_, request.round};
  lock.unlock();
  CallState call(std::move(id), request, cohort, std::move(whole), terms, nodes(), quorum,
                 patience.deadline.has_value());
  lock.lock();
  assert(call_ == nullptr);
  call_ = &call;
  bool stopped = false;
  std::exception_ptr thrown;
  try {
    ask_all(call, lock);
    stopped = await_all(call, patience, observer, lock);
  } catch (...) {
    thrown = std::current_exception();
    if (!lock.owns_lock()) lock.lock();
    try_to([&] { stop_call(call, "its answer was not waited for, since something else went wrong"); });
  }
  call_ = nullptr;
  while (call.checking > 0) changed_.wait_for(lock, kObserverInterval);  // who checks an answer needs the call
  lock.unlock();
  if (thrown) std::rethrow_exception(thrown);
  if (stopped) throw Stopped();
  if (call.broken) std::rethrow_exception(call.broken);
  CohortOutcome outcome{.traffic = call.traffic};
  for (std::size_t i = 0; i < all; ++i) {
    CallState::Position& one = call.positions[i];
    if (one.phase == CallState::Phase::kContributed)
      outcome.contributed.push_back({cohort[i].node, std::move(one.report)});
    else
      outcome.failed.push_back(std::move(one.failure));
  }
  outcome.sums = call.sum.take();
  return outcome;
}

void Coordinator::keep_house(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    house_.wait_for(lock, stop, kHousekeepingInterval, [] { return false; });
    try_to([&] { look_after_streams(); });
  }
}

/// What has to be looked at now and then.
void Coordinator::look_after_streams() {
  const Clock::time_point now = Clock::now();
  for (const auto& session : std::set(sessions_)) {
    if (session->is_ending()) {
      if (now - session->ending_since > kLongEnding) session->cut();
    } else if (session->node < 0 && now - session->since > settings_.limits.handshake) {
      turn_away(*session, StatusCode::DEADLINE_EXCEEDED,
                fmt::format("it did not say within {} who it is", milliseconds_text(settings_.limits.handshake)));
    }
  }
  end_stalled();
  admit_held();
}

/// A coordinator that is not waited for beyond its farewell: then it is left to the thread that ends it.
class OwnedCoordinator final : public GrpcEngine {
 public:
  explicit OwnedCoordinator(GrpcSettings settings) : coordinator_(std::make_unique<Coordinator>(std::move(settings))) {}
  ~OwnedCoordinator() override {
    const auto patience = coordinator_->farewell();
    const std::shared_ptr<EventLog> log = coordinator_->log();
    auto close = [coordinator = std::move(coordinator_)]() mutable {
      coordinator->close();
      coordinator.reset();
    };
    if (!ends_within(patience, std::move(close)))
      log->abandon(fmt::format("gRPC did not end within {}, and is left to itself", patience));
  }

  Index nodes() const override { return coordinator_->nodes(); }
  std::string address() const override { return coordinator_->address(); }
  void announce(const RunCard& card) override { coordinator_->announce(card); }
  void lock_out(const std::string& name) override { coordinator_->lock_out(name); }
  void readmit(const std::string& name) override { coordinator_->readmit(name); }
  GrpcStatus status() const override { return coordinator_->status(); }
  void finish(std::chrono::milliseconds patience) override { coordinator_->finish(patience); }
  CohortOutcome run(const Request& request, std::span<const Addressee> cohort, const AnswerTerms& terms,
                    const Patience& patience, const Observer& observer) override {
    return coordinator_->run(request, cohort, terms, patience, observer);
  }

 private:
  std::unique_ptr<Coordinator> coordinator_;
};

}  // namespace

std::unique_ptr<GrpcEngine> make_grpc_engine(GrpcSettings settings) {
  return std::make_unique<OwnedCoordinator>(std::move(settings));
}

}  // namespace labelshift
