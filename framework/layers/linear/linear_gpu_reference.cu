// linear reference on a GPU: the definition in double, for sizes that take cpu_reference minutes.
// Mapping:  block = 16x16 outputs, thread = 1; the bias gradient takes a block a filter.
// Traffic:  both operands pass through shared memory, each read once for 16 outputs.
// Limits:   double only; in no list (layers/gpu_reference.h).
#include "layers/gpu_reference.cuh"
#include "layers/linear/linear.h"

namespace duet {
namespace {

using namespace gpu_reference;

constexpr int kTile = 16;
static_assert(kTile * kTile == kThreads);

/// A matrix anywhere in memory: element (row, column) is at row * row_step + column * column_step.
struct Matrix {
  const double* data;
  int64_t row_step, column_step;

  __device__ double at(int64_t row, int64_t column) const {
    return data[row * row_step + column * column_step];
  }
};

// result (rows x columns, row-major) = a (rows x depth) b (depth x columns), plus, if there is one,
// bias[column].
__global__ void linear_reference_product_kernel(Matrix a, Matrix b, const double* bias,
                                                int64_t rows, int64_t columns, int64_t depth,
                                                double* result) {
  __shared__ double a_tile[kTile][kTile + 1], b_tile[kTile][kTile + 1];
  const int64_t tiles_across = (columns + kTile - 1) / kTile;
  const int i = threadIdx.x / kTile, j = threadIdx.x % kTile;
  const int64_t row = blockIdx.x / tiles_across * kTile + i;
  const int64_t first_column = blockIdx.x % tiles_across * kTile, column = first_column + j;
  double sum = bias && column < columns ? bias[column] : 0.0;
  for (int64_t d = 0; d < depth; d += kTile) {
    // Neighbouring threads read neighbours in memory, whichever way the matrix lies.
    const int64_t first_row = row - i;
    const int ai = a.column_step == 1 ? i : j, ad = a.column_step == 1 ? j : i;
    const int bd = b.column_step == 1 ? i : j, bj = b.column_step == 1 ? j : i;
    a_tile[ai][ad] = first_row + ai < rows && d + ad < depth ? a.at(first_row + ai, d + ad) : 0.0;
    b_tile[bd][bj] =
        d + bd < depth && first_column + bj < columns ? b.at(d + bd, first_column + bj) : 0.0;
    __syncthreads();
    const int count = depth - d < kTile ? static_cast<int>(depth - d) : kTile;
    for (int k = 0; k < count; ++k) sum += a_tile[i][k] * b_tile[k][j];
    __syncthreads();
  }
  if (row < rows && column < columns) result[row * columns + column] = sum;
}

__global__ void linear_reference_bias_kernel(LinearProblem p, const double* dy, double* db) {
  double sum = 0;
  for (int64_t n = threadIdx.x; n < p.n; n += kThreads) sum += dy[n * p.out + blockIdx.x];
  sum = block_sum(sum);
  if (threadIdx.x == 0) db[blockIdx.x] = sum;
}

class LinearGpuReference : public LinearImpl {
 public:
  using LinearImpl::LinearImpl;

  void forward(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b,
               const Tensor& y) override {
    multiply(run, {x.data<double>(), problem_.in, 1}, {w.data<double>(), 1, problem_.in},
             b.data<double>(), y, problem_.in);
  }

  void backward_data(const Run& run, const Tensor& dy, const Tensor& w, const Tensor& dx) override {
    multiply(run, {dy.data<double>(), problem_.out, 1}, {w.data<double>(), problem_.in, 1}, nullptr,
             dx, problem_.out);
  }

  void backward_filter(const Run& run, const Tensor& x, const Tensor& dy, const Tensor& dw,
                       const Tensor& db) override {
    multiply(run, {dy.data<double>(), 1, problem_.out}, {x.data<double>(), problem_.in, 1}, nullptr,
             dw, problem_.n);
    if (!db) return;
    launch_blocks(run.context, problem_.out, linear_reference_bias_kernel, problem_,
                  dy.data<double>(), db.data<double>());
  }

 private:
  static void multiply(const Run& run, const Matrix& a, const Matrix& b, const double* bias,
                       const Tensor& result, int64_t depth) {
    const int64_t rows = result.shape()[0], columns = result.shape()[1];
    const int64_t tiles = (rows + kTile - 1) / kTile * ((columns + kTile - 1) / kTile);
    launch_blocks(run.context, tiles, linear_reference_product_kernel, a, b, bias, rows, columns,
                  depth, result.data<double>());
  }
};

}  // namespace

std::unique_ptr<Implementation> make_linear_gpu_reference(const LinearProblem& problem) {
  return std::make_unique<LinearGpuReference>(problem);
}

}  // namespace duet
