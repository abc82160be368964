#include "labelshift/data/datasets/augmentation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/named_entries.hpp"
#include "labelshift/core/base/rng.hpp"
#include "labelshift/core/base/settings.hpp"
#include "labelshift/data/streams.hpp"

namespace labelshift {
namespace {

constexpr Augmentation kAugmentations[] = {
    {"strict", "no change: p(x | y) is the same in source and target", 0.0, 0.0, 0.0, 0.0},
    {"relaxed", "blur (3 x 3, sigma 0.1 to 0.5) and brightness +-10%, each on 30% of the images", 0.3, 0.1, 0.5, 0.1},
    {"relax-m", "blur (3 x 3, sigma 0.1 to 0.7) and brightness +-20%, each on 50% of the images", 0.5, 0.1, 0.7, 0.2},
};

/// `image` (channels, height, width) blurred by the product of two kernels (side, 1 - 2 side, side), borders reflected
/// about the outermost pixel. `scratch` has the size of the image.
void blur(std::vector<double>& image, const ExampleShape& shape, double sigma, std::vector<double>& scratch) {
  const double tail = std::exp(-0.5 / (sigma * sigma));  // the density one pixel away, that of the middle being 1
  const double side = tail / (1.0 + 2.0 * tail);
  const double middle = 1.0 - 2.0 * side;
  const Index h = shape.height, w = shape.width;
  const auto reflected = [](Index i, Index n) { return i < 0 ? -i : i >= n ? 2 * (n - 1) - i : i; };
  for (Index channel = 0; channel < shape.channels; ++channel) {
    double* in = image.data() + channel * h * w;
    double* across = scratch.data() + channel * h * w;
    for (Index y = 0; y < h; ++y)
      for (Index x = 0; x < w; ++x)
        across[y * w + x] =
            middle * in[y * w + x] + side * (in[y * w + reflected(x - 1, w)] + in[y * w + reflected(x + 1, w)]);
    for (Index y = 0; y < h; ++y)
      for (Index x = 0; x < w; ++x)
        in[y * w + x] = middle * across[y * w + x] +
                        side * (across[reflected(y - 1, h) * w + x] + across[reflected(y + 1, h) * w + x]);
  }
}

}  // namespace

std::span<const Augmentation> augmentations() {
  return kAugmentations;
}

const Augmentation& find_augmentation(const std::string& name) {
  return find_entry(kAugmentations, "augmentation", name);
}

Dataset augmented(const Dataset& data, const Augmentation& augmentation, std::uint64_t seed) {
  Dataset result = data;
  if (augmentation.probability == 0.0) return result;
  auto* bytes = std::get_if<std::vector<std::uint8_t>>(&result.values);
  if (!bytes || data.shape.height < 2 || data.shape.width < 2)
    throw Error(ErrorKind::kInput,
                fmt::format("augmentation \"{}\": found {} of {} x {}, expected images of bytes of at least 2 x 2; use "
                            "\"{}\"",
                            augmentation.name, bytes ? "bytes" : "real numbers", data.shape.height, data.shape.width,
                            kAugmentations[0].name));
  const Index size = data.shape.size(), n = data.size();
  std::vector<double> image(static_cast<std::size_t>(size)), scratch(image.size());
  for (Index row = 0; row < n; ++row) {
    Rng rng(seed ^ kBlurSalt, static_cast<std::uint64_t>(row));
    const bool blurs = rng.uniform() < augmentation.probability;
    const double sigma =
        augmentation.least_sigma + (augmentation.most_sigma - augmentation.least_sigma) * rng.uniform();
    const bool brightens = rng.uniform() < augmentation.probability;
    const double factor = 1.0 + augmentation.brightness * (2.0 * rng.uniform() - 1.0);
    if (!blurs && !brightens) continue;
    std::uint8_t* pixels = bytes->data() + row * size;
    std::copy(pixels, pixels + size, image.begin());
    if (blurs) blur(image, data.shape, sigma, scratch);
    for (std::size_t i = 0; i < image.size(); ++i)
      pixels[i] = static_cast<std::uint8_t>(std::lround(std::min((brightens ? factor : 1.0) * image[i], 255.0)));
  }
  return result;
}

}  // namespace labelshift
