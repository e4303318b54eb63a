// loss_weight: the sum of the class weights of a batch's rows, in the same order every time.
// Mapping:  one block; thread = every 256th row, in double.
// Traffic:  the labels once, a weight a row.
// Limits:   none.
#include "device/check.h"
#include "device/launch.h"
#include "train/step/loss_weight.h"

namespace duet {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    class_weight_sum_kernel(WeightedLabels labels, double* sum) {
  wait_for_primary();
  __shared__ double warps[kThreads / 32];
  double mine = 0.0;
  for (int64_t row = threadIdx.x; row < labels.rows; row += kThreads) mine += labels.of_row(row);
  for (int step = 16; step > 0; step /= 2) mine += __shfl_xor_sync(0xFFFFFFFFu, mine, step);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = mine;
  __syncthreads();
  if (threadIdx.x != 0) return;
  double total = 0.0;
  for (const double part : warps) total += part;
  *sum = total;
}

}  // namespace

void sum_class_weights_gpu(Context& context, const WeightedLabels& labels, double* sum) {
  launch_following({1, kThreads, 0, context.stream()}, class_weight_sum_kernel, labels, sum);
}

}  // namespace duet
