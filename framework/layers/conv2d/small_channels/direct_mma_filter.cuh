// custom_direct behind a pooling on tensor cores, backward_filter, with one channel and 3x3 filters: rows of mma.sync are taps
// and a one, whose products with dy are the bias' gradient, columns filters, and terms the four outputs of as many windows:
// a thread makes them of one dy and the place of the largest.
#pragma once

#include "kernels/bulk_copy.cuh"
#include "kernels/split_reduction.cuh"
#include "layers/conv2d/small_channels/direct_mma.cuh"

namespace duet {

/// The rows of A that lane l holds, l/4 and l/4 + 8: pixels under a tap, and in the lower row of all but the first four lanes
/// a constant instead. Pointers are to those at output 0 of the window.
template <class T>
struct DirectTapRows {
  const T *upper, *lower;
  bool lower_is_tap, lower_is_one;
  int pitch, planes_apart;
};

/// Where in a window the largest is, in its four bits of a word of argmax.
struct DirectPlaces {
  uint32_t mask, output[4];
  __device__ explicit DirectPlaces(int filter) : mask(15u << 4 * filter) {
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) output[i] = i << 4 * filter;
  }
};

/// What a lane holds of operands: of A as DirectTapRows says, of B column l/4, and the outputs of window l%4. x lies in planes,
/// as put() leaves them.
template <class T, int kParts>
struct DirectOutputs;

template <>
struct DirectOutputs<bfloat16, 1> {
  // As it is, and a pixel further on: any two neighbours lie in a word.
  static constexpr int kPlanes = 2;
  static constexpr int kStages = 3, kWarps = 12;
  static constexpr bool kSumsImages = false;
  static constexpr const char* kText = MmaBf16::kText;
  using A = uint32_t[4];

  __device__ __forceinline__ static void put(bfloat16* plane, int planes_apart, int at,
                                             bfloat16 value) {
    plane[at] = value;
    if (at > 0) plane[planes_apart + at - 1] = value;
  }
  __device__ __forceinline__ static int tap_at(int tap, int pitch, int planes_apart) {
    return tap / 3 * pitch + (tap % 3 == 1 ? planes_apart : tap % 3);
  }
  __device__ __forceinline__ static void pixels(A& a, const DirectTapRows<bfloat16>& of) {
    const auto pair = [](const bfloat16* at) { return *reinterpret_cast<const uint32_t*>(at); };
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      a[2 * row] = pair(of.upper + row * of.pitch);
      a[2 * row + 1] = of.lower_is_one ? 0x3f803f80 : 0;
      if (of.lower_is_tap) a[2 * row + 1] = pair(of.lower + row * of.pitch);
    }
  }
  __device__ __forceinline__ static void add(float (&sums)[4], const A& a, bfloat16 dy,
                                             uint32_t place, const uint32_t (&output)[4]) {
    const uint32_t low = dy.bits, high = low << 16;
    const auto pair = [&](int i) {
      return place == output[i] ? low : place == output[i + 1] ? high : 0;
    };
    MmaBf16::multiply(sums[0], sums[1], sums[2], sums[3], a, pair(0), pair(2));
  }
};

/// In three parts heads of pixels are rounded, and those of dy cut off by the instruction.
template <int kParts>
struct DirectOutputs<float, kParts> {
  static constexpr int kPlanes = kParts == 1 ? 1 : 2;  // heads and rests
  static constexpr int kStages = 2, kWarps = kParts == 1 ? 12 : 8;
  // The units cut sums off: those of an image are added up by ordinary additions.
  static constexpr bool kSumsImages = kParts == 3;
  static constexpr const char* kText = kParts == 1 ? MmaTf32::kText : StoredMma3xTf32::kText;
  using A = uint32_t[kPlanes][2][4];

  __device__ __forceinline__ static void put(float* plane, int planes_apart, int at, float value) {
    DirectTaps<float, kParts>::put(plane + at, planes_apart, value);
  }
  __device__ __forceinline__ static int tap_at(int tap, int pitch, int) {
    return tap / 3 * pitch + tap % 3;
  }
  __device__ __forceinline__ static void pixels(A& a, const DirectTapRows<float>& of) {
#pragma unroll
    for (int plane = 0; plane < kPlanes; ++plane)
#pragma unroll
      for (int row = 0; row < 2; ++row)
#pragma unroll
        for (int column = 0; column < 2; ++column) {
          const int at = plane * of.planes_apart + row * of.pitch + column;
          a[plane][row][2 * column] = __float_as_uint(of.upper[at]);
          uint32_t& lower = a[plane][row][2 * column + 1];
          lower = of.lower_is_one && plane == 0 ? 0x3f800000 : 0;
          if (of.lower_is_tap) lower = __float_as_uint(of.lower[at]);
        }
  }
  __device__ __forceinline__ static void add(float (&sums)[4], const A& a, float dy, uint32_t place,
                                             const uint32_t (&output)[4]) {
    const auto multiply = [&](const uint32_t(&of_a)[2][4], float value) {
      const auto term = [&](int i) { return place == output[i] ? __float_as_uint(value) : 0; };
#pragma unroll
      for (int s = 0; s < 2; ++s)
        MmaTf32::multiply(sums[0], sums[1], sums[2], sums[3], of_a[s], term(2 * s),
                          term(2 * s + 1));
    };
    if constexpr (kParts == 1) {
      multiply(a[0], tf32_rounded(dy));
    } else {
      multiply(a[1], dy), multiply(a[0], rest_of_cut(dy)), multiply(a[0], dy);
    }
  }
  /// Of the head that the units read of the value itself, and so that what they read of the rest is its nearest.
  __device__ __forceinline__ static float rest_of_cut(float value) {
    const float rest = value - __uint_as_float(__float_as_uint(value) & 0xffffe000u);
    return __uint_as_float(__float_as_uint(rest) + 0x1000u);
  }
};

/// What a block of backward_filter has of an image: so many bytes of dy and of argmax, of its filters, and of x, and so many
/// pixels of x with its padding.
struct DirectMmaImage {
  int dy, argmax, x;
  int pixels_pitch, pixels;
  FastDivisor by_pitch;

  DirectMmaImage(const DirectGeometry& g, int element_bytes, int filters)
      : dy(filters * g.windows * element_bytes),
        argmax(filters / 8 * g.windows * int(sizeof(uint32_t))),
        x(g.d.h * g.d.w * element_bytes),
        pixels_pitch(2 * g.windows_w + 2),
        pixels((2 * g.windows_h + 2) * pixels_pitch),
        by_pitch(pixels_pitch) {}
  __host__ __device__ int bytes() const { return round_up(dy + argmax + x, 16); }
};

// blockIdx.x is a split of the images, y some filters, eight a tile. A block's warps share an image's windows, four at a time,
// which the copy engine brings some images ahead.
// partial[split] = dw [filters][taps], then dbias [filters].
template <class T, int kParts, int kTiles, int kWarps>
__global__ void __launch_bounds__(kWarps * 32, kTiles / 4)
    conv2d_direct_mma_backward_filter_kernel(const __grid_constant__ DirectGeometry g,
                                             const __grid_constant__ DirectMmaImage part,
                                             const T* x, const T* dy, const uint32_t* argmax,
                                             float* __restrict__ partial) {
  using Outputs = DirectOutputs<T, kParts>;
  constexpr int kTaps = 9, kFilters = kTiles * 8, kStages = Outputs::kStages;
  extern __shared__ __align__(16) char memory[];
  __shared__ CopyBarrier full[kStages];
  T* const plane = reinterpret_cast<T*>(memory + kStages * part.bytes());
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int column = lane / 4, of_four = lane % 4, k0 = blockIdx.y * kFilters;
  if (threadIdx.x == 0)
    for (CopyBarrier& barrier : full) barrier.init();
  __syncthreads();
  const int images = ceil_div(g.d.n - int(blockIdx.x), int(gridDim.x));
  const auto fetch = [&](int number) {
    const int stage = number % kStages;
    const size_t image = blockIdx.x + size_t(number) * gridDim.x;
    char* const to = memory + stage * part.bytes();
    const auto copy = [&](char* shared, const void* from, int bytes) {
      bulk_copy(reinterpret_cast<float*>(shared), static_cast<const float*>(from), bytes,
                full[stage]);
    };
    full[stage].expect(part.dy + part.argmax + part.x);
    copy(to, dy + (image * g.d.k + k0) * g.windows, part.dy);
    copy(to + part.dy, argmax + (image * argmax_groups(g.d.k) + k0 / 8) * g.windows, part.argmax);
    copy(to + part.dy + part.argmax, x + image * g.d.h * g.d.w, part.x);
  };
  wait_for_primary();
  if (threadIdx.x == 0)
    for (int i = 0; i < min(kStages, images); ++i) fetch(i);
  DirectTapRows<T> rows{.upper = nullptr,
                        .lower = nullptr,
                        .lower_is_tap = column == 0,
                        .lower_is_one = column == 1,
                        .pitch = part.pixels_pitch,
                        .planes_apart = part.pixels};
  const int upper_at = Outputs::tap_at(column, rows.pitch, part.pixels),
            lower_at = Outputs::tap_at(kTaps - 1, rows.pitch, part.pixels);
  const DirectPlaces places(column);
  float sums[kTiles][4] = {}, of_images[kTiles][4] = {};
  for (int number = 0; number < images; ++number) {
    const int stage = number % kStages;
    full[stage].wait(number / kStages);
    const char* const from = memory + stage * part.bytes();
    const T* const image = reinterpret_cast<const T*>(from + part.dy + part.argmax);
    for (int i = threadIdx.x; i < part.pixels; i += kWarps * 32) {
      int h, w;
      part.by_pitch.divmod(i, h, w);
      h -= g.d.pad_h, w -= g.d.pad_w;
      const bool inside = uint32_t(h) < uint32_t(g.d.h) && uint32_t(w) < uint32_t(g.d.w);
      Outputs::put(plane, part.pixels, i, inside ? image[h * g.d.w + w] : T(0.f));
    }
    __syncthreads();
    for (int first = warp * 4; first < g.windows; first += kWarps * 4) {
      const bool inside = first + of_four < g.windows;
      const int window = inside ? first + of_four : 0;
      int upper, left;
      g.by_windows_w.divmod(window, upper, left);
      const T* const corner = plane + 2 * upper * rows.pitch + 2 * left;
      rows.upper = corner + upper_at, rows.lower = corner + lower_at;
      typename Outputs::A patch;
      Outputs::pixels(patch, rows);
      const T* gradients =
          reinterpret_cast<const T*>(from) + column * g.filter_stride + window * g.pixel_stride;
      const uint32_t* codes = reinterpret_cast<const uint32_t*>(from + part.dy) + window;
      const uint32_t nowhere = inside ? 0 : places.mask;
#pragma unroll
      for (int j = 0; j < kTiles; ++j) {
        Outputs::add(sums[j], patch, *gradients, (*codes & places.mask) | nowhere, places.output);
        gradients += 8 * g.filter_stride, codes += g.windows;
      }
    }
    if constexpr (Outputs::kSumsImages) {
#pragma unroll
      for (int j = 0; j < kTiles; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i) of_images[j][i] += sums[j][i], sums[j][i] = 0.f;
    }
    __syncthreads();  // nobody reads the stage any more
    if (threadIdx.x == 0 && number + kStages < images) fetch(number + kStages);
  }
  let_secondary_start();
  const auto& all = Outputs::kSumsImages ? of_images : sums;
  // Where images were.
  auto& sums_of = *reinterpret_cast<float(*)[kWarps][kTaps + 1][kFilters + 1]>(memory);
#pragma unroll
  for (int j = 0; j < kTiles; ++j) {
#pragma unroll
    for (int f = 0; f < 2; ++f) {
      const int k = j * 8 + of_four * 2 + f;
      sums_of[warp][column][k] = all[j][f];
      if (column < 2) sums_of[warp][8 + column][k] = all[j][2 + f];
    }
  }
  __syncthreads();
  float* const out = partial + size_t(blockIdx.x) * g.d.k * (kTaps + 1);
  for (int i = threadIdx.x; i < kFilters * (kTaps + 1); i += kWarps * 32) {
    const int k = i / (kTaps + 1), tap = i % (kTaps + 1);
    float total = 0.f;
#pragma unroll
    for (int of = 0; of < kWarps; ++of) total += sums_of[of][tap][k];
    out[tap < kTaps ? (k0 + k) * kTaps + tap : g.d.k * kTaps + k0 + k] = total;
  }
}

template <class T, int kParts>
class DirectMmaFilter {
 public:
  explicit DirectMmaFilter(const Conv2dProblem& problem)
      : geometry_(problem, true),
        filters_(filters_of_block(problem)),
        image_(geometry_, sizeof(T), filters_) {
    const int groups = problem.k / filters_, at_once = blocks_at_once() * multiprocessor_count();
    splits_ = ceil_div(problem.n, ceil_div(problem.n * groups, at_once));
  }

  /// The copies are whole 16 bytes of neighbours in memory.
  static std::optional<std::string> unsupported(const Conv2dProblem& d) {
    if (auto reason = direct_mma_unsupported(d)) return reason;
    if (d.layout == Layout::kNCHW ? d.k % kDirectMmaFilters != 0 : d.k != kDirectMmaFilters)
      return "takes 64 filters, in nchw or multiples";
    const DirectMmaImage image(DirectGeometry(d, true), sizeof(T), kDirectMmaFilters);
    if (image.x % 16 != 0) return "takes images of whole 16 bytes";
    if (image.bytes() > 64 * 1024) return "takes images with up to 64 KiB of x, dy and argmax";
    return bulk_copies_unsupported(kernel(kDirectMmaFilters), shared_bytes(image));
  }

  size_t workspace_bytes() const { return sizeof(float) * splits_ * partial_floats(); }
  /// `db` may be nullptr.
  void run(const T* x, const T* dy, const uint32_t* argmax, float* dw, float* db, void* workspace,
           cudaStream_t stream) const {
    float* const partial = static_cast<float*>(workspace);
    const int bytes = shared_bytes(image_), warps = blocks_at_once() == 1 ? kFewWarps : kWarps;
    DUET_CUDA(
        cudaFuncSetAttribute(kernel(filters_), cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    launch_following({dim3(splits_, geometry_.d.k / filters_), warps * 32, size_t(bytes), stream},
                     kernel(filters_), geometry_, image_, x, dy, argmax, partial);
    launch_reduce_splits(partial, splits_, partial_floats(), partial_floats(), geometry_.d.k * 9,
                         dw, db, stream);
  }
  std::string text() const {
    return std::to_string(filters_) + " filters, " + std::to_string(splits_) + " splits" +
           DirectOutputs<T, kParts>::kText;
  }

 private:
  /// Half as many, and twice the warps, where images are fewer than multiprocessors. In nhwc they are no neighbours.
  static int filters_of_block(const Conv2dProblem& d) {
    const bool few = d.n * d.k / kDirectMmaFilters <= multiprocessor_count();
    return few && d.layout == Layout::kNCHW ? kDirectMmaFilters / 2 : kDirectMmaFilters;
  }
  static constexpr int kWarps = DirectOutputs<T, kParts>::kWarps, kFewWarps = 16;
  int blocks_at_once() const { return filters_ < kDirectMmaFilters ? 1 : 2; }
  static auto kernel(int filters) {
    return filters < kDirectMmaFilters
               ? conv2d_direct_mma_backward_filter_kernel<T, kParts, 4, kFewWarps>
               : conv2d_direct_mma_backward_filter_kernel<T, kParts, 8, kWarps>;
  }
  int partial_floats() const { return geometry_.d.k * 10; }
  /// Sums of all warps lie there too.
  static int shared_bytes(const DirectMmaImage& image) {
    using Outputs = DirectOutputs<T, kParts>;
    constexpr int kSums = sizeof(float) * 10 * std::max(kFewWarps * (32 + 1), kWarps * (64 + 1));
    return std::max(
        kSums, Outputs::kStages * image.bytes() + Outputs::kPlanes * image.pixels * int(sizeof(T)));
  }

  const DirectGeometry geometry_;
  const int filters_;
  const DirectMmaImage image_;
  int splits_ = 1;
};

}  // namespace duet
