// The three passes of a convolution in NCHW as products whose operands are gathered from tensors:
// what the steps to custom_implicit_gemm have in common. Rows of a product are filters or channels,
// so that neighbouring columns are neighbours in memory:
//
//   forward          y [k][(n,p,q)] = w [k][(c,r,s)] * x patches  [(c,r,s)][(n,p,q)]
//   backward_data    dx[c][(n,h,w)] = w [c][(k,r,s)] * dy patches [(k,r,s)][(n,h,w)]
//   backward_filter  dw[k][(c,r,s)] = dy[k][(n,p,q)] * x patches  [(n,p,q)][(c,r,s)]
#pragma once

#include "device/check.h"
#include "layers/conv2d/ladder/conv2d_gathers.cuh"

namespace duet {

/// C (m x n) = A B over k, of which A and B are gathers (kernels/product.cuh).
template <class TC>
struct PlaneProduct {
  int m, n, k;
  int pixels;  // columns that are neighbours in memory: those of an image, or of dw all
  FastDivisor by_pixels;
  const float* bias;  // m, added to every column; may be nullptr
  TC* c;
  float* row_sums;  // m, the sums of A over k; may be nullptr

  /// Where an element lies in c.
  __device__ int offset(int row, int column) const {
    int image, pixel;
    by_pixels.divmod(column, image, pixel);
    return (image * m + row) * pixels + pixel;
  }
  __device__ void store(int row, int column, float sum) const {
    if (row < m && column < n) c[offset(row, column)] = TC(bias ? sum + __ldg(bias + row) : sum);
  }
};

/// The element of an operand at a row and a k; zero outside.
template <class Gather>
__device__ __forceinline__ typename Gather::Value gathered(const Gather& gather,
                                                           const typename Gather::Row& row,
                                                           const typename Gather::Col& col) {
  // region gather
  const int offset = gather.offset(row, col);
  return offset < 0 ? typename Gather::Value(0.0f) : gather.data()[offset];
  // end gather
}

/// backward_data B for any stride: rows are input positions, k are (filter, tap). Of those that reach
/// a position most have no output there where the stride is not 1; they are multiplied as zeros.
template <class T>
struct StridedGradByInput {
  static constexpr int kVec = 1;
  static constexpr bool kRowLanes = true;
  using Value = T;
  struct Row {
    int base, h, w;
  };
  struct Col {
    int offset, hw;
  };
  const T* __restrict__ dy;
  ConvGeometry g;
  FastDivisor by_stride_h, by_stride_w;
  int positions, tap_count;

  __device__ __forceinline__ const T* data() const { return dy; }
  __device__ __forceinline__ Row row(int m) const {
    if (m >= positions) return {0, -1, -1};
    int n, pixel, h, w;
    g.by_pixels_in.divmod(m, n, pixel);
    g.by_w.divmod(pixel, h, w);
    return {n * g.pixels_out * g.d.k, h + g.d.pad_h, w + g.d.pad_w};
  }
  __device__ __forceinline__ Col col(int i) const {
    if (uint32_t(i) >= uint32_t(tap_count)) return {0, kFar | kFar << 16};
    int k, r, s;
    g.tap<Layout::kNCHW>(i, g.by_k, k, r, s);
    return {k * g.pixels_out, r * g.d.dilation_h | (s * g.d.dilation_w) << 16};
  }
  __device__ __forceinline__ int offset(const Row& row, const Col& col) const {
    const int top = row.h - (col.hw & 0xffff), left = row.w - (col.hw >> 16);
    if ((top | left) < 0) return -1;
    int p, q, rest_h, rest_w;
    by_stride_h.divmod(top, p, rest_h);
    by_stride_w.divmod(left, q, rest_w);
    if ((rest_h | rest_w) != 0 || p >= g.d.p || q >= g.d.q) return -1;
    return row.base + col.offset + p * g.d.q + q;
  }
};

inline std::optional<std::string> plane_product_unsupported(const Conv2dProblem& d, Pass pass) {
  if (d.layout != Layout::kNCHW) return "takes nchw only";
  return gathers_unsupported(d, pass);
}

/// The passes, each by Derived::multiply(A, B, PlaneProduct, Run). x, y and their gradients are stored
/// in T.
template <class T, class Derived>
class PlaneProductImpl : public Conv2dImpl {
 public:
  explicit PlaneProductImpl(const Conv2dProblem& problem)
      : Conv2dImpl(problem), geometry_(problem) {}

  void forward(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b,
               const Tensor& y) override {
    self().multiply(MatrixByDepth<1>{w.data<float>(), problem_.k, taps_}, patches_by_position(x),
                    PlaneProduct<T>{.m = problem_.k,
                                    .n = outputs_,
                                    .k = taps_,
                                    .pixels = geometry_.pixels_out,
                                    .by_pixels = geometry_.by_pixels_out,
                                    .bias = b.data<float>(),
                                    .c = y.data<T>()},
                    run);
  }

  void backward_data(const Run& run, const Tensor& dy, const Tensor& w, const Tensor& dx) override {
    const int depth = problem_.k * geometry_.taps;
    self().multiply(WeightByChannel<Layout::kNCHW, 1>{w.data<float>(), geometry_, depth},
                    StridedGradByInput<T>{dy.data<T>(), geometry_, FastDivisor(problem_.stride_h),
                                          FastDivisor(problem_.stride_w), inputs_, depth},
                    PlaneProduct<T>{.m = problem_.c,
                                    .n = inputs_,
                                    .k = depth,
                                    .pixels = geometry_.pixels_in,
                                    .by_pixels = geometry_.by_pixels_in,
                                    .c = dx.data<T>()},
                    run);
  }

  void backward_filter(const Run& run, const Tensor& x, const Tensor& dy, const Tensor& dw,
                       const Tensor& db) override {
    self().multiply(GradByFilter<Layout::kNCHW, 1, T>{dy.data<T>(), geometry_}, patches_by_tap(x),
                    PlaneProduct<float>{.m = problem_.k,
                                        .n = taps_,
                                        .k = outputs_,
                                        .pixels = taps_,
                                        .by_pixels = FastDivisor(taps_),
                                        .c = dw.data<float>(),
                                        .row_sums = db.data<float>()},
                    run);
  }

 private:
  Derived& self() { return static_cast<Derived&>(*this); }

  PatchByPosition<Layout::kNCHW, PixelOrder, 1, T> patches_by_position(const Tensor& x) const {
    return {{x.data<T>(), geometry_, outputs_, taps_}};
  }
  PatchByTap<Layout::kNCHW, PixelOrder, 1, T> patches_by_tap(const Tensor& x) const {
    return {{x.data<T>(), geometry_, outputs_, taps_}};
  }

  const ConvGeometry geometry_;
  const int outputs_ = problem_.n * problem_.p * problem_.q;
  const int inputs_ = problem_.n * problem_.h * problem_.w;
  const int taps_ = problem_.c * problem_.r * problem_.s;
};

}  // namespace duet
