// The operands of a convolution on tensor cores as mma_staging.cuh rewrites them, where they lie in the
// workspace, and the sum of its dw's parts.
#pragma once

#include <utility>

#include "core/arena.h"
#include "layers/conv2d/filter_sums.cuh"
#include "layers/conv2d/wgmma/mma_staging.cuh"

namespace duet {

/// Staged x, dy and weights [k][(r,s,c)] that passes of a step share, each where its first pass leaves it; nullptr where each
/// pass stages its own.
template <class T>
struct SharedImages {
  T* x = nullptr;
  T* dy = nullptr;
  T* w = nullptr;
};

/// x, y and their gradients are stored as T. Staged images lie at the beginning of the workspace, but for those that passes
/// share, and staged weights behind them.
template <class T>
class StagedConvolution {
 public:
  static constexpr int kVec = kWidest<T>;

  /// Whether forward's staged x is backward_filter's, and whether stage_dy() stages that of both backward passes: then they
  /// are handed SharedImages.
  void share(bool x, bool dy) { shares_x_ = x, shares_dy_ = dy; }
  size_t shared_x_bytes() const { return shares_x_ ? x_bytes() : 0; }
  size_t shared_dy_bytes() const { return shares_dy_ ? dy_bytes() : 0; }
  /// Of what passes may share; 0 of what lies as it should.
  size_t staged_x_bytes() const { return stages_x() ? x_bytes() : 0; }
  size_t staged_dy_bytes() const { return stages_dy(nullptr) ? dy_bytes() : 0; }
  size_t staged_w_bytes() const { return weight_bytes(problem_.k, padded_.c); }
  // One channel lies the same in both layouts; it is padded all the same.
  bool stages_x() const { return problem_.layout == Layout::kNCHW || problem_.c != padded_.c; }
  bool stages_dy(const uint32_t* argmax) const {
    return argmax || problem_.layout == Layout::kNCHW || problem_.k != padded_.k;
  }
  void stage_dy(const Run& run, const Tensor& dy, const uint32_t* argmax, T* to) const {
    by_layout([&]<Layout kLayout>(std::integral_constant<Layout, kLayout>) {
      with_dy_part<kLayout>(dy, argmax, to, [&](const auto& part) {
        launch_staging(x_part<kLayout>(Tensor{}, nullptr), part, run.stream());
      });
    });
  }

 protected:
  explicit StagedConvolution(const Conv2dProblem& problem)
      : problem_(problem), padded_(padded(problem)), geometry_(padded_) {}

  template <class F>
  void by_layout(F f) const {
    problem_.layout == Layout::kNCHW ? f(std::integral_constant<Layout, Layout::kNCHW>{})
                                     : f(std::integral_constant<Layout, Layout::kNHWC>{});
  }

  /// Whether float is staged as tf32; in fp32 it is as it is.
  bool rounds() const { return problem_.math == Math::kTF32; }

  /// In the workspace, as if x and dy were always staged.
  size_t staged_bytes(Pass pass) const {
    if (pass == Pass::kBackwardFilter) return own_x_bytes() + own_dy_bytes();
    const size_t weights =
        std::max(weight_bytes(problem_.k, padded_.c), weight_bytes(problem_.c, padded_.k));
    return (pass == Pass::kForward ? own_x_bytes() : own_dy_bytes()) + weights;
  }
  void* behind_staged(const Run& run, Pass pass) const {
    return static_cast<char*>(run.workspace) + staged_bytes(pass);
  }

  /// x and the weights [k][(r,s,c)].
  std::pair<const T*, const T*> stage_x_and_weights(const Run& run, const Tensor& x,
                                                    const Tensor& w,
                                                    const SharedImages<T>& shared = {}) const {
    T* const image = !stages_x() ? nullptr : shared.x ? shared.x : at(run, 0);
    T* const weights = shared.w ? shared.w : at(run, own_x_bytes());
    const WeightMatrix matrix(w.data<float>(), problem_, false, padded_.c);
    by_layout([&]<Layout kLayout>(std::integral_constant<Layout, kLayout>) {
      launch_staging(x_part<kLayout>(x, image), WeightPart<T>(matrix, weights, rounds()),
                     run.stream());
    });
    return {image ? image : x.data<T>(), weights};
  }
  /// dy (with `argmax`, of the pooled y) and the weights, `turned` to [c][(r,s,k)] and never shared, or not.
  std::pair<const T*, const T*> stage_dy_and_weights(const Run& run, const Tensor& dy,
                                                     const uint32_t* argmax, const Tensor& w,
                                                     bool turned,
                                                     const SharedImages<T>& shared = {}) const {
    T* const image = stages_dy(argmax) && !shared.dy ? at(run, 0) : nullptr;
    T* const weights = shared.w && !turned ? nullptr : at(run, own_dy_bytes());
    const WeightMatrix matrix(w.data<float>(), problem_, turned, turned ? padded_.k : padded_.c);
    by_layout([&]<Layout kLayout>(std::integral_constant<Layout, kLayout>) {
      with_dy_part<kLayout>(dy, argmax, image, [&](const auto& part) {
        launch_staging(part, WeightPart<T>(matrix, weights, rounds()), run.stream());
      });
    });
    return {shared.dy ? shared.dy : image ? image : dy.data<T>(), weights ? weights : shared.w};
  }
  std::pair<const T*, const T*> stage_x_and_dy(const Run& run, const Tensor& x, const Tensor& dy,
                                               const uint32_t* argmax,
                                               const SharedImages<T>& shared = {}) const {
    T* const image = stages_x() && !shared.x ? at(run, 0) : nullptr;
    T* const gradient = stages_dy(argmax) && !shared.dy ? at(run, own_x_bytes()) : nullptr;
    by_layout([&]<Layout kLayout>(std::integral_constant<Layout, kLayout>) {
      with_dy_part<kLayout>(dy, argmax, gradient, [&](const auto& part) {
        launch_staging(x_part<kLayout>(x, image), part, run.stream());
      });
    });
    return {shared.x ? shared.x
            : image  ? image
                     : x.data<T>(),
            shared.dy  ? shared.dy
            : gradient ? gradient
                       : dy.data<T>()};
  }

  /// dw, and db or nullptr, from `splits` parts [k][(r,s,c)] of `channels` each, the sums of dy behind
  /// each.
  void launch_sum_filters(const float* parts, int splits, int channels, float* dw, float* db,
                          cudaStream_t stream) const {
    const FilterParts from(parts, splits, problem_.k, problem_.c, geometry_.taps, channels);
    by_layout([&]<Layout kLayout>(std::integral_constant<Layout, kLayout>) {
      duet::launch_sum_filters<kLayout == Layout::kNCHW>(from, dw, db, stream);
    });
  }

  const Conv2dProblem problem_, padded_;  // to whole 16 bytes of channels and filters, in NHWC
  const ConvGeometry geometry_;           // of padded_

 private:
  bool shares_x_ = false, shares_dy_ = false;

  static Conv2dProblem padded(Conv2dProblem d) {
    d.c = round_up(d.c, kVec);
    d.k = round_up(d.k, kVec);
    d.layout = Layout::kNHWC;
    return d;
  }
  size_t own_x_bytes() const { return x_bytes() - shared_x_bytes(); }
  size_t own_dy_bytes() const { return dy_bytes() - shared_dy_bytes(); }
  size_t x_bytes() const {
    return align_up(sizeof(T) * problem_.n * geometry_.pixels_in * size_t(padded_.c));
  }
  size_t dy_bytes() const {
    return align_up(sizeof(T) * problem_.n * geometry_.pixels_out * size_t(padded_.k));
  }
  size_t weight_bytes(int rows, int channels) const {
    return align_up(sizeof(T) * geometry_.taps * rows * channels);
  }
  T* at(const Run& run, size_t bytes) const {
    return reinterpret_cast<T*>(static_cast<char*>(run.workspace) + bytes);
  }

  template <Layout kLayout>
  ImagePart<T, kLayout> x_part(const Tensor& x, T* to) const {
    return {{x.data<T>(), problem_.c, geometry_.pixels_in}, problem_.n, padded_.c, to, rounds()};
  }
  /// Calls f(part).
  template <Layout kLayout, class F>
  void with_dy_part(const Tensor& dy, const uint32_t* argmax, T* to, F f) const {
    if (argmax) {
      f(GradientPart<T, kLayout>({dy.data<T>(), argmax, ConvGeometry(problem_), padded_.k}, to,
                                 rounds()));
    } else {
      f(ImagePart<T, kLayout>({dy.data<T>(), problem_.k, geometry_.pixels_out}, problem_.n,
                              padded_.k, to, rounds()));
    }
  }
};

}  // namespace duet
