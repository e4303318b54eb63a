// The matrix product of linear custom_large_tile: C = A B as in linear_register_tiled.cuh, in tiles
// of 128 x 128, all multiprocessors equally busy.
//
// One block a multiprocessor. Every block computes as many whole tiles as all blocks can have; the
// tiles that are left are cut along k into slices, and each block takes the same number of them, up
// to the end of one tile and on into the next. So a product whose tiles do not divide by the
// multiprocessors (200 tiles for 132) takes the time of its FMA, not of its rounds. The parts of a
// cut tile go through the workspace, and a second kernel adds them in the order of k.
//
// A block's two groups of four warps own the tile together and halves of every slice. A lane keeps
// 8 x 16 sums: six 16-byte loads for 128 FMA.
//
// Slices lie in shared memory with k outer, also where k is inner in global memory: then blocks of
// 4 x 4 are turned in registers on the way. A lane so reads neighbouring
// rows of one k in a 16-byte load, into registers of alternate banks. An FMA that reads two of its
// operands in one bank takes two cycles, and with four k of a row in a load the compiler finds
// registers without that for far fewer of them.
#pragma once

#include "device/launch.h"
#include "layers/linear/linear_products.h"

namespace duet::linear {

/// How the tiles of a product are dealt to the blocks.
struct Cut {
  int tiles_n;       // tiles along n; tile t is at row t / tiles_n, column t % tiles_n
  int slices;        // of a tile, along k
  int split;         // the first tiles, cut: their slices, in order, in shares of `each`
  int each;          // slices a block; at least 1
  int whole;         // the tiles after those, dealt in turn
  float* row_parts;  // sums of A over half a slice, 2 * slices times m; for row_sums
};

/// The first slice of a block's share of the cut tiles.
__device__ inline int first_slice(const Cut& cut, int block) {
  return min(block * cut.each, cut.split * cut.slices);
}

struct LargeTile {
  static constexpr int kLaneM = 8, kLaneN = 16, kWarpsN = 2;  // 32 lanes stand 8 x 4, warps 2 x 2
  static constexpr int kM = 128, kN = 128;
  static constexpr int kGroups = 2, kGroupThreads = 128, kThreads = kGroups * kGroupThreads;
  static constexpr int kDepth = 8;                     // of a group's half of a slice
  static constexpr int kUnit = kGroups * kDepth;       // k of a slice
  static constexpr int kFloat4s = kM * kN / 4;         // of a tile
  static constexpr int kPieces = kLaneM * kLaneN / 4;  // float4s of a lane's sums
  static constexpr int kMine = kPieces / kGroups;
  static constexpr int kSumThreads = 256;                    // of the second kernel
  static constexpr int kSumBlocks = kFloat4s / kSumThreads;  // for a tile
};

/// One operand's half slice, kDepth x 128 rows in shared memory, and a thread's part in filling it.
/// With k inner, a thread of the first two warps has 4 rows x 4 k in registers between fetch() and
/// deposit(), which turns them; with k outer, fetch() queues copies and deposit() does nothing.
template <bool kInner>
struct LargeOperand {
  using T = LargeTile;
  static constexpr int kPitch = T::kM;
  static constexpr int kFloats = T::kDepth * kPitch;
  static constexpr int kBlocks = kFloats / 16;             // of 4 x 4
  static constexpr int kLineStep = T::kGroupThreads / 32;  // k outer: lines of k a pass
  static constexpr int kCopies = kInner ? 4 : T::kDepth / kLineStep;
  static_assert(T::kM == T::kN && T::kM == 128 && T::kDepth == 8 && kBlocks <= T::kGroupThreads);

  const float* base;
  int offset[kCopies];
  int k, row;  // of this thread's first float
  int pitch;   // of global memory
  bool active;
  float4 rows[kInner ? 4 : 1];

  // With k inner, eight neighbouring threads take 32 rows of four k, and then of the next four, so
  // that their 16-byte stores touch all banks once.
  __device__ LargeOperand(int all_rows, int all_k, int thread)
      : k(kInner ? thread / 8 % 2 * 4 : thread / 32),
        row(kInner ? (thread % 8 + thread / 16 * 8) * 4 : thread % 32 * 4),
        pitch(kInner ? all_k : all_rows),
        active(!kInner || thread < kBlocks) {}

  /// Goes to a tile. Rows behind the last become copies of it: their sums are not written.
  __device__ void start(const float* matrix, int all_rows, int first_row, int first_k) {
    base = matrix + (kInner ? first_k : int64_t{first_k} * pitch);
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      offset[i] = kInner ? min(first_row + row + i, all_rows - 1) * pitch + k
                         : (k + i * kLineStep) * pitch + min(first_row + row, all_rows - 4);
    }
  }

  /// Takes the next half slice, for `slice`; `depth` is how much of k is left, the rest is zeros.
  __device__ void fetch(float* slice, int depth) {
    if constexpr (kInner) {
      const bool inside = active && k < depth;
#pragma unroll
      for (int i = 0; i < kCopies; ++i) {
        rows[i] = inside ? __ldg(reinterpret_cast<const float4*>(base + offset[i])) : float4{};
      }
    } else {
      const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(slice + k * kPitch + row));
#pragma unroll
      for (int i = 0; i < kCopies; ++i) {
        const int bytes = k + i * kLineStep < depth ? 16 : 0;
        asm volatile(
            "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to + 4 * i * kLineStep * kPitch),
            "l"(base + offset[i]), "r"(bytes)
            : "memory");
      }
    }
    base += int64_t{T::kUnit} * (kInner ? 1 : pitch);
  }

  __device__ void deposit(float* slice) {
    if constexpr (kInner) {
      if (!active) return;
      float4* to = reinterpret_cast<float4*>(slice + k * kPitch + row);
      to[0] = {rows[0].x, rows[1].x, rows[2].x, rows[3].x};
      to[kPitch / 4] = {rows[0].y, rows[1].y, rows[2].y, rows[3].y};
      to[2 * kPitch / 4] = {rows[0].z, rows[1].z, rows[2].z, rows[3].z};
      to[3 * kPitch / 4] = {rows[0].w, rows[1].w, rows[2].w, rows[3].w};
    }
  }
};

/// An operand with k inner is one slice ahead, in registers; the others are up to three.
template <bool kInnerA, bool kInnerB>
constexpr int kLargeStages = kInnerA || kInnerB ? 2 : 4;

/// Place in the tile of float4 `piece` of a lane's sums.
__device__ inline int2 large_place(int thread, int piece) {
  using T = LargeTile;
  const int warp = thread / 32, lane = thread % 32;
  const int lane_m = lane / 2 % 8, lane_n = lane % 2 + lane / 16 * 2;
  return {
      warp / T::kWarpsN * 8 * T::kLaneM + row_of<T::kLaneM, false>(lane_m, piece / (T::kLaneN / 4)),
      warp % T::kWarpsN * 4 * T::kLaneN + column_of(lane_n, piece % (T::kLaneN / 4) * 4)};
}

template <bool kInnerA, bool kInnerB>
constexpr size_t large_shared_bytes() {
  using T = LargeTile;
  constexpr int kStage = LargeOperand<kInnerA>::kFloats + LargeOperand<kInnerB>::kFloats;
  return sizeof(float) * (T::kGroups * kLargeStages<kInnerA, kInnerB> * kStage + T::kM * T::kN);
}

/// What a block does without a break: `count` slices of a tile, from `slice` on.
struct Segment {
  int tile, slice, count;
};

/// Behind the first `done` slices of this block, of which its share of the cut tiles comes first.
__device__ inline Segment segment_behind(const Cut& cut, int done) {
  const int first = first_slice(cut, blockIdx.x), share = first_slice(cut, blockIdx.x + 1) - first;
  if (done < share) {
    const int slice = (first + done) % cut.slices;
    return {(first + done) / cut.slices, slice, min(cut.slices - slice, share - done)};
  }
  const int turn = (done - share) / cut.slices;
  return {cut.split + static_cast<int>(blockIdx.x + turn * gridDim.x), 0, cut.slices};
}

/// Slices that this block computes.
__device__ inline int slices_of_block(const Cut& cut) {
  const int block = blockIdx.x, blocks = gridDim.x;
  const int tiles = block < cut.whole ? (cut.whole - 1 - block) / blocks + 1 : 0;
  return first_slice(cut, block + 1) - first_slice(cut, block) + tiles * cut.slices;
}

/// Adds the sums of the two groups: each ends with one half of the tile's float4s, which are pieces
/// group * kMine and the following.
__device__ inline void join_groups(const float (&sums)[LargeTile::kLaneM][LargeTile::kLaneN],
                                   float* staged, int group, int thread,
                                   float4 (&mine)[LargeTile::kMine]) {
  using T = LargeTile;
  const auto piece = [&](int q) -> float4 {
    const int i = q / (T::kLaneN / 4), j = q % (T::kLaneN / 4) * 4;
    return {sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]};
  };
  float4* const exchange = reinterpret_cast<float4*>(staged) + thread;
  __syncthreads();
#pragma unroll
  for (int q = 0; q < T::kMine; ++q) {
    const float4 low = piece(q), high = piece(q + T::kMine);
    exchange[q * T::kThreads + group * T::kGroupThreads] = group ? low : high;
  }
  __syncthreads();
#pragma unroll
  for (int q = 0; q < T::kMine; ++q) {
    const float4 low = piece(q), high = piece(q + T::kMine);
    mine[q] = (group ? high : low) + exchange[q * T::kThreads + (1 - group) * T::kGroupThreads];
  }
}

/// Writes a group's half of a tile of C, or of a block's part of a cut tile.
__device__ inline void store_large(const Product& p, const Cut& cut, int tile, int group,
                                   int thread, const float4 (&mine)[LargeTile::kMine]) {
  using T = LargeTile;
  // A block or a tile further is a part further, so their sum numbers the parts.
  float4* const part = reinterpret_cast<float4*>(p.partials) +
                       static_cast<int64_t>(blockIdx.x + tile) * T::kFloat4s + thread +
                       group * T::kMine * T::kGroupThreads;
  if (tile < cut.split) {
#pragma unroll
    for (int q = 0; q < T::kMine; ++q) part[q * T::kGroupThreads] = mine[q];
    return;
  }
#pragma unroll
  for (int q = 0; q < T::kMine; ++q) {
    const int2 at = large_place(thread, q + group * T::kMine);
    store4(p, p.c, p.bias, tile / cut.tiles_n * T::kM + at.x, tile % cut.tiles_n * T::kN + at.y,
           mine[q]);
  }
}

/// Grid: a block a multiprocessor, or fewer if there is less to do. Lines of operands with k outer
/// start on 16 bytes; each operand has fewer than 2^31 floats.
template <bool kInnerA, bool kInnerB>
__global__ void __launch_bounds__(LargeTile::kThreads, 1)
    linear_large_tile_kernel(const Product p, const Cut cut) {
  wait_for_primary();
  using T = LargeTile;
  using A = LargeOperand<kInnerA>;
  using B = LargeOperand<kInnerB>;
  extern __shared__ __align__(16) float shared[];
  constexpr int kStage = A::kFloats + B::kFloats, kStages = kLargeStages<kInnerA, kInnerB>;
  const int group = threadIdx.x / T::kGroupThreads, thread = threadIdx.x % T::kGroupThreads;
  float* const ring = shared + group * kStages * kStage;
  const int total = slices_of_block(cut);

  A a_copy(p.m, p.k, thread);
  B b_copy(p.n, p.k, thread);
  int copied = 0, copy_left = 0, copy_depth = 0;
  const auto fetch = [&](int stage) {  // runs ahead, from one tile into the next
    if (copied < total) {
      if (copy_left == 0) {
        const Segment s = segment_behind(cut, copied);
        const int k = s.slice * T::kUnit + group * T::kDepth;
        a_copy.start(p.a, p.m, s.tile / cut.tiles_n * T::kM, k);
        b_copy.start(p.b, p.n, s.tile % cut.tiles_n * T::kN, k);
        copy_left = s.count;
        copy_depth = p.k - k;
      }
      float* const to = ring + stage * kStage;
      a_copy.fetch(to, copy_depth);
      b_copy.fetch(to + A::kFloats, copy_depth);
      copy_depth -= T::kUnit;
      --copy_left;
      ++copied;
    }
    __pipeline_commit();
  };
  const auto deposit = [&](int stage) {
    a_copy.deposit(ring + stage * kStage);
    b_copy.deposit(ring + stage * kStage + A::kFloats);
  };
  const auto wait = [&] {  // until the next slice is there, and the last is no longer needed
    __pipeline_wait_prior(kStages - 2);
    asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "n"(T::kGroupThreads) : "memory");
  };
#pragma unroll
  for (int stage = 0; stage < kStages - 1; ++stage) {
    fetch(stage);
    deposit(stage);
  }

  const int2 place = large_place(thread, 0);
  const auto read_a = [&](float(&to)[T::kLaneM], const float* slice, int k) {
#pragma unroll
    for (int i = 0; i < T::kLaneM; i += 4) {
      const float4 v = *reinterpret_cast<const float4*>(slice + k * A::kPitch + place.x + i * 8);
      to[i] = v.x, to[i + 1] = v.y, to[i + 2] = v.z, to[i + 3] = v.w;
    }
  };
  const auto read_b = [&](float(&to)[T::kLaneN], const float* slice, int k) {
#pragma unroll
    for (int j = 0; j < T::kLaneN; j += 4) {
      const float4 v =
          *reinterpret_cast<const float4*>(slice + A::kFloats + k * B::kPitch + place.y + j * 4);
      to[j] = v.x, to[j + 1] = v.y, to[j + 2] = v.z, to[j + 3] = v.w;
    }
  };

  int stage = 0;
  float a[2][T::kLaneM], b[2][T::kLaneN];
  wait();
  read_a(a[0], ring, 0);
  read_b(b[0], ring, 0);
  for (int done = 0; done < total;) {
    const Segment segment = segment_behind(cut, done);
    const int tile_m = segment.tile / cut.tiles_n, tile_n = segment.tile % cut.tiles_n;
    float sums[T::kLaneM][T::kLaneN] = {};
    for (int s = 0; s < segment.count; ++s) {
      const float* const slice = ring + stage * kStage;
      const int free_stage = stage == 0 ? kStages - 1 : stage - 1;
      stage = stage == kStages - 1 ? 0 : stage + 1;
      const float* const next_slice = ring + stage * kStage;
#pragma unroll
      for (int k = 0; k < T::kDepth; ++k) {
        const int now = k % 2, next = (k + 1) % 2;
        const bool last = k + 1 == T::kDepth;
        if (last) {  // the wait and the next slice's first reads are behind the last step's FMA
          deposit(free_stage);
          wait();
        }
        read_a(a[next], last ? next_slice : slice, (k + 1) % T::kDepth);
        read_b(b[next], last ? next_slice : slice, (k + 1) % T::kDepth);
        if (k == 0) {
          fetch(free_stage);
          if (!kInnerA && p.row_sums) {
            // Every tile of a row of tiles has these rows of A; they take turns.
            const int half = (segment.slice + s) * T::kGroups + group;
            const int row = tile_m * T::kM + thread;
            if (half % cut.tiles_n == tile_n && row < p.m) {
              float sum = 0.0f;
#pragma unroll
              for (int i = 0; i < T::kDepth; ++i) sum += slice[i * A::kPitch + thread];
              cut.row_parts[int64_t{half} * p.m + row] = sum;
            }
          }
        }
        // region multiply
#pragma unroll
        for (int i = 0; i < T::kLaneM; ++i) {
#pragma unroll
          for (int step = 0; step < T::kLaneN; ++step) {  // to and fro: a register is read twice
            const int j = i % 2 ? T::kLaneN - 1 - step : step;
            sums[i][j] = fmaf(a[now][i], b[now][j], sums[i][j]);
          }
        }
        // end multiply
      }
    }
    done += segment.count;
    if (done == total) let_secondary_start();
    float* const staged = shared + T::kGroups * kStages * kStage;
    float4 mine[T::kMine];
    join_groups(sums, staged, group, thread, mine);
    store_large(p, cut, segment.tile, group, thread, mine);
  }
}

/// The second kernel: adds the parts of the cut tiles, and then those of the row sums. Grid:
/// kSumBlocks blocks a cut tile, and one for each 32 rows if row sums are asked for.
static __global__ void __launch_bounds__(LargeTile::kSumThreads)
    linear_sum_large_kernel(const Product p, const Cut cut) {
  using T = LargeTile;
  const int tile = blockIdx.x / T::kSumBlocks;
  if (tile < cut.split) {
    const int index = blockIdx.x % T::kSumBlocks * T::kSumThreads + threadIdx.x;
    const int first = tile * cut.slices / cut.each;
    const int last = ((tile + 1) * cut.slices - 1) / cut.each;
    const float4* part = reinterpret_cast<const float4*>(p.partials) +
                         static_cast<int64_t>(first + tile) * T::kFloat4s + index;
    const int2 at = large_place(index % T::kGroupThreads, index / T::kGroupThreads);
    wait_for_primary();
    float4 sum = *part;
#pragma unroll 8
    for (int i = 1; i <= last - first; ++i) sum = sum + part[int64_t{i} * T::kFloat4s];
    store4(p, p.c, p.bias, tile / cut.tiles_n * T::kM + at.x, tile % cut.tiles_n * T::kN + at.y,
           sum);
    return;
  }
  constexpr int kRanges = T::kSumThreads / 32;
  __shared__ float parts[kRanges][32];
  const int x = threadIdx.x % 32, range = threadIdx.x / 32;
  const int row = (blockIdx.x - cut.split * T::kSumBlocks) * 32 + x;
  const int halves = cut.slices * T::kGroups, each = (halves + kRanges - 1) / kRanges;
  wait_for_primary();
  float sum = 0.0f;
  if (row < p.m) {
#pragma unroll 8
    for (int half = range * each; half < min(halves, (range + 1) * each); ++half) {
      sum += cut.row_parts[int64_t{half} * p.m + row];
    }
  }
  parts[range][x] = sum;
  __syncthreads();
  if (range > 0 || row >= p.m) return;
#pragma unroll
  for (int i = 1; i < kRanges; ++i) sum += parts[i][x];
  p.row_sums[row] = sum;
}

}  // namespace duet::linear
