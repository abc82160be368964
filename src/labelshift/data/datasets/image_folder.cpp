#include "labelshift/data/datasets/image_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <optional>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/named_entries.hpp"
#include "labelshift/core/base/settings.hpp"
#include "labelshift/core/base/utf8.hpp"
#include "labelshift/data/datasets/image_decoder.hpp"
#include "labelshift/data/files/errno_text.hpp"
#include "labelshift/data/files/input_file.hpp"

namespace labelshift {
namespace {

namespace fs = std::filesystem;

/// What a directory holds, in the order of the names.
struct Listing {
  std::vector<std::string> folders;
  std::vector<std::string> images;
  std::vector<std::string> others;
};

bool has_image_ending(const std::string& name) {
  std::string ending = fs::path(name).extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(), [](unsigned char c) { return std::tolower(c); });
  return ending == ".png" || ending == ".jpg" || ending == ".jpeg";
}

Listing list(const std::string& directory) {
  Listing result;
  std::error_code error;
  fs::directory_iterator entry(directory, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with('.')) continue;
    std::error_code ignored;  // a link that leads nowhere is a file that cannot be read, which is said later
    if (entry->is_directory(ignored))
      result.folders.push_back(name);
    else
      (has_image_ending(name) ? result.images : result.others).push_back(name);
  }
  if (error)
    throw Error(ErrorKind::kInput,
                fmt::format("cannot read {}: {}; check the path", directory, errno_text(error.value())));
  for (auto* names : {&result.folders, &result.images, &result.others}) std::sort(names->begin(), names->end());
  return result;
}

/// The paths of all images, and the labels and names of their classes.
struct Examples {
  std::vector<std::string> paths;
  std::vector<int> labels;
  std::vector<std::string> class_names;
};

void add_class(const std::string& folder, int label, Examples& examples) {
  const Listing listing = list(folder);
  if (!listing.folders.empty())
    throw Error(ErrorKind::kInput, fmt::format("{}: found a folder in the folder of a class, expected images only",
                                               folder + "/" + listing.folders[0]));
  if (!listing.others.empty())
    throw Error(ErrorKind::kInput, fmt::format("{}: found a file in the folder of a class that is no .png, .jpg or "
                                               ".jpeg image; convert it or take it away",
                                               folder + "/" + listing.others[0]));
  if (listing.images.empty())
    throw Error(ErrorKind::kInput, fmt::format("{}: found no images, expected some, since every folder is a class; "
                                               "fill it or take it away",
                                               folder));
  for (const std::string& image : listing.images) {
    examples.paths.push_back(folder + "/" + image);
    examples.labels.push_back(label);
  }
}

Examples find_examples(const std::string& directory, const std::vector<std::string>& class_names, const Dataset* like) {
  const Listing listing = list(directory);
  Examples result;
  if (listing.folders.empty() && listing.images.empty())
    throw Error(ErrorKind::kInput, fmt::format("{}: found no data, expected one sub-folder of .png or .jpg images a "
                                               "class, or the files of MNIST (IDX) or CIFAR (binary)",
                                               directory));
  if (!listing.folders.empty() && !listing.images.empty())
    throw Error(ErrorKind::kInput,
                fmt::format("{}: found both the image {} and the folder {}, expected folders of classes or images "
                            "without labels",
                            directory, listing.images[0], listing.folders[0]));
  if (like && like->class_names.empty() != listing.folders.empty())
    throw Error(ErrorKind::kInput, fmt::format("{}: found {}, expected {} as in the training part", directory,
                                               listing.folders.empty() ? "images" : "folders of classes",
                                               listing.folders.empty() ? "folders of classes" : "images"));
  for (const std::string& image : listing.images) result.paths.push_back(directory + "/" + image);
  for (const std::string& folder : listing.folders)
    if (!is_utf8(folder))
      throw Error(ErrorKind::kInput,
                  fmt::format("{}: found a folder whose name, that of a class, is not in UTF-8; rename it", directory));
  if (!listing.folders.empty()) result.class_names = class_names.empty() ? listing.folders : class_names;
  for (const std::string& folder : listing.folders) {
    const auto found = std::find(result.class_names.begin(), result.class_names.end(), folder);
    if (found == result.class_names.end())
      throw Error(ErrorKind::kInput, fmt::format("{}: {}", directory + "/" + folder,
                                                 unknown_name("class", folder, result.class_names).what()));
    add_class(directory + "/" + folder, static_cast<int>(found - result.class_names.begin()), result);
  }
  return result;
}

/// The shape that all images have: that of the first one, in colour if any of them is.
ExampleShape common_shape(const std::vector<std::string>& paths, const Dataset* like) {
  std::optional<ExampleShape> result;
  if (like) result = like->shape;
  for (const std::string& path : paths) {
    const ExampleShape shape = EncodedImage(path).shape();
    if (!result) result = shape;
    if (shape.height != result->height || shape.width != result->width)
      throw Error(ErrorKind::kInput,
                  fmt::format("{}: found an image of {} x {} pixels, expected {} x {} as in {}; scale all images to "
                              "one size",
                              path, shape.width, shape.height, result->width, result->height,
                              like ? "the training images" : paths[0]));
    if (like && shape.channels > result->channels)
      throw Error(ErrorKind::kInput,
                  fmt::format("{}: found an image in colour, expected a grey one as all training images", path));
    result->channels = std::max(result->channels, shape.channels);
  }
  return *result;
}

}  // namespace

Dataset read_image_folder(const std::string& directory, const std::vector<std::string>& class_names,
                          const Dataset* like) {
  Examples examples = find_examples(directory, class_names, like);
  Dataset result{.shape = common_shape(examples.paths, like)};
  if (std::ssize(examples.paths) > kMostImageBytes / result.shape.size())
    throw Error(
        ErrorKind::kInput,
        fmt::format("{}: found {} images of {} x {} x {} bytes, expected at most {} GiB in all; scale the images",
                    directory, examples.paths.size(), result.shape.channels, result.shape.height, result.shape.width,
                    kMostImageBytes >> 30));
  // Every image is decoded straight to its place. The files are read a second time, which costs less than keeping them.
  // Memory grows with the images that decode, not with what their headers promise.
  const auto size = static_cast<std::size_t>(result.shape.size());
  std::vector<std::uint8_t> pixels;
  for (std::size_t i = 0; i < examples.paths.size(); ++i) {
    const EncodedImage image(examples.paths[i]);
    if (image.shape().height != result.shape.height || image.shape().width != result.shape.width)
      throw Error(ErrorKind::kInput, fmt::format("{} changed while it was read; try again", examples.paths[i]));
    pixels.resize((i + 1) * size);
    image.decode(result.shape.channels, pixels.data() + i * size);
  }
  result.values = std::move(pixels);
  result.labels = std::move(examples.labels);
  result.class_names = std::move(examples.class_names);
  return result;
}

}  // namespace labelshift
