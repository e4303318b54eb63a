// How the GPU implementations of the losses share out rows, and how they add up what the rows give:
// in one kernel, in the same order every time.
//
// 1 to 32 lanes of a warp share a row, so that a warp of a ten-class problem computes eight rows.
// The totals of a block are added by shuffles. With more than one block each writes its totals,
// then takes a ticket; the block with the last ticket adds the totals of all in order of block
// number. The ticket is the only atomic, and it decides who adds, never in which order.
#pragma once

#include <algorithm>
#include <type_traits>

#include "device/device.h"

namespace duet::loss_rows {

struct Totals {
  float loss;
  float weight;  // of the counted rows
  int hits;
  int counted;
};

/// The shape of a launch over `n` rows of `c` logits.
struct Plan {
  int lanes;  // that share a row: a power of two, at most four logits each up to c = 128
  int threads;
  int blocks;

  Plan(int n, int c) : lanes(1) {
    while (lanes < 32 && lanes * 4 < c) lanes *= 2;
    // One block as long as it holds all rows: no ticket and no second round of sums then.
    const int64_t wanted = int64_t{n} * lanes;
    threads = wanted <= 1024 ? static_cast<int>((wanted + 31) / 32 * 32) : 256;
    blocks = static_cast<int>(std::min<int64_t>((wanted + threads - 1) / threads, 2048));
  }
  size_t totals_bytes() const { return blocks * sizeof(Totals); }
};

/// A zero in device memory; every launch leaves it zero again.
class Ticket {
 public:
  Ticket() : memory_(Device::kGpu, sizeof(unsigned)) {
    fill_bytes(memory_.data(), Device::kGpu, 0, sizeof(unsigned));
  }
  unsigned* get() const { return static_cast<unsigned*>(memory_.data()); }

 private:
  Buffer memory_;
};

/// Calls visit(std::integral_constant<int, lanes>).
template <class Visit>
void with_lanes(int lanes, Visit&& visit) {
  switch (lanes) {
    case 1:
      return visit(std::integral_constant<int, 1>{});
    case 2:
      return visit(std::integral_constant<int, 2>{});
    case 4:
      return visit(std::integral_constant<int, 4>{});
    case 8:
      return visit(std::integral_constant<int, 8>{});
    case 16:
      return visit(std::integral_constant<int, 16>{});
    default:
      return visit(std::integral_constant<int, 32>{});
  }
}

#ifdef __CUDACC__

/// Over the kLanes neighbours of a row; every lane gets the result. REQUIRES: the whole warp calls.
template <int kLanes>
__device__ __forceinline__ float lanes_max(float value) {
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xFFFFFFFFu, value, step));
  }
  return value;
}
template <int kLanes, class V>
__device__ __forceinline__ V lanes_sum(V value) {
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) {
    value += __shfl_xor_sync(0xFFFFFFFFu, value, step);
  }
  return value;
}
template <int kLanes>
__device__ __forceinline__ bool lanes_any(bool value) {
  const unsigned votes = __ballot_sync(0xFFFFFFFFu, value);
  const unsigned row = 0xFFFFFFFFu >> (32 - kLanes);
  const unsigned first = threadIdx.x % 32 / kLanes * kLanes;
  return (votes >> first & row) != 0;
}

/// True if logit `value` of class j keeps `label` from being the largest (first of ties); true for
/// a NaN on either side.
__device__ __forceinline__ bool beats(float value, int j, float target, int label) {
  return !(value < target || (value == target && j >= label));
}

__device__ __forceinline__ Totals block_sum(Totals mine, Totals* warps) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    mine.loss += __shfl_xor_sync(0xFFFFFFFFu, mine.loss, step);
    mine.weight += __shfl_xor_sync(0xFFFFFFFFu, mine.weight, step);
    mine.hits += __shfl_xor_sync(0xFFFFFFFFu, mine.hits, step);
    mine.counted += __shfl_xor_sync(0xFFFFFFFFu, mine.counted, step);
  }
  __syncthreads();  // `warps` may still be read from the call before
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = mine;
  __syncthreads();
  Totals sum = {};
  if (threadIdx.x == 0) {
    for (int w = 0; w < blockDim.x / 32; ++w) {
      sum.loss += warps[w].loss;
      sum.weight += warps[w].weight;
      sum.hits += warps[w].hits;
      sum.counted += warps[w].counted;
    }
  }
  return sum;
}

/// Writes the layer's two outputs from what every thread counted. Called once, by every thread of
/// every block; blockDim.x is a multiple of 32. `totals` holds gridDim.x entries. The sum of the
/// weights goes to *weight, unless that is null.
__device__ __forceinline__ void finish(Totals mine, Totals* totals, unsigned* ticket, float* loss,
                                       int* hits, float* weight) {
  __shared__ Totals warps[32];
  __shared__ bool last;
  Totals sum = block_sum(mine, warps);
  if (gridDim.x > 1) {
    if (threadIdx.x == 0) {
      totals[blockIdx.x] = sum;
      __threadfence();                                           // the totals before the ticket
      last = atomicInc(ticket, gridDim.x - 1) == gridDim.x - 1;  // wraps to 0 for the next launch
    }
    __syncthreads();
    if (!last) return;
    __threadfence();
    mine = {};
    for (int b = threadIdx.x; b < gridDim.x; b += blockDim.x) {
      mine.loss += __ldcg(&totals[b].loss);
      mine.weight += __ldcg(&totals[b].weight);
      mine.hits += __ldcg(&totals[b].hits);
      mine.counted += __ldcg(&totals[b].counted);
    }
    sum = block_sum(mine, warps);
  }
  if (threadIdx.x == 0) {
    *loss = sum.weight > 0.0f ? sum.loss / sum.weight : 0.0f;
    if (weight) *weight = sum.weight;
    hits[0] = sum.hits;
    hits[1] = sum.counted;
  }
}

#endif  // __CUDACC__

}  // namespace duet::loss_rows
