// How the operands of the three convolution products are gathered from tensors (see
// kernels/product.cuh for the contract).
//
//   forward          y[m=(n,p,q)][k]        = x patches   [m][(c,r,s)]      * w
//   backward_data    dx[m=(n,h,w)][c]       = dy patches  [m][(k,r,s)]      * w
//   backward_filter  dw[m=k][(c,r,s)]       = dy          [m][(n,p,q)]      * x patches
#pragma once

#include "kernels/matrix_gathers.cuh"
#include "layers/conv2d/conv2d_geometry.cuh"
#include "layers/conv2d/packed_argmax.cuh"
#include "layers/conv2d/wgmma/stride_phases.cuh"

namespace duet {

inline constexpr int kMostPadded = 16383;  // height and width with padding that fit a PatchTap
inline constexpr int kFar = 0x7fff;        // further than any of them

inline std::optional<std::string> gathers_unsupported(const Conv2dProblem& d,
                                                      Pass = Pass::kForward) {
  if (auto reason = ungrouped_unsupported(d)) return reason;
  if (d.h + int64_t{2} * d.pad_h > kMostPadded || d.w + int64_t{2} * d.pad_w > kMostPadded) {
    return "takes images of at most " + std::to_string(kMostPadded) + " rows and columns with " +
           "padding";
  }
  return {};
}

/// Where products are on tensor cores.
inline std::optional<std::string> mma_unsupported(const Conv2dProblem& d, Pass pass) {
  if (auto reason = tensor_cores_only(d, pass)) return reason;
  return gathers_unsupported(d, pass);
}

struct PatchOrigin {  // an output position, seen from x
  int base, h, w;
};
struct PatchTap {  // a tap: its distance from the origin in memory, and h | w << 16
  int offset, hw;
};

// x at (output position, tap).
template <Layout kLayout, class Order, class T>
struct PatchReader {
  const T* __restrict__ x;
  ConvGeometry g;
  int positions, tap_count;

  __device__ __forceinline__ PatchOrigin origin(int m) const {
    if (uint32_t(m) >= uint32_t(positions)) return {0, -4 * kFar, 0};
    int n, p, q;
    Order::position(g, m, n, p, q);
    if (Order::kPadded && n >= g.d.n) return {0, -4 * kFar, 0};
    const int h = p * g.d.stride_h - g.d.pad_h, w = q * g.d.stride_w - g.d.pad_w;
    const int pitch = kLayout == Layout::kNCHW ? 1 : g.d.c;
    return {n * g.pixels_in * g.d.c + (h * g.d.w + w) * pitch, h, w};
  }
  __device__ __forceinline__ PatchTap tap(int i) const {
    if (uint32_t(i) >= uint32_t(tap_count)) return {0, kFar | kFar << 16};
    int c, r, s;
    g.tap<kLayout>(i, g.by_c, c, r, s);
    const int h = r * g.d.dilation_h, w = s * g.d.dilation_w;
    const int offset =
        kLayout == Layout::kNCHW ? c * g.pixels_in + h * g.d.w + w : (h * g.d.w + w) * g.d.c + c;
    return {offset, h | w << 16};
  }
  // region offset
  __device__ __forceinline__ int offset(const PatchOrigin& o, const PatchTap& t) const {
    const int h = o.h + (t.hw & 0xffff), w = o.w + (t.hw >> 16);
    const bool inside = uint32_t(h) < uint32_t(g.d.h) && uint32_t(w) < uint32_t(g.d.w);
    return inside ? o.base + t.offset : -1;
  }
  // end offset
};

// forward A: rows are output positions, k are taps.
template <Layout kLayout, class Order, int vec, class T = float>
struct PatchByPosition {
  static constexpr int kVec = vec;
  static constexpr bool kRowLanes = kLayout == Layout::kNCHW;
  using Value = T;
  using Row = PatchOrigin;
  using Col = PatchTap;
  PatchReader<kLayout, Order, T> reader;
  __device__ __forceinline__ Row row(int i) const { return reader.origin(i); }
  __device__ __forceinline__ Col col(int k) const { return reader.tap(k); }
  __device__ __forceinline__ const T* data() const { return reader.x; }
  __device__ __forceinline__ int offset(const Row& o, const Col& t) const {
    return reader.offset(o, t);
  }
};

// backward_filter B: rows are taps, k are output positions.
template <Layout kLayout, class Order, int vec, class T = float>
struct PatchByTap {
  static constexpr int kVec = vec;
  static constexpr bool kRowLanes = kLayout == Layout::kNHWC;
  using Value = T;
  using Row = PatchTap;
  struct Col {
    int base, h, w, unused;
  };
  PatchReader<kLayout, Order, T> reader;
  __device__ __forceinline__ Row row(int i) const { return reader.tap(i); }
  __device__ __forceinline__ Col col(int k) const {
    const PatchOrigin o = reader.origin(k);
    return {o.base, o.h, o.w, 0};
  }
  __device__ __forceinline__ const T* data() const { return reader.x; }
  __device__ __forceinline__ int offset(const Row& t, const Col& o) const {
    return reader.offset(PatchOrigin{o.base, o.h, o.w}, t);
  }
};

// backward_data B: rows are input channels, k are (filter, tap) in the order of the layout.
template <Layout layout, int vec>
struct WeightByChannel : OffsetGather<vec, layout == Layout::kNHWC, float> {
  static constexpr Layout kLayout = layout;
  using Col = typename OffsetGather<vec, layout == Layout::kNHWC, float>::Col;
  ConvGeometry g;
  int tap_count;
  __device__ __forceinline__ int row(int c) const {
    return c >= g.d.c ? -1 : kLayout == Layout::kNCHW ? c * g.taps : c;
  }
  __device__ __forceinline__ Col col(int i) const {
    if (uint32_t(i) >= uint32_t(tap_count)) return outside();
    int k, rest;
    if constexpr (kLayout == Layout::kNCHW) {
      g.by_taps.divmod(i, k, rest);
    } else {
      g.by_k.divmod(i, rest, k);
    }
    return at(k, rest);
  }
  __device__ __forceinline__ Col outside() const { return {-1, 0}; }
  __device__ __forceinline__ Col at(int k, int tap) const {
    return {kLayout == Layout::kNCHW ? k * g.d.c * g.taps + tap : (k * g.taps + tap) * g.d.c, 0};
  }
};

// backward_data A with stride 1: rows are input positions, k are (filter, tap). With kUnpool dy is
// the pooled gradient, and the value at an output position is its window's gradient if the argmax
// names that position, else zero.
template <Layout layout, bool kUnpool, int vec, class T = float>
struct GradByInput {
  static constexpr Layout kLayout = layout;
  static constexpr int kVec = vec;
  static constexpr bool kRowLanes = kLayout == Layout::kNCHW;
  using Value = T;
  struct Row {
    int base, argmax_base, h, w;
  };
  struct Col {
    int offset, argmax_offset, hw, shift;
  };
  const T* __restrict__ dy;
  const uint32_t* __restrict__ argmax;
  ConvGeometry g;
  int positions, tap_count;

  __device__ __forceinline__ int pixels() const { return kUnpool ? g.windows : g.pixels_out; }
  __device__ __forceinline__ int pixel_stride() const {
    return kLayout == Layout::kNCHW ? 1 : g.d.k;
  }
  __device__ __forceinline__ Row row(int m) const {
    if (m >= positions) return outside_row();
    int n, pixel, h, w;
    g.by_pixels_in.divmod(m, n, pixel);
    g.by_w.divmod(pixel, h, w);
    return row_at(n, h + g.d.pad_h, w + g.d.pad_w);
  }
  __device__ __forceinline__ Row outside_row() const { return {0, 0, -1, -1}; }
  // h, w: the output position that the first tap meets, which may lie outside.
  __device__ __forceinline__ Row row_at(int n, int h, int w) const {
    return {n * pixels() * g.d.k, n * argmax_groups(g.d.k) * pixels(), h, w};
  }
  __device__ __forceinline__ Col col(int i) const {
    if (uint32_t(i) >= uint32_t(tap_count)) return outside_col();
    int k, r, s;
    g.tap<kLayout>(i, g.by_k, k, r, s);
    return col_at(k, r, s, g.d.dilation_h, g.d.dilation_w);
  }
  __device__ __forceinline__ Col outside_col() const { return {0, 0, kFar | kFar << 16, 0}; }
  // Neighbouring taps meet output positions that are step_h rows, step_w columns apart.
  __device__ __forceinline__ Col col_at(int k, int r, int s, int step_h, int step_w) const {
    return {k * (kLayout == Layout::kNCHW ? pixels() : 1), (k / 8) * pixels(),
            r * step_h | (s * step_w) << 16, (k % 8) * 4};
  }
  __device__ __forceinline__ const T* data() const { return dy; }
  __device__ __forceinline__ int offset(const Row& row, const Col& col) const requires(!kUnpool) {
    const int p = row.h - (col.hw & 0xffff), q = row.w - (col.hw >> 16);
    if ((p | q) < 0 || p >= g.d.p || q >= g.d.q) return -1;
    return row.base + col.offset + (p * g.d.q + q) * pixel_stride();
  }
  __device__ __forceinline__ void fetch(const Row& row, const Col& col,
                                        Packed<T, kVec>& value) const requires(kUnpool) {
    const int p = row.h - (col.hw & 0xffff), q = row.w - (col.hw >> 16);
    value = {};
    if ((p | q) < 0 || p >= 2 * g.pool_h || q >= 2 * g.pool_w) return;
    const int window = (p >> 1) * g.pool_w + (q >> 1);
    const uint32_t here = (p & 1) * 2 + (q & 1);
    const uint32_t word =
        __ldg(argmax + (row.argmax_base + col.argmax_offset + window)) >> col.shift;
    const T* at = dy + (row.base + col.offset + window * pixel_stride());
    if constexpr (kVec == 1) {
      if ((word & 15) == here) value = Packed<T, 1>::load(at);
    } else {
      Vector<T, kVec> all = Packed<T, kVec>::load(at).values();
#pragma unroll
      for (int e = 0; e < kVec; ++e)
        if ((word >> 4 * e & 15) != here) all.v[e] = T(0.f);
      value = Packed<T, kVec>(all);
    }
  }
};

// The two operands of backward_data for one phase of a stride.
template <class Whole>
struct PhaseGather {
  static constexpr int kVec = Whole::kVec;
  static constexpr bool kRowLanes = Whole::kRowLanes;
  using Value = typename Whole::Value;
  using Row = typename Whole::Row;
  using Col = typename Whole::Col;
  const Whole& whole;
  const Phase& phase;
  __device__ __forceinline__ const Value* data() const { return whole.data(); }
  __device__ __forceinline__ int offset(const Row& row, const Col& col) const requires requires {
    whole.offset(row, col);
  }
  { return whole.offset(row, col); }
  __device__ __forceinline__ void fetch(const Row& row, const Col& col,
                                        Packed<Value, kVec>& value) const requires requires {
    whole.fetch(row, col, value);
  }
  { whole.fetch(row, col, value); }
};
template <class Grad>
struct GradByPhase : PhaseGather<Grad> {
  using typename PhaseGather<Grad>::Row, typename PhaseGather<Grad>::Col;
  using PhaseGather<Grad>::whole, PhaseGather<Grad>::phase;
  __device__ __forceinline__ Row row(int m) const {
    if (m >= whole.g.d.n * phase.positions) return whole.outside_row();
    int n, i, j;
    phase.position(m, n, i, j);
    return whole.row_at(n, phase.h.out + i, phase.w.out + j);
  }
  __device__ __forceinline__ Col col(int term) const {
    if (uint32_t(term) >= uint32_t(whole.g.d.k * phase.taps)) return whole.outside_col();
    int k, i, j;
    phase.template tap<Grad::kLayout>(term, whole.g.by_k, k, i, j);
    return whole.col_at(k, i, j, phase.all.h.out_step, phase.all.w.out_step);
  }
};
template <class Weight>
struct WeightByPhase : PhaseGather<Weight> {
  using typename PhaseGather<Weight>::Row, typename PhaseGather<Weight>::Col;
  using PhaseGather<Weight>::whole, PhaseGather<Weight>::phase;
  __device__ __forceinline__ Row row(int c) const { return whole.row(c); }
  __device__ __forceinline__ Col col(int term) const {
    if (uint32_t(term) >= uint32_t(whole.g.d.k * phase.taps)) return whole.outside();
    int k, i, j;
    phase.template tap<Weight::kLayout>(term, whole.g.by_k, k, i, j);
    const int r = phase.h.tap + i * phase.all.h.tap_step;
    const int s = phase.w.tap + j * phase.all.w.tap_step;
    return whole.at(k, r * whole.g.d.s + s);
  }
};

// backward_filter A without pooling: rows are filters, k are output positions in order.
template <Layout kLayout, int vec, class T = float>
struct GradByFilter : OffsetGather<vec, kLayout == Layout::kNHWC, T> {
  using Col = typename OffsetGather<vec, kLayout == Layout::kNHWC, T>::Col;
  ConvGeometry g;
  __device__ __forceinline__ int row(int k) const {
    return k >= g.d.k ? -1 : kLayout == Layout::kNCHW ? k * g.pixels_out : k;
  }
  __device__ __forceinline__ Col col(int m) const {
    if (m < 0) return {-1, 0};
    if constexpr (kLayout == Layout::kNHWC) return {m * g.d.k, 0};
    int n, pixel;
    g.by_pixels_out.divmod(m, n, pixel);
    return {n * g.pixels_out * g.d.k + pixel, 0};
  }
};

// backward_filter A behind a pooling: four consecutive k are one window, of which one element, or
// none, has a gradient.
template <Layout kLayout>
struct PooledGradByFilter {
  static constexpr int kVec = 4;
  static constexpr bool kRowLanes = false;
  using Value = float;
  struct Row {
    int offset, argmax_offset, shift;
  };
  struct Col {
    int offset, argmax_offset;
  };
  const float* __restrict__ dy;
  const uint32_t* __restrict__ argmax;
  ConvGeometry g;
  __device__ __forceinline__ Row row(int k) const {
    if (k >= g.d.k) return {-1, 0, 0};
    return {kLayout == Layout::kNCHW ? k * g.windows : k, (k / 8) * g.windows, (k % 8) * 4};
  }
  __device__ __forceinline__ Col col(int m) const {
    if (m < 0) return {-1, 0};
    int n, window;
    g.by_windows.divmod(m >> 2, n, window);
    return {n * g.windows * g.d.k + (kLayout == Layout::kNCHW ? window : window * g.d.k),
            n * argmax_groups(g.d.k) * g.windows + window};
  }
  __device__ __forceinline__ void fetch(const Row& row, const Col& col,
                                        Packed<float, 4>& value) const {
    const bool inside = (row.offset | col.offset) >= 0;
    const float v = inside ? __ldg(dy + (row.offset + col.offset)) : 0.f;
    const uint32_t from =
        inside ? __ldg(argmax + (row.argmax_offset + col.argmax_offset)) >> row.shift & 15
               : kPoolDead;
    Vector<float, 4> all;
#pragma unroll
    for (int e = 0; e < 4; ++e) all.v[e] = from == uint32_t(e) ? v : 0.f;
    value = Packed<float, 4>(all);
  }
};

}  // namespace duet
