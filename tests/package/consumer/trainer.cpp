#include <iostream>

#include "labelshift/data/datasets/splits.hpp"
#include "labelshift/learning/evaluation.hpp"
#include "labelshift/learning/trainer.hpp"

int main() {  // two classes, one on each side of 0
  using namespace labelshift;
  Dataset data{.shape = {1, 1, 1}, .class_names = {"left", "right"}};
  std::vector<float> values;
  for (int i = 0; i < 64; ++i) {
    data.labels.push_back(i % 2);
    values.push_back(i % 2 == 0 ? -1.0F : 1.0F);
  }
  data.values = values;
  const std::vector<Index> rows = all_rows(data.size());
  // A net of LibTorch, whose module must be found.
  const auto net = make_net({.name = "mlp", .shape = data.shape, .classes = 2}, /*seed=*/0);
  train_predictor(*net, {data, rows, {}}, {.zeta = 0.0, .epochs = 50, .adam = {.learning_rate = 0.01}});
  const double accuracy = evaluate(evaluate_logits(*net, data, rows), data.labels, Calibration::identity(2)).accuracy;
  std::cout << "accuracy " << accuracy << '\n';
  return accuracy == 1.0 ? 0 : 1;
}
