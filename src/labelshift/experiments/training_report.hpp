#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "labelshift/learning/evaluation.hpp"
#include "labelshift/learning/model_selection.hpp"
#include "labelshift/report/table.hpp"

namespace labelshift {

/// A part of the data, and how well a predictor does on it.
struct PartQuality {
  std::string name;
  std::size_t examples = 0;
  Evaluation raw;
  Evaluation calibrated;
};

/// What came of the training of a predictor, and what it was asked for with.
struct TrainingReport {
  std::string data;   // name or path
  std::string model;  // name or path
  std::uint64_t seed = 0;
  std::size_t examples = 0;  // that it was trained on
  double zeta = 0.0;
  std::vector<double> cross_entropy;  // of each epoch; empty where zeta was chosen
  int epochs = 0;
  std::string stopped_by;  // "epochs", "threshold" or "choice"
  int resumed_from = 0;    // epochs that were there already
  std::string calibration;
  std::optional<Selection> selection;  // where zeta was chosen
  std::vector<PartQuality> parts;
  std::string predictor;  // the file
};

/// Every zeta, number of epochs and calibration that was tried, and which one was chosen.
Table candidates_table(const Selection& selection);

/// A row for each part of the data.
Table quality_table(const std::vector<PartQuality>& parts);

/// How people are shown the candidates.
struct SearchView {
  bool listed = false;
  std::string hint;  // how to have them listed, if they are not; goes on from "among 24 candidates"
};

/// What was chosen and why, in two sentences on a line each.
std::string choice_text(const Selection& selection, const std::string& hint = "");

std::string training_text(const TrainingReport& report, const SearchView& search = {});

/// Everything there is, for programs.
std::string training_json(const TrainingReport& report);

}  // namespace labelshift
