#pragma once

#include <string>
#include <vector>

#include "labelshift/core/base/provenance.hpp"
#include "labelshift/report/label_shift_report.hpp"
#include "labelshift/report/page.hpp"

namespace labelshift {

/// An estimate to be looked at: the verdict, what moved, both mixes with intervals, the two tests, how well the
/// classifier is calibrated and why by this calibration, and how to get the same again.
Page label_shift_page(const LabelShiftReport& report, const Provenance& provenance);

/// The classes that moved most, a sentence each, the largest move first. A class is named only if its interval leaves
/// the source share out.
std::vector<std::string> moved_classes(const LabelShiftReport& report, std::size_t most);

}  // namespace labelshift
