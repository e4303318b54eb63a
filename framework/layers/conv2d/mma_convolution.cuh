// A convolution on tensor cores, plain or behind a 2x2 pooling: staging (mma_staging.cuh) and the
// products of gathered operands (kernels/products.cuh).
#pragma once

#include "core/arena.h"
#include "kernels/mma_tile.cuh"
#include "layers/conv2d/conv2d_gathers.cuh"
#include "layers/conv2d/mma_staging.cuh"
#include "layers/conv2d/strided_product.cuh"

namespace duet {

// dx's second operand: staged weights [c][(r,s,k)].
template <int vec, class T>
struct StagedWeight : MatrixByDepth<vec, T> {
  static constexpr Layout kLayout = Layout::kNHWC;
  using Col = typename MatrixByDepth<vec, T>::Col;
  ConvGeometry g;
  __device__ __forceinline__ Col outside() const { return {-1, 0}; }
  __device__ __forceinline__ Col at(int k, int tap) const { return {tap * g.d.k + k, 0}; }
};

/// x, y and their gradients are stored as T. A window's argmax (packed_argmax.cuh) is nullptr where
/// nothing is pooled.
template <class T>
class MmaConvolution {
 public:
  using Mma = std::conditional_t<std::is_same_v<T, bfloat16>, MmaBf16, MmaTf32>;
  using Tiles = MmaTiles<Mma>;
  static constexpr int kVec = kWidest<T>;

  /// Throws UnsupportedError where the GPU has no such instruction.
  MmaConvolution(const Conv2dProblem& problem, size_t workspace_limit)
      : problem_(problem), padded_(padded(problem)), geometry_(padded_), phases_(padded_) {
    require_mma();
    const int multiprocessors = multiprocessor_count();
    const auto left = [&](Pass pass) {
      const size_t staged = staged_bytes(pass);
      return workspace_limit > staged ? workspace_limit - staged : 0;
    };
    const int positions = problem.n * geometry_.pixels_out;
    const int taps = geometry_.taps * padded_.c;
    forward_ = {positions, problem.k, taps, multiprocessors, left(Pass::kForward)};
    Conv2dProblem inputs = padded_;
    inputs.c = problem.c;
    backward_data_ =
        input_product<Tiles>(inputs, phases_, multiprocessors, left(Pass::kBackwardData));
    backward_filter_ = {problem.k, taps, positions, multiprocessors};
  }

  size_t workspace_bytes(Pass pass) const {
    if (pass == Pass::kForward) return staged_bytes(pass) + forward_.workspace_bytes();
    if (pass == Pass::kBackwardData) return staged_bytes(pass) + backward_data_.workspace_bytes();
    return staged_bytes(pass) + parts_bytes();
  }
  std::string text(Pass pass) const {
    if (pass == Pass::kBackwardFilter) return backward_filter_.text();
    return (pass == Pass::kForward ? forward_ : backward_data_).text();
  }

  void forward(const Run& run, const Tensor& x, const Tensor& w, const float* bias,
               const Tensor& y) const {
    const Operands o = stage_forward(run, x, w);
    const PatchByPosition<Layout::kNHWC, PixelOrder, kVec, T> patches{
        {o.image, geometry_, forward_.rows, forward_.depth}};
    by_layout([&]<Layout kLayout>(std::integral_constant<Layout, kLayout>) {
      launch_image_product<kLayout>(forward_, patches, filters(o), geometry_.pixels_out, bias,
                                    y.data<T>(), o.rest, run.stream());
    });
  }

  /// Calls launch(tile, patches, filters, rows, depth) for a product whose rows run window by window.
  template <class Launch>
  void forward_windows(const Run& run, const Tensor& x, const Tensor& w, Launch launch) const {
    const Operands o = stage_forward(run, x, w);
    with_tile<Tiles>(window_tile(), [&]<class Tile>(Tile tile) {
      using Order = WindowOrder<Tile::kWindowStride>;
      const int rows = Order::numbers(problem_.n * geometry_.windows);
      const PatchByPosition<Layout::kNHWC, Order, kVec, T> patches{
          {o.image, geometry_, rows, forward_.depth}};
      launch(tile, patches, filters(o), rows, forward_.depth);
    });
  }
  TileSize window_tile() const {
    return choose_tile(problem_.n * geometry_.windows * 4, problem_.k, multiprocessor_count());
  }

  void backward_data(const Run& run, const Tensor& dy, const uint32_t* argmax, const Tensor& w,
                     const Tensor& dx) const {
    char* const workspace = static_cast<char*>(run.workspace);
    const bool staged = stages_dy(argmax != nullptr);
    T* const image = staged ? reinterpret_cast<T*>(workspace) : nullptr;
    T* const weights = reinterpret_cast<T*>(workspace + (staged ? dy_bytes() : 0));
    const WeightMatrix matrix(w.data<float>(), problem_, true, padded_.k);
    stage_dy(dy, argmax, image, matrix, weights, run.stream());
    const int depth = padded_.k * geometry_.taps;
    const GradByInput<Layout::kNHWC, false, kVec, T> grad{staged ? image : dy.data<T>(), nullptr,
                                                          geometry_, backward_data_.rows, depth};
    const StagedWeight<kVec, T> weight{{{weights}, problem_.c, depth}, geometry_};
    by_layout([&]<Layout kLayout>(std::integral_constant<Layout, kLayout>) {
      launch_input_product<kLayout>(backward_data_, grad, weight, phases_, dx.data<T>(),
                                    workspace + staged_bytes(Pass::kBackwardData), run.stream());
    });
  }

  void backward_filter(const Run& run, const Tensor& x, const Tensor& dy, const uint32_t* argmax,
                       float* dw, float* db) const {
    char* const workspace = static_cast<char*>(run.workspace);
    const WeightMatrix no_weights(nullptr, problem_, false, padded_.c);
    T* const image = stages_x() ? reinterpret_cast<T*>(workspace) : nullptr;
    stage_x(x, image, no_weights, nullptr, run.stream());
    T* const gradient = stages_dy(argmax != nullptr)
                            ? reinterpret_cast<T*>(workspace + (image ? x_bytes() : 0))
                            : nullptr;
    stage_dy(dy, argmax, gradient, no_weights, nullptr, run.stream());

    const auto& p = backward_filter_;
    float* const parts = reinterpret_cast<float*>(workspace + staged_bytes(Pass::kBackwardFilter));
    const GradByFilter<Layout::kNHWC, kVec, T> grad{{gradient ? gradient : dy.data<T>()},
                                                    geometry_};
    const PatchByTap<Layout::kNHWC, PixelOrder, kVec, T> patches{
        {image ? image : x.data<T>(), geometry_, p.depth, p.cols}};
    launch_weight_parts(p, grad, patches, parts, parts + size_t(p.rows) * p.cols, run.stream());
    by_layout([&]<Layout kLayout>(std::integral_constant<Layout, kLayout>) {
      constexpr bool kTapsInside = kLayout == Layout::kNCHW;
      const int weights = problem_.k * problem_.c * geometry_.taps;
      launch({.gridDim = static_cast<unsigned>(ceil_div(weights + problem_.k, kReduceThreads / 8)),
              .blockDim = kReduceThreads,
              .stream = run.stream()},
             {overlaps_primary()}, sum_filters_kernel<kTapsInside>, parts, p.split.splits,
             partial_stride(p.rows, p.cols), problem_.k, problem_.c, geometry_.taps, padded_.c,
             FastDivisor(problem_.c * geometry_.taps),
             FastDivisor(kTapsInside ? geometry_.taps : problem_.c), dw, db);
    });
  }

 private:
  struct Operands {
    const T* image;
    const T* weights;
    void* rest;  // of the workspace
  };

  static Conv2dProblem padded(Conv2dProblem d) {
    d.c = round_up(d.c, kVec);
    d.k = round_up(d.k, kVec);
    d.layout = Layout::kNHWC;
    return d;
  }
  template <class F>
  void by_layout(F f) const {
    problem_.layout == Layout::kNCHW ? f(std::integral_constant<Layout, Layout::kNCHW>{})
                                     : f(std::integral_constant<Layout, Layout::kNHWC>{});
  }
  // One channel lies the same in both layouts; it is padded all the same.
  bool stages_x() const { return problem_.layout == Layout::kNCHW || problem_.c != padded_.c; }
  bool stages_dy(bool pooled) const {
    return pooled || problem_.layout == Layout::kNCHW || problem_.k != padded_.k;
  }
  size_t x_bytes() const {
    return align_up(sizeof(T) * problem_.n * geometry_.pixels_in * size_t(padded_.c));
  }
  size_t dy_bytes() const {
    return align_up(sizeof(T) * problem_.n * geometry_.pixels_out * size_t(padded_.k));
  }
  size_t parts_bytes() const {
    return sizeof(float) * backward_filter_.split.splits *
           partial_stride(backward_filter_.rows, backward_filter_.cols);
  }
  /// At the beginning of the workspace, as if dy were always staged.
  size_t staged_bytes(Pass pass) const {
    const size_t taps = size_t(geometry_.taps) * sizeof(T);
    if (pass == Pass::kForward) return x_bytes() + align_up(taps * problem_.k * padded_.c);
    if (pass == Pass::kBackwardData) return dy_bytes() + align_up(taps * problem_.c * padded_.k);
    return x_bytes() + dy_bytes();
  }
  MatrixByDepth<kVec, T> filters(const Operands& o) const {
    return {{o.weights}, problem_.k, forward_.depth};
  }

  Operands stage_forward(const Run& run, const Tensor& x, const Tensor& w) const {
    char* const workspace = static_cast<char*>(run.workspace);
    T* const image = stages_x() ? reinterpret_cast<T*>(workspace) : nullptr;
    T* const weights = reinterpret_cast<T*>(workspace + x_bytes());
    stage_x(x, image, WeightMatrix(w.data<float>(), problem_, false, padded_.c), weights,
            run.stream());
    return {image ? image : x.data<T>(), weights, workspace + staged_bytes(Pass::kForward)};
  }
  void stage_x(const Tensor& x, T* image, const WeightMatrix& matrix, T* weights,
               cudaStream_t stream) const {
    by_layout([&]<Layout kLayout>(std::integral_constant<Layout, kLayout>) {
      launch_staging(PlainImage<T, kLayout>{x.data<T>(), problem_.c, geometry_.pixels_in},
                     problem_.c, padded_.c, problem_.n, geometry_.pixels_in, image, matrix, weights,
                     stream);
    });
  }
  void stage_dy(const Tensor& dy, const uint32_t* argmax, T* image, const WeightMatrix& matrix,
                T* weights, cudaStream_t stream) const {
    const auto stage = [&](const auto& source) {
      launch_staging(source, problem_.k, padded_.k, problem_.n, geometry_.pixels_out, image, matrix,
                     weights, stream);
    };
    by_layout([&]<Layout kLayout>(std::integral_constant<Layout, kLayout>) {
      if (argmax) {
        stage(UnpooledImage<T, kLayout>{dy.data<T>(), argmax, ConvGeometry(problem_)});
      } else {
        stage(PlainImage<T, kLayout>{dy.data<T>(), problem_.k, geometry_.pixels_out});
      }
    });
  }

  const Conv2dProblem problem_, padded_;
  const ConvGeometry geometry_;  // of padded_
  const StridePhases phases_;
  ImageProduct<Tiles> forward_, backward_data_;
  WeightProduct<Tiles> backward_filter_;
};

// Compiled in conv2d_custom_mma.cu and conv2d_custom_mma_tf32.cu.
extern template class MmaConvolution<bfloat16>;
extern template class MmaConvolution<float>;

}  // namespace duet
