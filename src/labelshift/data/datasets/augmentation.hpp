#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "labelshift/data/datasets/dataset.hpp"

namespace labelshift {

/// How p(x | y) of the test images is moved (Fig. 1, App. on relaxed label shift). Blur and brightness are two
/// independent events of probability `probability`: the paper gives one number for both and does not say whether one
/// coin or two decide; with two, every image's chance of each is the paper's either way.
struct Augmentation {
  const char* name;
  const char* summary;
  double probability;  // of a blur, and again of a change of brightness
  double least_sigma;  // sigma of the 3 x 3 Gaussian kernel is uniform on [least_sigma, most_sigma], in pixels
  double most_sigma;
  double brightness;  // pixels are multiplied by a factor uniform on [1 - brightness, 1 + brightness], then clamped
};

/// Every augmentation there is; the first changes nothing.
std::span<const Augmentation> augmentations();

/// The row called `name`. Throws Error{kUsage} with a suggestion if there is none.
const Augmentation& find_augmentation(const std::string& name);

/// `data` with changed images. Row i of the result depends on (seed, i, image i) only. Kernel, reflected borders and
/// order (blur, then brightness) are those of torchvision's GaussianBlur and ColorJitter; unlike theirs the result is
/// rounded once, at the end, to the nearest byte: ColorJitter cuts decimals off, which darkens by half a level.
/// Throws Error{kInput} if there is something to change and `data` is not images of bytes of at least 2 x 2 pixels.
Dataset augmented(const Dataset& data, const Augmentation& augmentation, std::uint64_t seed);

}  // namespace labelshift
