#pragma once

#include "labelshift/core/base/matrix_view.hpp"

namespace labelshift {

/// What a classifier said: one row an example, one column a class.
struct Scores {
  MatrixView values;     // (n, m)
  bool logits = false;   // raw scores, whose softmax is f(x); otherwise f(x) itself
  bool checked = false;  // whether the caller has checked that they are such: a check costs a pass
};

}  // namespace labelshift
