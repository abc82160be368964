#pragma once

#include <Eigen/Core>
#include <string>

namespace labelshift {

/// lower(c, d) += factor sum_b block(b, c) block(b, d) for d <= c, by BLAS.
void add_outer_products(const double* block, Eigen::Index rows, Eigen::Index cols, double* lower, double factor = 1.0);

/// The lower triangle of `lower` += columns columns^T, by BLAS.
void add_outer_products(const Eigen::MatrixXd& columns, Eigen::MatrixXd& lower);

/// sum += a^T b, by BLAS.
void add_product(const Eigen::MatrixXd& a, const Eigen::MatrixXd& b, Eigen::MatrixXd& sum);

/// Solves A x = b for a symmetric positive definite A, whose lower triangle is overwritten with its Cholesky factor;
/// false if A is not positive definite.
bool solve_positive_definite(Eigen::MatrixXd& a, Eigen::Ref<Eigen::MatrixXd> b);

/// Overwrites the lower triangle of a symmetric positive definite A with its Cholesky factor; false if A is not
/// positive definite. The upper triangle is neither read nor written.
bool factor_positive_definite(Eigen::MatrixXd& a);

/// Overwrites b with L^-1 b, where L is the lower triangle of `lower`.
void solve_lower_triangular(const Eigen::MatrixXd& lower, Eigen::MatrixXd& b);

/// Throws Error{kSystem} that says what to install if the BLAS this process is bound to is not OpenBLAS: Debian's
/// default reference BLAS is 50 times slower. Looks at the bound symbol, so it costs nothing.
void check_fast_blas();

/// The processor whose kernels OpenBLAS has chosen, such as "Haswell" or "SkylakeX".
std::string blas_processor();

/// The number of threads BLAS uses when this thread calls it; OpenBLAS on OpenMP keeps one number for each calling
/// thread, so that threads of ours have to be told what their maker uses.
int blas_threads();
void use_blas_threads(int threads);

/// Keeps BLAS on one thread, so that the bits of a result do not depend on the number of cores. A setting of the whole
/// process: for programs to call, never for the library.
void use_one_blas_thread();

}  // namespace labelshift
