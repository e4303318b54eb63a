// A sum over all threads of a grid, in one kernel, in the same order every time.
//
// Each block writes its sum, then takes a ticket; the block with the last ticket adds the sums of all
// in order of block number. The ticket is the only atomic, and it decides who adds, never in which
// order.
#pragma once

#include "kernels/block_combine.cuh"

namespace duet {

/// A sum and how many it is of.
struct alignas(16) CountedSum {
  double sum = 0.0, count = 0.0;
};

/// Returns true in all threads of one block, the last, and *total there is the sum of `mine` over the
/// grid. `parts` holds gridDim.x entries; *ticket is 0 and left so. REQUIRES: every block of the grid,
/// of kCombineThreads, calls it once.
__device__ __forceinline__ bool grid_sum(CountedSum mine, CountedSum* parts, unsigned* ticket,
                                         CountedSum* total) {
  const auto add = [](const CountedSum& a, const CountedSum& b) {
    return CountedSum{a.sum + b.sum, a.count + b.count};
  };
  *total = block_combine(mine, 1, add);
  if (gridDim.x == 1) return true;
  __shared__ bool last;
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = *total;
    __threadfence();                                           // the part before the ticket
    last = atomicInc(ticket, gridDim.x - 1) == gridDim.x - 1;  // wraps to 0 for the next launch
  }
  __syncthreads();
  if (!last) return false;
  __threadfence();
  mine = {};
  for (unsigned b = threadIdx.x; b < gridDim.x; b += blockDim.x) {
    const double2 part = __ldcg(reinterpret_cast<const double2*>(parts + b));
    mine = add(mine, {part.x, part.y});
  }
  *total = block_combine(mine, 1, add);
  return true;
}

}  // namespace duet
