#pragma once

#include "labelshift/core/base/matrix_view.hpp"

/// Loops over blocks of rows that lie column by column, in the widest registers of cpu().
namespace labelshift {

/// x_i becomes log(max(x_i, floor)).
void log_of_floored(double floor, Index count, double* x);

/// Each row of the (rows, cols) exponents u in `f` becomes exp(u_c - log_normaliser), which sums to 1.
void softmax_rows(Index rows, Index cols, double* f, double* log_normaliser);

}  // namespace labelshift
