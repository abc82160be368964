#include "labelshift/core/likelihood/likelihood_kernel.hpp"

#include <math.h>
#include <stdint.h>
#include <string.h>
#ifdef __AVX__
#include <immintrin.h>
#endif

// Compiled once for each instruction set, with LABELSHIFT_KERNEL naming the result. Only C headers are included: an
// inline function of a C++ header, compiled here for a newer processor, could be the copy the linker keeps for all.

// Vectors are passed between functions of this file only, all of them inline, so their calling convention is no matter.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace labelshift {
namespace {

#if defined(__AVX512F__)
constexpr int kLanes = 8;
constexpr int kTileRows = 4;  // of a tile of sums that the registers hold: 4 x 4 of 32
#elif defined(__AVX__)
constexpr int kLanes = 4;
constexpr int kTileRows = 3;  // 3 x 4 of 16, which leaves one for each of three factors and one for the fourth
#else
constexpr int kLanes = 2;  // SSE2, NEON
constexpr int kTileRows = 3;
#endif
static_assert(LikelihoodKernel::kRowMultiple % kLanes == 0);
typedef double Lanes __attribute__((vector_size(8 * kLanes)));  // one register
typedef int64_t Bits __attribute__((vector_size(8 * kLanes)));

inline Lanes load(const double* from) {
  Lanes lanes;
  memcpy(&lanes, from, sizeof lanes);
  return lanes;
}

inline void store(const Lanes& lanes, double* to) {
  memcpy(to, &lanes, sizeof lanes);
}

constexpr ptrdiff_t kRowsInCache = 32;

// A double below this counts as 0: its square would be denormal, on which the processor is a hundred times slower, and
// it can matter to no share above 1e-150. Floats are never that small.
constexpr double kTiny = 1e-150;

inline double significant(float value) {
  return static_cast<double>(value);
}
inline double significant(double value) {
  return value > 0.0 && value < kTiny ? 0.0 : value;
}

template <typename Scalar>
inline Lanes load_as_doubles(const Scalar* from) {
  // GCC 12 converts two halves and puts them together, which is all on the one port that the transposition needs.
#if defined(__AVX512F__)
  if constexpr (sizeof(Scalar) == sizeof(float)) return _mm512_cvtps_pd(_mm256_loadu_ps(from));
#elif defined(__AVX__)
  if constexpr (sizeof(Scalar) == sizeof(float)) return _mm256_cvtps_pd(_mm_loadu_ps(from));
#endif
  typedef Scalar Narrow __attribute__((vector_size(sizeof(Scalar) * kLanes)));
  Narrow narrow;
  memcpy(&narrow, from, sizeof narrow);
  const Lanes wide = __builtin_convertvector(narrow, Lanes);
  if constexpr (sizeof(Scalar) == sizeof(float)) return wide;
  return (wide > 0.0) & (wide < kTiny) ? Lanes{} : wide;
}

/// A square tile turned over in registers: swap within pairs, then pairs, then halves.
inline void turn_over(const Lanes* row, Lanes* columns) {
#if defined(__AVX512F__)
  Lanes pair[8], four[8];
  for (int i = 0; i < 8; i += 2) {
    pair[i] = __builtin_shufflevector(row[i], row[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
    pair[i + 1] = __builtin_shufflevector(row[i], row[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
  }
  for (int i = 0; i < 8; i += 4) {
    for (int k = 0; k < 2; ++k) {
      four[i + k] = __builtin_shufflevector(pair[i + k], pair[i + k + 2], 0, 1, 8, 9, 4, 5, 12, 13);
      four[i + k + 2] = __builtin_shufflevector(pair[i + k], pair[i + k + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  }
  for (int k = 0; k < 4; ++k) {
    columns[k] = __builtin_shufflevector(four[k], four[k + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    columns[k + 4] = __builtin_shufflevector(four[k], four[k + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
#elif defined(__AVX__)
  Lanes pair[4];
  for (int i = 0; i < 4; i += 2) {
    pair[i] = __builtin_shufflevector(row[i], row[i + 1], 0, 4, 2, 6);
    pair[i + 1] = __builtin_shufflevector(row[i], row[i + 1], 1, 5, 3, 7);
  }
  for (int k = 0; k < 2; ++k) {
    columns[k] = __builtin_shufflevector(pair[k], pair[k + 2], 0, 1, 4, 5);
    columns[k + 2] = __builtin_shufflevector(pair[k], pair[k + 2], 2, 3, 6, 7);
  }
#else
  columns[0] = __builtin_shufflevector(row[0], row[1], 0, 2);
  columns[1] = __builtin_shufflevector(row[0], row[1], 1, 3);
#endif
}

template <typename Scalar>
inline void load_tile(const Scalar* data, ptrdiff_t row_stride, Lanes* columns) {
  Lanes row[kLanes];
  for (int i = 0; i < kLanes; ++i) row[i] = load_as_doubles(data + i * row_stride);
  turn_over(row, columns);
}

/// One value of each of kLanes rows.
template <typename Scalar>
inline Lanes load_column(const Scalar* data, ptrdiff_t row_stride) {
  Scalar column[kLanes];
  for (int i = 0; i < kLanes; ++i) column[i] = data[i * row_stride];
  return load_as_doubles(column);
}

template <typename Scalar>
void load_rows(const Scalar* data, ptrdiff_t row_stride, ptrdiff_t col_stride, ptrdiff_t count, ptrdiff_t cols,
               ptrdiff_t stride, double* t) {
  ptrdiff_t done = 0;     // rows
  if (row_stride == 1) {  // Fortran order: columns are contiguous already
    for (ptrdiff_t c = 0; c < cols; ++c)
      for (ptrdiff_t b = 0; b < count; ++b) t[c * stride + b] = significant(data[c * col_stride + b]);
    done = count;
  } else if (col_stride == 1 && cols >= kLanes) {
    // Some rows, which fit the first cache, at a time: so every line of t is written whole before it leaves that cache.
    const ptrdiff_t whole = count - count % kLanes;
    for (; done < whole; done += kRowsInCache) {
      const ptrdiff_t end = done + kRowsInCache < whole ? done + kRowsInCache : whole;
      for (ptrdiff_t next = 0; next < cols; next += kLanes) {
        const ptrdiff_t c = next + kLanes <= cols ? next : cols - kLanes;  // the last tile ends where the row ends
        for (ptrdiff_t b = done; b < end; b += kLanes) {
          const Scalar* tile = data + b * row_stride + c;
          // The processor does not guess which rows come next. Beyond the last row this asks for nothing.
          for (int i = 0; i < kLanes; ++i) __builtin_prefetch(tile + (kRowsInCache + i) * row_stride);
          Lanes columns[kLanes];
          load_tile(tile, row_stride, columns);
          for (int i = 0; i < kLanes; ++i) store(columns[i], t + (c + i) * stride + b);
        }
      }
    }
    done = whole;
  }
  for (; done < count; ++done)
    for (ptrdiff_t c = 0; c < cols; ++c) t[c * stride + done] = significant(data[done * row_stride + c * col_stride]);
  for (ptrdiff_t c = 0; c < cols; ++c)
    for (ptrdiff_t b = count; b < stride; ++b) t[c * stride + b] = 1.0;
}

bool all_probabilities(const double* t, ptrdiff_t cols, ptrdiff_t stride, ptrdiff_t count, double tolerance) {
  Lanes worst = {};
  Lanes least = {};
  for (ptrdiff_t b = 0; b < stride; b += kLanes) {
    Lanes row_sum = {};
    for (ptrdiff_t c = 0; c < cols; ++c) {
      const Lanes value = load(t + c * stride + b);
      row_sum += value;
      least = value < least ? value : least;
    }
    const Lanes excess = row_sum - 1.0;
    const Lanes error = excess < 0.0 ? -excess : excess;
    Bits row;
    for (int i = 0; i < kLanes; ++i) row[i] = b + i;
    const Bits valid = row < count;
    // A comparison with NaN is false, so it is "not within" that is remembered.
    worst = valid & ~(error <= tolerance) ? Lanes{} + 1.0 : worst;
  }
  for (int i = 0; i < kLanes; ++i)
    if (worst[i] != 0.0 || least[i] != 0.0) return false;
  return true;
}

void scores(double* t, const double* ratio, const double* root_weight, ptrdiff_t cols, ptrdiff_t stride,
            double* mixture, double* gradient) {
  for (ptrdiff_t b = 0; b < stride; b += kLanes) {
    Lanes even = load(t + b) * ratio[0];
    Lanes odd = {};
    ptrdiff_t c = 1;
    for (; c + 1 < cols; c += 2) {
      odd += load(t + c * stride + b) * ratio[c];
      even += load(t + (c + 1) * stride + b) * ratio[c + 1];
    }
    if (c < cols) odd += load(t + c * stride + b) * ratio[c];
    store(even + odd, mixture + b);
  }
  alignas(64) double scale[1024];
  for (ptrdiff_t b = 0; b < stride; b += kLanes) {
    const Lanes root = load(root_weight + b);
    // A row without weight counts for nothing, also where the mixture rules it out and 0 / 0 would spoil every sum.
    store(root > 0.0 ? root / load(mixture + b) : Lanes{}, scale + b);
  }
  if (gradient == nullptr) {
    for (ptrdiff_t c = 0; c < cols; ++c)
      for (ptrdiff_t b = 0; b < stride; b += kLanes) {
        double* at = t + c * stride + b;
        store(load(at) * load(scale + b), at);
      }
    return;
  }
  for (ptrdiff_t c = 0; c < cols; ++c) {
    Lanes total = load(gradient + c * kLanes);
    double* column = t + c * stride;
    for (ptrdiff_t b = 0; b < stride; b += kLanes) {
      total += load(column + b) * load(scale + b) * load(root_weight + b);
    }
    store(total, gradient + c * kLanes);
  }
}

/// An R x S tile of the outer products, kept in registers along the block.
template <int R, int S>
inline void tile(const double* t, ptrdiff_t c, ptrdiff_t d, ptrdiff_t cols, ptrdiff_t stride, double* curvature) {
  Lanes totals[R][S];
  for (int i = 0; i < R; ++i)
    for (int k = 0; k < S; ++k) totals[i][k] = load(curvature + ((c + i) * cols + d + k) * kLanes);
  for (ptrdiff_t b = 0; b < stride; b += kLanes) {
    Lanes left[R], right[S];
    for (int i = 0; i < R; ++i) left[i] = load(t + (c + i) * stride + b);
    for (int k = 0; k < S; ++k) right[k] = load(t + (d + k) * stride + b);
    for (int i = 0; i < R; ++i)
      for (int k = 0; k < S; ++k) totals[i][k] += left[i] * right[k];
  }
  for (int i = 0; i < R; ++i)
    for (int k = 0; k < S; ++k) store(totals[i][k], curvature + ((c + i) * cols + d + k) * kLanes);
}

/// Rows [c, c + R) of the lower triangle; on the diagonal a little above it is computed and left unused.
template <int R>
inline void tile_row(const double* t, ptrdiff_t c, ptrdiff_t cols, ptrdiff_t stride, double* curvature) {
  ptrdiff_t d = 0;
  for (; d + 4 <= c + R; d += 4) tile<R, 4>(t, c, d, cols, stride, curvature);
  const ptrdiff_t left = c + R - d;
  if (left == 3) tile<R, 3>(t, c, d, cols, stride, curvature);
  if (left == 2) tile<R, 2>(t, c, d, cols, stride, curvature);
  if (left == 1) tile<R, 1>(t, c, d, cols, stride, curvature);
}

void outer_products(const double* t, ptrdiff_t cols, ptrdiff_t stride, double* curvature) {
  ptrdiff_t c = 0;
  for (; c + kTileRows <= cols; c += kTileRows) tile_row<kTileRows>(t, c, cols, stride, curvature);
  if (c + 2 <= cols) {
    tile_row<2>(t, c, cols, stride, curvature);
    c += 2;
  }
  if (c < cols) tile_row<1>(t, c, cols, stride, curvature);
}

/// kLanes rows of M contiguous columns as M registers.
template <int M, typename Scalar>
inline void load_columns(const Scalar* rows, ptrdiff_t row_stride, Lanes* columns) {
#pragma GCC unroll 8
  for (int c = 0; c + kLanes <= M; c += kLanes) load_tile(rows + c, row_stride, columns + c);
  if constexpr (kLanes == 4 && M > 4 && M % 4 != 0) {  // a tile that ends where the row ends, for its last columns
    Lanes last[kLanes];
    load_tile(rows + M - kLanes, row_stride, last);
#pragma GCC unroll 8
    for (int c = M - M % kLanes; c < M; ++c) columns[c] = last[c - (M - kLanes)];
  } else {
#pragma GCC unroll 8
    for (int c = M - M % kLanes; c < M; ++c) columns[c] = load_column(rows + c, row_stride);
  }
}

template <int M, typename Scalar>
bool few_probabilities(const Scalar* data, ptrdiff_t row_stride, ptrdiff_t count, double tolerance) {
  Bits valid = Bits{} - 1;
  Lanes least = {};
  for (ptrdiff_t b = 0; b < count; b += kLanes) {
    Lanes columns[M];
    load_columns<M>(data + b * row_stride, row_stride, columns);
    Lanes row_sum = {};
#pragma GCC unroll 16
    for (int c = 0; c < M; ++c) {
      row_sum += columns[c];
      least = columns[c] < least ? columns[c] : least;
    }
    // A comparison with NaN is false, so it is "within" that is asked for.
    valid &= (row_sum - 1.0 <= tolerance) & (1.0 - row_sum <= tolerance);
  }
  for (int i = 0; i < kLanes; ++i)
    if (valid[i] == 0 || least[i] != 0.0) return false;
  return true;
}

template <int M, typename Scalar>
void few_scores(const Scalar* data, ptrdiff_t row_stride, const double* ratio, const double* root_weight,
                ptrdiff_t stride, double* mixture, double* gradient, double* t) {
  Lanes totals[M];
#pragma GCC unroll 16
  for (int c = 0; c < M; ++c) totals[c] = gradient == nullptr ? Lanes{} : load(gradient + c * kLanes);
  for (ptrdiff_t b = 0; b < stride; b += kLanes) {
    Lanes columns[M];
    load_columns<M>(data + b * row_stride, row_stride, columns);
    Lanes even = columns[0] * ratio[0];
    Lanes odd = {};
#pragma GCC unroll 16
    for (int c = 1; c < M; ++c) (c % 2 == 0 ? even : odd) += columns[c] * ratio[c];
    const Lanes mixed = even + odd;
    store(mixed, mixture + b);
    const Lanes root = load(root_weight + b);
    const Lanes scale = root > 0.0 ? root / mixed : Lanes{};  // as in scores()
    if (gradient == nullptr) {
#pragma GCC unroll 16
      for (int c = 0; c < M; ++c) store(columns[c] * scale, t + c * stride + b);
    } else {
      const Lanes share = scale * root;
#pragma GCC unroll 16
      for (int c = 0; c < M; ++c) totals[c] += columns[c] * share;
    }
  }
  if (gradient == nullptr) return;
#pragma GCC unroll 16
  for (int c = 0; c < M; ++c) store(totals[c], gradient + c * kLanes);
}

/// Calls use<cols>().
template <int M = LikelihoodKernel::kFewColumns, typename Use>
inline auto with_columns(ptrdiff_t cols, const Use& use) {
  if constexpr (M > 1) {
    if (cols != M) return with_columns<M - 1>(cols, use);
  }
  return use.template operator()<M>();
}

template <typename Scalar>
bool any_few_probabilities(const Scalar* data, ptrdiff_t row_stride, ptrdiff_t count, ptrdiff_t cols,
                           double tolerance) {
  return with_columns(cols, [&]<int M>() { return few_probabilities<M>(data, row_stride, count, tolerance); });
}

template <typename Scalar>
void any_few_scores(const Scalar* data, ptrdiff_t row_stride, const double* ratio, const double* root_weight,
                    ptrdiff_t cols, ptrdiff_t stride, double* mixture, double* gradient, double* t) {
  with_columns(cols,
               [&]<int M>() { few_scores<M>(data, row_stride, ratio, root_weight, stride, mixture, gradient, t); });
}

/// The sum of each of kLanes registers, as one register.
inline Lanes sums_across(const Lanes* registers) {
  Lanes turned[kLanes];
  turn_over(registers, turned);
  Lanes sum = turned[0];
  for (int i = 1; i < kLanes; ++i) sum += turned[i];
  return sum;
}

template <typename Scalar>
bool wide_probabilities(const Scalar* data, ptrdiff_t row_stride, ptrdiff_t count, ptrdiff_t cols, double tolerance) {
  Bits valid = Bits{} - 1;
  Lanes least = {};
  const ptrdiff_t whole = cols - cols % kLanes;
  for (ptrdiff_t b = 0; b < count; b += kLanes) {
    const Scalar* rows = data + b * row_stride;
    Lanes partial[kLanes] = {};
    for (ptrdiff_t c = 0; c < whole; c += kLanes) {
#pragma GCC unroll 8
      for (int i = 0; i < kLanes; ++i) {
        const Lanes value = load_as_doubles(rows + i * row_stride + c);
        partial[i] += value;
        least = value < least ? value : least;
      }
    }
    Lanes row_sum = sums_across(partial);
    for (ptrdiff_t c = whole; c < cols; ++c) {
      const Lanes value = load_column(rows + c, row_stride);
      row_sum += value;
      least = value < least ? value : least;
    }
    valid &= (row_sum - 1.0 <= tolerance) & (1.0 - row_sum <= tolerance);  // as in few_probabilities()
  }
  for (int i = 0; i < kLanes; ++i)
    if (valid[i] == 0 || least[i] != 0.0) return false;
  return true;
}

template <typename Scalar>
void wide_gradient(const Scalar* data, ptrdiff_t row_stride, const double* ratio, const double* root_weight,
                   ptrdiff_t cols, ptrdiff_t stride, double* mixture, double* gradient, double* sums) {
  const ptrdiff_t whole = cols - cols % kLanes;
  for (ptrdiff_t c = 0; c < cols; ++c) sums[c] = 0.0;
  for (ptrdiff_t b = 0; b < stride; b += kLanes) {
    const Scalar* rows = data + b * row_stride;
    Lanes partial[kLanes] = {};
    for (ptrdiff_t c = 0; c < whole; c += kLanes) {
      const Lanes factor = load(ratio + c);
#pragma GCC unroll 8
      for (int i = 0; i < kLanes; ++i) partial[i] += load_as_doubles(rows + i * row_stride + c) * factor;
    }
    Lanes mixed = sums_across(partial);
    for (ptrdiff_t c = whole; c < cols; ++c) mixed += load_column(rows + c, row_stride) * ratio[c];
    store(mixed, mixture + b);
    const Lanes root = load(root_weight + b);
    const Lanes share = root > 0.0 ? root / mixed * root : Lanes{};  // as in scores()
    for (ptrdiff_t c = 0; c < whole; c += kLanes) {
      Lanes sum = load(sums + c);
#pragma GCC unroll 8
      for (int i = 0; i < kLanes; ++i) sum += load_as_doubles(rows + i * row_stride + c) * share[i];
      store(sum, sums + c);
    }
    for (ptrdiff_t c = whole; c < cols; ++c) {
      const Lanes terms = load_column(rows + c, row_stride) * share;
      for (int i = 0; i < kLanes; ++i) sums[c] += terms[i];
    }
  }
  for (ptrdiff_t c = 0; c < cols; ++c) gradient[c * kLanes] += sums[c];
}

template <typename Scalar>
void wide_largest(const Scalar* data, ptrdiff_t row_stride, ptrdiff_t count, ptrdiff_t cols, double* value,
                  int64_t* column) {
  Bits first;
  for (int i = 0; i < kLanes; ++i) first[i] = i;
  for (ptrdiff_t b = 0; b < count; ++b) {
    const Scalar* row = data + b * row_stride;
    Lanes best = load_as_doubles(row);  // of the columns that fall on each lane
    Bits which = first;
    const auto compare = [&](ptrdiff_t c) {
      const Lanes next = load_as_doubles(row + c);
      const Bits greater = next > best;
      best = greater ? next : best;
      which = greater ? first + c : which;
    };
    for (ptrdiff_t c = kLanes; c + kLanes <= cols; c += kLanes) compare(c);
    compare(cols - kLanes);  // again for some columns: what was found of them is no greater than itself
    value[b] = best[0];
    column[b] = which[0];
    for (int i = 1; i < kLanes; ++i) {
      if (best[i] < value[b] || (best[i] == value[b] && which[i] > column[b])) continue;
      value[b] = best[i];
      column[b] = which[i];
    }
  }
}

void largest(const double* t, ptrdiff_t cols, ptrdiff_t stride, double* value, int64_t* column) {
  for (ptrdiff_t b = 0; b < stride; b += kLanes) {
    Lanes best = load(t + b);
    Bits which = {};
    for (ptrdiff_t c = 1; c < cols; ++c) {
      const Lanes next = load(t + c * stride + b);
      const Bits greater = next > best;
      best = greater ? next : best;
      which = greater ? Bits{} + c : which;
    }
    store(best, value + b);
    memcpy(column + b, &which, sizeof which);
  }
}

double sum_of_logs(const double* mixture, ptrdiff_t count) {
  // log of a product is cheaper than a sum of logs: multiply the mantissas, which are in [1, 2), and add the exponents.
  const Bits mantissa_mask = Bits{} + 0x000fffffffffffff;
  const Bits one = Bits{} + 0x3ff0000000000000;
  double total = 0.0;
  Bits abnormal = {};
  for (ptrdiff_t first = 0; first < count; first += 512) {  // at most 256 factors a lane: below 2^256
    const ptrdiff_t last = first + 512 < count ? first + 512 : count;
    Lanes product = Lanes{} + 1.0;
    Bits exponents = {};
    for (ptrdiff_t b = first; b < last; b += kLanes) {
      Bits bits;
      memcpy(&bits, mixture + b, sizeof bits);
      const Bits mantissas = (bits & mantissa_mask) | one;
      Lanes factors;
      memcpy(&factors, &mantissas, sizeof factors);
      product *= factors;
      const Bits exponent = bits >> 52;
      abnormal |= (exponent < 1) | (exponent > 2046);  // zero, denormal, negative, infinite, NaN
      exponents += exponent - 1023;
    }
    for (int i = 0; i < kLanes; ++i)
      total += log(product[i]) + static_cast<double>(exponents[i]) * 0.693147180559945309;
  }
  for (int i = 0; i < kLanes; ++i) {
    if (abnormal[i] == 0) continue;
    total = 0.0;
    for (ptrdiff_t b = 0; b < count; ++b) total += log(mixture[b]);
    break;
  }
  return total;
}

}  // namespace

const LikelihoodKernel LABELSHIFT_KERNEL = {kLanes,
                                            load_rows<float>,
                                            load_rows<double>,
                                            all_probabilities,
                                            scores,
                                            outer_products,
                                            any_few_probabilities<float>,
                                            any_few_probabilities<double>,
                                            any_few_scores<float>,
                                            any_few_scores<double>,
                                            wide_probabilities<float>,
                                            wide_probabilities<double>,
                                            wide_gradient<float>,
                                            wide_gradient<double>,
                                            wide_largest<float>,
                                            wide_largest<double>,
                                            largest,
                                            sum_of_logs};

}  // namespace labelshift
