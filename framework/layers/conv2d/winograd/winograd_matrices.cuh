// Winograd's F(4x4, 3x3) by way of memory, for many channels: a 4x4 tile of outputs, a channel and a filter cost 36
// multiplications, not 144 (F(2x2, 3x3) in winograd.cuh: 64). In the words there, with patches of 6x6, and each a matrix
// product a point:
//   forward          M[k][tile] = sum_c    U[k][c] V[c][tile]       y  = A'MA
//   backward_filter  Mf[k][c]   = sum_tile E[k][tile] V[c][tile]    dw = G'Mf G
// with V = B'dB, U = GgG', E = A dy A'. A kernel that keeps its points in registers transforms x for every 64 filters, and has
// no place for 36 of them; here each value is transformed once, is 36 / 16 values in memory, and products are as large as
// matrices are (kernels/wgmma_product.cuh, in 3xTF32).
#pragma once

#include "kernels/wgmma_product.cuh"
#include "layers/conv2d/conv2d_geometry.cuh"

namespace duet {

/// F(4x4, 3x3) along one axis, by the points 0, a, -a, b, -b and infinity. With a = sqrt(1/2) and b = sqrt(2) results err less
/// than half as much as by 1 and 2, which A. Lavin and S. Gray take.
struct WinogradSix {
  static constexpr int kTile = 4, kPatch = 6, kPoints = kPatch * kPatch;
  static constexpr float kA = 0.70710678118654752f, kB = 1.41421356237309505f;

  struct Input {  // B'
    static constexpr int kSize = kPatch;
    __device__ __forceinline__ static constexpr float at(int i, int j) {
      constexpr float m[kPatch][kPatch] = {{1, 0, -2.5f, 0, 1, 0},    {0, -kB, -2, kA, 1, 0},
                                           {0, kB, -2, -kA, 1, 0},    {0, -kA, -0.5f, kB, 1, 0},
                                           {0, kA, -0.5f, -kB, 1, 0}, {0, 1, 0, -2.5f, 0, 1}};
      return m[i][j];
    }
  };
  struct Gradient {  // A
    static constexpr int kSize = kTile;
    __device__ __forceinline__ static constexpr float at(int i, int j) {
      constexpr float m[kPatch][kTile] = {
          {1, 0, 0, 0},       {1, kA, 0.5f, 0.5f * kA}, {1, -kA, 0.5f, -0.5f * kA},
          {1, kB, 2, 2 * kB}, {1, -kB, 2, -2 * kB},     {0, 0, 0, 1}};
      return m[i][j];
    }
  };
  struct Filter {  // G
    static constexpr int kSize = 3;
    __device__ __forceinline__ static constexpr float at(int i, int j) {
      constexpr float m[kPatch][3] = {{1, 0, 0},
                                      {-1 / 1.5f, -kA / 1.5f, -1 / 3.f},
                                      {-1 / 1.5f, kA / 1.5f, -1 / 3.f},
                                      {1 / 6.f, kB / 6, 1 / 3.f},
                                      {1 / 6.f, -kB / 6, 1 / 3.f},
                                      {0, 0, 1}};
      return m[i][j];
    }
  };
  /// The rows of A, so much of each, add up to ones.
  __device__ __forceinline__ static constexpr float share_of_ones(int i) {
    constexpr float shares[kPatch] = {-1, 1 + kA, 1 - kA, 0, 0, 0.5f};
    return shares[i];
  }
  /// G' of G, A' of A.
  template <class Matrix>
  struct Transposed {
    static constexpr int kSize = kPatch;
    __device__ __forceinline__ static constexpr float at(int i, int j) { return Matrix::at(j, i); }
  };
};

/// m a m', of so many rows.
template <class Matrix, int kRows>
__device__ __forceinline__ void transform_both(const float (&a)[Matrix::kSize * Matrix::kSize],
                                               float (&out)[kRows * kRows]) {
  constexpr int kSize = Matrix::kSize;
  float half[kRows][kSize];
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      half[i][j] = 0.f;
#pragma unroll
      for (int l = 0; l < kSize; ++l)
        if (Matrix::at(i, l) != 0.f) half[i][j] += Matrix::at(i, l) * a[l * kSize + j];
    }
  }
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
#pragma unroll
    for (int j = 0; j < kRows; ++j) {
      float sum = 0.f;
#pragma unroll
      for (int l = 0; l < kSize; ++l)
        if (Matrix::at(j, l) != 0.f) sum += Matrix::at(j, l) * half[i][l];
      out[i * kRows + j] = sum;
    }
  }
}

/// The 4x4 tiles of outputs, numbered image by image in row-major order.
struct FourTiles {
  int count;
  FastDivisor by_image, by_columns;
  explicit FourTiles(const Conv2dProblem& d)
      : FourTiles(d.n, ceil_div(d.p, WinogradSix::kTile), ceil_div(d.q, WinogradSix::kTile)) {}

 private:
  FourTiles(int images, int rows, int columns)
      : count(images * rows * columns), by_image(rows * columns), by_columns(columns) {}
};

/// Images [n][channel][height][width], whose tiles begin `pad` above and left of their first output.
struct TiledImages {
  int channels, height, width, pad_h, pad_w;
};

/// Where a tile's patch of kSize x kSize lies, and what of it is inside the image.
template <int kSize>
struct TilePatch {
  int offset = 0;
  uint32_t rows = 0, columns = 0;

  __device__ __forceinline__ TilePatch(const TiledImages& images, const FourTiles& tiles,
                                       int tile) {
    if (tile >= tiles.count) return;
    int n, index, row, column;
    tiles.by_image.divmod(tile, n, index);
    tiles.by_columns.divmod(index, row, column);
    row = row * WinogradSix::kTile - images.pad_h;
    column = column * WinogradSix::kTile - images.pad_w;
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      rows |= uint32_t(uint32_t(row + i) < uint32_t(images.height)) << i;
      columns |= uint32_t(uint32_t(column + i) < uint32_t(images.width)) << i;
    }
    offset = (n * images.channels * images.height + row) * images.width + column;
  }
  /// Zeros outside.
  __device__ __forceinline__ void load(const float* from, const TiledImages& images, int channel,
                                       float (&values)[kSize * kSize]) const {
    const float* const at = from + (offset + channel * images.height * images.width);
#pragma unroll
    for (int i = 0; i < kSize * kSize; ++i) {
      const bool inside = rows >> i / kSize & columns >> i % kSize & 1;
      values[i] = inside ? at[i / kSize * images.width + i % kSize] : 0.f;
    }
  }
};

/// An operand (kernels/wgmma_operands.cuh): for each step of the sum a matrix of `rows` of its terms, one behind the other.
template <bool sums>
struct StepMatrices : MatrixRows<float> {
  static constexpr bool kSums = sums;
  StepMatrices(const float* from, int rows_of_step, int steps, int tile_rows)
      : MatrixRows(from, rows_of_step * steps, kStepDepth<float>, tile_rows) {
    rows = rows_of_step;
  }
  /// Rows beyond the last are the next step's, and make results that nobody stores.
  template <int kRows>
  __device__ __forceinline__ void copy(const Start& first, int step, char* shared,
                                       const CopyBarrier& barrier) const {
    copy_box(shared, map, 0, step * rows + first, barrier);
  }
};

/// A product of `rows` x `columns` for each of 36 points: one of wgmma_product.cuh, whose sum runs over all points' terms and
/// whose every split is a point's, or a part of it.
class PointProducts {
 public:
  static constexpr int kTerms = kStepDepth<float>;

  /// Of so many terms, results `stride` floats apart. Splits leave at most `limit` bytes.
  PointProducts(int rows, int columns, int terms, size_t stride, size_t limit, int multiprocessors)
      : rows_(rows), columns_(columns), stride_(stride) {
    plan_ = {kPoints * ceil_div(rows, kTileRows), columns, ceil_div(terms, kTerms),
             int64_t(kPoints * stride),           limit,   multiprocessors};
    // region points
    splits_ = plan_.splits;
    steps_ = splits_ * plan_.steps_per_split;
    plan_.row_tiles /= kPoints;
    plan_.steps = kPoints * steps_;
    plan_.splits *= kPoints;
    // end points
  }
  /// Of a point: steps of 32 terms that operands have, and results that are its sum.
  int steps() const { return steps_; }
  int splits() const { return splits_; }
  size_t row_floats() const { return size_t(kPoints) * steps_ * rows_ * kTerms; }
  size_t column_floats() const { return size_t(kPoints) * steps_ * columns_ * kTerms; }
  /// [point][split][row][column]
  size_t result_floats() const { return size_t(kPoints) * splits_ * stride_; }
  /// An estimate, with what other kernels write of operands and read of results.
  double microseconds() const {
    constexpr double kCyclesPerUs = 1755, kBytesPerUs = 4e6, kLaunchUs = 2;
    const double floats = double(row_floats() + column_floats() + 2 * result_floats());
    return 3 * kLaunchUs + plan_.cycles / kCyclesPerUs + sizeof(float) * floats / kBytesPerUs;
  }
  std::string text() const {
    return "F(4x4, 3x3), 36 products by tiles of 128x" + std::to_string(plan_.tile_columns) +
           (splits_ == 1 ? "" : ", " + std::to_string(splits_) + " splits") + ", wgmma 3xtf32";
  }

  /// Operands are [point][step][row or column][term]. kSums: the rows' sums of each split lie behind its results.
  template <bool kSums>
  void launch(const float* rows, const float* columns, float* to, cudaStream_t stream) const {
    plan_.with_tile([&]<class Tile>(Tile) {
      const WgmmaResult<Layout::kNHWC, float> result{
          to, nullptr, columns_, 1, stride_, kSums ? to + size_t(rows_) * columns_ : nullptr};
      launch_wgmma_product<Tile>(plan_, StepMatrices<kSums>(rows, rows_, plan_.steps, Tile::kM),
                                 StepMatrices<kSums>(columns, columns_, plan_.steps, Tile::kN),
                                 result, stream);
    });
  }

 private:
  static constexpr int kPoints = WinogradSix::kPoints, kTileRows = 128;
  int rows_, columns_;
  size_t stride_;
  WgmmaPlan<true> plan_;
  int splits_ = 1, steps_ = 1;
};

}  // namespace duet
