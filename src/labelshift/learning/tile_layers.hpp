#pragma once

#include <cstddef>

/// Layers of a net written by hand, forward and backward, on tiles of 16 examples. Examples lie side by side in memory
/// (map, row, column, example), so every product is one weight times a register of examples: nothing is shuffled, and
/// an example's numbers do not depend on its neighbours. tile_layers.cpp is compiled once for each instruction set, and
/// best_layers() chooses at run time.
namespace labelshift {

/// One number of each example of a tile. Aligned, since a register read across two cache lines takes twice as long.
struct alignas(64) Tile {
  static constexpr std::ptrdiff_t kExamples = 16;
  float of[kExamples];
};

/// A convolution by 5 x 5 without padding.
struct Convolution {
  static constexpr std::ptrdiff_t kSide = 5;
  std::ptrdiff_t maps_in = 0;            // a multiple of 6 where slopes at the input are asked for
  std::ptrdiff_t maps_out = 0;           // a multiple of 4 or of 6
  std::ptrdiff_t rows = 0, columns = 0;  // of a map of its output, both even; its input has 4 more of both
};

struct TileLayers {
  /// out = tanh(bias + weights * in) (maps_out, rows, columns), and the means of its cells of 2 x 2.
  void (*convolve)(const Convolution& shape, const float* weights, const float* bias, const Tile* in, Tile* out,
                   Tile* pooled);
  /// Turns `out` into the slopes before tanh, given those at the means. Adds what each lane gives to the gradient of
  /// the weights and the bias, a Tile each. Writes the slopes at `in`, unless in_slopes is null.
  void (*convolve_back)(const Convolution& shape, const float* weights, const Tile* in, Tile* out,
                        const Tile* pooled_slopes, Tile* weight_lanes, Tile* bias_lanes, Tile* in_slopes);

  /// out = bias + weights in, with weights (outputs, inputs).
  void (*linear)(std::ptrdiff_t inputs, std::ptrdiff_t outputs, const float* weights, const float* bias, const Tile* in,
                 Tile* out);
  /// Adds to the gradient of weights and bias, and writes the slopes at `in`, unless in_slopes is null.
  void (*linear_back)(std::ptrdiff_t inputs, std::ptrdiff_t outputs, const float* weights, const Tile* in,
                      const Tile* slopes, float* weight_gradient, float* bias_gradient, Tile* in_slopes);

  void (*tanh)(std::ptrdiff_t count, Tile* values);
  /// Slopes at values = tanh(x) become slopes at x.
  void (*tanh_back)(std::ptrdiff_t count, const Tile* values, Tile* slopes);

  /// The sum of each tile.
  void (*sum)(std::ptrdiff_t count, const Tile* lanes, float* sums);
};

extern const TileLayers kLayersGeneric;
#ifdef __x86_64__
extern const TileLayers kLayersAvx2;
extern const TileLayers kLayersAvx512;
#endif

/// The layers for the instructions of cpu().
const TileLayers& best_layers();

}  // namespace labelshift
