#include "labelshift/data/files/class_mix_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <sstream>
#include <vector>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/json.hpp"
#include "labelshift/core/base/named_entries.hpp"
#include "labelshift/core/likelihood/scores.hpp"
#include "labelshift/data/files/input_file.hpp"
#include "labelshift/data/files/npy_reader.hpp"
#include "labelshift/data/files/text_lines.hpp"
#include "labelshift/data/files/unpacked_file.hpp"

namespace labelshift {
namespace {

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kMostJson = std::size_t{64} << 20;  // bytes

[[noreturn]] void refuse(const std::string& place, const std::string& why) {
  throw Error(ErrorKind::kInput, fmt::format("{}: {}", place, why));
}

/// Shares as they come in, by class.
class Mix {
 public:
  Mix(std::string name, std::span<const std::string> class_names)
      : name_(std::move(name)),
        class_names_(class_names),
        shares_(Eigen::VectorXd::Constant(std::ssize(class_names), kMissing)) {}

  const std::string& name() const { return name_; }
  Index classes() const { return shares_.size(); }

  /// The class of this name, or of this number where no class has the name.
  Index find(const std::string& place, const std::string& called) const {
    const auto found = std::find(class_names_.begin(), class_names_.end(), called);
    if (found != class_names_.end()) return found - class_names_.begin();
    double number = 0.0;
    if (parse_number(called, number) && number >= 0.0 && number < static_cast<double>(classes()) &&
        number == std::floor(number))
      return static_cast<Index>(number);
    refuse(place, unknown_name("class", called, {class_names_.begin(), class_names_.end()}).what());
  }

  void add(const std::string& place, Index c, double share) {
    if (!std::isnan(shares_[c])) refuse(place, fmt::format("found a second share of {}, expected one", quoted(c)));
    if (!(share >= 0.0) || std::isinf(share))
      refuse(place, fmt::format("found {} as the share of {}, expected a number from 0 to 1", share, quoted(c)));
    shares_[c] = share;
  }

  void add_all(const std::vector<double>& shares) {
    if (std::ssize(shares) != classes())
      refuse(name_, fmt::format("found {} shares, expected {}, one for each class", shares.size(), classes()));
    for (Index c = 0; c < classes(); ++c) add(name_, c, shares[static_cast<std::size_t>(c)]);
  }

  Eigen::VectorXd whole() const {
    for (Index c = 0; c < classes(); ++c)
      if (std::isnan(shares_[c]))
        refuse(name_,
               fmt::format("found no share of {}; give every class one, and 0 to those that do not occur", quoted(c)));
    const double sum = shares_.sum();
    if (!(std::abs(sum - 1.0) <= kRowSumTolerance))
      refuse(name_, fmt::format("the shares sum to {:.6g}, expected 1 within {}; divide each by the sum of all", sum,
                                kRowSumTolerance));
    return shares_ / sum;
  }

 private:
  std::string quoted(Index c) const { return excerpt(class_names_[static_cast<std::size_t>(c)]); }

  std::string name_;
  std::span<const std::string> class_names_;
  Eigen::VectorXd shares_;  // NaN: none yet
};

/// Of `labelshift estimate --format json`.
void read_json(std::istream& in, Mix& mix) {
  std::string text;
  for (char block[1 << 16]; in.read(block, sizeof block), in.gcount() > 0;) {
    text.append(block, static_cast<std::size_t>(in.gcount()));
    if (text.size() > kMostJson) refuse(mix.name(), "it is too long for a mix of classes");
  }
  std::vector<std::string> names;
  std::vector<double> shares;
  try {
    const Json json = Json::parse(text);
    names = json.at("classes").get<std::vector<std::string>>();
    shares = json.at("target_prior").get<std::vector<double>>();
  } catch (const Json::exception&) {
    refuse(mix.name(),
           "it is JSON, but has no lists \"classes\" and \"target_prior\" as labelshift estimate writes them in JSON");
  }
  if (names.size() != shares.size())
    refuse(mix.name(), fmt::format("found {} shares of {} classes", shares.size(), names.size()));
  for (std::size_t i = 0; i < names.size(); ++i) mix.add(mix.name(), mix.find(mix.name(), names[i]), shares[i]);
}

struct Row {
  std::string place;
  std::vector<std::string> cells;
};

std::vector<Row> read_rows(std::istream& in, const Mix& mix) {
  Lines lines(in, mix.name());
  std::vector<Row> rows;
  std::optional<char> delimiter;
  for (std::string_view line; lines.next(line);) {
    if (!delimiter) delimiter = find_delimiter(line, mix.name());
    if (std::ssize(rows) > mix.classes())
      refuse(mix.name(), fmt::format("found more than {} rows, expected one for each class", mix.classes()));
    Row& row = rows.emplace_back(Row{lines.place(), {}});
    Cells cells(lines, line, *delimiter);
    for (std::string_view cell; cells.next(cell);) row.cells.emplace_back(cell);
    if (row.cells.size() != rows.front().cells.size())
      refuse(row.place,
             fmt::format("found {} cells, expected {} as in line 1", row.cells.size(), rows.front().cells.size()));
  }
  if (rows.empty()) refuse(mix.name(), "it is empty");
  return rows;
}

double share_of(const Row& row, std::size_t column) {
  double value = 0.0;
  if (!parse_number(row.cells[column], value))
    refuse(row.place, fmt::format("found {}, expected a share", excerpt(row.cells[column])));
  return value;
}

/// A class and its share in each row: `labelshift estimate --format csv`, or two columns.
void read_named(const std::vector<Row>& rows, std::size_t first, std::size_t name, std::size_t share, Mix& mix) {
  for (std::size_t i = first; i < rows.size(); ++i)
    mix.add(rows[i].place, mix.find(rows[i].place, rows[i].cells[name]), share_of(rows[i], share));
}

void read_table(std::istream& in, Mix& mix) {
  const std::vector<Row> rows = read_rows(in, mix);
  const std::vector<std::string>& header = rows.front().cells;
  const std::size_t first = is_header(header) ? 1 : 0;
  const auto name = std::find(header.begin(), header.end(), "class") - header.begin();
  const auto share = std::find(header.begin(), header.end(), "target_prior") - header.begin();
  if (name < std::ssize(header) && share < std::ssize(header)) {
    read_named(rows, 1, static_cast<std::size_t>(name), static_cast<std::size_t>(share), mix);
  } else if (header.size() == 1) {
    std::vector<double> shares;
    for (std::size_t i = first; i < rows.size(); ++i) shares.push_back(share_of(rows[i], 0));
    mix.add_all(shares);
  } else if (rows.size() == first + 1 && std::ssize(header) == mix.classes()) {  // a row
    for (std::size_t c = 0; c < header.size(); ++c)
      mix.add(rows.back().place, first == 1 ? mix.find(rows.front().place, header[c]) : static_cast<Index>(c),
              share_of(rows.back(), c));
  } else if (header.size() == 2) {
    double number = 0.0;
    const bool names_columns = !parse_number(header[1], number);
    read_named(rows, names_columns ? 1 : 0, 0, 1, mix);
  } else {
    refuse(mix.name(),
           fmt::format("found {} rows of {} cells, expected what labelshift estimate writes as CSV or JSON, a row or a "
                       "column of {} shares, or a class and its share in each row",
                       rows.size() - first, header.size(), mix.classes()));
  }
}

}  // namespace

Eigen::VectorXd read_class_mix(const std::string& path_or_numbers, std::span<const std::string> class_names) {
  const bool numbers = path_or_numbers.find(',') != std::string::npos && ::access(path_or_numbers.c_str(), F_OK) != 0;
  Mix mix(numbers ? "the mix \"" + path_or_numbers + '"' : path_or_numbers, class_names);
  if (numbers) {
    std::istringstream text(path_or_numbers);
    const std::vector<Row> rows = read_rows(text, mix);
    std::vector<double> shares;
    for (std::size_t c = 0; c < rows.front().cells.size(); ++c) shares.push_back(share_of(rows.front(), c));
    mix.add_all(shares);
    return mix.whole();
  }
  InputFile file(path_or_numbers);
  if (file.starts_with(kNpyMagic)) {
    mix.add_all(NpyFile(file).column());
    return mix.whole();
  }
  UnpackedFile text(std::move(file));
  if (text.peek() == '{')
    read_json(text, mix);
  else
    read_table(text, mix);
  return mix.whole();
}

}  // namespace labelshift
