#pragma once

#include <memory>
#include <optional>

#include "labelshift/engine/message.hpp"
#include "labelshift/federation/answer_checks.hpp"
#include "labelshift/federation/codec.hpp"
#include "labelshift/federation/federation.hpp"

namespace labelshift {

/// What is known of a run before any node has answered, and every answer is checked against.
struct AnswerFacts {
  Index classes = 0;
  Index parameters = 0;         // of the model
  Index predictor_weights = 0;  // of a predictor that is given away; 0 where none is
  /// Runs of what nodes answer in training, and of what they send of a predictor, that have no number below 0.
  std::vector<PartLayout::Part> never_negative, predictor_never_negative;
  NodeWeight weight = NodeWeight::kOne;  // of a node in training
  std::optional<double> max_update_norm;
  std::shared_ptr<const UpdateCodec> codec;  // of updates; null: they travel as they are
};

AnswerFacts answer_facts(const FederationSettings& settings, const FederationTask& task, Index nodes);

/// Unpacks an answer to this request and throws Error{kPeer} for what its shape does not tell (answer_checks.hpp).
void accept_answer(const AnswerFacts& facts, const Request& request, Answer& answer);

}  // namespace labelshift
