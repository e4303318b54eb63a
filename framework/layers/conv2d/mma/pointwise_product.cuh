// A convolution with filters of 1x1 and stride 1 in NCHW by the warp-wide mma.sync: products of the tensors as
// they lie, one kernel a pass; of many tiles by pointwise_kept.cuh, of few images of one pixel, as behind a global pooling,
// by kernels/few_rows.cuh. Of an image with HW pixels
//
//   forward          y [K][HW] = w    [K][C]  * x [C][HW]
//   backward_data    dx[C][HW] = w^T  [C][K]  * dy[K][HW]
//   backward_filter  dw[K][C]  = sum over images of dy[K][HW] * x^T[HW][C]
//
// mma.sync takes an operand in either order of its axes, so that nothing is turned, and float32 is rounded when a warp
// takes it from shared memory (kernels/mma_tile.cuh). Where tiles are too few for the GPU the sum of one is cut for the blocks of a
// cluster, which add up through each other's shared memory.
#pragma once

#include <cooperative_groups.h>

#include <algorithm>
#include <cmath>

#include "device/likely_multiprocessors.h"
#include "kernels/few_rows.cuh"
#include "kernels/mma_tile.cuh"
#include "kernels/products.cuh"
#include "layers/conv2d/mma/conv2d_plane_product.cuh"
#include "layers/conv2d/mma/pointwise.h"
#include "layers/conv2d/mma/pointwise_kept.cuh"

namespace duet {

/// Images [n][channel][pixel]: rows are positions (n, pixel), the sum runs over channels.
template <int vec, class T>
struct PlaneByPosition : OffsetGather<vec, true, T> {
  using Col = typename OffsetGather<vec, true, T>::Col;
  int channels, pixels, positions;
  FastDivisor by_pixels;
  __device__ __forceinline__ int row(int position) const {
    if (position >= positions) return -1;
    int n, pixel;
    by_pixels.divmod(position, n, pixel);
    return n * channels * pixels + pixel;
  }
  __device__ __forceinline__ Col col(int channel) const {
    return {channel < 0 ? -1 : channel * pixels, 0};
  }
};

/// The same images: rows are channels, the sum runs over positions.
template <int vec, class T>
struct PlaneByChannel : OffsetGather<vec, false, T> {
  using Col = typename OffsetGather<vec, false, T>::Col;
  int channels, pixels;
  FastDivisor by_pixels;
  __device__ __forceinline__ int row(int channel) const {
    return channel < channels ? channel * pixels : -1;
  }
  __device__ __forceinline__ Col col(int position) const {
    if (position < 0) return {-1, 0};
    int n, pixel;
    by_pixels.divmod(position, n, pixel);
    return {n * channels * pixels + pixel, 0};
  }
};

/// Slices twice as deep as others', as these products are short: fewer barriers. But of images (kImages) in bf16, of shorter sums
/// still, slices that let four blocks lie on a multiprocessor and hide each other's beginning and end: backward_data of
/// 8x256x28x28 -> 128 takes 6.7 us in place of 9.5, by the large tile 7.5, and of 8x832x7x7 -> 384 8.2 in place of 9.8 (H200).
template <class Mma, bool kImages>
struct PointwiseTiles {
  static constexpr int kDepth = 2 * Mma::kSliceDepth;
  static constexpr bool kSmallSlices = kImages && Mma::kDepth == 16;
  using Large = MmaTile<Mma, 128, 128, 2, 4, 3, Mma::kInParts ? 1 : 2, 32>;
  using Medium =
      std::conditional_t<kSmallSlices, MmaTile<Mma, 64, 64, 2, 2, 4, 4, Mma::kSliceDepth>,
                         MmaTile<Mma, 64, 64, 2, 2, 4, 2, kDepth>>;
  using Small = Medium;
  using Narrow = MmaTile<Mma, 32, 64, 1, 4, 4, 3, kDepth>;
  static constexpr const char* kText = Mma::kText;
  /// What a slice takes of each of the three sizes.
  static constexpr double kSliceUs[3] = {Mma::kDepth == 16 ? 0.77
                                         : Mma::kInParts   ? 2.15
                                                           : 1.23,
                                         kSmallSlices        ? 0.32
                                         : Mma::kDepth == 16 ? 0.58
                                         : Mma::kInParts     ? 0.74
                                                             : 0.50,
                                         Mma::kDepth == 16 ? 0.38
                                         : Mma::kInParts   ? 0.48
                                                           : 0.37};
};

inline constexpr int kMostRanks = 8;  // of a cluster on every GPU that has them

/// A tile's operands, and when they have been multiplied its sums [row][column].
template <class Tile, class GatherA, class GatherB>
union PointwiseSmem {
  static constexpr int kPitch = Tile::kN + 8;
  ProductSmem<Tile, GatherA, GatherB> product;
  float tile[Tile::kM * kPitch];
};

// blockIdx.x is a tile of columns, y one of rows, with a cluster along y for each: its blocks have parts of the sum, and
// add up in their order. z is a part of the sum that writes a result of its own, `stride` from the next.
template <class Tile, bool kSums, class GatherA, class GatherB, class T>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kMinBlocks)
    pointwise_kernel(const __grid_constant__ GatherA a, const __grid_constant__ GatherB b,
                     const __grid_constant__ PlaneProduct<T> to, int depth_per_split,
                     size_t stride) {
  wait_for_primary();
  using Smem = PointwiseSmem<Tile, GatherA, GatherB>;
  constexpr int kVec = 4, kLanes = Tile::kN / kVec, kRowsAtOnce = Tile::kThreads / kLanes;
  __shared__ float block_sums[kSums ? Tile::kM : 1];
  Smem& smem = product_smem<Smem>();
  int ranks = 1, rank = 0;
#if __CUDA_ARCH__ >= 900
  const auto cluster = cooperative_groups::this_cluster();
  ranks = int(cluster.num_blocks()), rank = int(cluster.block_rank());
#endif
  const int tid = threadIdx.x, n0 = blockIdx.x * Tile::kN, m0 = blockIdx.y / ranks * Tile::kM;
  const int k_begin = (blockIdx.z * ranks + rank) * depth_per_split;
  const int k_end = min(to.k, k_begin + depth_per_split);
  const bool sums = kSums && to.row_sums != nullptr && n0 == 0;
  float acc[Tile::kThreadM][Tile::kThreadN];
  compute_product<Tile, kSums>(a, b, m0, n0, k_begin, k_end, smem.product, acc,
                               sums ? block_sums : nullptr);
#pragma unroll
  for (int i = 0; i < Tile::kThreadM; ++i)
#pragma unroll
    for (int j = 0; j < Tile::kThreadN; j += 2)
      *reinterpret_cast<float2*>(smem.tile + Tile::row(i) * Smem::kPitch +
                                 Tile::col(j, Tile::thread_x())) = {acc[i][j], acc[i][j + 1]};
#if __CUDA_ARCH__ >= 900
  if (ranks > 1) cluster.sync();
#endif
  if (ranks == 1) __syncthreads();
  // The sum of what the blocks of the cluster have at one place.
  const auto total = [&]<class V, class Add>(V* at, Add add) {
    V sum = *at;
#if __CUDA_ARCH__ >= 900
    if (ranks > 1) {
      V all[kMostRanks];  // read side by side
#pragma unroll
      for (int r = 0; r < kMostRanks; ++r)
        if (r < ranks) all[r] = *cluster.map_shared_rank(at, r);
      sum = all[0];
#pragma unroll
      for (int r = 1; r < kMostRanks; ++r)
        if (r < ranks) add(sum, all[r]);
    }
#endif
    return sum;
  };
  const size_t part = blockIdx.z * stride;
  if (sums && rank == 0 && tid < Tile::kM) {
    const float sum = total(&block_sums[tid], [](float& s, float v) { s += v; });
    if (m0 + tid < to.m) to.row_sums[part + m0 + tid] = sum;
  }
  const int column = tid % kLanes * kVec;
  const bool whole = to.pixels % kVec == 0;
  int at_row_0[kVec];  // where the columns lie
#pragma unroll
  for (int e = 0; e < kVec; ++e) at_row_0[e] = to.offset(0, n0 + column + e);
  for (int row = rank * kRowsAtOnce + tid / kLanes; row < Tile::kM; row += ranks * kRowsAtOnce) {
    const int m = m0 + row, n = n0 + column;
    if (m >= to.m || n >= to.n) break;
    auto* const at = reinterpret_cast<float4*>(smem.tile + row * Smem::kPitch + column);
    const float4 sum = total(
        at, [](float4& s, const float4& v) { s.x += v.x, s.y += v.y, s.z += v.z, s.w += v.w; });
    const float shift = to.bias != nullptr ? __ldg(to.bias + m) : 0.f;
    const Vector<float, kVec> values = {
        {sum.x + shift, sum.y + shift, sum.z + shift, sum.w + shift}};
    T* const out = to.c + part + m * to.pixels;
    if (whole) {
      store_word(out + at_row_0[0], values);
    } else {
#pragma unroll
      for (int e = 0; e < kVec; ++e)
        if (n + e < to.n) out[at_row_0[e]] = T(values.v[e]);
    }
  }
#if __CUDA_ARCH__ >= 900
  if (ranks > 1) cluster.sync();  // others may still read what this block has
#endif
}

/// How a product of the rows and columns of `Tiles` is computed: its tile, and splits of its sum, which are the `ranks` of a
/// cluster or `parts` that leave partial results in the workspace.
template <class Tiles>
struct PointwisePlan {
  int rows = 1, columns = 1, depth = 1;
  TileSize tile = TileSize::kSmall;
  int ranks = 1, parts = 1, depth_per_split = 1;
  double microseconds = 0;  // an estimate

  /// `whole`: planes are fetched by more than one value. A part leaves `results` floats in the workspace, which may take
  /// `limit` bytes.
  PointwisePlan(int rows_, int columns_, int depth_, bool whole, size_t results = 0,
                size_t limit = 0)
      : rows(rows_), columns(columns_), depth(depth_) {
    for (const TileSize size : {TileSize::kLarge, TileSize::kSmall, TileSize::kNarrow}) {
      with_tile<Tiles>(size, [&]<class Tile>(Tile) {
        const int slices = ceil_div(depth, Tile::kK);
        for (int splits = 1; splits <= std::min(slices, 64); splits *= 2) {
          consider<Tile>(size, splits, 1, slices, whole, results);
          const double bytes = double(splits) * results * sizeof(float);
          if (results > 0 && splits > 1 && bytes <= double(limit))
            consider<Tile>(size, 1, splits, slices, whole, results);
        }
      });
    }
  }
  std::string text() const {
    return tile_text<Tiles>(tile) + (ranks > 1 ? ", clusters of " + std::to_string(ranks) : "") +
           (parts > 1 ? ", " + std::to_string(parts) + " splits" : "");
  }

 private:
  /// Fitted to times of an H100: what launches and first copies take, a slice of a tile, as many of them as a block
  /// has and 1.2 more, for each block of a multiprocessor, and the sums of a cluster or of parts.
  template <class Tile>
  void consider(TileSize size, int blocks, int count, int slices, bool whole, size_t results) {
    if (blocks > kMostRanks) return;
    constexpr double kSlice = Tiles::kSliceUs[Tile::kM == 128 ? 0 : Tile::kM == 64 ? 1 : 2];
    constexpr double kOfCluster = 0.25 * Tile::kM * Tile::kN / 4096;
    const int all = likely_multiprocessor_count();
    // Where the groups of multiprocessors that clusters lie in are not filled by eights.
    const int multiprocessors = blocks == kMostRanks ? all * 7 / 8 : all;
    const double tiles = double(ceil_div(rows, Tile::kM)) * ceil_div(columns, Tile::kN);
    const double each = std::ceil(tiles * blocks * count / multiprocessors);
    const int mine = ceil_div(slices, blocks * count);
    double estimate = 1.7 + std::max(each, 1.3) * ((mine * (whole ? 1. : 1.5) + 1.2) * kSlice +
                                                   (blocks > 1 ? kOfCluster : 0.));
    if (blocks > 1) estimate += 0.2 * std::log2(blocks);
    if (count > 1) estimate += 0.4 + 0.7e-6 * count * double(results);
    if (microseconds > 0 && estimate >= microseconds) return;
    microseconds = estimate, tile = size, ranks = blocks, parts = count;
    depth_per_split = mine * Tile::kK;
  }
};

/// `to` with its parts `stride` apart.
template <bool kSums, class Tiles, class GatherA, class GatherB, class T>
void launch_pointwise(const PointwisePlan<Tiles>& plan, const GatherA& a, const GatherB& b,
                      const PlaneProduct<T>& to, size_t stride, cudaStream_t stream) {
  with_tile<Tiles>(plan.tile, [&]<class Tile>(Tile) {
    const auto kernel = pointwise_kernel<Tile, kSums, GatherA, GatherB, T>;
    constexpr int kBytes = sizeof(PointwiseSmem<Tile, GatherA, GatherB>);
    DUET_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
    launch({.gridDim =
                dim3(ceil_div(to.n, Tile::kN), ceil_div(to.m, Tile::kM) * plan.ranks, plan.parts),
            .blockDim = Tile::kThreads,
            .dynamicSmemBytes = kBytes,
            .stream = stream},
           {plan.ranks > 1 ? in_clusters_of(1, plan.ranks) : cudaLaunchAttribute{},
            overlaps_primary()},
           kernel, a, b, to, plan.depth_per_split, stride);
  });
}

/// x, y and their gradients are stored as T, float for tf32 and, kSplit, for fp32 in 3xTF32. REQUIRES:
/// is_pointwise(), and that gathers_unsupported() has no reason.
template <class T, bool kSplit>
class PointwiseConvolution : public Conv2dImpl {
 public:
  PointwiseConvolution(const Conv2dProblem& d, const Context& context)
      : Conv2dImpl(d),
        pixels_(d.h * d.w),
        positions_(d.n * pixels_),
        forward_(d.k, positions_, d.c, pixels_ % 4 == 0),
        backward_data_(d.c, positions_, d.k, pixels_ % 4 == 0),
        backward_filter_(d.k, d.c, positions_, pixels_ % 4 == 0, partial_stride(d.k, d.c),
                         context.workspace_limit()),
        kept_forward_(kept<false>(d.k, d.c)),
        kept_backward_data_(kept<true>(d.c, d.k)) {}

  size_t workspace_bytes(Pass pass) const override {
    if (pass != Pass::kBackwardFilter || is_by_rows(pass) || backward_filter_.parts == 1) return 0;
    return sizeof(float) * backward_filter_.parts * partial_stride(problem_.k, problem_.c);
  }
  std::string detail(Pass pass) const override {
    if (is_by_rows(pass)) return std::string("images of one pixel") + Mma::kText;
    if (pass == Pass::kBackwardFilter) return backward_filter_.text();
    const auto& kept = pass == Pass::kForward ? kept_forward_ : kept_backward_data_;
    if (kept) return kept->text(Mma::kText);
    return (pass == Pass::kForward ? forward_ : backward_data_).text();
  }

  void forward(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b,
               const Tensor& y) override;
  void backward_data(const Run& run, const Tensor& dy, const Tensor& w, const Tensor& dx) override;
  void backward_filter(const Run& run, const Tensor& x, const Tensor& dy, const Tensor& dw,
                       const Tensor& db) override;

 private:
  static constexpr bool kHalf = std::is_same_v<T, bfloat16>;
  using Mma = std::conditional_t<kHalf, StoredMmaBf16,
                                 std::conditional_t<kSplit, StoredMma3xTf32, StoredMmaTf32>>;
  using ImageTiles = PointwiseTiles<Mma, true>;
  using FilterTiles = PointwiseTiles<Mma, false>;

  /// Calls f with as many values of a plane as are fetched at once.
  template <class F>
  void by_vectors(F f) const {
    if constexpr (kHalf) {
      if (pixels_ % 8 == 0) return f(std::integral_constant<int, 8>{});
    }
    pixels_ % 4 == 0 ? f(std::integral_constant<int, 4>{}) : f(std::integral_constant<int, 1>{});
  }

  PlaneProduct<T> images_product(const PointwisePlan<ImageTiles>& plan, const float* bias,
                                 const Tensor& out) const {
    return {.m = plan.rows,
            .n = plan.columns,
            .k = plan.depth,
            .pixels = pixels_,
            .by_pixels = FastDivisor(pixels_),
            .bias = bias,
            .c = out.data<T>(),
            .row_sums = nullptr};
  }

  /// out = weights * images of so many channels.
  template <class Weights>
  void launch_images(const PointwisePlan<ImageTiles>& plan, const Weights& weights,
                     const Tensor& images, int channels, const float* bias, const Tensor& out,
                     const Run& run) const {
    const PlaneProduct<T> to = images_product(plan, bias, out);
    by_vectors([&]<int vec>(std::integral_constant<int, vec>) {
      const PlaneByPosition<vec, T> b{
          {images.data<T>()}, channels, pixels_, positions_, to.by_pixels};
      launch_pointwise<false>(plan, weights, b, to, 0, run.stream());
    });
  }

  using KeptMma =
      std::conditional_t<kHalf, MmaBf16,
                         ByColumnPairs<std::conditional_t<kSplit, StoredMma3xTf32, KeptMmaTf32>>>;
  using Kept = KeptTile<KeptMma>;
  /// Where a block has one team, or gets fewer columns by them, tiles half as wide are faster: dx of 8x832x7x7 -> 32 takes 5.4 us
  /// in place of 5.9, of 8x672x7x7 -> 192 6.7 in place of 8.0; with as many columns slower (8x512x14x14 -> 144 7.6, 7.0; H200).
  static constexpr bool kHasNarrow = !kHalf && !kSplit;
  using Narrow = KeptTile<KeptMma, 32>;

  /// A gradient of weights has no blocks for more images, which are its terms.
  bool is_by_rows(Pass pass) const {
    return is_few_pixels(problem_) && (pass != Pass::kBackwardFilter || problem_.n <= kRowsAtOnce);
  }

  /// With weights kept in shared memory, where half of the multiprocessors have a tile (a third, of narrow ones two each). Where none has two, a cluster cuts
  /// long sums, in parts all of planes that are copied value by value; few rows have a narrower tile.
  template <bool kTurned>
  std::optional<KeptPlan> kept(int rows, int depth) const {
    const int most = kHalf ? 384 : kSplit && pixels_ % 4 != 0 ? 0 : 256;
    if (kHalf ? pixels_ % 4 != 0 : rows <= 32) return {};
    const double tiles = double(ceil_div(rows, Kept::kM)) * ceil_div(positions_, Kept::kN);
    const int multiprocessors = likely_multiprocessor_count();
    if (tiles <= multiprocessors &&
        ((kHasNarrow ? 3 : 2) * tiles < multiprocessors || depth > most))
      return {};
    const auto plan = kept_plan<Kept, kTurned, T>(rows, positions_, depth);
    if constexpr (kHasNarrow) {
      const auto narrow = kept_plan<Narrow, kTurned, T>(rows, positions_, depth);
      if (plan && narrow && (plan->teams == 1 || narrow->teams < 2 * plan->teams)) return narrow;
    }
    return plan;
  }
  template <bool kTurned>
  void launch_kept_images(const KeptPlan& plan, const float* weights, const Tensor& images,
                          const PointwisePlan<ImageTiles>& product, const float* bias,
                          const Tensor& out, const Run& run) const {
    by_vectors([&]<int vec>(std::integral_constant<int, vec>) {
      const auto launch = [&]<class Tile>(Tile) {
        launch_kept<Tile, kTurned, vec>(plan, weights, images.data<T>(),
                                        images_product(product, bias, out), run.stream());
      };
      if constexpr (kHasNarrow) {
        plan.narrow ? launch(Narrow{}) : launch(Kept{});
      } else if constexpr (!kHalf || vec > 1) {
        launch(Kept{});
      }
    });
  }

  const int pixels_, positions_;
  const PointwisePlan<ImageTiles> forward_, backward_data_;
  const PointwisePlan<FilterTiles> backward_filter_;
  const std::optional<KeptPlan> kept_forward_, kept_backward_data_;
};

// Behind the class, as `extern template` does not keep the compiler from making what is inline again, kernels and all.

template <class T, bool kSplit>
void PointwiseConvolution<T, kSplit>::forward(const Run& run, const Tensor& x, const Tensor& w,
                                              const Tensor& b, const Tensor& y) {
  if (is_by_rows(Pass::kForward)) {
    return launch_few_rows_forward<kSplit>(problem_.n, problem_.c, problem_.k, x.data<T>(),
                                           w.data<float>(), b.data<float>(), y.data<T>(),
                                           run.stream());
  }
  if (kept_forward_) {
    return launch_kept_images<false>(*kept_forward_, w.data<float>(), x, forward_, b.data<float>(),
                                     y, run);
  }
  launch_images(forward_, MatrixByDepth<4>{{w.data<float>()}, problem_.k, problem_.c}, x,
                problem_.c, b.data<float>(), y, run);
}

template <class T, bool kSplit>
void PointwiseConvolution<T, kSplit>::backward_data(const Run& run, const Tensor& dy,
                                                    const Tensor& w, const Tensor& dx) {
  if (is_by_rows(Pass::kBackwardData)) {
    return launch_few_rows_backward_data<kSplit>(problem_.n, problem_.c, problem_.k, dy.data<T>(),
                                                 w.data<float>(), dx.data<T>(), run.stream());
  }
  if (kept_backward_data_) {
    return launch_kept_images<true>(*kept_backward_data_, w.data<float>(), dy, backward_data_,
                                    nullptr, dx, run);
  }
  launch_images(backward_data_, MatrixByRow<4>{{w.data<float>()}, problem_.c}, dy, problem_.k,
                nullptr, dx, run);
}

template <class T, bool kSplit>
void PointwiseConvolution<T, kSplit>::backward_filter(const Run& run, const Tensor& x,
                                                      const Tensor& dy, const Tensor& dw,
                                                      const Tensor& db) {
  if (is_by_rows(Pass::kBackwardFilter)) {
    return launch_few_rows_backward_filter(problem_.n, problem_.c, problem_.k, x.data<T>(),
                                           dy.data<T>(), dw.data<float>(), db.data<float>(),
                                           run.stream());
  }
  const auto& plan = backward_filter_;
  const int count = plan.rows * plan.columns;
  float* const parts = static_cast<float*>(run.workspace);
  PlaneProduct<float> to{.m = plan.rows,
                         .n = plan.columns,
                         .k = plan.depth,
                         .pixels = plan.columns,
                         .by_pixels = FastDivisor(plan.columns),
                         .bias = nullptr,
                         .c = dw.data<float>(),
                         .row_sums = db.data<float>()};
  if (plan.parts > 1) to.c = parts, to.row_sums = parts + count;
  const size_t stride = partial_stride(plan.rows, plan.columns);
  by_vectors([&]<int vec>(std::integral_constant<int, vec>) {
    const FastDivisor by_pixels(pixels_);
    const PlaneByChannel<vec, T> a{{dy.data<T>()}, problem_.k, pixels_, by_pixels};
    const PlaneByChannel<vec, T> b{{x.data<T>()}, problem_.c, pixels_, by_pixels};
    launch_pointwise<true>(plan, a, b, to, stride, run.stream());
  });
  if (plan.parts == 1) return;
  launch_reduce_splits(parts, plan.parts, stride, count + plan.rows, count, dw.data<float>(),
                       db.data<float>(), run.stream());
}

// Compiled in conv2d_pointwise.cu, conv2d_pointwise_tf32.cu and conv2d_custom_mma_3xtf32.cu.
extern template class PointwiseConvolution<bfloat16, false>;
extern template class PointwiseConvolution<float, false>;
extern template class PointwiseConvolution<float, true>;

}  // namespace duet
