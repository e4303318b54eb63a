// Two looks at each of several groups of values in one launch: a sum needs all of a group, and what is
// then done with it the values once more. The second look follows the first so soon that it finds them
// in the L2 cache. Blocks take turns in one order, which has the second looks at a group behind the
// first ones at a few groups more; who takes a turn does not matter to what it writes.
#pragma once

#include <algorithm>

#include "device/cache_flush.h"
#include "device/device.h"
#include "kernels/integers.cuh"

namespace duet {

/// What one block does.
struct Turn {
  bool second;
  int group, split;
};

/// Counters of launches that follow each other on a stream: zeros, and every launch leaves them zero
/// again.
class TurnCounters {
 public:
  explicit TurnCounters(int groups) : memory_(Device::kGpu, (1 + groups) * sizeof(unsigned)) {
    fill_bytes(memory_.data(), Device::kGpu, 0, memory_.bytes());
  }
  unsigned* get() const { return static_cast<unsigned*>(memory_.data()); }

 private:
  Buffer memory_;
};

/// A grid of blocks() blocks along x, each of one turn, or of fewer that take all turns between them. Device
/// functions are called by the whole block.
struct Turns {
  int groups = 1, splits = 1;  // a look at a group is `splits` turns
  int lead = 1;                // first looks that are taken before any second
  bool twice = true;           // else there are no second looks
  FastDivisor by_splits;
  unsigned* counters = nullptr;  // the next turn, and how far each group is

  /// `bytes`: that a turn reads.
  Turns(int groups, int splits, int64_t bytes, unsigned* counters)
      : groups(groups), splits(splits), lead(splits), by_splits(splits), counters(counters) {
    // So many turns more that the last sums of a group are done when they are asked for, and as many
    // as L2 holds beside what is written: measured on an H100, of whose 50 MB that is a fifth.
    const auto cached = static_cast<int>(static_cast<int64_t>(l2_bytes()) / 5 / bytes);
    lead += std::max(2 * multiprocessor_count(), cached - splits);
    lead = std::min(lead, groups * splits);
  }
  /// The first looks alone.
  Turns once() const {
    Turns turns = *this;
    turns.twice = false;
    return turns;
  }
  __host__ __device__ unsigned blocks() const {
    return static_cast<unsigned>((twice ? 2 : 1) * groups * splits);
  }

#ifdef __CUDACC__
  __device__ __forceinline__ Turn take() const { return take(ask()); }
  /// In two steps: the number of a turn, which one thread has, and is not waited for before the turn is taken.
  __device__ __forceinline__ unsigned ask() const {
    return threadIdx.x == 0 ? atomicInc(counters, blocks() - 1) : 0;  // back to 0 at the end
  }
  __device__ __forceinline__ Turn take(unsigned asked) const {
    __shared__ unsigned number;
    if (threadIdx.x == 0) number = asked;
    __syncthreads();
    const int all = groups * splits, behind = static_cast<int>(number) - lead;
    // First looks alone, then first and second in turns, then the rest of the second.
    Turn turn = {};
    int i = static_cast<int>(number);
    if (twice && behind >= 0) {
      turn.second = behind >= 2 * (all - lead) || behind % 2 != 0;
      i = behind >= 2 * (all - lead) ? i - all : turn.second ? behind / 2 : lead + behind / 2;
    }
    by_splits.divmod(i, turn.group, turn.split);
    if (turn.second) turn.split = splits - 1 - turn.split;  // what was read last is there longest
    return turn;
  }
  /// At the end of a first look. True in the block that is the last of its group: it sees what all of
  /// them wrote (past L1), and then calls open().
  __device__ __forceinline__ bool is_last(int group) const {
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
      last = atomicAdd(counters + 1 + group, 1u) == static_cast<unsigned>(splits - 1);
    }
    __syncthreads();
    if (last) __threadfence();
    return last;
  }
  __device__ __forceinline__ void open(int group) const {
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) count_to_zero(group);
  }
  /// In a second look: until its group is open. What was written before is read past L1.
  __device__ __forceinline__ void wait(int group) const {
    if (threadIdx.x == 0) {
      const unsigned* const arrived = counters + 1 + group;
      unsigned count;
      do {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(count) : "l"(arrived) : "memory");
      } while (count <= static_cast<unsigned>(splits));
      count_to_zero(group);
    }
    __syncthreads();
  }

 private:
  /// A group counts its first looks, its opening and its second looks, and the last makes it zero.
  __device__ __forceinline__ void count_to_zero(int group) const {
    atomicInc(counters + 1 + group, static_cast<unsigned>(twice ? 2 * splits : splits));
  }
#endif
};

}  // namespace duet
