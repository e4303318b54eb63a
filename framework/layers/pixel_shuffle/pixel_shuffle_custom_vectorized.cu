// pixel_shuffle custom_vectorized: 16 bytes at a time on both sides. Values that lie side by side in
//           one tensor stand in different planes of the other: in nchw the r values (j) of a pixel's
//           row in y, whose planes are channels of x; in nhwc the r*r values (i, j) of a channel in
//           x, whose planes are parts of the rows of y. A thread moves a cell, 16 bytes of every
//           plane, and exchanges rows and columns in registers.
// Mapping:  thread = 1 cell: r (nchw) or r*r (nhwc) vectors of 4 elements (8 in bf16) on either
//           side, consecutive threads along a row; block = 256.
// Traffic:  x once, y once. The side of the planes is coalesced; on the other a warp's accesses of
//           16 bytes lie r or r*r vectors apart, so that L1 serves loads of the same line, and
//           stores reach L2 in halves of sectors.
// Limits:   fp32 or bf16, both layouts, fewer than 2^31 elements; tensors start at multiples of 16
//           bytes, as every arena's do. Where r is not 2 to 4, or W (nchw) or the channels of y
//           (nhwc) are not a multiple of a vector, elements are moved one by one.
#include "device/launch.h"
#include "kernels/integers.cuh"
#include "kernels/vector.cuh"
#include "layers/pixel_shuffle/pixel_shuffle.h"

namespace duet {
namespace {

constexpr int kThreads = 256;

// All numbers are below 2^31, as those of elements are.
struct Cells {
  int count = 0;
  FastDivisor groups;                           // cells of a row of a plane
  FastDivisor inner, outer;                     // then two indices, and `rest` counts what is left
  int of_inner = 0, of_outer = 0, of_rest = 0;  // steps of these between planes' first elements
  int down = 1, across = 1;                     // the planes of a cell: i < down, j < across
  int of_i = 0, of_j = 0;                       // steps between them

  // Cells that are `vector` elements wide.
  Cells(const PixelShuffleProblem& problem, int vector) {
    const Shape& x = problem.x.shape;
    const int h = static_cast<int>(x[2]), w = static_cast<int>(x[3]);
    const int c = static_cast<int>(problem.y.shape[1]), r = static_cast<int>(problem.scale);
    across = r;
    if (problem.x.layout == Layout::kNCHW) {
      // In the order of y: image and channel, h, i, w.
      groups = FastDivisor(w / vector);
      inner = FastDivisor(r);
      outer = FastDivisor(h);
      of_j = h * w;
      of_inner = r * of_j;
      of_outer = w;
      of_rest = r * of_inner;
    } else {
      // In the order of x: image and h, w, channel.
      groups = FastDivisor(c / vector);
      inner = FastDivisor(w);
      down = r;
      of_j = c;
      of_inner = r * c;
      of_i = w * of_inner;
      of_rest = r * of_i;
    }
    count = static_cast<int>(problem.x.elements() / (int64_t{vector} * down * across));
  }

  // Where the cell's element of plane (0, 0) stands.
  __device__ __forceinline__ int first(int cell, int vector) const {
    int rest, group, in, out;
    groups.divmod(cell, rest, group);
    inner.divmod(rest, rest, in);
    outer.divmod(rest, rest, out);
    return group * vector + in * of_inner + out * of_outer + rest * of_rest;
  }
};

// from planes to neighbours (gather), or back.
template <bool gather, int down, int across, class T>
__global__ void pixel_shuffle_vectorized_kernel(Cells cells, const T* from, T* to) {
  wait_for_primary();
  constexpr int V = kWidest<T>, kPlanes = down * across;
  const int64_t cell = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (cell >= cells.count) return;
  const int planes = cells.first(static_cast<int>(cell), V);
  const int64_t neighbours = cell * V * kPlanes;
  const auto plane = [&](int p) {
    return planes + p / across * cells.of_i + p % across * cells.of_j;
  };

  Vector<T, V> read[kPlanes];
#pragma unroll
  for (int p = 0; p < kPlanes; ++p) {
    read[p] = Packed<T, V>::load(from + (gather ? plane(p) : neighbours + p * V)).values();
  }
#pragma unroll
  for (int p = 0; p < kPlanes; ++p) {
    Vector<T, V> written;
#pragma unroll
    for (int k = 0; k < V; ++k) {
      // Element k of plane p is neighbour k * kPlanes + p.
      const int of_planes = p * V + k, of_neighbours = k * kPlanes + p;
      written.v[k] = gather ? read[of_planes % kPlanes].v[of_planes / kPlanes]
                            : read[of_neighbours / V].v[of_neighbours % V];
    }
    Packed<T, V>(written).store(to + (gather ? neighbours + p * V : plane(p)));
  }
}

template <bool gather, class T>
__global__ void pixel_shuffle_elements_kernel(Cells cells, const T* from, T* to) {
  wait_for_primary();
  const int64_t cell = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (cell >= cells.count) return;
  const int planes = cells.first(static_cast<int>(cell), 1);
  const int64_t neighbours = cell * cells.down * cells.across;
  for (int i = 0; i < cells.down; ++i) {
    for (int j = 0; j < cells.across; ++j) {
      const int64_t plane = planes + i * cells.of_i + j * cells.of_j;
      const int64_t neighbour = neighbours + i * cells.across + j;
      to[gather ? neighbour : plane] = from[gather ? plane : neighbour];
    }
  }
}

template <class T>
class PixelShuffleCustomVectorized : public PixelShuffleImpl {
 public:
  explicit PixelShuffleCustomVectorized(const PixelShuffleProblem& problem)
      : PixelShuffleImpl(problem),
        nhwc_(problem.x.layout == Layout::kNHWC),
        wide_(problem.scale >= 2 && problem.scale <= 4 &&
              (nhwc_ ? problem.y : problem.x).shape[nhwc_ ? 1 : 3] % kWidest<T> == 0),
        cells_(problem, wide_ ? kWidest<T> : 1) {}

  // The planes are x's in nchw, and y's in nhwc.
  void shuffle(const Run& run, const Tensor& x, const Tensor& y) override {
    nhwc_ ? move<false>(run, x, y) : move<true>(run, x, y);
  }
  void unshuffle(const Run& run, const Tensor& dy, const Tensor& dx) override {
    nhwc_ ? move<true>(run, dy, dx) : move<false>(run, dy, dx);
  }

 private:
  template <bool gather>
  void move(const Run& run, const Tensor& from, const Tensor& to) {
    const int64_t blocks = (int64_t{cells_.count} + kThreads - 1) / kThreads;
    launch_following({static_cast<unsigned>(blocks), kThreads, 0, run.stream()}, kernel<gather>(),
                     cells_, from.data<T>(), to.data<T>());
  }

  using Kernel = void (*)(Cells, const T*, T*);
  template <bool gather>
  Kernel kernel() const {
    if (!wide_) return pixel_shuffle_elements_kernel<gather, T>;
    if (problem_.scale == 2) return wide_kernel<gather, 2>();
    if (problem_.scale == 3) return wide_kernel<gather, 3>();
    return wide_kernel<gather, 4>();
  }
  template <bool gather, int r>
  Kernel wide_kernel() const {
    return nhwc_ ? pixel_shuffle_vectorized_kernel<gather, r, r, T>
                 : pixel_shuffle_vectorized_kernel<gather, 1, r, T>;
  }

  const bool nhwc_, wide_;
  const Cells cells_;
};

}  // namespace

ImplEntry<PixelShuffleProblem> pixel_shuffle_custom_vectorized() {
  return gpu_entry<PixelShuffleCustomVectorized>("custom_vectorized");
}

}  // namespace duet
