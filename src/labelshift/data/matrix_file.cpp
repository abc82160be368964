#include "labelshift/data/matrix_file.hpp"

namespace labelshift {

MatrixView MatrixFile::view() const {
  if (const auto* array = std::get_if<NpyFile>(&contents_)) return array->view();
  return std::get<CsvMatrix>(contents_).values;
}

const std::vector<std::string>& MatrixFile::column_names() const {
  static const std::vector<std::string> none;
  const auto* matrix = std::get_if<CsvMatrix>(&contents_);
  return matrix ? matrix->column_names : none;
}

MatrixFile read_matrix(const std::string& path) {
  InputFile file(path);
  if (!file.starts_with(kNpyMagic)) return MatrixFile(read_csv(std::move(file)));
  NpyFile array(file);
  array.view();  // throws here if the array is no matrix, rather than at the first use
  return MatrixFile(std::move(array));
}

}  // namespace labelshift
