// A convolution by Hopper's wgmma: the three products of conv2d_gathers.cuh, operands staged
// (staged_convolution.cuh) and brought by the copy engine in boxes of output positions
// (kernels/wgmma_operands.cuh).
#pragma once

#include "kernels/wgmma_product.cuh"
#include "layers/conv2d/staged_convolution.cuh"

namespace duet {

/// What WgmmaConvolution cannot do.
inline std::optional<std::string> wgmma_convolution_unsupported(const Conv2dProblem& d, Pass pass) {
  if (d.math != Math::kBF16) {
    return "multiplies in bf16, and 'math' is " + std::string(to_string(d.math));
  }
  if (auto reason = ungrouped_unsupported(d)) return reason;
  if (d.c <= 32 || d.k <= 32) {
    return "sums over 64 channels at a time and refuses 32 and fewer, of the input or of filters";
  }
  // Channels are rounded up in dw's parts; 65535 is the end of a grid's second dimension.
  const int64_t columns = int64_t{d.r} * d.s * round_up(d.c, kStepDepth);
  if (columns > kStepDepth * 65535 || (columns + 1) * d.k > (int64_t{1} << 31) - 4096) {
    return "numbers weights, their channels rounded up to 64, in 32 bits; take a smaller kernel";
  }
  const int most = pass == Pass::kBackwardData ? 1 : 2;
  if (d.stride_h > most || d.stride_w > most) {
    return "takes strides up to " + std::to_string(most) + " in this pass";
  }
  // dw's boxes divide an image, which of a prime number of columns leaves little of each.
  const PositionBoxes terms(d.n, d.p, d.q, kStepDepth, true);
  if (pass == Pass::kBackwardFilter && terms.box() < kStepDepth / 4) {
    return "sums over 64 positions at a time, and boxes that divide these images hold " +
           std::to_string(terms.box());
  }
  return wgmma_unsupported();
}

/// x, y and their gradients are stored as bfloat16. A window's argmax (packed_argmax.cuh) is nullptr
/// where nothing is pooled.
class WgmmaConvolution : StagedConvolution<bfloat16> {
 public:
  WgmmaConvolution(const Conv2dProblem& d, size_t workspace_limit)
      : StagedConvolution(d),
        outputs_(d.n, d.p, d.q, kTileRows, false, planes()),
        windows_(d.n, std::max(d.p, 2), std::max(d.q, 2), kTileRows, false, planes(), 2),
        inputs_(d.n, d.h, d.w, kTileRows, false, planes()),
        terms_(d.n, d.p, d.q, kStepDepth, true) {
    const int multiprocessors = multiprocessor_count(), taps = geometry_.taps;
    const auto left = [&](Pass pass) {
      const size_t staged = staged_bytes(pass);
      return workspace_limit > staged ? workspace_limit - staged : 0;
    };
    forward_ = {outputs_.count(),     d.k,
                taps * blocks(d.c),   int64_t(stride(Pass::kForward)),
                left(Pass::kForward), multiprocessors};
    backward_data_ = {inputs_.count(),           d.c,
                      taps * blocks(d.k),        int64_t(stride(Pass::kBackwardData)),
                      left(Pass::kBackwardData), multiprocessors};
    const int columns = taps * filter_channels();
    backward_filter_ = {ceil_div(d.k, kTileRows),
                        columns,
                        terms_.count(),
                        static_cast<int64_t>(partial_stride(d.k, columns)),
                        left(Pass::kBackwardFilter),
                        multiprocessors};
  }

  size_t workspace_bytes(Pass pass) const {
    const WgmmaPlan& plan = plan_of(pass);
    const size_t parts = pass == Pass::kBackwardFilter || plan.splits > 1 ? plan.splits : 0;
    return staged_bytes(pass) + sizeof(float) * parts * stride(pass);
  }
  std::string text(Pass pass) const { return plan_of(pass).text(); }

  void forward(const Run& run, const Tensor& x, const Tensor& w, const float* bias,
               const Tensor& y) const {
    with_operands(run, x, w, outputs_, forward_,
                  [&]<class Tile>(Tile, const auto& a, const auto& b) {
                    launch_images<Tile>(run, Pass::kForward, a, b, bias, y);
                  });
  }

  /// Forward to somewhere else: calls launch(tile, plan, a, b) with boxes that hold whole 2x2 windows.
  template <class Launch>
  void forward_windows(const Run& run, const Tensor& x, const Tensor& w, Launch launch) const {
    const WgmmaPlan plan = window_plan();
    with_operands(run, x, w, windows_, plan,
                  [&](auto tile, const auto& a, const auto& b) { launch(tile, plan, a, b); });
  }
  size_t window_workspace_bytes() const { return staged_bytes(Pass::kForward); }
  WgmmaPlan window_plan() const {
    return {windows_.count(),      problem_.k, geometry_.taps * blocks(problem_.c), 1, 0,
            multiprocessor_count()};
  }

  /// REQUIRES: strides of 1.
  void backward_data(const Run& run, const Tensor& dy, const uint32_t* argmax, const Tensor& w,
                     const Tensor& dx) const {
    const auto [image, weights] = stage_dy_and_weights(run, dy, argmax, w, false);
    const Conv2dProblem& d = padded_;
    const ImageByPosition a{{image,
                             d.n,
                             d.p,
                             d.q,
                             d.k,
                             {d.r, 1, d.pad_h, -d.dilation_h},
                             {d.s, 1, d.pad_w, -d.dilation_w},
                             inputs_},
                            inputs_};
    const WeightByChannel b(weights, problem_.k, geometry_.taps, d.c);
    backward_data_.with_tile([&]<class Tile>(Tile) {
      launch_images<Tile>(run, Pass::kBackwardData, a, b, nullptr, dx);
    });
  }

  void backward_filter(const Run& run, const Tensor& x, const Tensor& dy, const uint32_t* argmax,
                       float* dw, float* db) const {
    const auto [image, gradient] = stage_x_and_dy(run, x, dy, argmax);
    const Conv2dProblem& d = padded_;
    const WgmmaPlan& plan = backward_filter_;
    const ImageByTap a{{gradient, d.n, d.p, d.q, d.k, {}, {}, terms_}, terms_, problem_.k};
    const ImageByTap b{
        {image, d.n, d.h, d.w, d.c, taps_h(), taps_w(), terms_}, terms_, plan.columns};
    float* const parts = static_cast<float*>(behind_staged(run, Pass::kBackwardFilter));
    plan.with_tile([&]<class Tile>(Tile) {
      launch_wgmma_product<Tile>(plan, a, b,
                                 WgmmaResult<Layout::kNHWC, float>{
                                     parts, nullptr, plan.columns, 1, stride(Pass::kBackwardFilter),
                                     parts + size_t(problem_.k) * plan.columns},
                                 run.stream());
    });
    launch_sum_filters(parts, plan.splits, filter_channels(), dw, db, run.stream());
  }

 private:
  static constexpr int kTileRows = 128;
  bool planes() const { return problem_.layout == Layout::kNCHW; }
  static int blocks(int channels) { return ceil_div(channels, kStepDepth); }
  /// Of a tap in dw's parts.
  int filter_channels() const { return blocks(problem_.c) * kStepDepth; }

  const WgmmaPlan& plan_of(Pass pass) const {
    return pass == Pass::kForward        ? forward_
           : pass == Pass::kBackwardData ? backward_data_
                                         : backward_filter_;
  }
  /// Floats between two parts.
  size_t stride(Pass pass) const {
    if (pass == Pass::kBackwardFilter) return partial_stride(problem_.k, backward_filter_.columns);
    const Conv2dProblem& d = problem_;
    const TensorDesc& desc = pass == Pass::kForward ? d.y_desc() : d.x_desc();
    return (desc.elements() + 3) / 4 * 4;
  }
  /// Calls launch(tile, a, b) for forward.
  template <class Launch>
  void with_operands(const Run& run, const Tensor& x, const Tensor& w, const PositionBoxes& boxes,
                     const WgmmaPlan& plan, Launch launch) const {
    const auto [image, weights] = stage_x_and_weights(run, x, w);
    const Conv2dProblem& d = padded_;
    const ImageByPosition a{{image, d.n, d.h, d.w, d.c, taps_h(), taps_w(), boxes}, boxes};
    plan.with_tile([&, filters = weights]<class Tile>(Tile tile) {
      launch(tile, a, WeightByRow(filters, problem_.k, geometry_.taps, d.c, Tile::kN));
    });
  }
  TapAxis taps_h() const {
    return {padded_.r, padded_.stride_h, -padded_.pad_h, padded_.dilation_h};
  }
  TapAxis taps_w() const {
    return {padded_.s, padded_.stride_w, -padded_.pad_w, padded_.dilation_w};
  }
  template <class Tile, class A, class B>
  void launch_images(const Run& run, Pass pass, const A& a, const B& b, const float* bias,
                     const Tensor& out) const {
    const WgmmaPlan& plan = plan_of(pass);
    const int pixels = a.boxes.height * a.boxes.width;
    by_layout([&]<Layout kLayout>(std::integral_constant<Layout, kLayout>) {
      if (plan.splits == 1) {
        launch_wgmma_product<Tile>(
            plan, a, b,
            WgmmaResult<kLayout, bfloat16>{out.data<bfloat16>(), bias, plan.columns, pixels},
            run.stream());
        return;
      }
      float* const parts = static_cast<float*>(behind_staged(run, pass));
      launch_wgmma_product<Tile>(
          plan, a, b,
          WgmmaResult<kLayout, float>{parts, nullptr, plan.columns, pixels, stride(pass)},
          run.stream());
      launch_sum_images<kLayout>(parts, plan.splits, stride(pass), static_cast<int>(out.elements()),
                                 plan.columns, pixels, bias, out.data<bfloat16>(), run.stream());
    });
  }

  const PositionBoxes outputs_, windows_, inputs_, terms_;
  WgmmaPlan forward_, backward_data_, backward_filter_;
};

}  // namespace duet
