#include "labelshift/federation/site_data.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/named_entries.hpp"
#include "labelshift/data/datasets/dataset_reader.hpp"

namespace labelshift {
namespace {

namespace fs = std::filesystem;

constexpr const char* kEndings[] = {"", ".csv", ".tsv", ".txt", ".npy", ".csv.gz", ".tsv.gz", ".txt.gz"};

/// The one file or folder of this name.
std::string find_part(const std::string& folder, const std::string& name) {
  std::vector<std::string> found;
  std::error_code ignored;
  for (const char* ending : kEndings)
    if (const std::string path = fmt::format("{}/{}{}", folder, name, ending); fs::exists(path, ignored))
      found.push_back(path);
  if (found.empty())
    throw Error(ErrorKind::kInput, fmt::format("{0} has no {1}, expected a folder {1} with one sub-folder of images a "
                                               "class, or a table {1}.csv",
                                               folder, name));
  if (found.size() > 1)
    throw Error(ErrorKind::kInput,
                fmt::format("found both {} and {}, expected one; take the other away", found[0], found[1]));
  return found.front();
}

std::shared_ptr<Dataset> read_part(const std::string& folder, const std::string& name,
                                   const std::vector<std::string>& ignore_columns) {
  const std::string path = find_part(folder, name);
  TrainAndTest parts = read_dataset(path, {.ignore = ignore_columns});
  if (parts.test.size() > 0)
    throw Error(
        ErrorKind::kInput,
        fmt::format("{}: found a training and a test part, expected one; put each in a folder of its own", path));
  return std::make_shared<Dataset>(std::move(parts.train));
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Those of the first that are not among the second: "the column dose", or "the columns dose, age".
std::string columns_without(const std::vector<std::string>& columns, const std::vector<std::string>& others) {
  std::vector<std::string> found;
  for (const std::string& name : columns)
    if (!has(others, name)) found.push_back(name);
  return found.empty() ? "" : fmt::format("the column{} {}", found.size() == 1 ? "" : "s", fmt::join(found, ", "));
}

/// Throws if a table does not have the columns that all sites agreed on.
void check_columns(const char* words, const Dataset& data, const std::vector<std::string>& columns) {
  const std::string all =
      fmt::format("the federation's columns are {}: look at the first line of the table, and at its separator",
                  fmt::join(columns, ", "));
  if (data.column_names.empty()) {
    if (data.shape.size() != std::ssize(columns))
      throw Error(ErrorKind::kInput, fmt::format("the {} of this site have {} columns without names, expected {}; {}",
                                                 words, data.shape.size(), columns.size(), all));
    return;
  }
  if (const std::string lacked = columns_without(columns, data.column_names); !lacked.empty())
    throw Error(ErrorKind::kInput, fmt::format("the {} of this site lack {}; {}", words, lacked, all));
  if (const std::string more = columns_without(data.column_names, columns); !more.empty())
    throw Error(ErrorKind::kInput, fmt::format("the {} of this site have {} besides; {}", words, more, all));
  for (std::size_t i = 0; i < columns.size(); ++i)
    if (data.column_names[i] != columns[i])
      throw Error(ErrorKind::kInput,
                  fmt::format("column {} of the {} of this site is {}, expected {}; give all columns the same names in "
                              "the same order",
                              i + 1, words, data.column_names[i], columns[i]));
}

std::string shape_text(const ExampleShape& shape) {
  return fmt::format("{} x {} x {}", shape.channels, shape.height, shape.width);
}

/// Labels by the numbers of other classes, among which are all of these.
std::vector<int> renumbered(const Dataset& data, const std::vector<std::string>& classes) {
  std::vector<int> numbers;
  for (const std::string& name : data.class_names)
    numbers.push_back(static_cast<int>(std::find(classes.begin(), classes.end(), name) - classes.begin()));
  std::vector<int> labels = data.labels;
  for (int& label : labels) label = numbers[static_cast<std::size_t>(label)];
  return labels;
}

/// The same data with other numbers for their classes. They are copied only if somebody still uses them as they were.
void renumber(std::shared_ptr<Dataset>& data, const std::vector<std::string>& classes) {
  if (data->class_names == classes) return;
  if (data.use_count() > 1) data = std::make_shared<Dataset>(*data);
  data->labels = renumbered(*data, classes);
  data->class_names = classes;
}

}  // namespace

SiteData::SiteData(const std::string& folder, std::vector<std::string> lacks,
                   const std::vector<std::string>& ignore_columns)
    : lacks_(std::move(lacks)) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored))
    throw Error(ErrorKind::kInput, fmt::format("{} is no folder, expected one that has train and test", folder));
  train_ = {.words = "training data", .data = read_part(folder, "train", ignore_columns)};
  test_ = {.words = "test data", .data = read_part(folder, "test", ignore_columns)};
  if (train_.data->labels.empty())
    throw Error(ErrorKind::kInput, fmt::format("{}/train: found no labels, expected one folder of images a class or a "
                                               "column called label: a node trains on them",
                                               folder));
  for (Part* part : {&train_, &test_}) part->classes = part->data->class_names;
  for (const std::string& name : lacks_)
    if (has(train_.classes, name))
      throw Error(ErrorKind::kUsage,
                  fmt::format("this site is said to lack the class {}, and its training data have it", name));
}

void SiteData::check_part(const Part& part, const DataSettings& federation) const {
  for (const std::string& name : part.classes)
    if (!has(federation.classes, name))
      throw Error(ErrorKind::kInput,
                  fmt::format("the {} of this site have the class {}, which is none of the federation's ({}); agree on "
                              "the names",
                              part.words, name, fmt::join(federation.classes, ", ")));
  const Dataset& data = *part.data;
  const ExampleShape shape = federation.shape.value_or(ExampleShape{.width = std::ssize(federation.columns)});
  const bool table = data.shape.channels == 1 && data.shape.height == 1;
  if (!federation.columns.empty() && table) check_columns(part.words, data, federation.columns);
  if (data.shape != shape)
    throw Error(ErrorKind::kInput,
                fmt::format("the {} of this site have examples of {} values (channels x height x width), expected {}; "
                            "bring all to one shape, or have the federation's mended",
                            part.words, shape_text(data.shape), shape_text(shape)));
}

SiteNode SiteData::in_terms_of(const DataSettings& federation) {
  for (const std::string& name : lacks_)
    if (!has(federation.classes, name))
      throw Error(ErrorKind::kUsage, fmt::format("this site is said to lack a class that the federation has not: {}",
                                                 unknown_name("class", name, federation.classes).what()));
  check_part(train_, federation);
  check_part(test_, federation);
  for (const std::string& name : federation.classes)
    if (!has(train_.classes, name) && !has(lacks_, name))
      throw SiteError(ErrorKind::kInput,
                      fmt::format("the training data of this site have no example of the class {}; spell it as the "
                                  "others do, or say that the site lacks it",
                                  name),
                      SiteError::Wanted::kLackedClass);
  if ((train_.data->values.index() == 0) != (test_.data->values.index() == 0))
    throw Error(ErrorKind::kInput, "the training and test data of this site are images and a table; give two alike");
  renumber(train_.data, federation.classes);
  renumber(test_.data, federation.classes);
  SiteNode result{.train = train_.data, .test = test_.data};
  result.data = {result.train.get(), all_rows(result.train->size()), result.test.get(), all_rows(result.test->size())};
  return result;
}

}  // namespace labelshift
