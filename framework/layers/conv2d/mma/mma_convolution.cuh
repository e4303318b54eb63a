// A convolution on tensor cores, plain or behind a 2x2 pooling: staging (staged_convolution.cuh) and
// the products of gathered operands (kernels/products.cuh).
#pragma once

#include "kernels/mma_tile.cuh"
#include "layers/conv2d/ladder/conv2d_gathers.cuh"
#include "layers/conv2d/small_channels/strided_product.cuh"
#include "layers/conv2d/wgmma/staged_convolution.cuh"

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
class MmaConvolution : StagedConvolution<T> {
 public:
  using Mma = std::conditional_t<std::is_same_v<T, bfloat16>, MmaBf16, MmaTf32>;
  using Tiles = MmaTiles<Mma>;
  using Staged = StagedConvolution<T>;
  static constexpr int kVec = Staged::kVec;

  /// Throws UnsupportedError where the GPU has no such instruction.
  MmaConvolution(const Conv2dProblem& problem, size_t workspace_limit)
      : Staged(problem), phases_(padded_) {
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
               const Tensor& y) const;

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
                     const Tensor& dx) const;

  void backward_filter(const Run& run, const Tensor& x, const Tensor& dy, const uint32_t* argmax,
                       float* dw, float* db) const;

 private:
  using Staged::by_layout, Staged::staged_bytes, Staged::behind_staged, Staged::launch_sum_filters;
  using Staged::problem_, Staged::padded_, Staged::geometry_;
  using Staged::stage_x_and_weights, Staged::stage_dy_and_weights, Staged::stage_x_and_dy;

  struct Operands {
    const T* image;
    const T* weights;
    void* rest;  // of the workspace
  };

  size_t parts_bytes() const {
    return sizeof(float) * backward_filter_.split.splits *
           partial_stride(backward_filter_.rows, backward_filter_.cols);
  }
  MatrixByDepth<kVec, T> filters(const Operands& o) const {
    return {{o.weights}, problem_.k, forward_.depth};
  }

  Operands stage_forward(const Run& run, const Tensor& x, const Tensor& w) const {
    const auto [image, weights] = stage_x_and_weights(run, x, w);
    return {image, weights, behind_staged(run, Pass::kForward)};
  }

  const StridePhases phases_;
  ImageProduct<Tiles> forward_, backward_data_;
  WeightProduct<Tiles> backward_filter_;
};

// Behind the class, as `extern template` does not keep the compiler from making what is inline again, kernels and all.

template <class T>
void MmaConvolution<T>::forward(const Run& run, const Tensor& x, const Tensor& w, const float* bias,
                                const Tensor& y) const {
  const Operands o = stage_forward(run, x, w);
  const PatchByPosition<Layout::kNHWC, PixelOrder, kVec, T> patches{
      {o.image, geometry_, forward_.rows, forward_.depth}};
  by_layout([&]<Layout kLayout>(std::integral_constant<Layout, kLayout>) {
    launch_image_product<kLayout>(forward_, patches, filters(o), geometry_.pixels_out, bias,
                                  y.data<T>(), o.rest, run.stream());
  });
}

template <class T>
void MmaConvolution<T>::backward_data(const Run& run, const Tensor& dy, const uint32_t* argmax,
                                      const Tensor& w, const Tensor& dx) const {
  const auto [image, weights] = stage_dy_and_weights(run, dy, argmax, w, true);
  const int depth = padded_.k * geometry_.taps;
  const GradByInput<Layout::kNHWC, false, kVec, T> grad{image, nullptr, geometry_,
                                                        backward_data_.rows, depth};
  const StagedWeight<kVec, T> weight{{{weights}, problem_.c, depth}, geometry_};
  by_layout([&]<Layout kLayout>(std::integral_constant<Layout, kLayout>) {
    launch_input_product<kLayout>(backward_data_, grad, weight, phases_, dx.data<T>(),
                                  behind_staged(run, Pass::kBackwardData), run.stream());
  });
}

template <class T>
void MmaConvolution<T>::backward_filter(const Run& run, const Tensor& x, const Tensor& dy,
                                        const uint32_t* argmax, float* dw, float* db) const {
  const auto [image, gradient] = stage_x_and_dy(run, x, dy, argmax);
  const auto& p = backward_filter_;
  float* const parts = static_cast<float*>(behind_staged(run, Pass::kBackwardFilter));
  const GradByFilter<Layout::kNHWC, kVec, T> grad{{gradient}, geometry_};
  const PatchByTap<Layout::kNHWC, PixelOrder, kVec, T> patches{{image, geometry_, p.depth, p.cols}};
  launch_weight_parts(p, grad, patches, parts, parts + size_t(p.rows) * p.cols, run.stream());
  launch_sum_filters(parts, p.split.splits, padded_.c, dw, db, run.stream());
}

// Compiled in conv2d_custom_mma.cu and conv2d_custom_mma_tf32.cu.
extern template class MmaConvolution<bfloat16>;
extern template class MmaConvolution<float>;

}  // namespace duet
