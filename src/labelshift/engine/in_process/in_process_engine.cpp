#include "labelshift/engine/in_process/in_process_engine.hpp"

#include "labelshift/engine/in_process/worker_pool.hpp"

namespace labelshift {
namespace {

class InProcessEngine : public Engine {
 public:
  InProcessEngine(Index nodes, NodeProgramFactory make_program, InProcessSettings settings)
      : nodes_(nodes), pool_(nodes, std::move(make_program), std::move(settings)) {}

  Index nodes() const override { return nodes_; }

  CohortOutcome run(const Request& request, std::span<const Addressee> cohort, const AnswerTerms& terms,
                    const Patience& patience, const Observer& observer) override {
    check_cohort(cohort, nodes_);
    const std::vector<Index> whole = nodes_of(cohort);
    std::vector<BlockOutcome> blocks;
    blocks.push_back(pool_.run(request, cohort, whole, terms, patience, observer));
    return join_blocks(nodes_, whole, std::move(blocks));
  }

 private:
  const Index nodes_;
  WorkerPool pool_;
};

}  // namespace

std::unique_ptr<Engine> make_in_process_engine(Index nodes, NodeProgramFactory make_program,
                                               InProcessSettings settings) {
  return std::make_unique<InProcessEngine>(nodes, std::move(make_program), std::move(settings));
}

}  // namespace labelshift
