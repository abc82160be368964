#include "labelshift/core/base/blas.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cassert>
#include <string>

#include "labelshift/core/base/error.hpp"

extern "C" {
void dsyrk_(const char* uplo, const char* trans, const int* n, const int* k, const double* alpha, const double* a,
            const int* lda, const double* beta, double* c, const int* ldc);
void dgemm_(const char* transa, const char* transb, const int* m, const int* n, const int* k, const double* alpha,
            const double* a, const int* lda, const double* b, const int* ldb, const double* beta, double* c,
            const int* ldc);
void dposv_(const char* uplo, const int* n, const int* nrhs, double* a, const int* lda, double* b, const int* ldb,
            int* info);
void dpotrf_(const char* uplo, const int* n, double* a, const int* lda, int* info);
void dtrsm_(const char* side, const char* uplo, const char* trans, const char* diag, const int* m, const int* n,
            const double* alpha, const double* a, const int* lda, double* b, const int* ldb);
void openblas_set_num_threads(int threads);
int openblas_get_num_threads(void);
const char* openblas_get_corename(void);
}

namespace labelshift {

void add_outer_products(const double* block, Eigen::Index rows, Eigen::Index cols, double* lower, double factor) {
  const int n = static_cast<int>(cols);
  const int k = static_cast<int>(rows);
  const double one = 1.0;
  dsyrk_("L", "T", &n, &k, &factor, block, &k, &one, lower, &n);
}

void add_outer_products(const Eigen::MatrixXd& columns, Eigen::MatrixXd& lower) {
  const int n = static_cast<int>(columns.rows());
  const int k = static_cast<int>(columns.cols());
  const double one = 1.0;
  dsyrk_("L", "N", &n, &k, &one, columns.data(), &n, &one, lower.data(), &n);
}

void add_product(const Eigen::MatrixXd& a, const Eigen::MatrixXd& b, Eigen::MatrixXd& sum) {
  assert(a.rows() == b.rows() && sum.rows() == a.cols() && sum.cols() == b.cols());
  const int m = static_cast<int>(a.cols());
  const int n = static_cast<int>(b.cols());
  const int k = static_cast<int>(a.rows());
  const double one = 1.0;
  dgemm_("T", "N", &m, &n, &k, &one, a.data(), &k, b.data(), &k, &one, sum.data(), &m);
}

bool solve_positive_definite(Eigen::MatrixXd& a, Eigen::Ref<Eigen::MatrixXd> b) {
  assert(a.rows() == a.cols() && a.rows() == b.rows());
  const int n = static_cast<int>(a.rows());
  if (n == 0) return true;
  const int columns = static_cast<int>(b.cols());
  const int lda = static_cast<int>(a.outerStride());
  const int ldb = static_cast<int>(b.outerStride());
  int info = 0;
  dposv_("L", &n, &columns, a.data(), &lda, b.data(), &ldb, &info);
  return info == 0;
}

bool factor_positive_definite(Eigen::MatrixXd& a) {
  assert(a.rows() == a.cols());
  const int n = static_cast<int>(a.rows());
  if (n == 0) return true;
  int info = 0;
  dpotrf_("L", &n, a.data(), &n, &info);
  return info == 0;
}

void solve_lower_triangular(const Eigen::MatrixXd& lower, Eigen::MatrixXd& b) {
  assert(lower.rows() == lower.cols() && lower.rows() == b.rows());
  const int n = static_cast<int>(b.rows());
  const int columns = static_cast<int>(b.cols());
  if (n == 0) return;
  const double one = 1.0;
  dtrsm_("L", "L", "N", "N", &n, &columns, &one, lower.data(), &n, b.data(), &n);
}

void check_fast_blas() {
  Dl_info bound{};
  const bool known = dladdr(reinterpret_cast<void*>(&dsyrk_), &bound) != 0 && bound.dli_fname != nullptr;
  const std::string library = known ? bound.dli_fname : "an unknown library";
  if (library.find("openblas") == std::string::npos)
    throw Error(ErrorKind::kSystem,
                fmt::format("BLAS is bound to {}, not to OpenBLAS, and would be many times slower; install "
                            "libopenblas0-openmp",
                            library));
}

std::string blas_processor() {
  return openblas_get_corename();
}

int blas_threads() {
  return openblas_get_num_threads();
}

void use_blas_threads(int threads) {
  openblas_set_num_threads(threads);
}

void use_one_blas_thread() {
  use_blas_threads(1);
}

}  // namespace labelshift
