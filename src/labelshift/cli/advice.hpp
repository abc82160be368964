#pragma once

#include "labelshift/core/base/error.hpp"
#include "labelshift/report/label_shift_report.hpp"

namespace labelshift::cli {

/// What to type: the only table from remedy to options. It goes on from the message.
const char* advice(Remedy remedy);

/// Prints an error as one line, with what to type.
void print_error(const Error& error);

/// The only table from kind to status.
int exit_status(ErrorKind kind);

/// Adds the warnings about the result to a report, each with what to type.
void add_warnings(LabelShiftReport& report);

}  // namespace labelshift::cli
