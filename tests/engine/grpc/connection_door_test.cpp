#include "labelshift/engine/grpc/connection_door.hpp"

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "labelshift/engine/grpc/endpoint.hpp"
#include "tests/await.hpp"
#include "tests/engine/grpc/raw_peers.hpp"

namespace labelshift {
namespace {

using namespace std::chrono_literals;
using namespace std::string_view_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// The first bytes of a ClientHello: that of a record, of which a part says TLS 1.0 for the sake of old machines, that
// of the message, and the version that it offers.
constexpr std::string_view kHello = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 and much more"sv;
constexpr std::string_view kOldHello = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x02 and much more"sv;

/// A door, and what came through it.
class Door {
 public:
  explicit Door(
      std::optional<std::chrono::milliseconds> tls_within, std::function<void()> meanwhile = [] {})
      : door_(read_endpoint("127.0.0.1:0"), /*most=*/50, tls_within) {
    door_.open({.hand_on =
                    [this, meanwhile](int, int connection) {
                      {
                        const std::lock_guard lock(mutex_);
                        handed_on_.push_back(connection);
                      }
                      meanwhile();
                    },
                .closed = [](std::size_t) {},
                .refused =
                    [this, meanwhile](const std::string& peer, const std::string& why) {
                      meanwhile();
                      const std::lock_guard lock(mutex_);
                      refused_.push_back(peer + ": " + why);
                    }});
  }
  ~Door() {
    door_.close();
    for (const int one : handed_on_) ::close(one);
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(door_.port()); }
  std::vector<std::string> refused() const {
    const std::lock_guard lock(mutex_);
    return refused_;
  }
  std::size_t handed_on() const {
    const std::lock_guard lock(mutex_);
    return handed_on_.size();
  }
  /// What is there to be read on the connection that was handed on last.
  std::string words() const {
    const std::lock_guard lock(mutex_);
    char bytes[100];
    const ssize_t size = ::recv(handed_on_.back(), bytes, sizeof bytes, 0);
    return {bytes, static_cast<std::size_t>(std::max<ssize_t>(size, 0))};
  }

 private:
  mutable std::mutex mutex_;
  std::vector<int> handed_on_;
  std::vector<std::string> refused_;
  ConnectionDoor door_;
};

TEST(ConnectionDoor, HandsOnWhoBeginsWithTlsAndLeavesItsWordsToBeRead) {
  const Door door(30s);
  const RawConnection node(door.address());
  node.send(kHello);
  await([&] { return door.handed_on() == 1; }, "it was handed on");
  EXPECT_EQ(door.words(), kHello);
  EXPECT_THAT(door.refused(), IsEmpty());
}

TEST(ConnectionDoor, WaitsForWordsThatComeOneByOneAndTakesOthersMeanwhile) {
  const Door door(30s);
  const RawConnection slow(door.address());
  for (std::size_t i = 0; i < 10; ++i) {
    slow.send(kHello.substr(i, 1));
    const RawConnection other(door.address());
    other.send(kHello);
    await([&] { return door.handed_on() == i + 1; }, "the other was handed on");
  }
  slow.send(kHello.substr(10));
  await([&] { return door.handed_on() == 11; }, "the slow one was handed on");
  EXPECT_EQ(door.words(), kHello);
  EXPECT_THAT(door.refused(), IsEmpty());
}

TEST(ConnectionDoor, SaysWhoSpeaksAnOldTlsOrNoneAndHandsThemOnToBeRefused) {
  const Door door(30s);
  std::size_t count = 0;
  for (const auto& [words, why] :
       {std::pair{kOldHello, "it speaks no newer TLS than 1.1, expected 1.2 or newer"},
        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"sv, "it speaks no TLS"},
        {"\x16\x03\x01\xff\xff\x01\x00\x01\xfc\x03\x03"sv, "it speaks no TLS"},     // a record longer than any
        {"\x16\x03\x01\x02\x00\x02\x00\x01\xfc\x03\x03"sv, "it speaks no TLS"},     // no ClientHello
        {"\x16\x02\x01\x02\x00\x01\x00\x01\xfc\x03\x03"sv, "it speaks no TLS"},     // a version that is none
        {"\x15\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"sv, "it speaks no TLS"},     // no handshake
        {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x02\x03"sv, "it speaks no TLS"}}) {  // offers a version that is none
    const RawConnection stranger(door.address());
    stranger.send(words);
    await([&] { return door.handed_on() == count + 1; }, "it was handed on");
    const auto refused = door.refused();
    ASSERT_EQ(refused.size(), ++count);
    EXPECT_THAT(refused.back(), testing::AllOf(testing::StartsWith("ipv4:127.0.0.1:"), HasSubstr(why)));
  }
}

TEST(ConnectionDoor, ClosesWhoSaysTooLittleAndSaysSo) {
  const Door door(300ms);
  const RawConnection silent(door.address()), brief(door.address());
  brief.send("GET");
  EXPECT_TRUE(silent.is_closed());
  EXPECT_TRUE(brief.is_closed());
  EXPECT_THAT(door.refused(),
              ElementsAre(HasSubstr("it did not begin to speak TLS within 300ms"), HasSubstr("it speaks no TLS")));
  {
    const RawConnection left(door.address());
    left.send("GET");
  }
  await([&] { return door.refused().size() == 3; }, "who left was refused for what it said");
  EXPECT_EQ(door.handed_on(), 0U);
}

TEST(ConnectionDoor, HasNothingToSayOfWhoLeavesWithoutAWord) {
  const Door door(30s);
  { const RawConnection left(door.address()); }
  const RawConnection node(door.address());
  node.send(kHello);
  await([&] { return door.handed_on() == 1; }, "the next was handed on");
  EXPECT_THAT(door.refused(), IsEmpty());
}

TEST(ConnectionDoor, HandsOnAtOnceWhereNoTlsIsExpected) {
  const Door door(std::nullopt);
  const RawConnection silent(door.address());
  await([&] { return door.handed_on() == 1; }, "it was handed on");
}

TEST(ConnectionDoor, StaysOpenWhateverIsThrownByWhomItCalls) {
  std::atomic<int> calls = 0;
  const Door door(30s, [&calls] {
    ++calls;
    if (calls == 1) throw std::bad_alloc();
    if (calls == 2) throw 7;
    if (calls == 4) throw std::bad_alloc();
  });
  const RawConnection stranger(door.address());
  stranger.send(kOldHello);  // which is said until it has been said, and then throws no more
  await([&] { return calls == 4; }, "it was handed on");
  EXPECT_EQ(door.refused().size(), 1U);
  const RawConnection node(door.address());
  node.send(kHello);
  await([&] { return door.handed_on() == 2; }, "the next was handed on");
}

}  // namespace
}  // namespace labelshift
