#include "labelshift/engine/grpc/grpc_node.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <openssl/rand.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <limits>
#include <mutex>
#include <thread>

#include "labelshift/core/base/blas.hpp"
#include "labelshift/core/base/observer.hpp"
#include "labelshift/core/base/printable.hpp"
#include "labelshift/core/base/rng.hpp"
#include "labelshift/engine/grpc/ending.hpp"
#include "labelshift/engine/grpc/endpoint.hpp"
#include "labelshift/engine/grpc/event_log.hpp"
#include "labelshift/engine/grpc/peer_messages.hpp"
#include "labelshift/engine/grpc/sent_log.hpp"

namespace labelshift {
namespace {

using Clock = std::chrono::steady_clock;
using grpc::ByteBuffer;
using peer::CallId;

constexpr std::chrono::milliseconds kLookInterval{50};
constexpr std::chrono::seconds kConnectDeadline{10};
constexpr int kMostDialling = 32;                  // at a time: a thousand handshakes at once would all take too long
constexpr std::chrono::hours kStreamDeadline{24};  // of the call that a stream is; the node just dials again

class NodeHost;
struct Seat;

/// A connection of a seat and the stream on it. All but what gRPC calls is under the host's lock, except for
/// start_write(), in which gRPC frames, encrypts and sends: nobody should wait for that. A write belongs to whoever was
/// told by take() to start it. Until it is done no other is taken, so nobody else touches what is written; and it has a
/// hold of its own, so that a stream that is cut meanwhile does not end before gRPC has been given the write.
class Stream : public grpc::ClientBidiReactor<ByteBuffer, ByteBuffer>, public std::enable_shared_from_this<Stream> {
 public:
  Stream(NodeHost& host, Seat& seat, std::shared_ptr<grpc::Channel> channel)
      : host_(host), seat_(seat), channel_(std::move(channel)), stub_(channel_) {}

  void start() {
    self_ = shared_from_this();
    context_.set_deadline(std::chrono::system_clock::now() + kStreamDeadline);
    stub_.PrepareBidiStreamingCall(&context_, "/labelshift.wire.v1.Federation/Attend", {}, this);
    AddHold();  // for what is written on other threads
    StartRead(&read_);
    StartCall();
  }
  void send(ByteBuffer message) {
    queue(std::move(message));
    if (take()) start_write();
  }
  void queue(ByteBuffer message) {
    if (open_) queue_.push_back(std::move(message));
  }
  /// Takes the next message to be written, if there is one and none is being written: then start_write() has to follow,
  /// at best without the lock.
  bool take() {
    if (writing_ || queue_.empty()) return false;
    written_ = std::move(queue_.front());
    queue_.pop_front();
    more_ = !queue_.empty();
    writing_ = true;
    AddHold();
    return true;
  }
  void start_write() {
    // What another follows at once may wait for it, so that they share a packet. Nothing takes that other back but the
    // end of the stream.
    StartWrite(&written_, more_ ? grpc::WriteOptions().set_buffer_hint() : grpc::WriteOptions());
    RemoveHold();
  }
  /// Ends it; OnDone() follows.
  void cut() {
    if (!open_) return;
    close();
    context_.TryCancel();
  }
  bool is_open() const { return open_; }
  /// Reads nothing that comes after what is being handled, until it goes on.
  void hold() { held_ = true; }
  void go_on() {
    held_ = false;
    if (std::exchange(paused_, false) && open_) StartRead(&read_);
  }
  Seat& seat() { return seat_; }
  /// What kept it for gRPC.
  std::shared_ptr<Stream> hand_over() { return std::move(self_); }

  void OnReadInitialMetadataDone(bool good) override;
  void OnReadDone(bool good) override;
  void OnWriteDone(bool good) override;
  void OnDone(const grpc::Status& status) override;

  std::string reason;  // why it was cut here

 private:
  void close() {
    open_ = false;
    queue_.clear();
    RemoveHold();
  }

  NodeHost& host_;
  Seat& seat_;
  const std::shared_ptr<grpc::Channel> channel_;
  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  std::shared_ptr<Stream> self_;  // until gRPC needs it no more
  ByteBuffer read_, written_;
  std::deque<ByteBuffer> queue_;
  bool open_ = true, writing_ = false, more_ = false;
  bool held_ = false, paused_ = false;  // and reading has stopped for it
};

/// The programs of a run, for all workers.
struct RunPrograms {
  explicit RunPrograms(RunCard card_) : card(std::move(card_)) {}
  const RunCard card;
  std::optional<std::uint64_t> most_bytes;  // of a request, once they are made; under the host's lock
  bool wanted = false;                      // before a request is read; the same
  std::mutex mutex;
  NodeProgramFactory make;  // once it is needed
};

/// A request and what comes of it.
struct Job {
  Seat& seat;
  Index node;
  peer::RequestHead head;
  std::shared_ptr<RunPrograms> programs;
  peer::Assembly own, shared;      // until it is begun
  std::exception_ptr broken = {};  // there are no programs to answer it: its pieces are thrown away
  std::uint64_t unread = 0;        // bytes of these
  std::atomic<bool> cancelled = false;
  bool queued = false;
  // What came of it, to be sent, again if need be.
  bool answered = false, sent = false;
  SentLog::AnswerFacts facts;
  std::string sentence;  // of a failure
  std::string refusal;   // the message of a failure
  std::vector<ByteBuffer> messages;
};

struct Seat {
  std::string name;
  std::shared_ptr<grpc::ChannelCredentials> credentials;
  peer::SessionId session{};

  std::shared_ptr<Stream> stream;  // while there is one
  bool accepted = false;           // the coordinator knows who it is
  bool attending = false;          // and has told it what is going on
  bool done = false;               // and that nothing more is to do
  int failures = 0;                // in a row
  Clock::time_point next_try = Clock::now();
  Clock::time_point reached = Clock::now();  // the last time
  std::string trouble;                       // why it could not be, last
  bool refused = false;                      // and it was the coordinator who said so
  std::optional<peer::Card> card;
  std::shared_ptr<RunPrograms> programs;
  std::uint64_t serial = 0;               // of the last request on this stream; 0: none
  std::optional<peer::RequestHead> held;  // a request that waits for its programs to say how long it can be
  std::shared_ptr<Job> incoming;          // a request that has not come whole
  std::shared_ptr<Job> job;               // the last that has
};

class NodeHost {
 public:
  NodeHost(const GrpcNodeSettings& settings, const GrpcProgramMaker& make_programs);
  GrpcEnd serve(const std::function<bool()>& stop);

  // To be called once each, in this order, before it is destroyed.
  /// Waits for the programs, which see that they are cancelled; nobody is asked any more.
  void stop_work();
  /// Ends all else. It needs nothing of who made it.
  void close();
  std::shared_ptr<EventLog> log() const { return log_; }

  // What streams call.
  void accepted(Stream& stream);
  void came(Stream& stream, const ByteBuffer& buffer);
  void lost(Stream& stream, const grpc::Status& status);
  std::mutex& mutex() { return mutex_; }

 private:
  void handle(Seat& seat, peer::Card& card);
  void handle(Seat& seat, peer::RequestHead& head);
  void handle(Seat& seat, peer::Piece& piece);
  void handle(Seat& seat, peer::Cancel& cancel);
  void handle(Seat& seat, peer::Done& done);

  void connect(Seat& seat);
  void drop(Seat& seat);
  std::shared_ptr<Job> begin(Seat& seat, const peer::RequestHead& head);
  void take_first(Seat& seat, peer::RequestHead& head);
  void begin_held(const std::shared_ptr<RunPrograms>& programs, const std::exception_ptr& failure);
  void enqueue(std::shared_ptr<Job> job);
  void fail(std::exception_ptr why);
  void work(const std::stop_token& stop);
  std::unique_ptr<NodeProgram> make_program(RunPrograms& programs);
  void answer(Job& job, NodeProgram& program);
  void refuse(Job& job, const NodeFailure& failure);
  void send(Job& job);

  const GrpcNodeSettings settings_;
  const GrpcProgramMaker& make_programs_;
  const Endpoint endpoint_;
  const int blas_threads_ = blas_threads();  // of the maker's thread: bits must not depend on who computes
  const std::shared_ptr<EventLog> log_;
  SentLog sent_;
  Rng jitter_;
  std::mutex mutex_;  // for all below
  std::condition_variable changed_;
  std::condition_variable_any job_there_;
  std::vector<std::unique_ptr<Seat>> seats_;
  std::vector<std::shared_ptr<Stream>> ended_;       // to be destroyed by the thread that serves, not by gRPC's
  std::size_t streams_ = 0;                          // that have not ended
  std::deque<std::shared_ptr<RunPrograms>> wanted_;  // to be made
  std::deque<std::shared_ptr<Job>> jobs_;
  std::exception_ptr failure_;
  bool dial_ = false;  // others may
  bool closing_ = false;
  std::vector<std::jthread> workers_;  // last: they are stopped and joined before anything else goes
};

// ---- streams

void Stream::OnReadInitialMetadataDone(bool good) {
  if (good) host_.accepted(*this);
}

void Stream::OnReadDone(bool good) {
  if (good) host_.came(*this, read_);
  const std::lock_guard lock(host_.mutex());
  read_.Clear();
  if (!open_) return;
  if (!good)
    close();
  else if (held_)
    paused_ = true;
  else
    StartRead(&read_);
}

void Stream::OnWriteDone(bool good) {
  {
    const std::lock_guard lock(host_.mutex());
    writing_ = false;
    written_.Clear();
    if (!open_ || !good || !take()) return;
  }
  start_write();
}

void Stream::OnDone(const grpc::Status& status) {
  host_.lost(*this, status);  // which takes it over: nothing here may touch it any more
}

// ---- connecting

std::uint64_t random_number() {
  std::uint64_t number = 0;
  if (RAND_bytes(reinterpret_cast<unsigned char*>(&number), sizeof number) != 1) throw std::bad_alloc();
  return number;
}

NodeHost::NodeHost(const GrpcNodeSettings& settings, const GrpcProgramMaker& make_programs)
    : settings_(settings),
      make_programs_(make_programs),
      endpoint_(read_endpoint(settings.connect)),
      log_(std::make_shared<EventLog>(settings.log)),
      sent_(settings.sent_log),
      jitter_(random_number(), 0) {
  start_grpc();
  for (const GrpcSeat& from : settings.seats) {
    auto seat = std::make_unique<Seat>();
    seat->name = from.name;
    if (from.tls) {
      check_identity(*from.tls, TlsRole::kNode);
      const std::string certified = certificate_name(from.tls->certificate);
      if (!from.name.empty() && from.name != certified)
        throw Error(ErrorKind::kInput,
                    fmt::format("the certificate is for {}, but the node is {}; give the node its own",
                                shown(certified), shown(from.name)));
      seat->name = certified;
      seat->credentials = grpc::SslCredentials({from.tls->authority, from.tls->key, from.tls->certificate});
    } else {
      if (!endpoint_.is_loopback())
        throw Error(ErrorKind::kUsage, fmt::format("{} is another machine, but the node has no certificate; give it "
                                                   "one, or use a loopback address",
                                                   endpoint_.text()));
      seat->credentials = grpc::InsecureChannelCredentials();
    }
    if (seat->name.empty() || seat->name.size() > peer::kMostNameBytes)
      throw Error(ErrorKind::kUsage, fmt::format("a node has a name of {} bytes, expected 1 to {}", seat->name.size(),
                                                 peer::kMostNameBytes));
    if (RAND_bytes(reinterpret_cast<unsigned char*>(seat->session.data()), static_cast<int>(seat->session.size())) != 1)
      throw std::bad_alloc();
    seats_.push_back(std::move(seat));
  }
  for (unsigned i = 0; i < std::max(settings.workers, 1U); ++i)
    workers_.emplace_back([this](const std::stop_token& stop) { work(stop); });
}

void NodeHost::stop_work() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    for (const auto& seat : seats_) {
      if (seat->job) seat->job->cancelled = true;
      if (seat->stream) seat->stream->cut();
    }
    wanted_.clear();
    jobs_.clear();
  }
  workers_.clear();
}

void NodeHost::close() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return streams_ == 0; });  // gRPC ends what was cut
  lock.unlock();
  ended_.clear();
  log_->close();
}

void NodeHost::connect(Seat& seat) {
  const std::string hello = peer::encode(peer::FromNode(peer::Hello{kProtocolVersion, seat.name, seat.session}));
  sent_.hello(seat.name, hello);
  grpc::ChannelArguments arguments;
  const auto set = [&](const char* name, auto value) { arguments.SetInt(name, static_cast<int>(value)); };
  // A connection of its own, also for nodes of one process, and no other way to make one again than ours.
  set(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  set(GRPC_ARG_ENABLE_RETRIES, 0);
  set(GRPC_ARG_CLIENT_IDLE_TIMEOUT_MS, std::numeric_limits<int>::max());  // never: streams are there all the time
  set(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  set(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, std::chrono::milliseconds(kConnectDeadline).count());
  set(GRPC_ARG_KEEPALIVE_TIME_MS, settings_.keepalive.count());
  set(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, settings_.keepalive_timeout.count());
  set(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  if (endpoint_.is_loopback()) set(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetMaxReceiveMessageSize(static_cast<int>(peer::kMostMessageBytes));
  seat.stream = std::make_shared<Stream>(
      *this, seat, grpc::CreateCustomChannel("dns:///" + endpoint_.text(), seat.credentials, arguments));
  ++streams_;
  seat.stream->start();
  seat.stream->send(peer::to_buffer(hello));
}

std::string duration_text(std::chrono::milliseconds time) {
  return time < std::chrono::seconds(1) ? fmt::format("{}", time)
                                        : fmt::format("{:g} s", std::chrono::duration<double>(time).count());
}

/// What gRPC says, for programmers, in a sentence with what to do, and its own words behind.
struct Translation {
  const char* grpc;  // a part of its words
  const char* sentence;
};
constexpr Translation kTranslations[] = {
    {"is not in peer certificate",
     "the coordinator's certificate is not for the host that was dialled; dial one that it is for, or have it made "
     "again for this one"},
    {"Ssl handshake failed",
     "the coordinator's certificate has expired or is not signed by the authority that is believed here, or it speaks "
     "no TLS; look at the port, and take ca.pem from who made the coordinator's certificate"},
    {"Connection refused",
     "nobody listens there; look whether the coordinator runs, and at the host and port of its line \"listening on\""},
    {"DNS resolution failed", "no machine is known by this name; look how the host is spelt"},
    {"Failed parsing HTTP/2", "who listens there is no coordinator, or one with certificates; look at the port"},
    {"No route to host", "the network has no way there; look at the host, and at the network of this machine"},
    {"Network is unreachable", "the network has no way there; look at the host, and at the network of this machine"},
    {"Handshake read failed",
     "nothing came back in time, or no TLS; look at the port, and whether a firewall is between"},
    {"imed out", "nothing came back in time; look at the host and port, and whether a firewall is between"},
    {"imeout", "nothing came back in time; look at the host and port, and whether a firewall is between"},
};

/// Why a connection could not be, or ended after the node had been let in.
std::string reason_of(const grpc::Status& status, bool attended) {
  const std::string& words = status.error_message();
  const auto says = [&](const char* what) { return words.find(what) != std::string::npos; };
  const auto translated = [&](const std::string& sentence) {
    return fmt::format("{} ({})", sentence, printable(words.substr(0, 300)));
  };
  for (const Translation& one : kTranslations)
    if (says(one.grpc)) return translated(one.sentence);
  using grpc::StatusCode;
  if (status.error_code() == StatusCode::UNIMPLEMENTED)
    return translated("who listens there is no coordinator; look at the port");
  if (status.error_code() == StatusCode::DEADLINE_EXCEEDED && !attended)
    return translated("nothing came back in time; look whether the coordinator is busy");
  if (status.error_code() == StatusCode::UNAVAILABLE && says("Socket closed"))
    return translated(attended ? "the connection broke"
                               : "the coordinator closed the connection at once; it wants a certificate, or does not "
                                 "believe this one, or is none: its own messages say more");
  return printable(words.substr(0, 300));
}

void NodeHost::lost(Stream& stream, const grpc::Status& status) {
  const std::lock_guard lock(mutex_);
  --streams_;
  // gRPC's thread must not be the one to destroy it: with the last channel of a process gRPC ends that very thread.
  ended_.push_back(stream.hand_over());
  Seat& seat = stream.seat();
  if (seat.stream.get() == &stream) {
    seat.stream.reset();
    seat.serial = 0;
    seat.held.reset();
    seat.incoming.reset();
    seat.attending = false;
    const bool attended = std::exchange(seat.accepted, false);
    if (attended) {
      seat.reached = Clock::now();
      seat.failures = 0;
    }
    if (!seat.done && !closing_) {
      seat.trouble = stream.reason.empty() ? reason_of(status, attended) : stream.reason;
      if (seat.trouble.empty()) seat.trouble = "the connection ended";
      // Twice as long each time, and between half and all of that by chance, so that a thousand nodes do not come at
      // once.
      const bool refused = status.error_code() == grpc::StatusCode::PERMISSION_DENIED ||
                           status.error_code() == grpc::StatusCode::FAILED_PRECONDITION ||
                           status.error_code() == grpc::StatusCode::UNAUTHENTICATED;
      seat.refused = refused || status.error_code() == grpc::StatusCode::ALREADY_EXISTS;
      auto pause = settings_.longest_pause;
      if (!refused) pause = std::min(pause, settings_.first_pause * (std::int64_t{1} << std::min(seat.failures, 20)));
      ++seat.failures;
      seat.next_try =
          Clock::now() + std::chrono::duration_cast<Clock::duration>(pause * (0.5 + 0.5 * jitter_.uniform()));
      log_->of_node(fmt::format("{}: {} {}: {}", seat.name,
                                seat.refused ? "was refused by"
                                : attended   ? "lost"
                                             : "could not reach",
                                endpoint_.text(), seat.trouble));
    }
  }
  changed_.notify_all();
}

GrpcEnd NodeHost::serve(const std::function<bool()>& stop) {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (failure_) std::rethrow_exception(failure_);
    if (std::all_of(seats_.begin(), seats_.end(), [](const auto& seat) { return seat->done && !seat->stream; }))
      return GrpcEnd::kFinished;
    const Clock::time_point now = Clock::now();
    auto dialling =
        std::count_if(seats_.begin(), seats_.end(), [](const auto& seat) { return seat->stream && !seat->accepted; });
    for (const auto& seat : seats_) {
      if (seat->done || seat->accepted) continue;
      if (now - seat->reached > settings_.give_up_after)
        throw Error(ErrorKind::kPeer, fmt::format("{} {} the coordinator at {} for {}: {}", seat->name,
                                                  seat->refused ? "was refused by" : "could not reach",
                                                  endpoint_.text(), duration_text(settings_.give_up_after),
                                                  seat->trouble.empty() ? "it did not answer" : seat->trouble));
      if (seat->stream || seat->next_try > now || dialling >= kMostDialling) continue;
      connect(*seat);
      ++dialling;
    }
    std::vector<std::shared_ptr<Stream>> ended = std::exchange(ended_, {});
    lock.unlock();
    ended.clear();
    if (stop && stop()) return GrpcEnd::kStopped;
    lock.lock();
    changed_.wait_for(lock, kLookInterval, [this] { return failure_ || dial_ || !ended_.empty(); });
    dial_ = false;
  }
}

// ---- what the coordinator sends

void NodeHost::accepted(Stream& stream) {
  const std::lock_guard lock(mutex_);
  Seat& seat = stream.seat();
  if (seat.stream.get() != &stream || std::exchange(seat.accepted, true)) return;
  log_->of_node(fmt::format("{}: connected to {}", seat.name, endpoint_.text()));
  dial_ = true;
  changed_.notify_all();
}

std::string broken_protocol(const std::string& why) {
  return "the coordinator does not keep to the protocol: " + printable(why);
}

void NodeHost::came(Stream& stream, const ByteBuffer& buffer) {
  std::string why;
  try {
    peer::FromCoordinator message = peer::from_coordinator(buffer);
    const std::lock_guard lock(mutex_);
    Seat& seat = stream.seat();
    if (seat.stream.get() != &stream || !stream.is_open() || seat.done) return;
    try {
      if (!seat.attending && !std::holds_alternative<peer::Card>(message) &&
          !std::holds_alternative<peer::Done>(message))
        throw Error(ErrorKind::kPeer, "it asks before it says what is going on");
      return std::visit([&](auto& one) { handle(seat, one); }, message);
    } catch (const std::exception& error) {
      try_to([&] { why = error.what(); });
    }
  } catch (const std::exception& error) {
    try_to([&] { why = error.what(); });
  }
  const std::lock_guard lock(mutex_);
  try_to([&] { stream.reason = broken_protocol(why); });
  stream.cut();
}

/// Forgets what it was asked.
void NodeHost::drop(Seat& seat) {
  seat.held.reset();
  seat.incoming.reset();
  if (seat.job) seat.job->cancelled = true;
  std::erase(jobs_, seat.job);
  seat.job.reset();
}

void NodeHost::handle(Seat& seat, peer::Card& card) {
  if (card.run.protocol != kProtocolVersion)
    throw Error(ErrorKind::kPeer, fmt::format("it speaks version {} of the protocol, and this node version {}; install "
                                              "the same version of the program on both",
                                              card.run.protocol, kProtocolVersion));
  if (seat.card && seat.card->run.run == card.run.run && seat.card->node != card.node)
    throw Error(ErrorKind::kPeer, fmt::format("{} was node {} of this run and is to be node {}", seat.name,
                                              seat.card->node + 1, card.node + 1));
  std::shared_ptr<RunPrograms> programs;
  for (const auto& other : seats_) {
    if (!other->card || other->card->run != card.run) continue;
    if (other.get() != &seat && other->card->node == card.node)
      throw Error(ErrorKind::kPeer,
                  fmt::format("{} and {} are to be the same node {}", seat.name, other->name, card.node + 1));
    programs = other->programs;
  }
  if (!seat.card || seat.card->run != card.run) drop(seat);
  seat.programs = programs ? programs : std::make_shared<RunPrograms>(card.run);
  seat.card = std::move(card);
  seat.attending = true;
}

/// Whether heads are of the same request, with whatever bytes they came.
bool is_same(const peer::RequestHead& one, const peer::RequestHead& other) {
  return one.call == other.call && one.own_size == other.own_size && one.own_checksum == other.own_checksum &&
         one.size == other.size && one.checksum == other.checksum;
}

/// Whether a request is longer than that.
bool exceeds(const peer::RequestHead& head, std::uint64_t most) {
  return head.own_size > most || head.size > most - head.own_size;
}

void NodeHost::handle(Seat& seat, peer::RequestHead& head) {
  if (seat.incoming && !seat.incoming->broken)
    throw Error(ErrorKind::kPeer, "it begins a request before the last has ended");
  if (head.call.run != seat.card->run.run)
    throw Error(ErrorKind::kPeer,
                fmt::format("it asks for run {}, but announced {}", shown(head.call.run), shown(seat.card->run.run)));
  // A coordinator counts its questions. What it asked before is not asked again on the same stream, unless the very
  // same is wanted that was asked last.
  if (head.call.serial <= seat.serial && !(seat.job && is_same(seat.job->head, head)))
    throw Error(ErrorKind::kPeer, fmt::format("it asks question {} again, after question {}; it or somebody between "
                                              "repeats what was sent before",
                                              head.call.serial, seat.serial));
  seat.serial = std::max(seat.serial, head.call.serial);
  if (head.own_size == 0 || head.size == 0) throw Error(ErrorKind::kPeer, "it announces a request of 0 bytes");
  if (seat.programs->most_bytes || !exceeds(head, kMostBytesAtFirst) || exceeds(head, settings_.most_bytes)) {
    begin(seat, head);
    return take_first(seat, head);
  }
  seat.held = std::move(head);
  seat.stream->hold();
  if (std::exchange(seat.programs->wanted, true)) return;
  wanted_.push_back(seat.programs);
  job_there_.notify_one();
}

std::shared_ptr<Job> NodeHost::begin(Seat& seat, const peer::RequestHead& head) {
  const std::uint64_t most = std::min(settings_.most_bytes, seat.programs->most_bytes.value_or(settings_.most_bytes));
  peer::Assembly own(head.own_size, head.own_checksum, most);
  peer::Assembly shared(head.size, head.checksum, most - head.own_size);
  const peer::RequestHead facts{head.call, head.own_size, head.own_checksum, head.size, head.checksum};
  seat.incoming.reset(new Job{seat, seat.card->node, facts, seat.programs, std::move(own), std::move(shared)});
  return seat.incoming;
}

/// The bytes that came with the head of a request that has begun.
void NodeHost::take_first(Seat& seat, peer::RequestHead& head) {
  peer::Piece own{head.call, /*own=*/true, /*offset=*/0, std::move(head.own)};
  peer::Piece shared{head.call, /*own=*/false, /*offset=*/0, std::move(head.data)};
  if (!own.data.empty()) handle(seat, own);
  if (!shared.data.empty()) handle(seat, shared);
}

/// Goes on with the requests that waited for these programs. Where there are none, the reason is the answer at once,
/// and what comes of the request is forgotten.
void NodeHost::begin_held(const std::shared_ptr<RunPrograms>& programs, const std::exception_ptr& failure) {
  programs->wanted = false;
  for (const auto& seat : seats_) {
    if (seat->programs != programs || !seat->held) continue;
    peer::RequestHead head = *std::exchange(seat->held, std::nullopt);
    try {
      const std::shared_ptr<Job> job = begin(*seat, head);
      if (failure) {
        job->broken = failure;
        job->unread = head.own_size + head.size;
        drop(*seat);
        seat->incoming = seat->job = job;
        enqueue(job);
      }
      take_first(*seat, head);
    } catch (const std::exception& error) {
      seat->stream->reason = broken_protocol(error.what());
      seat->stream->cut();
      continue;
    }
    seat->stream->go_on();
  }
}

void NodeHost::handle(Seat& seat, peer::Piece& piece) {
  const std::shared_ptr<Job> job = seat.incoming;
  if (!job || job->head.call != piece.call ||
      (job->broken ? piece.data.size() > job->unread : piece.own == job->own.complete()))
    throw Error(ErrorKind::kPeer, "it sends a piece of nothing that it announced");
  if (job->broken) {
    job->unread -= piece.data.size();
    if (job->unread == 0) seat.incoming.reset();
    return;
  }
  (piece.own ? job->own : job->shared).add(piece.offset, std::move(piece.data));
  if (!job->shared.complete()) return;
  seat.incoming.reset();
  if (seat.job && is_same(seat.job->head, job->head)) {
    // It has been asked before, and the connection was lost. What is being computed will be sent.
    if (seat.job->answered) enqueue(seat.job);
    return;
  }
  drop(seat);
  seat.job = job;
  enqueue(job);
}

void NodeHost::handle(Seat& seat, peer::Cancel& cancel) {
  if (seat.incoming && seat.incoming->head.call == cancel.call) seat.incoming.reset();
  if (seat.job && seat.job->head.call == cancel.call) drop(seat);
}

void NodeHost::handle(Seat& seat, peer::Done&) {
  drop(seat);
  seat.done = true;
  log_->of_node(fmt::format("{}: the coordinator says that all is done", seat.name));
  seat.stream->cut();
}

// ---- answering

void NodeHost::enqueue(std::shared_ptr<Job> job) {
  if (std::exchange(job->queued, true)) return;
  jobs_.push_back(std::move(job));
  job_there_.notify_one();
}

void NodeHost::fail(std::exception_ptr why) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = std::move(why);
  changed_.notify_all();
}

std::unique_ptr<NodeProgram> NodeHost::make_program(RunPrograms& programs) {
  const std::lock_guard once(programs.mutex);
  if (!programs.make) {
    GrpcPrograms made = make_programs_(programs.card);
    programs.make = std::move(made.make);
    const std::lock_guard lock(mutex_);
    programs.most_bytes = made.most_bytes;
  }
  return programs.make();
}

void NodeHost::work(const std::stop_token& stop) {
  bool prepared = false;
  std::shared_ptr<RunPrograms> of;  // whose program this worker has
  std::unique_ptr<NodeProgram> program;
  const auto have_program = [&](const std::shared_ptr<RunPrograms>& wanted) {
    if (!prepared) {
      use_blas_threads(blas_threads_);
      if (settings_.prepare_thread) settings_.prepare_thread();
      prepared = true;
    }
    if (of != wanted) program.reset();
    of = wanted;
    if (!program) program = make_program(*of);
  };
  std::unique_lock lock(mutex_);
  while (job_there_.wait(lock, stop, [this] { return !jobs_.empty() || !wanted_.empty(); })) {
    if (!wanted_.empty()) {
      const std::shared_ptr<RunPrograms> wanted = std::move(wanted_.front());
      wanted_.pop_front();
      lock.unlock();
      std::exception_ptr failure;
      try {
        have_program(wanted);
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      try {
        begin_held(wanted, failure);
      } catch (...) {
        if (!failure_) failure_ = std::current_exception();
        changed_.notify_all();
      }
      continue;
    }
    const std::shared_ptr<Job> job = std::move(jobs_.front());
    jobs_.pop_front();
    job->queued = false;
    const bool answered = job->answered;
    lock.unlock();
    try {
      if (!answered) {
        try {
          if (job->broken) std::rethrow_exception(job->broken);
          have_program(job->programs);
          answer(*job, *program);
        } catch (...) {
          program.reset();  // who knows in what state it was left
          refuse(*job, failure_of_current_exception(0));
        }
      }
      send(*job);
    } catch (...) {
      fail(std::current_exception());  // nothing can be sent any more
    }
    lock.lock();
  }
}

template <typename Message>
Message read(peer::Assembly& assembly) {
  const std::string bytes = assembly.take();
  return from_bytes<Message>(std::as_bytes(std::span(bytes)));
}

void NodeHost::answer(Job& job, NodeProgram& program) {
  const Addressee to = read<Addressee>(job.own);
  const Request request = read<Request>(job.shared);
  if (to.node != job.node)
    throw Error(ErrorKind::kPeer,
                fmt::format("it was asked as node {}, but was told that it is node {}", to.node + 1, job.node + 1));
  if (request.round != job.head.call.round)
    throw Error(ErrorKind::kPeer,
                fmt::format("it was asked for round {} in a message of round {}", request.round, job.head.call.round));
  job.facts.task = settings_.sent_log.empty() ? "" : task_name(request);
  const Answer answer = program.run({to, request, job.head.call.serial, job.cancelled});
  const auto bytes = std::make_shared<const Bytes>(to_bytes(answer));
  job.facts = {.task = std::move(job.facts.task),
               .words = answer.words.size(),
               .numbers = answer.numbers.size(),
               .weights = answer.weights.size(),
               .packed = answer.packed.size(),
               .report = answer.report.size(),
               .bytes = bytes->size()};
  if (!settings_.sent_log.empty()) job.facts.sha256 = peer::digest_of(*bytes);
  job.messages = peer::answer_messages(job.head.call, bytes);
}

void NodeHost::refuse(Job& job, const NodeFailure& failure) {
  job.sentence = failure.sentence.empty() ? "it stopped" : failure.sentence.substr(0, peer::kMostSentenceBytes);
  job.refusal = peer::encode(peer::FromNode(peer::Failure{job.head.call, failure.kind, failure.remedy, job.sentence}));
  job.messages = {peer::to_buffer(job.refusal)};
  if (!job.cancelled &&
      failure.kind == ErrorKind::kPeer)  // as often as a coordinator likes, so it counts as a stranger
    log_->of_stranger(fmt::format("{}: refused a request of round {}: {}", job.seat.name, job.head.call.round,
                                  printable(job.sentence)));
}

/// Sends what came of a job, if anybody still wants it. It is logged first.
void NodeHost::send(Job& job) {
  bool again = false;
  {
    const std::lock_guard lock(mutex_);
    job.answered = true;
    if (job.cancelled || job.seat.job.get() != &job || !job.seat.attending) return;  // it may be asked for again
    again = std::exchange(job.sent, true);
  }
  if (job.sentence.empty())
    sent_.answer(job.seat.name, job.head.call, job.facts, again);
  else
    sent_.failure(job.seat.name, job.head.call, job.facts.task, job.sentence, job.refusal, again);
  std::shared_ptr<Stream> stream;
  {
    const std::lock_guard lock(mutex_);
    if (job.cancelled || job.seat.job.get() != &job || !job.seat.attending) return;
    stream = job.seat.stream;
    for (const ByteBuffer& message : job.messages) stream->queue(message);
    if (!stream->take()) return;
  }
  stream->start_write();
}

}  // namespace

GrpcEnd serve_grpc(const GrpcNodeSettings& settings, const GrpcProgramMaker& make_programs,
                   const std::function<bool()>& stop) {
  if (settings.seats.empty()) throw Error(ErrorKind::kUsage, "there is no node to serve; give one");
  auto host = std::make_unique<NodeHost>(settings, make_programs);
  const auto end = [&] {
    host->stop_work();
    const std::shared_ptr<EventLog> log = host->log();
    auto close = [host = std::move(host)]() mutable {
      host->close();
      host.reset();
    };
    if (!ends_within(settings.farewell, std::move(close)))
      log->abandon(fmt::format("gRPC did not end within {}, and is left to itself", settings.farewell));
  };
  try {
    const GrpcEnd how = host->serve(stop);
    end();
    return how;
  } catch (...) {
    end();
    throw;
  }
}

}  // namespace labelshift
