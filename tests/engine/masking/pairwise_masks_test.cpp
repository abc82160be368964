#include "labelshift/engine/masking/pairwise_masks.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <deque>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/rng.hpp"
#include "labelshift/engine/fixed_point.hpp"
#include "tests/engine/masking/test_certificates.hpp"

namespace labelshift {
namespace {

using testing::HasSubstr;
using Words = std::vector<std::uint64_t>;

// What is offered cannot be used for a second exchange: keys are neither copied nor moved, and agreeing takes them.
static_assert(!std::copy_constructible<MaskKeys> && !std::move_constructible<MaskKeys>);
template <typename Keys>
concept AgreesAsLvalue = requires(Keys& keys, std::vector<MaskOffer> offers) {
  keys.agree(offers);
};
static_assert(!AgreesAsLvalue<MaskKeys>);
static_assert(!std::copy_constructible<PairwiseMasks> && std::move_constructible<PairwiseMasks>);

std::string error_of(ErrorKind kind, const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "expected an error";
  return "";
}

/// Nodes with certificates of one authority.
class Sites {
 public:
  explicit Sites(std::size_t count) : authority_(make_authority()) {
    for (std::size_t i = 0; i < count; ++i) {
      names_.push_back(fmt::format("site-{:02}", i));
      certificates_.push_back(make_certificate({.names = {names_.back()}}, &authority_));
      identities_.push_back(identity_of(certificates_.back(), authority_));
    }
  }
  MaskedExchange exchange(std::size_t nodes, std::uint64_t serial = 1) const {
    return {.run = "run", .serial = serial, .nodes = {names_.begin(), names_.begin() + static_cast<Index>(nodes)}};
  }
  const NodeIdentity& operator[](std::size_t i) const { return identities_.at(i); }
  const TestCertificate& certificate(std::size_t i) const { return certificates_.at(i); }
  const TestCertificate& authority() const { return authority_; }

 private:
  const TestCertificate authority_;
  std::vector<std::string> names_;
  std::vector<TestCertificate> certificates_;
  std::vector<NodeIdentity> identities_;
};

const Sites& sites() {
  static const Sites all(20);
  return all;
}

/// What every node of an exchange has after it.
std::vector<PairwiseMasks> agreed(std::size_t nodes, std::uint64_t serial = 1) {
  std::deque<MaskKeys> keys;
  std::vector<MaskOffer> offers;
  for (std::size_t i = 0; i < nodes; ++i) {
    keys.emplace_back(sites()[i], sites().exchange(nodes, serial));
    offers.push_back(keys.back().offer());
  }
  std::vector<PairwiseMasks> masks;
  for (MaskKeys& own : keys) {
    std::rotate(offers.begin(), offers.begin() + 1, offers.end());  // their order does not matter
    masks.push_back(std::move(own).agree(offers));
  }
  return masks;
}

TEST(PairwiseMasks, LeaveTheFixedPointSumAsItIsToTheBit) {
  for (std::size_t nodes = 3; nodes <= 20; ++nodes) {
    std::vector<PairwiseMasks> masks = agreed(nodes);
    Rng rng(nodes);
    for (const std::uint64_t vector : {0, 1, 5}) {  // several of one exchange, of different lengths
      const std::size_t size = 10 + 600 * vector;
      Words plain(size), masked(size);
      for (PairwiseMasks& of_node : masks) {
        Words words;
        for (std::size_t i = 0; i < size; ++i)
          words.push_back(to_fixed(largest_summand(static_cast<Index>(nodes)) * (2.0 * rng.uniform() - 1.0),
                                   static_cast<Index>(nodes)));
        for (std::size_t i = 0; i < size; ++i) plain[i] += words[i];
        const Words before = words;
        of_node.apply(vector, words);
        EXPECT_NE(words, before);
        for (std::size_t i = 0; i < size; ++i) masked[i] += words[i];
      }
      EXPECT_EQ(masked, plain) << nodes;
    }
  }
}

/// Of the bytes of words, against all being as likely.
double chi_squared(const Words& words) {
  std::array<double, 256> counts{};
  for (const std::byte byte : std::as_bytes(std::span(words))) counts[static_cast<std::size_t>(byte)] += 1.0;
  const double expected = 8.0 * static_cast<double>(words.size()) / 256.0;
  double sum = 0.0;
  for (const double count : counts) sum += (count - expected) * (count - expected) / expected;
  return sum;
}
// With 255 degrees of freedom a uniform sample is above 415, or below 142, once in 10^9 times each (Wilson and
// Hilferty: 255 (1 - z)^3 with z = 2 / 2295 -+ 6.0 (2 / 2295)^1/2). Keys come from the system's random numbers, so
// nothing can be seeded here.
constexpr double kLowest = 142.0, kHighest = 415.0;

void expect_uniform(const Words& words) {
  const double found = chi_squared(words);
  EXPECT_GT(found, kLowest);
  EXPECT_LT(found, kHighest);
}

Words difference(const Words& a, const Words& b) {
  Words result;
  for (std::size_t i = 0; i < a.size(); ++i) result.push_back(a[i] - b[i]);
  return result;
}

TEST(PairwiseMasks, ShowTheCoordinatorUniformWordsOfEveryNode) {
  constexpr std::size_t kWords = 1 << 16;  // 2,048 bytes a value
  const Words plain(kWords, to_fixed(0.25, 3));
  EXPECT_GT(chi_squared(plain), 1e6);                               // the test can tell
  std::vector<PairwiseMasks> masks = agreed(3), later = agreed(3);  // the same run, nodes and even serial
  std::vector<Words> seen;
  for (PairwiseMasks& of_node : masks) {
    seen.push_back(plain);
    of_node.apply(0, seen.back());
    expect_uniform(seen.back());
  }
  // Nor do two nodes together show anything, as long as the third is not with them.
  for (const std::size_t other : {1, 2}) expect_uniform(difference(seen[0], seen[other]));
  // The same input in another exchange, and as another vector of this one, shows no difference of 0.
  for (std::size_t node = 0; node < 3; ++node) {
    Words again = plain, next = plain;
    later[node].apply(0, again);
    masks[node].apply(1, next);
    expect_uniform(again);
    expect_uniform(next);
    expect_uniform(difference(again, seen[node]));
    expect_uniform(difference(next, seen[node]));
  }
}

TEST(PairwiseMasks, MaskNoVectorTwice) {
  std::vector<PairwiseMasks> masks = agreed(3);
  Words words(4), untouched(4);
  masks[0].apply(3, words);
  for (const std::uint64_t again : {3, 2, 0})
    EXPECT_EQ(error_of(ErrorKind::kPeer, [&] { masks[0].apply(again, untouched); }),
              fmt::format("vector {} of an exchange was asked for after vector 3: no mask is used twice; start the "
                          "phase again",
                          again));
  EXPECT_EQ(untouched, Words(4));
  masks[0].apply(4, words);
}

TEST(PairwiseMasks, LetNoWordsPassOnceTheyWereMovedAway) {
  std::vector<PairwiseMasks> masks = agreed(3);
  const PairwiseMasks taken = std::move(masks[0]);
  Words words(4);
  EXPECT_THROW(masks[0].apply(0, words), std::logic_error);
  MaskKeys keys(sites()[0], sites().exchange(3));
  EXPECT_THROW(std::move(keys).agree({}), Error);
  EXPECT_THROW(std::move(keys).agree({}), std::logic_error);  // used up, though nothing came of it
}

TEST(MaskKeys, AreRefusedForExchangesThatHideNothing) {
  const auto refusal = [](ErrorKind kind, const std::vector<std::string>& nodes) {
    return error_of(kind, [&] { MaskKeys(sites()[0], {.run = "run", .serial = 1, .nodes = nodes}); });
  };
  EXPECT_THAT(refusal(ErrorKind::kUsage, {"site-00", "site-01"}),
              HasSubstr("masks need 3 nodes or more, and there are 2"));
  EXPECT_THAT(refusal(ErrorKind::kUsage, {"site-00"}), HasSubstr("and there are 1"));
  EXPECT_THAT(refusal(ErrorKind::kPeer, {"site-00", "site-01", "site-01"}), HasSubstr("site-01 after site-01"));
  EXPECT_THAT(refusal(ErrorKind::kPeer, {"site-00", "site-02", "site-01"}), HasSubstr("site-01 after site-02"));
  EXPECT_THAT(refusal(ErrorKind::kPeer, {"site-01", "site-02", "site-03"}),
              HasSubstr("site-00 is not among the nodes"));
}

TEST(MaskKeys, AreFreshForEveryAttempt) {
  const MaskKeys first(sites()[0], sites().exchange(3)), second(sites()[0], sites().exchange(3));
  EXPECT_NE(first.offer().key, second.offer().key);
  EXPECT_EQ(from_bytes<MaskOffer>(to_bytes(first.offer())), first.offer());
}

/// The first of three nodes, and what it is given by a coordinator that lies.
class LyingCoordinator : public testing::Test {
 protected:
  static MaskOffer offer_of(std::size_t node, const MaskedExchange& exchange = sites().exchange(3)) {
    return MaskKeys(sites()[node], exchange).offer();
  }
  /// The error of node 0 with the offers of nodes 1 and 2 and its own, as `lie` changes them.
  static std::string refusal(const std::function<void(std::vector<MaskOffer>& offers)>& lie) {
    MaskKeys keys(sites()[0], sites().exchange(3));
    std::vector<MaskOffer> offers = {keys.offer(), offer_of(1), offer_of(2)};
    lie(offers);
    return error_of(ErrorKind::kPeer, [&] { std::move(keys).agree(offers); });
  }
  /// The same where node 2 has a certificate like this and signs with its key. Where its names are not that of the
  /// node, it comes with an offer in the node's name.
  static std::string refusal_of(const CertificateWish& wish, const TestCertificate& issuer = sites().authority()) {
    CertificateWish named = wish;
    named.names = {"site-02"};
    const NodeIdentity signer = identity_of(make_certificate(named, &issuer), sites().authority());
    return refusal([&](std::vector<MaskOffer>& offers) {
      offers[2] = MaskKeys(signer, sites().exchange(3)).offer();
      if (wish.names != named.names) offers[2].certificate = make_certificate(wish, &issuer).certificate_pem();
    });
  }
};

TEST_F(LyingCoordinator, IsBelievedWhereItTellsTheTruth) {
  MaskKeys keys(sites()[0], sites().exchange(3));
  const std::vector<MaskOffer> offers = {offer_of(2), keys.offer(), offer_of(1)};
  EXPECT_NO_THROW(std::move(keys).agree(offers));
}

TEST_F(LyingCoordinator, CanLeaveNobodyOutAndAddNobody) {
  EXPECT_EQ(refusal([](auto& offers) { offers.pop_back(); }), "the key of site-02 is missing");
  EXPECT_EQ(refusal([](auto& offers) { offers.erase(offers.begin()); }), "the key of site-00 is missing");
  EXPECT_EQ(refusal([](auto& offers) { offers.clear(); }), "the key of site-00 is missing");
  EXPECT_EQ(refusal([](auto& offers) { offers.push_back(offers[1]); }), "there are two keys of site-01");
  EXPECT_EQ(refusal([](auto& offers) { offers.push_back(offer_of(3, sites().exchange(4))); }),
            "there is a key of site-03, who is no node of the exchange");
  EXPECT_EQ(refusal([](auto& offers) { offers[0] = offer_of(0); }), "there is a key of site-00 that it did not send");
}

TEST_F(LyingCoordinator, CanPutNoKeyOfItsOwnInTheirPlace) {
  const std::string unsigned_sentence =
      "the key of site-02 is not to be trusted: it is not signed by it for this run, "
      "exchange and set of nodes";
  // Its own key under somebody's signature and certificate: it could read what this pair masks.
  EXPECT_EQ(refusal([](auto& offers) {
              const PublicKey own = KeyPair().public_key();
              offers[2].key.assign(own.begin(), own.end());
            }),
            unsigned_sentence);
  EXPECT_EQ(refusal([](auto& offers) { offers[2].signature[8] ^= std::byte{1}; }), unsigned_sentence);
  EXPECT_EQ(refusal([](auto& offers) { offers[2].signature.clear(); }), unsigned_sentence);
  EXPECT_EQ(refusal([](auto& offers) { offers[2].signature = offers[1].signature; }), unsigned_sentence);
  EXPECT_EQ(refusal([](auto& offers) { offers[2].key.pop_back(); }), "the key of site-02 has 31 bytes, expected 32");
  // What was signed for another run, another exchange of this one, or other nodes.
  MaskedExchange other = sites().exchange(3);
  other.run = "another";
  EXPECT_EQ(refusal([&](auto& offers) { offers[2] = offer_of(2, other); }), unsigned_sentence);
  other = sites().exchange(3, /*serial=*/2);
  EXPECT_EQ(refusal([&](auto& offers) { offers[2] = offer_of(2, other); }), unsigned_sentence);
  other = sites().exchange(4);
  EXPECT_EQ(refusal([&](auto& offers) { offers[2] = offer_of(2, other); }), unsigned_sentence);
  // Another node's, in this one's name.
  EXPECT_EQ(refusal([](auto& offers) {
              offers[2] = offer_of(1);
              offers[2].name = "site-02";
            }),
            "the key of site-02 is not to be trusted: its certificate is that of another node");
  // A low point, signed by a node that would have everybody know the secret.
  EXPECT_EQ(refusal([](auto& offers) {
              const Bytes low(32);
              struct Statement {
                std::string purpose = "labelshift key for masks, version 1";
                MaskedExchange exchange = sites().exchange(3);
                std::string name = "site-02";
                Bytes key;
                static void fields(const Statement& self, WireWriter& visit) {
                  visit(self.purpose, self.exchange, self.name, self.key);
                }
              };
              offers[2].key = low;
              offers[2].signature = sites()[2].sign(to_bytes(Statement{.key = low}));
            }),
            "a public key is a point of low order, with which no secret can be shared");
}

TEST_F(LyingCoordinator, CanMakeNoCertificates) {
  const TestCertificate impostor = make_authority();  // of the same name as the true one
  EXPECT_THAT(refusal_of({.names = {"site-02"}}, impostor),
              HasSubstr("the key of site-02 is not to be trusted: its certificate is not valid: "));
  const TestCertificate another = make_authority("another authority");
  EXPECT_THAT(refusal_of({.names = {"site-02"}}, another), HasSubstr("unable to get local issuer certificate"));
  EXPECT_THAT(refusal_of({.names = {"site-02"}, .until = -60}), HasSubstr("certificate has expired"));
  EXPECT_THAT(refusal_of({.names = {"site-02"}, .from = 60}), HasSubstr("certificate is not yet valid"));
  EXPECT_THAT(refusal_of({.names = {"site-02"}, .usage = "serverAuth"}), HasSubstr("unsuitable certificate purpose"));
  EXPECT_THAT(refusal_of({.names = {"site-03"}}), HasSubstr("its certificate is that of another node"));
  EXPECT_THAT(refusal_of({.names = {"site-02 "}}), HasSubstr("its certificate is that of another node"));
  EXPECT_THAT(refusal_of({.names = {"site-02", "site-02"}}), HasSubstr("no common name, or several"));
  EXPECT_THAT(refusal_of({}), HasSubstr("no common name, or several"));
  EXPECT_THAT(refusal([](auto& offers) { offers[2].certificate = "nothing"; }),
              HasSubstr("its certificate cannot be read"));
  EXPECT_THAT(refusal([](auto& offers) { offers[2].certificate.append(1 << 17, ' '); }),
              HasSubstr("expected at most 65536"));
  // A node's certificate makes no other.
  EXPECT_THAT(refusal([](auto& offers) {
                const TestCertificate made = make_certificate({.names = {"site-02"}}, &sites().certificate(1));
                const NodeIdentity identity = identity_of(made, sites().authority());
                offers[2] = MaskKeys(identity, sites().exchange(3)).offer();
                offers[2].certificate += sites().certificate(1).certificate_pem();
              }),
              HasSubstr("its certificate is not valid: "));
}

TEST_F(LyingCoordinator, IsRefusedOrBelievedWhateverBytesItSends) {
  Rng rng(7);
  int refused = 0;
  for (int trial = 0; trial < 300; ++trial) {
    MaskKeys keys(sites()[0], sites().exchange(3));
    std::vector<MaskOffer> offers = {keys.offer(), offer_of(1), offer_of(2)};
    std::string& certificate = offers[2].certificate;
    for (auto changes = 1 + rng.below(3); changes > 0; --changes) switch (rng.below(4)) {
        case 0:
          offers[2].signature[static_cast<std::size_t>(rng.below(std::ssize(offers[2].signature)))] ^= std::byte{64};
          break;
        case 1:
          certificate[static_cast<std::size_t>(rng.below(std::ssize(certificate)))] = static_cast<char>(rng());
          break;
        case 2:
          certificate.resize(1 + static_cast<std::size_t>(rng.below(std::ssize(certificate))));
          break;
        default:
          offers[2].key[static_cast<std::size_t>(rng.below(32))] = static_cast<std::byte>(rng());
      }
    try {
      std::move(keys).agree(offers);  // a space after the certificate, for instance
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kPeer) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 250);
}

TEST(NodeIdentity, SignsWithEveryKindOfKeyThatACertificateHas) {
  const TestCertificate& authority = sites().authority();
  const std::vector<std::byte> message(100, std::byte{5});
  for (const KeyKind kind : {KeyKind::kEllipticCurve, KeyKind::kRsa, KeyKind::kEd25519}) {
    const NodeIdentity identity =
        identity_of(make_certificate({.names = {"a node"}, .kind = kind}, &authority), authority);
    EXPECT_EQ(identity.name(), "a node");
    Bytes signature = identity.sign(message);
    sites()[0].verify("a node", identity.certificate(), message, signature);
    signature.back() ^= std::byte{1};
    EXPECT_THROW(sites()[0].verify("a node", identity.certificate(), message, signature), Error);
  }
  // By an authority between, whose certificate comes along.
  const TestCertificate between = make_certificate({.names = {"between"}, .authority = true}, &authority);
  const TestCertificate own = make_certificate({.names = {"a node"}, .usage = nullptr}, &between);
  const NodeIdentity identity({.certificate = own.certificate_pem() + between.certificate_pem(),
                               .private_key = own.key_pem(),
                               .authority = authority.certificate_pem()});
  sites()[0].verify("a node", identity.certificate(), message, identity.sign(message));
  EXPECT_THROW(sites()[0].verify("a node", own.certificate_pem(), message, identity.sign(message)), Error);
}

TEST(NodeIdentity, NeedsFilesThatBelongTogether) {
  const std::string certificate = sites().certificate(0).certificate_pem(), key = sites().certificate(0).key_pem(),
                    authority = sites().authority().certificate_pem();
  const auto refusal = [](const NodeIdentity::Files& files) {
    return error_of(ErrorKind::kInput, [&] { NodeIdentity{files}; });
  };
  EXPECT_THAT(refusal({"", key, authority}), HasSubstr("the node's certificate cannot be read"));
  EXPECT_THAT(refusal({certificate, "", authority}), HasSubstr("the private key of site-00 cannot be read"));
  EXPECT_THAT(refusal({certificate, key, "x"}), HasSubstr("the authority's certificate cannot be read"));
  EXPECT_THAT(refusal({certificate, sites().certificate(1).key_pem(), authority}),
              HasSubstr("the private key is not that of the certificate of site-00"));
  const TestCertificate nameless = make_certificate({}, &sites().authority());
  EXPECT_THAT(refusal({nameless.certificate_pem(), nameless.key_pem(), authority}), HasSubstr("has no common name"));
}

}  // namespace
}  // namespace labelshift
