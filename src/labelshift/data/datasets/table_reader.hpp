#pragma once

#include <string>
#include <vector>

#include "labelshift/data/datasets/dataset.hpp"

namespace labelshift {

/// Where the labels of a table are, and what is no part of an example.
struct LabelOptions {
  std::string column;                    // a name of the header or a number from 0; empty: "label" if there is one
  std::string file;                      // one label a row, instead of a column
  std::vector<std::string> class_names;  // what labels must be among; empty: the classes are the labels that occur
  std::vector<std::string> ignore;       // columns to leave out, such as an id: names of the header or numbers from 0
};

/// Reads a table of numbers, one example a row, from a text (.csv, .tsv, .txt, also gzipped) or a .npy array, as
/// examples of 1 x 1 x columns floats. One column, or another file, may hold labels, which are names or numbers; else
/// there are none. Classes that nobody named are the labels that occur, in order of size if all are numbers, else of
/// the alphabet.
///
/// The first line of a text is a header if is_header says so. Throws Error{kInput} naming row and column if a cell is
/// not a finite number or a label is missing, and Error{kUsage} if a column that is to be left out is not there.
Dataset read_table(const std::string& path, const LabelOptions& options = {});

}  // namespace labelshift
