#pragma once

#include <memory>
#include <string>
#include <vector>

#include "labelshift/core/base/error.hpp"
#include "labelshift/federation/federated_data.hpp"

namespace labelshift {

/// The data of one site, as all sites of a federation number its classes.
struct SiteNode {
  std::shared_ptr<const Dataset> train, test;  // what `data` points into
  NodeData data;
};

/// What the owner of a site can mend by saying more. Whoever knows how that is said can add it.
class SiteError : public Error {
 public:
  enum class Wanted {
    kLackedClass,  // that the site lacks a class
    kModel,        // which file the TorchScript model is
  };
  SiteError(ErrorKind kind, const std::string& message, Wanted wanted) : Error(kind, message), wanted_(wanted) {}
  Wanted wanted() const { return wanted_; }

 private:
  Wanted wanted_;
};

/// The data that a site has, which nobody else sees.
class SiteData {
 public:
  /// Reads `train` and `test` of a folder: each a folder of images, or a table with this name and an ending such as
  /// .csv, of which the training data need labels. `lacks` are classes of which the site has no training example, and
  /// knows it; `ignore_columns` are left out of its tables, by their names or numbers from 0.
  ///
  /// Throws Error{kInput} if one is not there, or there are two of them, and what the readers throw.
  SiteData(const std::string& folder, std::vector<std::string> lacks,
           const std::vector<std::string>& ignore_columns = {});

  /// The same data for a federation that says what they are like. Classes are matched by name, and get the numbers that
  /// they have there.
  ///
  /// Throws Error{kInput}: a class that is none of the federation's, one of which there is no training example and that
  /// the site did not say it lacks, another shape, other columns. The message can leave the site: it names classes and
  /// columns, but no file.
  SiteNode in_terms_of(const DataSettings& federation);

 private:
  struct Part {
    const char* words;                 // "training data"
    std::vector<std::string> classes;  // as they are in the files
    std::shared_ptr<Dataset> data;
  };
  void check_part(const Part& part, const DataSettings& federation) const;

  Part train_, test_;
  std::vector<std::string> lacks_;
};

}  // namespace labelshift
