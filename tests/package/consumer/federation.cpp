#include <iostream>

#include "labelshift/engine/in_process/in_process_engine.hpp"
#include "labelshift/experiments/experiment_file.hpp"
#include "labelshift/federation/federation.hpp"
#include "labelshift/federation/node_program.hpp"

int main() {  // two nodes, two classes, one on each side of 0
  using namespace labelshift;
  FederatedData data{.shape = {1, 1, 1}, .class_names = {"left", "right"}};
  auto set = std::make_unique<Dataset>(Dataset{.shape = data.shape, .class_names = data.class_names});
  std::vector<float> values;
  for (int i = 0; i < 64; ++i) {
    set->labels.push_back(i % 2);
    values.push_back(i % 2 == 0 ? -1.0F : 1.0F);
  }
  set->values = values;
  for (Index first : {0, 32}) {
    NodeData node{.train = set.get(), .test = set.get()};
    for (Index i = first; i < first + 32; ++i) node.train_rows.push_back(i);
    node.test_rows = node.train_rows;
    data.nodes.push_back(node);
  }
  data.sets.push_back(std::move(set));
  const Experiment experiment = parse_experiment(
      "model.net = \"logistic\"\ntraining = {rounds = 50, learning-rate = 0.1}\ndata = {set = \"./here\", partition = "
      "\"iid\", nodes = 2}\n",
      "consumer", ".");
  const FederationSettings& settings = experiment.runs.front().settings.federation;
  NodeStore store({.folder = "nodes"});
  const auto engine = make_in_process_engine(2, make_node_programs(settings, data, store));
  const double accuracy = average_accuracy(
      run_federation(settings, {.shape = data.shape, .class_names = data.class_names}, *engine).history);
  std::cout << "accuracy " << accuracy << '\n';
  return accuracy == 1.0 ? 0 : 1;
}
