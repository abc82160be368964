#include "labelshift/core/likelihood/renormalise.hpp"

#include <fmt/format.h>

#include <cmath>
#include <type_traits>

#include "labelshift/core/base/error.hpp"

namespace labelshift {

CalibratedProbabilities renormalise_rows(const MatrixView& probs, const std::string& name) {
  return probs.visit([&](const auto* data, Index row_stride, Index col_stride) -> CalibratedProbabilities {
    using Scalar = std::remove_cvref_t<decltype(*data)>;
    RowMajorMatrix<Scalar> result(probs.rows(), probs.cols());
    for (Index j = 0; j < probs.rows(); ++j) {
      const Scalar* row = data + j * row_stride;
      double sum = 0.0;
      for (Index c = 0; c < probs.cols(); ++c) {
        const double value = static_cast<double>(row[c * col_stride]);
        if (!std::isfinite(value))
          throw Error(ErrorKind::kInput, fmt::format("{}, row {}, column {}: found {}, expected a finite number that "
                                                     "is not negative; remove the row or repair it",
                                                     name, j + 1, c + 1, value));
        if (value < 0.0)
          throw Error(ErrorKind::kInput,
                      fmt::format("{}, row {}, column {}: found {}, expected a finite number that is not negative",
                                  name, j + 1, c + 1, value),
                      Remedy::kLogits);
        sum += value;
      }
      if (!(sum > 0.0) || !std::isfinite(sum))
        throw Error(ErrorKind::kInput,
                    fmt::format("{}, row {}: the row sums to {}, expected a positive finite sum to divide it by", name,
                                j + 1, sum));
      for (Index c = 0; c < probs.cols(); ++c)
        result(j, c) = static_cast<Scalar>(static_cast<double>(row[c * col_stride]) / sum);
    }
    return {std::move(result)};
  });
}

}  // namespace labelshift
