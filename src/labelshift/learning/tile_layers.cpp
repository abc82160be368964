#include "labelshift/learning/tile_layers.hpp"

#include <string.h>

// Compiled once for each instruction set, with LABELSHIFT_LAYERS naming the result. Only C headers are included, see
// core/likelihood/likelihood_kernel.cpp. The block sizes keep as many sums in registers as there are registers for.

#pragma GCC diagnostic ignored "-Wpsabi"  // vectors are passed between inline functions of this file only

namespace labelshift {
namespace {

#if defined(__AVX512F__)
constexpr int kWidth = 16;
#elif defined(__AVX__)
constexpr int kWidth = 8;
#else
constexpr int kWidth = 4;
#endif
constexpr bool kManyRegisters = kWidth == 16;  // 32, else 16
constexpr int kSide = Convolution::kSide;
constexpr int kExamples = Tile::kExamples;
typedef float Register __attribute__((vector_size(4 * kWidth)));

inline Register load(const float* from) {
  Register value;
  memcpy(&value, from, sizeof value);
  return value;
}

inline void store(const Register& value, float* to) {
  memcpy(to, &value, sizeof value);
}

inline void add(const Register& value, float* to) {
  store(load(to) + value, to);
}

/// Eigen's rational approximation, right to 4e-7 of the value; beyond +-7.9 a float's tanh is 1.
inline Register tanh_of(Register x) {
  const Register limit = Register{} + 7.90531110763549805F;
  x = x > limit ? limit : x;
  x = x < -limit ? -limit : x;
  const Register s = x * x;
  Register p = s * -2.76076847742355e-16F + 2.00018790482477e-13F;
  p = p * s - 8.60467152213735e-11F;
  p = p * s + 5.12229709037114e-08F;
  p = p * s + 1.48572235717979e-05F;
  p = p * s + 6.37261928875436e-04F;
  p = p * s + 4.89352455891786e-03F;
  Register q = s * 1.19825839466702e-06F + 1.18534705686654e-04F;
  q = q * s + 2.26843463243900e-03F;
  q = q * s + 4.89352518554385e-03F;
  return x * p / q;
}

/// Cells of 2 x 2 of kMaps maps at a time; `lane` is the first of the register's examples.
template <int kMaps>
void convolve_lanes(const Convolution& shape, const float* weights, const float* bias, const Tile* in, Tile* out,
                    Tile* pooled, int lane) {
  const auto [maps_in, maps_out, rows, columns] = shape;
  const ptrdiff_t in_columns = columns + kSide - 1, in_map = (rows + kSide - 1) * in_columns;
  const ptrdiff_t taps = maps_in * kSide * kSide;
  for (ptrdiff_t y = 0; y < rows; y += 2)
    for (ptrdiff_t map = 0; map < maps_out; map += kMaps)
      for (ptrdiff_t x = 0; x < columns; x += 2) {
        Register sum[kMaps][2][2];
        for (int m = 0; m < kMaps; ++m)
          for (int i = 0; i < 4; ++i) sum[m][i / 2][i % 2] = Register{} + bias[map + m];
        const float* w = weights + map * taps;
        for (ptrdiff_t from = 0; from < maps_in; ++from)
          for (int dy = 0; dy < kSide; ++dy, w += kSide) {
            const Tile* upper = in + from * in_map + (y + dy) * in_columns + x;
            const Tile* lower = upper + in_columns;
#pragma GCC unroll 5
            for (int dx = 0; dx < kSide; ++dx) {
              const Register a = load(upper[dx].of + lane), b = load(upper[dx + 1].of + lane);
              const Register c = load(lower[dx].of + lane), d = load(lower[dx + 1].of + lane);
#pragma GCC unroll 8
              for (int m = 0; m < kMaps; ++m) {
                const float weight = w[m * taps + dx];
                sum[m][0][0] += weight * a;
                sum[m][0][1] += weight * b;
                sum[m][1][0] += weight * c;
                sum[m][1][1] += weight * d;
              }
            }
          }
#pragma GCC unroll 8
        for (int m = 0; m < kMaps; ++m) {
          Register total{};
          Tile* to = out + ((map + m) * rows + y) * columns + x;
#pragma GCC unroll 4
          for (int i = 0; i < 4; ++i) {
            const Register value = tanh_of(sum[m][i / 2][i % 2]);
            store(value, to[(i / 2) * columns + i % 2].of + lane);
            total += value;
          }
          store(total * 0.25F, pooled[((map + m) * (rows / 2) + y / 2) * (columns / 2) + x / 2].of + lane);
        }
      }
}

void convolve(const Convolution& shape, const float* weights, const float* bias, const Tile* in, Tile* out,
              Tile* pooled) {
  constexpr int kMost = kManyRegisters ? 6 : 2, kLeast = kManyRegisters ? 4 : 2;
  const auto part = shape.maps_out % kMost == 0 ? convolve_lanes<kMost> : convolve_lanes<kLeast>;
  for (int lane = 0; lane < kExamples; lane += kWidth) part(shape, weights, bias, in, out, pooled, lane);
}

/// Slopes before tanh of rows `first` to `last` of every map, in place of its values; added up for the bias.
void slopes_before_tanh(const Convolution& shape, ptrdiff_t first, ptrdiff_t last, Tile* out, const Tile* pooled_slopes,
                        Tile* bias_lanes, int lane) {
  const auto [maps_in, maps_out, rows, columns] = shape;
  for (ptrdiff_t map = 0; map < maps_out; ++map) {
    Register total{};
    for (ptrdiff_t y = first; y < last; ++y)
      for (ptrdiff_t x = 0; x < columns; ++x) {
        float* at = out[(map * rows + y) * columns + x].of + lane;
        const Register value = load(at);
        const Register upstream =
            0.25F * load(pooled_slopes[(map * (rows / 2) + y / 2) * (columns / 2) + x / 2].of + lane);
        const Register slope = upstream - upstream * value * value;
        store(slope, at);
        total += slope;
      }
    add(total, bias_lanes[map].of + lane);
  }
}

/// The gradient of the weights from rows `first` to `last` of the slopes.
void weight_gradient(const Convolution& shape, ptrdiff_t first, ptrdiff_t last, const Tile* in, const Tile* slopes,
                     Tile* weight_lanes, int lane) {
  constexpr int kMaps = 2;
  const auto [maps_in, maps_out, rows, columns] = shape;
  const ptrdiff_t in_columns = columns + kSide - 1, in_map = (rows + kSide - 1) * in_columns;
  const ptrdiff_t taps = maps_in * kSide * kSide;
  for (ptrdiff_t map = 0; map < maps_out; map += kMaps)
    for (ptrdiff_t from = 0; from < maps_in; ++from)
      for (int dy = 0; dy < kSide; ++dy) {
        Register sum[kMaps][kSide] = {};
        for (ptrdiff_t y = first; y < last; ++y) {
          const Tile* slope = slopes + (map * rows + y) * columns;
          const Tile* input = in + from * in_map + (y + dy) * in_columns;
#pragma GCC unroll 2
          for (ptrdiff_t x = 0; x < columns; ++x, ++slope, ++input) {
            Register s[kMaps];
            for (int m = 0; m < kMaps; ++m) s[m] = load(slope[m * rows * columns].of + lane);
#pragma GCC unroll 5
            for (int dx = 0; dx < kSide; ++dx) {
              const Register value = load(input[dx].of + lane);
              for (int m = 0; m < kMaps; ++m) sum[m][dx] += s[m] * value;
            }
          }
        }
        for (int m = 0; m < kMaps; ++m)
          for (int dx = 0; dx < kSide; ++dx)
            add(sum[m][dx], weight_lanes[(map + m) * taps + (from * kSide + dy) * kSide + dx].of + lane);
      }
}

/// Two slopes side by side reach six inputs of a row, which stay in registers over all maps and rows that reach them.
template <int kMaps>
void input_slopes(const Convolution& shape, const float* weights, const Tile* slopes, Tile* in_slopes, int lane) {
  const auto [maps_in, maps_out, rows, columns] = shape;
  const ptrdiff_t in_columns = columns + kSide - 1, in_rows = rows + kSide - 1;
  const ptrdiff_t taps = maps_in * kSide * kSide;
  for (ptrdiff_t from = 0; from < maps_in; from += kMaps)
    for (ptrdiff_t y = 0; y < in_rows; ++y)
      for (ptrdiff_t x = 0; x < columns; x += 2) {
        Register sum[kMaps][kSide + 1] = {};
        const ptrdiff_t nearest = y < kSide ? y : kSide - 1;
        for (ptrdiff_t map = 0; map < maps_out; ++map)
          for (ptrdiff_t dy = y < rows ? 0 : y - rows + 1; dy <= nearest; ++dy) {
            const Tile* slope = slopes + (map * rows + y - dy) * columns + x;
            const float* w = weights + map * taps + (from * kSide + dy) * kSide;
            const Register left = load(slope[0].of + lane), right = load(slope[1].of + lane);
#pragma GCC unroll 8
            for (int m = 0; m < kMaps; ++m)
#pragma GCC unroll 5
              for (int dx = 0; dx < kSide; ++dx) {
                const float weight = w[m * kSide * kSide + dx];
                sum[m][dx] += weight * left;
                sum[m][dx + 1] += weight * right;
              }
          }
        for (int m = 0; m < kMaps; ++m)
          for (int dx = 0; dx <= kSide; ++dx)
            add(sum[m][dx], in_slopes[((from + m) * in_rows + y) * in_columns + x + dx].of + lane);
      }
}

void convolve_back(const Convolution& shape, const float* weights, const Tile* in, Tile* out, const Tile* pooled_slopes,
                   Tile* weight_lanes, Tile* bias_lanes, Tile* in_slopes) {
  // So many rows at a time that slopes and inputs stay in the first cache while every weight takes its sum of them.
  const ptrdiff_t step = shape.columns < 72 ? 72 / shape.columns : 1;
  for (int lane = 0; lane < kExamples; lane += kWidth) {
    for (ptrdiff_t first = 0; first < shape.rows; first += step) {
      const ptrdiff_t last = first + step < shape.rows ? first + step : shape.rows;
      slopes_before_tanh(shape, first, last, out, pooled_slopes, bias_lanes, lane);
      weight_gradient(shape, first, last, in, out, weight_lanes, lane);
    }
  }
  if (!in_slopes) return;
  const ptrdiff_t in_size = shape.maps_in * (shape.rows + kSide - 1) * (shape.columns + kSide - 1);
  memset(in_slopes, 0, static_cast<size_t>(in_size) * sizeof *in_slopes);
  for (int lane = 0; lane < kExamples; lane += kWidth)
    input_slopes<kManyRegisters ? 3 : 2>(shape, weights, out, in_slopes, lane);
}

/// out_r = bias_r + sum_c matrix[r * row_stride + c * column_stride] in_c for kRows rows.
template <int kRows>
inline void rows_times(const float* matrix, ptrdiff_t row_stride, ptrdiff_t column_stride, ptrdiff_t columns,
                       const float* bias, const Tile* in, Tile* out, int lane) {
  Register sum[kRows];
  for (int r = 0; r < kRows; ++r) sum[r] = Register{} + (bias ? bias[r] : 0.0F);
  for (ptrdiff_t c = 0; c < columns; ++c, matrix += column_stride) {
    const Register value = load(in[c].of + lane);
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) sum[r] += matrix[r * row_stride] * value;
  }
  for (int r = 0; r < kRows; ++r) store(sum[r], out[r].of + lane);
}

void matrix_times(const float* matrix, ptrdiff_t row_stride, ptrdiff_t column_stride, ptrdiff_t rows, ptrdiff_t columns,
                  const float* bias, const Tile* in, Tile* out) {
  constexpr int kMany = 12, kFew = 4;
  ptrdiff_t row = 0;
  const auto next = [&](auto kernel, int count) {
    for (; row + count <= rows; row += count)
      for (int lane = 0; lane < kExamples; lane += kWidth)
        kernel(matrix + row * row_stride, row_stride, column_stride, columns, bias ? bias + row : nullptr, in,
               out + row, lane);
  };
  next(rows_times<kMany>, kMany);
  next(rows_times<kFew>, kFew);
  next(rows_times<1>, 1);
}

void linear(ptrdiff_t inputs, ptrdiff_t outputs, const float* weights, const float* bias, const Tile* in, Tile* out) {
  matrix_times(weights, inputs, 1, outputs, inputs, bias, in, out);
}

constexpr int kColumns = 2 * kWidth;  // of a weight matrix, at a time

/// Adds the products of kRows slopes and `count` of kColumns inputs, summed over the examples.
template <int kRows>
inline void outer_product(const Tile* slopes, const float (*inputs)[kColumns], ptrdiff_t count, ptrdiff_t row_stride,
                          float* gradient) {
  Register sum[kRows][2] = {};
#pragma GCC unroll 4
  for (int e = 0; e < kExamples; ++e) {
    const Register low = load(inputs[e]), high = load(inputs[e] + kWidth);
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      sum[r][0] += slopes[r].of[e] * low;
      sum[r][1] += slopes[r].of[e] * high;
    }
  }
  for (int r = 0; r < kRows; ++r, gradient += row_stride) {
    if (count == kColumns) {
      add(sum[r][0], gradient);
      add(sum[r][1], gradient + kWidth);
    } else {
      float rest[kColumns];
      memcpy(rest, sum[r], sizeof rest);
      for (ptrdiff_t c = 0; c < count; ++c) gradient[c] += rest[c];
    }
  }
}

void linear_back(ptrdiff_t inputs, ptrdiff_t outputs, const float* weights, const Tile* in, const Tile* slopes,
                 float* weight_gradient, float* bias_gradient, Tile* in_slopes) {
  constexpr int kRows = 6;
  for (ptrdiff_t column = 0; column < inputs; column += kColumns) {
    const ptrdiff_t count = inputs - column < kColumns ? inputs - column : kColumns;
    float examples[kExamples][kColumns] = {};  // the inputs turned over: here the sum is over examples
    for (ptrdiff_t c = 0; c < count; ++c)
      for (int e = 0; e < kExamples; ++e) examples[e][c] = in[column + c].of[e];
    ptrdiff_t row = 0;
    for (; row + kRows <= outputs; row += kRows)
      outer_product<kRows>(slopes + row, examples, count, inputs, weight_gradient + row * inputs + column);
    for (; row < outputs; ++row)
      outer_product<1>(slopes + row, examples, count, inputs, weight_gradient + row * inputs + column);
  }
  for (ptrdiff_t row = 0; row < outputs; ++row)
    for (int e = 0; e < kExamples; ++e) bias_gradient[row] += slopes[row].of[e];
  if (in_slopes) matrix_times(weights, 1, inputs, inputs, outputs, nullptr, slopes, in_slopes);
}

void tanh(ptrdiff_t count, Tile* values) {
  for (ptrdiff_t i = 0; i < count; ++i)
    for (int lane = 0; lane < kExamples; lane += kWidth) store(tanh_of(load(values[i].of + lane)), values[i].of + lane);
}

void tanh_back(ptrdiff_t count, const Tile* values, Tile* slopes) {
  for (ptrdiff_t i = 0; i < count; ++i)
    for (int e = 0; e < kExamples; ++e) slopes[i].of[e] -= slopes[i].of[e] * values[i].of[e] * values[i].of[e];
}

void sum(ptrdiff_t count, const Tile* lanes, float* sums) {
  for (ptrdiff_t i = 0; i < count; ++i) {
    Register total = load(lanes[i].of);
    for (int lane = kWidth; lane < kExamples; lane += kWidth) total += load(lanes[i].of + lane);
    float four[4] = {};
#pragma GCC unroll 16
    for (int e = 0; e < kWidth; ++e) four[e % 4] += total[e];
    sums[i] = (four[0] + four[1]) + (four[2] + four[3]);
  }
}

}  // namespace

extern const TileLayers LABELSHIFT_LAYERS = {.convolve = convolve,
                                             .convolve_back = convolve_back,
                                             .linear = linear,
                                             .linear_back = linear_back,
                                             .tanh = tanh,
                                             .tanh_back = tanh_back,
                                             .sum = sum};

}  // namespace labelshift
