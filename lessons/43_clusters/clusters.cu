// Lesson 43: thread block clusters: blocks that reach each other's shared memory.
#include <cooperative_groups.h>

#include "../lesson.h"

namespace cg = cooperative_groups;

// region constants
constexpr int kRows = 256, kWidth = 65536, kThreads = 512;  // y = x - mean of its row
// end constants

// region sum
/// The sum over a block, for all its threads.
__device__ float block_sum(float value) {
  __shared__ float sums[kThreads / 32];
  for (int lane = 16; lane > 0; lane /= 2) value += __shfl_xor_sync(~0u, value, lane);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
  __syncthreads();
  float total = 0;
  for (const float sum : sums) total += sum;
  __syncthreads();
  return total;
}
// end sum

// region cluster
/// A row is 256 KB, too large for one block's shared memory: each block of a cluster holds a part.
__global__ void center_kernel(const float* x, float* y) {
  extern __shared__ float part[];
  __shared__ float sum;
  const cg::cluster_group cluster = cg::this_cluster();
  const int blocks = static_cast<int>(cluster.num_blocks()), width = kWidth / blocks;
  const size_t first = size_t{blockIdx.x} * width;  // of this block's part
  float own = 0;
  for (int i = threadIdx.x; i < width; i += kThreads) own += part[i] = x[first + i];
  own = block_sum(own);
  if (threadIdx.x == 0) sum = own;
  cluster.sync();  // all sums are written
  float mean = 0;
  for (int rank = 0; rank < blocks; ++rank) {
    mean += *cluster.map_shared_rank(&sum, rank) / kWidth;  // another block's variable
  }
  for (int i = threadIdx.x; i < width; i += kThreads) y[first + i] = part[i] - mean;
  cluster.sync();  // no block ends while another may read its sum
}
// end cluster

// region two
/// Without clusters: two kernels, and x is read from memory twice.
__global__ void sum_kernel(const float* x, float* sums) {
  float own = 0;
  for (int i = threadIdx.x; i < kWidth / 8; i += kThreads) {
    own += x[size_t{blockIdx.x} * (kWidth / 8) + i];
  }
  own = block_sum(own);
  if (threadIdx.x == 0) sums[blockIdx.x] = own;
}
__global__ void subtract_kernel(const float* x, const float* sums, float* y) {
  float mean = 0;
  for (int i = 0; i < 8; ++i) mean += sums[blockIdx.x / 8 * 8 + i] / kWidth;
  for (int i = threadIdx.x; i < kWidth / 8; i += kThreads) {
    const size_t at = size_t{blockIdx.x} * (kWidth / 8) + i;
    y[at] = x[at] - mean;
  }
}
// end two

// region launch
cudaError_t launch(int blocks, const float* x, float* y) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = blocks;
  attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(kRows * blocks);
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = kWidth / blocks * sizeof(float);
  config.attrs = &attribute;
  config.numAttrs = 1;
  // More than 48 KB of shared memory must be asked for.
  const cudaError_t status = cudaFuncSetAttribute(
      center_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(config.dynamicSmemBytes));
  return status == cudaSuccess ? cudaLaunchKernelEx(&config, center_kernel, x, y) : status;
}
// end launch

std::vector<double> plain(const std::vector<float>& x) {
  std::vector<double> y(x.begin(), x.end());
  for (size_t row = 0; row < x.size(); row += kWidth) {
    double mean = 0;
    for (int i = 0; i < kWidth; ++i) mean += x[row + i] / double{kWidth};
    for (int i = 0; i < kWidth; ++i) y[row + i] -= mean;
  }
  return y;
}

void teach() {
  const auto x = lesson::random_values(size_t{kRows} * kWidth, 1);
  const std::vector<double> expected = plain(x);
  const lesson::Array<float> xs(x), sums(kRows * 8);
  // region time
  for (const int blocks : {2, 4, 8}) {
    const lesson::Array<float> ys(x.size());
    const double us = lesson::microseconds([&] { CHECK(launch(blocks, xs.data(), ys.data())); });
    std::printf("clusters of %d, %d KB of shared memory a block: %.1f us\n", blocks,
                kWidth / blocks / 256, us);
    lesson::compare(" x - mean", ys.host(), expected, 1e-5);
  }
  const lesson::Array<float> ys(x.size());
  const double us = lesson::microseconds([&] {
    sum_kernel<<<kRows * 8, kThreads>>>(xs.data(), sums.data());
    subtract_kernel<<<kRows * 8, kThreads>>>(xs.data(), sums.data(), ys.data());
    CHECK(cudaGetLastError());
  });
  std::printf("two kernels: %.1f us\n", us);
  lesson::compare(" x - mean", ys.host(), expected, 1e-5);
  // end time

  // region wrong
  // 8 blocks are possible on every GPU with clusters; more must be allowed for the kernel.
  SHOULD_FAIL(launch(16, xs.data(), ys.data()), cudaErrorInvalidClusterSize);
  // end wrong
}

int main() {
  return lesson::run("Lesson 43: clusters",
                     "Subtracts from each row its mean: the row lies in the shared memory of "
                     "several blocks, or is read twice by two kernels.",
                     teach, {9, 0, "clusters came with Hopper"});
}
