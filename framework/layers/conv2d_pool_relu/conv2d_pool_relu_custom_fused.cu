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
#include "kernels/fma_tile.cuh"
#include "layers/conv2d/small_channels/strided_product.cuh"
#include "layers/conv2d_pool_relu/conv2d_pool_relu_general.h"
#include "layers/conv2d_pool_relu/window_product.cuh"

namespace duet {
namespace {

template <Layout kLayout>
class Conv2dPoolReluCustomFused : public Conv2dPoolReluImpl {
 public:
  explicit Conv2dPoolReluCustomFused(const Conv2dPoolReluProblem& problem)
      : Conv2dPoolReluImpl(problem), geometry_(problem.conv), phases_(problem.conv) {
    const int multiprocessors = multiprocessor_count();
    forward_ = choose_tile(outputs_, conv_.k, multiprocessors);
    // No workspace: its sum is not split.
    backward_data_ = input_product<FmaTiles>(conv_, phases_, multiprocessors, 0);
    backward_filter_ = {conv_.k, taps_, outputs_, multiprocessors};
  }

  size_t workspace_bytes(Pass pass) const override {
    return pass == Pass::kBackwardFilter ? backward_filter_.workspace_bytes() : 0;
  }
  size_t state_bytes() const override { return packed_argmax_bytes(conv_); }
  std::string detail(Pass pass) const override {
    if (pass == Pass::kBackwardFilter) return backward_filter_.text();
    return tile_text<FmaTiles>(pass == Pass::kForward ? forward_ : backward_data_.tile);
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
    const MatrixByDepth<vec_w> filters{w.data<float>(), conv_.k, taps_};
    with_tile<FmaTiles>(forward_, [&]<class Tile>(Tile) {
      using Order = WindowOrder<Tile::kWindowStride>;
      const int rows = Order::numbers(outputs_ / 4);
      const PatchByPosition<kLayout, Order, vec_x> patches{
          {x.data<float>(), geometry_, rows, taps_}};
      launch_window_product<kLayout, Tile>(patches, filters, rows, conv_.k, taps_, b.data<float>(),
                                           y.data<float>(), state.memory, context.stream());
    });
  }
  template <int vec>
  void backward_data_by(Context& context, const Tensor& dy, const Tensor& state, const Tensor& w,
                        const Tensor& dx) {
    const int depth = conv_.k * geometry_.taps;
    launch_input_product<kLayout>(
        backward_data_,
        GradByInput<kLayout, true, vec>{dy.data<float>(), state.data<uint32_t>(), geometry_,
                                        inputs_, depth},
        WeightByChannel<kLayout, vec>{w.data<float>(), geometry_, depth}, phases_, dx.data<float>(),
        nullptr, context.stream());
  }
  template <int vec>
  void backward_filter_by(const Run& run, const Tensor& x, const Tensor& dy, const Tensor& state,
                          const Tensor& dw, const Tensor& db) {
    launch_weight_product(
        backward_filter_,
        PooledGradByFilter<kLayout>{dy.data<float>(), state.data<uint32_t>(), geometry_},
        PatchByTap<kLayout, WindowOrder<1>, vec>{{x.data<float>(), geometry_, outputs_, taps_}},
        dw.data<float>(), db.data<float>(), run.workspace, run.stream());
  }

  const Conv2dProblem& conv_ = problem_.conv;
  const ConvGeometry geometry_;
  const StridePhases phases_;
  const int outputs_ = conv_.n * geometry_.windows * 4;  // those that a window holds
  const int inputs_ = conv_.n * conv_.h * conv_.w;
  const int taps_ = conv_.c * conv_.r * conv_.s;
  TileSize forward_;
  ImageProduct<FmaTiles> backward_data_;
  WeightProduct<FmaTiles> backward_filter_;
};

}  // namespace

std::optional<std::string> window_unsupported(const Conv2dPoolReluProblem& problem) {
  const Pool2dProblem& pool = problem.pool;
  if (pool.r != 2 || pool.s != 2 || pool.stride_h != 2 || pool.stride_w != 2 || pool.pad_h != 0 ||
      pool.pad_w != 0) {
    return "pools by 2x2 windows with stride 2 and no padding only";
  }
  return {};
}

std::optional<std::string> custom_fused_unsupported(const Conv2dPoolReluProblem& problem,
                                                    Pass pass) {
  if (auto reason = window_unsupported(problem)) return reason;
  return gathers_unsupported(problem.conv, pass);
}

std::unique_ptr<Conv2dPoolReluImpl> make_custom_fused(const Conv2dPoolReluProblem& problem) {
  if (problem.conv.layout == Layout::kNCHW) {
    return std::make_unique<Conv2dPoolReluCustomFused<Layout::kNCHW>>(problem);
  }
  return std::make_unique<Conv2dPoolReluCustomFused<Layout::kNHWC>>(problem);
}

ImplEntry<Conv2dPoolReluProblem> conv2d_pool_relu_custom_fused() {
  const auto make = [](const Conv2dPoolReluProblem& problem, Context&) {
    return std::unique_ptr<Implementation>(make_custom_fused(problem));
  };
  return {"custom_fused", custom_fused_unsupported, make};
}

}  // namespace duet
