#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "labelshift/core/base/matrix_view.hpp"

namespace labelshift {

/// Writes a matrix a block of rows at a time, so that it never has to be in memory. The path's ending chooses the
/// format: .npy, .csv, .tsv, .csv.gz or .tsv.gz; a path with no ending (/dev/stdout) gets CSV. Numbers are written so
/// that reading them gives the same bits. A header that would be read as numbers, such as 0,1, is left out. The file
/// appears in commit(), whole or not at all.
class MatrixWriter {
 public:
  struct Layout {
    Index rows = 0;  // how many will be appended in all: a .npy file says so first
    Index cols = 0;
    bool float32 = false;                   // else float64
    std::vector<std::string> column_names;  // the header of a text; empty for none
  };

  /// Throws Error{kUsage} if the ending is none of these, Error{kSystem} if the file cannot be written.
  MatrixWriter(const std::string& path, Layout layout);
  ~MatrixWriter();

  void append(const MatrixView& rows);
  void finish();  // as that of OutputFile
  void commit();

 private:
  Layout layout_;
  std::unique_ptr<class TableFile> file_;
  Index appended_ = 0;
};

/// Writes one label a row, in the same formats. Texts have the header "label" and show names if there are any; a .npy
/// array holds the integers. The constructor finishes the file, as OutputFile has it; it appears in commit().
class LabelWriter {
 public:
  LabelWriter(const std::string& path, std::span<const int> labels, const std::vector<std::string>& class_names);
  ~LabelWriter();

  void commit();

 private:
  std::unique_ptr<class TableFile> file_;
};

/// The same in one step.
void write_labels(const std::string& path, std::span<const int> labels, const std::vector<std::string>& class_names);

}  // namespace labelshift
