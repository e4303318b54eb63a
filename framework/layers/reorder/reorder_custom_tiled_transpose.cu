// reorder custom_tiled_transpose: a tile is read along source rows, turned in shared memory,
//           written along target rows.
// Mapping:  block = one tile of one image; 32 x 32 where both sides have 32 or more, else the
//           whole short side (3 channels, say) by up to 1024 / short of the long one; 256 threads.
// Traffic:  x once, y once, both coalesced; shared memory without bank conflicts.
// Limits:   fp32 or bf16, fewer than 2^31 elements.
#include <algorithm>

#include "device/check.h"
#include "device/launch.h"
#include "layers/reorder/reorder.h"

namespace duet {
namespace {

constexpr int kThreads = 256;
constexpr int kSide = 32;
constexpr int kTileElements = kSide * kSide;

struct Tiles {
  int rows, columns;            // of the source matrix
  int tile_rows, tile_columns;  // at most kTileElements together
  int down, across;             // tiles of one matrix
};

// The pad of one element a tile row puts the 32 elements of a tile column into 32 banks; bfloat16
// take a bank each too.
// region turn
template <class T>
__global__ void reorder_square_kernel(Tiles t, const T* from, T* to) {
  wait_for_primary();
  __shared__ Accumulator<T> tile[kSide][kSide + 1];
  const int across = blockIdx.x % t.across;
  const int down = blockIdx.x / t.across % t.down;
  const int64_t image = static_cast<int64_t>(blockIdx.x / t.across / t.down) * t.rows * t.columns;
  const int x = threadIdx.x % kSide, y = threadIdx.x / kSide;

  const int column = across * kSide + x;
#pragma unroll
  for (int k = 0; k < kSide; k += kThreads / kSide) {
    const int row = down * kSide + y + k;
    if (row < t.rows && column < t.columns) {
      tile[y + k][x] = from[image + static_cast<int64_t>(row) * t.columns + column];
    }
  }
  __syncthreads();
  const int row = down * kSide + x;
#pragma unroll
  for (int k = 0; k < kSide; k += kThreads / kSide) {
    const int target = across * kSide + y + k;
    if (row < t.rows && target < t.columns) {
      to[image + static_cast<int64_t>(target) * t.rows + row] = T(tile[x][y + k]);
    }
  }
}
// end turn

// Exact for 0 <= i < 2048 and 1 <= divisor <= 2048: i + 0.5 is never near a multiple of the
// divisor. A few instructions, where an integer division by a variable is about twenty.
__device__ __forceinline__ int quotient(int i, float inverse) {
  return static_cast<int>((static_cast<float>(i) + 0.5f) * inverse);
}

// One side of the tile is the whole short side of the matrix, so that the tile is one run of memory
// in the source or in the target, and threads count along it without holes: lanes are not lost on
// the 29 missing channels of an image that has 3.
template <class T>
__global__ void reorder_narrow_kernel(Tiles t, const T* from, T* to) {
  wait_for_primary();
  // 512 x 2 elements with rows of 3 are the most that a tile needs.
  __shared__ Accumulator<T> tile[kTileElements / 2 * 3];
  const int across = blockIdx.x % t.across;
  const int down = blockIdx.x / t.across % t.down;
  const int64_t image = static_cast<int64_t>(blockIdx.x / t.across / t.down) * t.rows * t.columns;
  const int first_row = down * t.tile_rows, first_column = across * t.tile_columns;
  const int rows = min(t.tile_rows, t.rows - first_row);
  const int columns = min(t.tile_columns, t.columns - first_column);
  const int pitch = columns | 1;  // odd: neighbours of a column fall into different banks
  const int elements = rows * columns;

  const T* source = from + image + static_cast<int64_t>(first_row) * t.columns + first_column;
  const float per_column = 1.0f / static_cast<float>(columns);
  for (int i = threadIdx.x; i < elements; i += kThreads) {
    const int row = quotient(i, per_column), column = i - row * columns;
    tile[row * pitch + column] = source[static_cast<int64_t>(row) * t.columns + column];
  }
  __syncthreads();
  T* target = to + image + static_cast<int64_t>(first_column) * t.rows + first_row;
  const float per_row = 1.0f / static_cast<float>(rows);
  for (int i = threadIdx.x; i < elements; i += kThreads) {
    const int column = quotient(i, per_row), row = i - column * rows;
    target[static_cast<int64_t>(column) * t.rows + row] = T(tile[row * pitch + column]);
  }
}

template <class T>
class ReorderCustomTiledTranspose : public ReorderImpl {
 public:
  using ReorderImpl::ReorderImpl;

  void reorder(const Run& run, const Tensor& from, const Tensor& to) override {
    const ReorderMatrix matrix(from.desc, to.desc.layout);
    const int rows = matrix.rows, columns = matrix.columns;
    Tiles t{rows, columns, kSide, kSide, 0, 0};
    if (rows < kSide && rows <= columns) {
      t.tile_rows = rows;
      t.tile_columns = std::min(columns, kTileElements / rows);
    } else if (columns < kSide) {
      t.tile_rows = std::min(rows, kTileElements / columns);
      t.tile_columns = columns;
    }
    t.down = (rows + t.tile_rows - 1) / t.tile_rows;
    t.across = (columns + t.tile_columns - 1) / t.tile_columns;
    const unsigned blocks = static_cast<unsigned>(matrix.batch) * t.down * t.across;
    const bool square = rows >= kSide && columns >= kSide;
    const auto kernel = square ? reorder_square_kernel<T> : reorder_narrow_kernel<T>;
    launch_following({blocks, kThreads, 0, run.stream()}, kernel, t, from.data<T>(), to.data<T>());
  }
};

}  // namespace

ImplEntry<ReorderProblem> reorder_custom_tiled_transpose() {
  return gpu_entry<ReorderCustomTiledTranspose>("custom_tiled_transpose");
}

}  // namespace duet
