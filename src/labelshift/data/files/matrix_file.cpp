#include "labelshift/data/files/matrix_file.hpp"
#include "labelshift/data/files/input_file.hpp"

#include <type_traits>

namespace labelshift {

MatrixView MatrixFile::view() const {
  if (const auto* array = std::get_if<NpyFile>(&contents_)) return array->view();
  if (const auto* floats = std::get_if<Floats>(&contents_)) return *floats;
  return std::get<CsvMatrix>(contents_).values;
}

const std::vector<std::string>& MatrixFile::column_names() const {
  static const std::vector<std::string> none;
  const auto* matrix = std::get_if<CsvMatrix>(&contents_);
  return matrix ? matrix->column_names : none;
}

MatrixFile read_matrix(const std::string& path, const ColumnChoice& choice) {
  InputFile file(path);
  if (!file.starts_with(kNpyMagic)) {
    CsvMatrix matrix = read_csv(std::move(file), choice);
    TableColumns table = matrix.table;
    return {std::move(matrix), std::move(table)};
  }
  NpyFile array(file);
  const MatrixView view = array.view();  // throws here if the array is no matrix, rather than at the first use
  const TableColumns table = table_columns(path, {}, view.cols());
  if (choice.all()) return {std::move(array), table};
  const std::vector<Index> chosen = chosen_columns(choice, {}, view.cols(), path);
  return view.visit([&](const auto* data, Index row_stride, Index col_stride) {
    using Scalar = std::remove_cvref_t<decltype(*data)>;
    Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> values(view.rows(), std::ssize(chosen));
    for (Index i = 0; i < values.rows(); ++i)
      for (Index c = 0; c < values.cols(); ++c)
        values(i, c) = data[i * row_stride + chosen[static_cast<std::size_t>(c)] * col_stride];
    if constexpr (std::is_same_v<Scalar, float>)
      return MatrixFile(std::move(values), table);
    else
      return MatrixFile(CsvMatrix{std::move(values), {}, {}}, table);
  });
}

}  // namespace labelshift
