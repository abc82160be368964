#include "labelshift/federation/algorithms.hpp"

#include "labelshift/core/base/named_entries.hpp"
#include "labelshift/core/base/settings.hpp"
#include "labelshift/federation/algorithms/balanced_softmax.hpp"
#include "labelshift/federation/algorithms/fafed.hpp"
#include "labelshift/federation/algorithms/fedavg.hpp"
#include "labelshift/federation/algorithms/fedbn.hpp"
#include "labelshift/federation/algorithms/fedcom.hpp"
#include "labelshift/federation/algorithms/fedcomgate.hpp"
#include "labelshift/federation/algorithms/fedlc.hpp"
#include "labelshift/federation/algorithms/fedpals.hpp"
#include "labelshift/federation/algorithms/fedprox.hpp"
#include "labelshift/federation/algorithms/iw_erm.hpp"
#include "labelshift/federation/algorithms/proxskip.hpp"
#include "labelshift/federation/algorithms/scaffold.hpp"

namespace labelshift {
namespace {

constexpr AlgorithmEntry kAlgorithms[] = {kFedAvg,     kFedProx, kFedBn,    kScaffold,        kIwErm, kFedCom,
                                          kFedComGate, kFaFed,   kProxSkip, kBalancedSoftmax, kFedLc, kFedPals};

}  // namespace

std::span<const AlgorithmEntry> algorithms() {
  return kAlgorithms;
}

const AlgorithmEntry& find_algorithm(const std::string& name) {
  return find_entry(kAlgorithms, "algorithm", name);
}

const AlgorithmEntry& algorithm_of(const FederationSettings& settings) {
  return settings.own_algorithm ? *settings.own_algorithm : find_algorithm(settings.algorithm);
}

std::unique_ptr<FederatedAlgorithm> make_algorithm(const AlgorithmSetup& setup) {
  return algorithm_of(setup.settings).make(setup);
}

}  // namespace labelshift
