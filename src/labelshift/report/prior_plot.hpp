#pragma once

#include <Eigen/Core>
#include <string>
#include <vector>

namespace labelshift {

/// What a figure of a label-shift estimate shows.
struct PriorPlot {
  std::string title;
  std::vector<std::string> subtitles;  // one line each under the title, may be empty
  std::vector<std::string> classes;    // (m)
  Eigen::VectorXd source_prior;        // (m) p_tr(y)
  Eigen::VectorXd target_prior;        // (m) q, the estimate of p_te(y)
  Eigen::VectorXd target_prior_low;    // (m) ends of the intervals for q, or both empty: none are drawn
  Eigen::VectorXd target_prior_high;   // (m)
  double level = 0.95;                 // confidence level of the intervals
};

/// An SVG document with a bar for the source prior and one for the target prior of every class, the latter with its
/// interval; where q_c = 0 the interval is one-sided and only its upper end is capped. Classes stand in their own
/// order; of more than 30 only the 30 with the largest change are drawn, largest first, and a note says so.
/// Throws Error{kInput} if a vector has not one entry in [0, 1] for every class.
std::string prior_plot(const PriorPlot& plot);

}  // namespace labelshift
