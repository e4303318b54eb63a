// loss_weight: the sum of the class weights of a batch's rows, in the same order every time.
// Mapping:  one block; thread = every 256th row, in double.
// Traffic:  the labels once, a weight a row.
// Limits:   none.
#include "device/check.h"
#include "device/launch.h"
#include "train/loss_weight.h"

namespace duet {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    class_weight_sum_kernel(const int* __restrict__ labels, bool mixed, int64_t n,
                            const float* __restrict__ class_weights, int classes, double* sum) {
  wait_for_primary();
  __shared__ double warps[kThreads / 32];
  double mine = 0.0;
  for (int64_t row = threadIdx.x; row < n; row += kThreads) {
    mine += class_weight_of_row(labels, mixed, row, class_weights, classes);
  }
  for (int step = 16; step > 0; step /= 2) mine += __shfl_xor_sync(0xFFFFFFFFu, mine, step);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = mine;
  __syncthreads();
  if (threadIdx.x != 0) return;
  double total = 0.0;
  for (const double part : warps) total += part;
  *sum = total;
}

}  // namespace

void sum_class_weights_gpu(Context& context, const Tensor& labels, const float* class_weights,
                           int classes, double* sum) {
  const Shape& shape = labels.desc.shape;
  launch_following({1, kThreads, 0, context.stream()}, class_weight_sum_kernel, labels.data<int>(),
                   shape.rank() == 2, shape[0], class_weights, classes, sum);
}

}  // namespace duet
