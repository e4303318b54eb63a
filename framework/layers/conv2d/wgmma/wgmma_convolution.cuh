// A convolution by Hopper's wgmma: the three products of conv2d_gathers.cuh, operands staged
// (staged_convolution.cuh) and brought by the copy engine in boxes of output positions
// (kernels/wgmma_operands.cuh). In tf32 dx takes the weights turned, as they are rewritten anyway.
#pragma once

#include "kernels/split_moments.cuh"
#include "kernels/wgmma_moments.cuh"
#include "layers/conv2d/wgmma/staged_convolution.cuh"
#include "layers/conv2d/wgmma/wgmma_phases.cuh"

namespace duet {

/// The positions that a step of dw sums over. Boxes may stand out of an image, of whose dy zeros are brought there.
inline PositionBoxes filter_terms(const Conv2dProblem& d) {
  return {d.n, d.p, d.q, d.math == Math::kBF16 ? kStepDepth<bfloat16> : kStepDepth<float>};
}

/// What WgmmaConvolution cannot do, whatever the math, or what takes more than `refused` channels and filters and is
/// otherwise like it.
inline std::optional<std::string> wgmma_shape_unsupported(const Conv2dProblem& d, Pass pass,
                                                          int refused) {
  if (auto reason = ungrouped_unsupported(d)) return reason;
  const bool tf32 = d.math != Math::kBF16;  // or in parts of it
  const int depth = tf32 ? kStepDepth<float> : kStepDepth<bfloat16>;
  if (d.c <= refused || d.k <= refused) {
    return "sums over " + std::to_string(depth) + " channels at a time and refuses " +
           std::to_string(refused) + " and fewer, of the input or of filters";
  }
  // Channels are rounded up in dw's parts; 65535 is the end of a grid's second dimension.
  const int64_t columns = int64_t{d.r} * d.s * round_up(d.c, kPanel);
  if (columns > kPanel * 65535 || (columns + 1) * d.k > (int64_t{1} << 31) - 4096) {
    return "numbers weights, their channels rounded up to 64, in 32 bits; take a smaller kernel";
  }
  if (d.stride_h > 2 || d.stride_w > 2) return "takes strides up to 2";
  if (pass == Pass::kBackwardFilter) {
    const int most = filter_terms(d).box();
    if (most < depth / 4) {
      return "sums over " + std::to_string(depth) + " positions at a time, and these images hold " +
             std::to_string(most);
    }
  }
  return wgmma_unsupported();
}
inline std::optional<std::string> wgmma_shape_unsupported(const Conv2dProblem& d, Pass pass) {
  return wgmma_shape_unsupported(d, pass, d.math == Math::kBF16 ? 32 : 16);
}

inline std::optional<std::string> wgmma_convolution_unsupported(const Conv2dProblem& d, Pass pass) {
  if (auto reason = tensor_cores_only(d, pass)) return reason;
  return wgmma_shape_unsupported(d, pass);
}

/// In tf32, where kernels of fp32 come first in a list.
inline bool wgmma_convolution_preferred(const Conv2dProblem& d, Pass, size_t) {
  return d.math == Math::kTF32;
}

/// x, y and their gradients are stored as T, float for tf32 and, kSplit, for fp32 in 3xTF32. A window's argmax (packed_argmax.cuh) is
/// nullptr where nothing is pooled.
template <class T, bool kSplit>
class WgmmaConvolution : public StagedConvolution<T> {
 public:
  using Plan = WgmmaPlan<kSplit>;
  /// Whether backward_filter takes what stage_x_and_dy() makes.
  static constexpr bool kStagesFilter = true;

  WgmmaConvolution(const Conv2dProblem& d, size_t workspace_limit)
      : StagedConvolution<T>(d),
        outputs_(d.n, d.p, d.q, kTileRows, planes()),
        windows_(d.n, std::max(d.p, 2), std::max(d.q, 2), kTileRows, planes(), 2),
        phases_(d, kTileRows, planes()),
        terms_(filter_terms(d)) {
    const int multiprocessors = likely_multiprocessor_count(), taps = geometry_.taps;
    const auto left = [&](Pass pass) {
      const size_t staged = staged_bytes(pass);
      return workspace_limit > staged ? workspace_limit - staged : 0;
    };
    forward_ = {outputs_.count(),     d.k,
                taps * blocks(d.c),   int64_t(stride(Pass::kForward)),
                left(Pass::kForward), multiprocessors};
    backward_data_ = {phases_.rows(blocks(d.k)), d.c, int64_t(stride(Pass::kBackwardData)),
                      left(Pass::kBackwardData), multiprocessors};
    const int columns = taps * filter_channels();
    backward_filter_ = {ceil_div(d.k, kTileRows),
                        columns,
                        terms_.count(),
                        static_cast<int64_t>(partial_stride(d.k, columns)),
                        left(Pass::kBackwardFilter),
                        multiprocessors,
                        kFilterTurned};
  }

  size_t workspace_bytes(Pass pass) const {
    const int splits = plan_of(pass).splits;
    const size_t parts = pass == Pass::kBackwardFilter || splits > 1 ? splits : 0;
    return staged_bytes(pass) + sizeof(float) * parts * stride(pass);
  }
  /// An estimate of the product.
  double cycles(Pass pass) const { return plan_of(pass).cycles; }
  /// An estimate of all.
  double microseconds(Pass pass) const {
    Plan all;
    all.cycles = cycles(pass);
    return all.microseconds(staged_bytes(pass));
  }
  std::string text(Pass pass) const {
    const std::string text = plan_of(pass).template text<T>();
    if (pass != Pass::kBackwardData || phases_.all.size() == 1) return text;
    return text + ", " + std::to_string(phases_.with_taps()) + " of " +
           std::to_string(phases_.all.size()) + " phases";
  }

  int moment_parts() const {
    return forward_.splits == 1 ? outputs_.count() : summed_images().parts();
  }
  void forward(const Run& run, const Tensor& x, const Tensor& w, const float* bias, const Tensor& y,
               const ChannelMoments& moments = {}, const SharedImages<T>& shared = {}) const;

  /// Forward to somewhere else: calls launch(tile, plan, a, b) with boxes that hold whole 2x2 windows.
  template <class Launch>
  void forward_windows(const Run& run, const Tensor& x, const Tensor& w,
                       const SharedImages<T>& shared, Launch launch) const {
    const Plan plan = window_plan();
    with_operands(run, x, w, shared, windows_, plan,
                  [&](auto tile, const auto& a, const auto& b) { launch(tile, plan, a, b); });
  }
  size_t window_workspace_bytes() const { return staged_bytes(Pass::kForward); }
  Plan window_plan() const {
    return {windows_.count(),
            problem_.k,
            geometry_.taps * blocks(problem_.c),
            1,
            0,
            likely_multiprocessor_count()};
  }

  /// Whether backward_data takes other weights than forward.
  bool turns_weights() const { return kFloat; }
  void backward_data(const Run& run, const Tensor& dy, const uint32_t* argmax, const Tensor& w,
                     const Tensor& dx, const SharedImages<T>& shared = {}) const;

  void backward_filter(const Run& run, const Tensor& x, const Tensor& dy, const uint32_t* argmax,
                       float* dw, float* db, const SharedImages<T>& shared = {}) const;

 private:
  using Staged = StagedConvolution<T>;
  using Staged::by_layout, Staged::staged_bytes, Staged::launch_sum_filters;
  using Staged::problem_, Staged::padded_, Staged::geometry_;
  using Staged::stage_x_and_weights, Staged::stage_dy_and_weights, Staged::stage_x_and_dy;
  static constexpr int kTileRows = 128;
  static constexpr bool kFloat = std::is_same_v<T, float>;
  static constexpr TurnedFloats kFilterTurned{.a = kFloat, .b = kFloat};

  bool planes() const { return problem_.layout == Layout::kNCHW; }
  static int blocks(int channels) { return ceil_div(channels, kStepDepth<T>); }
  /// Of a tap in dw's parts.
  int filter_channels() const { return round_up(problem_.c, kStepDepth<T>); }

  float* parts(const Run& run, Pass pass) const {
    return reinterpret_cast<float*>(static_cast<char*>(run.workspace) + staged_bytes(pass));
  }

  const Plan& plan_of(Pass pass) const {
    if (pass == Pass::kForward) return forward_;
    return pass == Pass::kBackwardFilter ? backward_filter_ : backward_data_;
  }
  /// Of forward.
  SummedImages summed_images() const {
    const Conv2dProblem& d = problem_;
    return {d.layout, d.n, d.k, d.p * d.q};
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
  void with_operands(const Run& run, const Tensor& x, const Tensor& w,
                     const SharedImages<T>& shared, const PositionBoxes& boxes, const Plan& plan,
                     Launch launch) const {
    const auto [image, weights] = stage_x_and_weights(run, x, w, shared);
    const Conv2dProblem& d = padded_;
    const ImageByPosition<T> a{{image, d.n, d.h, d.w, d.c, taps_h(), taps_w(), boxes}, boxes};
    plan.with_tile([&, filters = weights]<class Tile>(Tile tile) {
      launch(tile, a, WeightByRow<T>(filters, problem_.k, geometry_.taps, d.c, Tile::kN));
    });
  }
  TapAxis taps_h() const {
    return {padded_.r, padded_.stride_h, -padded_.pad_h, padded_.dilation_h};
  }
  TapAxis taps_w() const {
    return {padded_.s, padded_.stride_w, -padded_.pad_w, padded_.dilation_w};
  }
  template <class Tile, class A, class B>
  void launch_images(const Run& run, Pass pass, const Plan& plan, const A& a, const B& b,
                     const float* bias, const Tensor& out,
                     const ChannelMoments& moments = {}) const {
    // In tf32 both passes are by one kernel.
    constexpr bool kForward = std::is_same_v<B, WeightByRow<T>>;
    const int pixels = pass == Pass::kForward ? problem_.p * problem_.q : problem_.h * problem_.w;
    by_layout([&]<Layout kLayout>(std::integral_constant<Layout, kLayout>) {
      if (plan.splits == 1) {
        const WgmmaResult<kLayout, T> result{out.data<T>(), bias, plan.columns, pixels};
        if constexpr (kForward) {
          launch_wgmma_product<Tile>(plan, a, b, WgmmaMomentsResult<kLayout, T>{result, moments},
                                     run.stream());
        } else {
          launch_wgmma_product<Tile>(plan, a, b, result, run.stream());
        }
        return;
      }
      float* const to = parts(run, pass);
      launch_wgmma_product<Tile>(
          plan, a, b, WgmmaResult<kLayout, float>{to, nullptr, plan.columns, pixels, stride(pass)},
          run.stream());
      if (moments.parts > 0) {
        launch_sum_images_moments(to, plan.splits, stride(pass), summed_images(), bias,
                                  out.data<T>(), moments, run.stream());
        return;
      }
      launch_sum_images<kLayout>(to, plan.splits, stride(pass), static_cast<int>(out.elements()),
                                 plan.columns, pixels, bias, out.data<T>(), run.stream());
    });
  }

  const PositionBoxes outputs_, windows_;
  const WgmmaPhases phases_;
  const PositionBoxes terms_;
  Plan forward_, backward_data_, backward_filter_;
};

// Behind the class, as `extern template` does not keep the compiler from making what is inline again, kernels and all.

template <class T, bool kSplit>
void WgmmaConvolution<T, kSplit>::forward(const Run& run, const Tensor& x, const Tensor& w,
                                          const float* bias, const Tensor& y,
                                          const ChannelMoments& moments,
                                          const SharedImages<T>& shared) const {
  with_operands(run, x, w, shared, outputs_, forward_,
                [&]<class Tile>(Tile, const auto& a, const auto& b) {
                  launch_images<Tile>(run, Pass::kForward, forward_, a, b, bias, y, moments);
                });
}

template <class T, bool kSplit>
void WgmmaConvolution<T, kSplit>::backward_data(const Run& run, const Tensor& dy,
                                                const uint32_t* argmax, const Tensor& w,
                                                const Tensor& dx,
                                                const SharedImages<T>& shared) const {
  const auto [image, weights] = stage_dy_and_weights(run, dy, argmax, w, kFloat, shared);
  const Conv2dProblem& d = padded_;
  const Plan& plan = backward_data_;
  plan.with_tile([&, from = image, filters = weights]<class Tile>(Tile) {
    const auto multiply = [&]<class A, class Numbers>(const A& a, const Numbers& numbers) {
      if constexpr (kFloat) {
        const WeightByRow<T, Numbers> b(filters, problem_.c, geometry_.taps, d.k, Tile::kN,
                                        numbers);
        launch_images<Tile>(run, Pass::kBackwardData, plan, a, b, nullptr, dx);
      } else {
        const WeightByChannel<Numbers> b(filters, problem_.k, geometry_.taps, d.c, numbers);
        launch_images<Tile>(run, Pass::kBackwardData, plan, a, b, nullptr, dx);
      }
    };
    const WgmmaPhase& first = phases_.all.front();
    if (phases_.all.size() == 1 && first.tap_count() > 0) {
      const TapImage<T> images(from, d.n, d.p, d.q, d.k, first.h, first.w, first.boxes);
      multiply(ImageByPosition<T>{images, first.boxes}, first.taps);
    } else {
      const PhasedTaps taps(phases_, geometry_.taps);
      multiply(PhasedImages<T>(phases_, from, d, plan.splits), taps);
    }
  });
}

template <class T, bool kSplit>
void WgmmaConvolution<T, kSplit>::backward_filter(const Run& run, const Tensor& x, const Tensor& dy,
                                                  const uint32_t* argmax, float* dw, float* db,
                                                  const SharedImages<T>& shared) const {
  const Plan& plan = backward_filter_;
  const auto [image, gradient] = stage_x_and_dy(run, x, dy, argmax, shared);
  const Conv2dProblem& d = padded_;
  const ImageByTap<T> a{{gradient, d.n, d.p, d.q, d.k, {}, {}, terms_}, terms_, problem_.k};
  const ImageByTap<T> b{
      {image, d.n, d.h, d.w, d.c, taps_h(), taps_w(), terms_}, terms_, plan.columns};
  float* const to = parts(run, Pass::kBackwardFilter);
  plan.template with_tile<kFilterTurned>([&]<class Tile>(Tile) {
    launch_wgmma_product<Tile>(plan, a, b,
                               WgmmaResult<Layout::kNHWC, float>{
                                   to, nullptr, plan.columns, 1, stride(Pass::kBackwardFilter),
                                   to + size_t(problem_.k) * plan.columns},
                               run.stream());
  });
  launch_sum_filters(to, plan.splits, filter_channels(), dw, db, run.stream());
}

// Compiled in conv2d_custom_wgmma.cu, conv2d_custom_wgmma_tf32.cu and conv2d_custom_wgmma_3xtf32.cu.
extern template class WgmmaConvolution<bfloat16, false>;
extern template class WgmmaConvolution<float, false>;
extern template class WgmmaConvolution<float, true>;

}  // namespace duet
