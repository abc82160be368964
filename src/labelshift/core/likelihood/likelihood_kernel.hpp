#pragma once

#include <cstddef>
#include <cstdint>

/// The inner loops of a pass over the target, on blocks of rows turned into columns of doubles. likelihood_kernel.cpp
/// is compiled once for each instruction set, and best_kernel() chooses at run time. (Compiling the whole library for
/// one machine would change Eigen's alignment and with it the ABI.)
namespace labelshift {

struct LikelihoodKernel {
  /// The number of rows in a block is a multiple of this.
  static constexpr std::ptrdiff_t kRowMultiple = 8;

  /// Every sum is kept as this many partial sums, one for each double of a register, since adding across a register
  /// costs more than a block's share of the sum. A divisor of kRowMultiple.
  std::ptrdiff_t lanes;

  /// t[c * stride + b] = data[b * row_stride + c * col_stride] for `count` rows b; ones where count <= b < stride.
  void (*load_floats)(const float* data, std::ptrdiff_t row_stride, std::ptrdiff_t col_stride, std::ptrdiff_t count,
                      std::ptrdiff_t cols, std::ptrdiff_t stride, double* t);
  void (*load_doubles)(const double* data, std::ptrdiff_t row_stride, std::ptrdiff_t col_stride, std::ptrdiff_t count,
                       std::ptrdiff_t cols, std::ptrdiff_t stride, double* t);

  /// Whether each of the first `count` rows has entries >= 0 and sums to 1 within the tolerance.
  bool (*all_probabilities)(const double* t, std::ptrdiff_t cols, std::ptrdiff_t stride, std::ptrdiff_t count,
                            double tolerance);

  /// mixture[b] = sum_c t[c][b] ratio[c]. If gradient is null, t[c][b] then becomes the weighted score
  /// root_weight[b] t[c][b] / mixture[b]; if not, t stays and sum_b root_weight[b]^2 t[c][b] / mixture[b] is added to
  /// the lanes of gradient[c].
  void (*scores)(double* t, const double* ratio, const double* root_weight, std::ptrdiff_t cols, std::ptrdiff_t stride,
                 double* mixture, double* gradient);

  /// sum_b t[c][b] t[d][b] is added to the lanes of curvature[c * cols + d] for every d <= c.
  void (*outer_products)(const double* t, std::ptrdiff_t cols, std::ptrdiff_t stride, double* curvature);

  /// With up to this many columns a block is worked on in registers, straight from rows whose columns are contiguous:
  /// writing it out as columns and reading it back costs more than the arithmetic.
  static constexpr std::ptrdiff_t kFewColumns = 16;
  /// What load_* and all_probabilities do together, for `count` rows, a multiple of kRowMultiple.
  bool (*few_probabilities_floats)(const float* data, std::ptrdiff_t row_stride, std::ptrdiff_t count,
                                   std::ptrdiff_t cols, double tolerance);
  bool (*few_probabilities_doubles)(const double* data, std::ptrdiff_t row_stride, std::ptrdiff_t count,
                                    std::ptrdiff_t cols, double tolerance);
  /// What load_* and scores do together, for `stride` rows; t is only written to, and only if gradient is null.
  void (*few_scores_floats)(const float* data, std::ptrdiff_t row_stride, const double* ratio,
                            const double* root_weight, std::ptrdiff_t cols, std::ptrdiff_t stride, double* mixture,
                            double* gradient, double* t);
  void (*few_scores_doubles)(const double* data, std::ptrdiff_t row_stride, const double* ratio,
                             const double* root_weight, std::ptrdiff_t cols, std::ptrdiff_t stride, double* mixture,
                             double* gradient, double* t);

  /// With more columns than that, what needs no products of columns is done along rows whose columns are contiguous.
  /// `count` and `stride` are multiples of kRowMultiple. The first does what load_* and all_probabilities do together;
  /// the second what load_* and scores do with a gradient, `sums` being memory for `cols` numbers; the third what
  /// load_* and largest do, for any `count`.
  bool (*wide_probabilities_floats)(const float* data, std::ptrdiff_t row_stride, std::ptrdiff_t count,
                                    std::ptrdiff_t cols, double tolerance);
  bool (*wide_probabilities_doubles)(const double* data, std::ptrdiff_t row_stride, std::ptrdiff_t count,
                                     std::ptrdiff_t cols, double tolerance);
  void (*wide_gradient_floats)(const float* data, std::ptrdiff_t row_stride, const double* ratio,
                               const double* root_weight, std::ptrdiff_t cols, std::ptrdiff_t stride, double* mixture,
                               double* gradient, double* sums);
  void (*wide_gradient_doubles)(const double* data, std::ptrdiff_t row_stride, const double* ratio,
                                const double* root_weight, std::ptrdiff_t cols, std::ptrdiff_t stride, double* mixture,
                                double* gradient, double* sums);
  void (*wide_largest_floats)(const float* data, std::ptrdiff_t row_stride, std::ptrdiff_t count, std::ptrdiff_t cols,
                              double* value, std::int64_t* column);
  void (*wide_largest_doubles)(const double* data, std::ptrdiff_t row_stride, std::ptrdiff_t count, std::ptrdiff_t cols,
                               double* value, std::int64_t* column);

  /// value[b] is the largest of the `cols` numbers t[c][b], column[b] its c, the first of equals.
  void (*largest)(const double* t, std::ptrdiff_t cols, std::ptrdiff_t stride, double* value, std::int64_t* column);

  /// sum_b log(mixture[b]); count is a multiple of kRowMultiple.
  double (*sum_of_logs)(const double* mixture, std::ptrdiff_t count);
};

extern const LikelihoodKernel kKernelGeneric;
#ifdef __x86_64__
extern const LikelihoodKernel kKernelAvx2;
extern const LikelihoodKernel kKernelAvx512;
#endif

/// The kernel for the instructions of cpu().
const LikelihoodKernel& best_kernel();

}  // namespace labelshift
