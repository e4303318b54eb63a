// conv2d_pool_relu custom_fused: implicit GEMM whose rows run window by window, so that pooling
//           happens in registers; backward unpools dy while it gathers.
// Mapping:  block = 128 (or 64) rows x 128 (or 64, or 32) columns, thread = 8x8 (or 8x4)
//           accumulators: two windows x 8 (or 4) filters.
// Traffic:  as conv2d custom_implicit_gemm, but y and dy are the pooled ones (a quarter) plus
//           half a byte of argmax an element.
// Limits:   those of conv2d custom_implicit_gemm; pooling 2x2 with stride 2, no pool padding.
// Measured: H200, alone in a CUDA graph, 64x64x13x13 -> 128, 3x3: forward 48 us,
//           backward_filter 38, backward_data 113-158: unpooling while gathering costs more than
//           it saves (custom_winograd: 22, 34, 24).
#include "layers/conv2d/conv2d_gathers.cuh"
#include "layers/conv2d/implicit_gemm_products.cuh"
#include "layers/conv2d_pool_relu/conv2d_pool_relu_custom_fused.h"

namespace duet {
namespace {

template <Layout kLayout, class Tile, class GatherA, class GatherB>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kMinBlocks)
    conv2d_pool_relu_forward_kernel(const __grid_constant__ GatherA a,
                                    const __grid_constant__ GatherB b, int rows, int depth,
                                    const float* __restrict__ bias, float* __restrict__ y,
                                    uint16_t* __restrict__ argmax) {
  __shared__ GemmSmem<Tile, GatherA, GatherB> smem;
  const int m0 = blockIdx.x * Tile::kM, n0 = blockIdx.y * Tile::kN;
  float acc[Tile::kThreadM][Tile::kThreadN];
  gemm_mainloop<Tile, false>(a, b, m0, n0, 0, depth, smem, acc, nullptr);

  const ConvGeometry& g = a.reader.g;
  const int tx = threadIdx.x % Tile::kThreadsX, ty = threadIdx.x / Tile::kThreadsX;
  const int filters = g.d.k;
#pragma unroll
  for (int i = 0; i < Tile::kThreadM; i += 4) {
    const int m = m0 + gemm_row(i, ty, Tile::kM);
    if (m >= rows) continue;
    int n, window;
    g.by_windows.divmod(m >> 2, n, window);
#pragma unroll
    for (int j0 = 0; j0 < Tile::kThreadN; j0 += 4) {
      const int k0 = n0 + gemm_col<Tile>(j0, tx);
      if (k0 >= filters) continue;
      float out[4];
      uint32_t codes = 0;
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float shift = bias != nullptr && k0 + e < filters ? __ldg(bias + k0 + e) : 0.f;
        const PooledValue pooled =
            pool_window(acc[i][j0 + e] + shift, acc[i + 1][j0 + e] + shift,
                        acc[i + 2][j0 + e] + shift, acc[i + 3][j0 + e] + shift);
        out[e] = pooled.value;
        codes |= pooled.code << 4 * e;
      }
      if constexpr (kLayout == Layout::kNHWC) {
        store4(y + size_t(m >> 2) * filters + k0, out, filters - k0, filters % 4 == 0);
      } else {
        float* at = y + (size_t(n) * filters + k0) * g.windows + window;
#pragma unroll
        for (int e = 0; e < 4; ++e)
          if (k0 + e < filters) at[size_t(e) * g.windows] = out[e];
      }
      // Half a word: k0 is a multiple of four.
      const size_t word = (size_t(n) * argmax_groups(filters) + k0 / 8) * g.windows + window;
      argmax[word * 2 + (k0 / 4 & 1)] = uint16_t(codes);
    }
  }
}

template <Layout kLayout>
class Conv2dPoolReluCustomFused : public Conv2dPoolReluImpl {
 public:
  explicit Conv2dPoolReluCustomFused(const Conv2dPoolReluProblem& problem)
      : Conv2dPoolReluImpl(problem), geometry_(problem.conv), phases_(problem.conv) {
    const int multiprocessors = multiprocessor_count();
    forward_ = choose_tile(outputs_, conv_.k, multiprocessors);
    // No workspace: its sum is not split.
    backward_data_ = input_product(conv_, phases_, multiprocessors, 0);
    backward_filter_ = FilterProduct(conv_, outputs_, multiprocessors);
  }

  size_t workspace_bytes(Pass pass) const override {
    return pass == Pass::kBackwardFilter ? backward_filter_.workspace_bytes() : 0;
  }
  size_t state_bytes() const override { return packed_argmax_bytes(conv_); }
  std::string detail(Pass pass) const override {
    if (pass == Pass::kBackwardFilter) return backward_filter_.text();
    return tile_text(pass == Pass::kForward ? forward_ : backward_data_.tile);
  }

  void forward(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& y,
               const Tensor& state) override {
    if (conv_.c % 4 == 0) {
      forward_by<kWide, 4>(run.context, x, w, b, y, state);
    } else if (taps_ % 4 == 0) {
      forward_by<1, 4>(run.context, x, w, b, y, state);
    } else {
      forward_by<1, 1>(run.context, x, w, b, y, state);
    }
  }

  void backward_data(const Run& run, const Tensor&, const Tensor& dy, const Tensor& state,
                     const Tensor& w, const Tensor& dx) override {
    if (conv_.c % 4 == 0 && conv_.k % 4 == 0) {
      backward_data_by<kWide>(run.context, dy, state, w, dx);
    } else {
      backward_data_by<1>(run.context, dy, state, w, dx);
    }
  }

  void backward_filter(const Run& run, const Tensor& x, const Tensor&, const Tensor& dy,
                       const Tensor& state, const Tensor& dw, const Tensor& db) override {
    conv_.c % 4 == 0 ? backward_filter_by<kWide>(run, x, dy, state, dw, db)
                     : backward_filter_by<1>(run, x, dy, state, dw, db);
  }

 private:
  // Elements along a channel axis that are fetched at once where their number is a multiple of it.
  static constexpr int kWide = kLayout == Layout::kNHWC ? 4 : 1;

  template <int vec_x, int vec_w>
  void forward_by(Context& context, const Tensor& x, const Tensor& w, const Tensor& b,
                  const Tensor& y, const Tensor& state) {
    const PatchByPosition<kLayout, true, vec_x> patches{
        {x.data<float>(), geometry_, outputs_, taps_}};
    const MatrixByDepth<vec_w> filters{w.data<float>(), conv_.k, taps_};
    with_tile(forward_, [&]<class Tile>(Tile) {
      const dim3 grid(ceil_div(outputs_, Tile::kM), ceil_div(conv_.k, Tile::kN));
      conv2d_pool_relu_forward_kernel<kLayout, Tile><<<grid, Tile::kThreads, 0, context.stream()>>>(
          patches, filters, outputs_, taps_, b.data<float>(), y.data<float>(),
          state.data<uint16_t>());
    });
    DUET_LAUNCHED();
  }
  template <int vec>
  void backward_data_by(Context& context, const Tensor& dy, const Tensor& state, const Tensor& w,
                        const Tensor& dx) {
    const int depth = conv_.k * geometry_.taps;
    const GradByInput<kLayout, true, vec> grad{dy.data<float>(), state.data<uint32_t>(), geometry_,
                                               inputs_, depth};
    const WeightByChannel<kLayout, vec> weight{w.data<float>(), geometry_, depth};
    if (phases_.unit()) {
      launch_image_product<kLayout>(backward_data_.tile, grad, weight, inputs_, conv_.c, depth,
                                    geometry_.pixels_in, nullptr, dx.data<float>(),
                                    context.stream());
    } else {
      launch_strided_product(backward_data_, grad, weight, phases_, dx.data<float>(), nullptr,
                             context.stream());
    }
  }
  template <int vec>
  void backward_filter_by(const Run& run, const Tensor& x, const Tensor& dy, const Tensor& state,
                          const Tensor& dw, const Tensor& db) {
    launch_filter_product(
        backward_filter_,
        PooledGradByFilter<kLayout>{dy.data<float>(), state.data<uint32_t>(), geometry_},
        PatchByTap<kLayout, true, vec>{{x.data<float>(), geometry_, outputs_, taps_}},
        dw.data<float>(), db.data<float>(), run.workspace, run.stream());
  }

  const Conv2dProblem& conv_ = problem_.conv;
  const ConvGeometry geometry_;
  const StridePhases phases_;
  const int outputs_ = conv_.n * geometry_.windows * 4;  // those that a window holds
  const int inputs_ = conv_.n * conv_.h * conv_.w;
  const int taps_ = conv_.c * conv_.r * conv_.s;
  TileSize forward_;
  ImageProduct backward_data_;
  FilterProduct backward_filter_;
};

std::unique_ptr<Implementation> make(const Conv2dPoolReluProblem& problem, Context&) {
  return make_custom_fused(problem);
}

}  // namespace

std::optional<std::string> custom_fused_unsupported(const Conv2dPoolReluProblem& problem,
                                                    Pass pass) {
  const Pool2dProblem& pool = problem.pool;
  if (pool.r != 2 || pool.s != 2 || pool.stride_h != 2 || pool.stride_w != 2 || pool.pad_h != 0 ||
      pool.pad_w != 0) {
    return "pools by 2x2 windows with stride 2 and no padding only";
  }
  return implicit_gemm_unsupported(problem.conv, pass);
}

std::unique_ptr<Conv2dPoolReluImpl> make_custom_fused(const Conv2dPoolReluProblem& problem) {
  if (problem.conv.layout == Layout::kNCHW) {
    return std::make_unique<Conv2dPoolReluCustomFused<Layout::kNCHW>>(problem);
  }
  return std::make_unique<Conv2dPoolReluCustomFused<Layout::kNHWC>>(problem);
}

ImplEntry<Conv2dPoolReluProblem> conv2d_pool_relu_custom_fused() {
  return {"custom_fused", custom_fused_unsupported, make};
}

}  // namespace duet
