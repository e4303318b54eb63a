// A tile of a product (kernels/product.cuh) that tensor cores multiply by the warp-wide instruction
// mma.sync (PTX ISA, "Warp-level matrix instructions"; compute capability 8.0 and newer).
//
// A slice lies in shared memory as its gather brings it: [row][k] where lanes run along k, [k][row]
// where they run along rows. ldmatrix takes either, turning the second round, so that nothing is
// transposed by hand. Rows of shared memory are padded, so that eight of them, which ldmatrix reads at
// once, lie in different banks.
//
// Of a 16x8 part of the product, lane l holds rows l/4 and l/4 + 8, columns 2 (l%4) and the next.
#pragma once

#include "core/error.h"
#include "device/attribute.h"
#include "kernels/tf32.cuh"
#include "kernels/vector.cuh"

namespace duet {

/// Throws UnsupportedError where the current device has no such instruction.
inline void require_mma() {
  if (gpu_attribute(cudaDevAttrComputeCapabilityMajor) < 8) {
    throw UnsupportedError("custom_mma takes a GPU of compute capability 8.0 or newer");
  }
}

/// Four 8x8 matrices of 16-bit words; lane 8q + i says where row i of matrix q begins. Every lane
/// gets two neighbouring words of row lane/4 of each, or with kTurned of its column lane/4.
template <bool kTurned>
__device__ __forceinline__ void load_matrices(uint32_t (&words)[4], const void* row) {
  const auto address = uint32_t(__cvta_generic_to_shared(row));
  if constexpr (kTurned) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(address));
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(address));
  }
}

/// Operands in bfloat16: those that are stored so are taken as they are, float32 is rounded.
struct MmaBf16 {
  template <class T>
  using Element = uint16_t;                            // in a slice, of a tensor of T
  static constexpr int kSliceDepth = 32, kDepth = 16;  // of a slice, and of an instruction
  static constexpr int kLeastCopy = 16;                // bytes
  static constexpr bool kInParts = false;              // see StoredMma3xTf32
  static constexpr const char* kText = ", mma bf16";

  __device__ __forceinline__ static uint16_t operand(bfloat16 value) { return value.bits; }
  __device__ __forceinline__ static uint16_t operand(float value) { return bfloat16(value).bits; }
  __device__ __forceinline__ static float value(uint16_t element) {
    return __uint_as_float(uint32_t{element} << 16);
  }

  // region multiply
  __device__ __forceinline__ static void multiply(float& c0, float& c1, float& c2, float& c3,
                                                  const uint32_t (&a)[4], uint32_t b0,
                                                  uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
  // end multiply
  /// Words of lane l: matrix 0 is rows 0-7 of the first 16 bytes of k, 1 rows 8-15, 2 and 3 the next
  /// 16 bytes of k.
  template <bool row_lanes, int pitch>
  __device__ __forceinline__ static void load_a(uint32_t (&a)[4], const uint16_t* slice, int row,
                                                int k) {
    const int lane = threadIdx.x % 32, in = lane % 8, low = lane / 8 % 2, high = lane / 16;
    if constexpr (row_lanes) {
      load_matrices<true>(a, slice + (k + high * 8 + in) * pitch + row + low * 8);
    } else {
      load_matrices<false>(a, slice + (row + low * 8 + in) * pitch + k + high * 8);
    }
  }
  /// Of two parts of eight columns each: b[0], b[1] of the first, b[2], b[3] of the second.
  template <bool row_lanes, int pitch>
  __device__ __forceinline__ static void load_b(uint32_t (&b)[4], const uint16_t* slice, int col,
                                                int k) {
    const int lane = threadIdx.x % 32, in = lane % 8, low = lane / 8 % 2, high = lane / 16;
    if constexpr (row_lanes) {
      load_matrices<true>(b, slice + (k + low * 8 + in) * pitch + col + high * 8);
    } else {
      load_matrices<false>(b, slice + (col + high * 8 + in) * pitch + k + low * 8);
    }
  }
};

/// Operands in TF32: float32 in the slices, of which the instruction reads the 19 upper bits.
struct MmaTf32 {
  template <class T>
  using Element = uint32_t;
  static constexpr int kSliceDepth = 16, kDepth = 8, kLeastCopy = 16;
  static constexpr bool kInParts = false;
  static constexpr const char* kText = ", mma tf32";

  __device__ __forceinline__ static uint32_t operand(float value) { return __float_as_uint(value); }
  __device__ __forceinline__ static float value(uint32_t element) {
    return __uint_as_float(element);
  }

  __device__ __forceinline__ static void multiply(float& c0, float& c1, float& c2, float& c3,
                                                  const uint32_t (&a)[4], uint32_t b0,
                                                  uint32_t b1) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
  /// As MmaBf16's; 16 bytes are four k here. ldmatrix cannot turn words of 32 bits.
  template <bool row_lanes, int pitch>
  __device__ __forceinline__ static void load_a(uint32_t (&a)[4], const uint32_t* slice, int row,
                                                int k) {
    const int lane = threadIdx.x % 32;
    if constexpr (row_lanes) {
      const uint32_t* at = slice + (k + lane % 4) * pitch + row + lane / 4;
      a[0] = at[0], a[1] = at[8], a[2] = at[4 * pitch], a[3] = at[4 * pitch + 8];
    } else {
      load_matrices<false>(a,
                           slice + (row + lane / 8 % 2 * 8 + lane % 8) * pitch + k + lane / 16 * 4);
    }
  }
  template <bool row_lanes, int pitch>
  __device__ __forceinline__ static void load_b(uint32_t (&b)[4], const uint32_t* slice, int col,
                                                int k) {
    const int lane = threadIdx.x % 32;
    if constexpr (row_lanes) {
      const uint32_t* at = slice + (k + lane % 4) * pitch + col + lane / 4;
      b[0] = at[0], b[1] = at[4 * pitch], b[2] = at[8], b[3] = at[4 * pitch + 8];
    } else {
      load_matrices<false>(b,
                           slice + (col + lane / 16 * 8 + lane % 8) * pitch + k + lane / 8 % 2 * 4);
    }
  }
};

/// Operands in TF32 as tensors have them, in 4 bytes and more, rounded behind the slices.
struct StoredMmaTf32 : MmaTf32 {
  static constexpr int kLeastCopy = 4;

  __device__ __forceinline__ static void round(uint32_t (&words)[4]) {
#pragma unroll
    for (uint32_t& word : words) word = __float_as_uint(tf32_rounded(__uint_as_float(word)));
  }
  template <bool row_lanes, int pitch>
  __device__ __forceinline__ static void load_a(uint32_t (&a)[4], const uint32_t* slice, int row,
                                                int k) {
    MmaTf32::load_a<row_lanes, pitch>(a, slice, row, k);
    round(a);
  }
  template <bool row_lanes, int pitch>
  __device__ __forceinline__ static void load_b(uint32_t (&b)[4], const uint32_t* slice, int col,
                                                int k) {
    MmaTf32::load_b<row_lanes, pitch>(b, slice, col, k);
    round(b);
  }
};

/// float32 in parts: a value is head + rest, of 11 digits each, and of the four products of heads and rests three are
/// summed (kernels/wgmma_split.cuh tells why that is enough). What the units have summed of a slice they leave to ordinary
/// additions, as they cut sums off where float32 rounds them.
struct StoredMma3xTf32 : MmaTf32 {
  static constexpr int kLeastCopy = 4;
  static constexpr bool kInParts = true;
  static constexpr const char* kText = ", mma 3xtf32";

  template <int count>
  struct Parts {
    uint32_t head[count], rest[count];
    __device__ __forceinline__ explicit Parts(const uint32_t (&words)[count]) {
      // region parts
#pragma unroll
      for (int i = 0; i < count; ++i) {
        const float value = __uint_as_float(words[i]), rounded = tf32_rounded(value);
        head[i] = __float_as_uint(rounded);
        rest[i] = __float_as_uint(value - rounded);
      }
      // end parts
    }
  };
  // Values are taken apart for every product; the compiler does it once.
  __device__ __forceinline__ static void multiply(float& c0, float& c1, float& c2, float& c3,
                                                  const uint32_t (&a)[4], uint32_t b0,
                                                  uint32_t b1) {
    const Parts<4> of_a(a);
    const Parts<2> of_b({b0, b1});
    MmaTf32::multiply(c0, c1, c2, c3, of_a.rest, of_b.head[0], of_b.head[1]);
    MmaTf32::multiply(c0, c1, c2, c3, of_a.head, of_b.rest[0], of_b.rest[1]);
    MmaTf32::multiply(c0, c1, c2, c3, of_a.head, of_b.head[0], of_b.head[1]);
  }
};

/// Operands in bfloat16 as tensors have them: float32 of A stays float32 in the slices.
struct StoredMmaBf16 : MmaBf16 {
  template <class T>
  using Element = std::conditional_t<std::is_same_v<T, float>, float, uint16_t>;
  static constexpr int kLeastCopy = 4;

  __device__ __forceinline__ static uint16_t operand(bfloat16 value) { return value.bits; }
  __device__ __forceinline__ static float operand(float value) { return value; }

  using MmaBf16::load_a;
  template <bool row_lanes, int pitch>
  __device__ __forceinline__ static void load_a(uint32_t (&a)[4], const float* slice, int row,
                                                int k) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int my_row = row + lane / 4 + i % 2 * 8, my_k = k + lane % 4 * 2 + i / 2 * 8;
      float2 pair;
      if constexpr (row_lanes) {
        pair = {slice[my_k * pitch + my_row], slice[(my_k + 1) * pitch + my_row]};
      } else {
        pair = *reinterpret_cast<const float2*>(slice + my_row * pitch + my_k);
      }
      asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(a[i]) : "f"(pair.y), "f"(pair.x));
    }
  }
};

/// Elements between the rows of a slice, so that what is read at once lies in different banks.
template <class Element, bool row_lanes>
constexpr int kSlicePadding = std::is_same_v<Element, float> ? (row_lanes ? 4 : 8)
                              : row_lanes                    ? 8
                                                             : 16 / int(sizeof(Element));

/// Warps lie warps_m x warps_n over the tile.
template <class Mma, int block_m, int block_n, int warps_m, int warps_n, int stages, int min_blocks,
          int depth = Mma::kSliceDepth>
struct MmaTile {
  static constexpr int kM = block_m, kN = block_n, kK = depth;
  static constexpr int kThreads = 32 * warps_m * warps_n, kMinBlocks = min_blocks;
  static constexpr int kWarpM = kM / warps_m, kWarpN = kN / warps_n;
  static constexpr int kThreadM = kWarpM / 8, kThreadN = kWarpN / 4;
  static constexpr int kRowRun = 1, kRun = 2, kSpan = 4, kThreadsX = 4 * warps_n;
  static constexpr int kStages = stages;
  template <class T, int count>
  static constexpr bool kCopies = sizeof(T) == sizeof(typename Mma::template Element<T>) &&
                                  sizeof(T) * count >= Mma::kLeastCopy;
  static_assert(kWarpM % 32 == 0 && kWarpN % 16 == 0 && kK % Mma::kDepth == 0);

  /// acc[4w] to acc[4w + 3] of a thread are rows eight apart: the elements of one window where rows
  /// run through eight windows at a time.
  static constexpr int kWindowStride = 8;

  __device__ __forceinline__ static int warp() { return threadIdx.x / 32; }
  __device__ __forceinline__ static int thread_x() {
    return warp() % warps_n * 4 + threadIdx.x % 4;
  }
  __device__ __forceinline__ static int row(int i) {
    return warp() / warps_n * kWarpM + i * 8 + threadIdx.x % 32 / 4;
  }
  __device__ __forceinline__ static int col(int j, int x) {
    return x / 4 * kWarpN + j / 2 * 8 + x % 4 * 2 + j % 2;
  }

  template <int rows, bool row_lanes, class Element>
  static constexpr int kPitch = (row_lanes ? rows : kK) + kSlicePadding<Element, row_lanes>;

  template <int rows, bool row_lanes, class T>
  struct Slice {
    using Element = typename Mma::template Element<T>;
    static constexpr int kPitch = MmaTile::kPitch<rows, row_lanes, Element>;
    static constexpr int kElements = (row_lanes ? kK : rows) * kPitch;

    template <class E>
    __device__ __forceinline__ static E* at(E* slice, int row, int k) {
      return slice + (row_lanes ? k * kPitch + row : row * kPitch + k);
    }
    template <int V>
    __device__ __forceinline__ static void put(Element* slice, int row, int k,
                                               const Vector<T, V>& values) {
      Vector<Element, V> operands;
#pragma unroll
      for (int e = 0; e < V; ++e) operands.v[e] = Mma::operand(values.v[e]);
      Packed<Element, V>(operands).store(at(slice, row, k));
    }
  };

  /// An element of a slice.
  template <class Element>
  __device__ __forceinline__ static float value(Element element) {
    return Mma::value(element);
  }

  template <bool row_lanes_a, bool row_lanes_b, class ElementA, class ElementB>
  __device__ __forceinline__ static void multiply(const ElementA* slice_a, const ElementB* slice_b,
                                                  float (&acc)[kThreadM][kThreadN]) {
    if constexpr (Mma::kInParts) {
      float sums[kThreadM][kThreadN] = {};
      add_products<row_lanes_a, row_lanes_b>(slice_a, slice_b, sums);
#pragma unroll
      for (int i = 0; i < kThreadM; ++i)
#pragma unroll
        for (int j = 0; j < kThreadN; ++j) acc[i][j] += sums[i][j];
    } else {
      add_products<row_lanes_a, row_lanes_b>(slice_a, slice_b, acc);
    }
  }

 private:
  template <bool row_lanes_a, bool row_lanes_b, class ElementA, class ElementB>
  __device__ __forceinline__ static void add_products(const ElementA* slice_a,
                                                      const ElementB* slice_b,
                                                      float (&acc)[kThreadM][kThreadN]) {
    constexpr int kPitchA = kPitch<kM, row_lanes_a, ElementA>;
    constexpr int kPitchB = kPitch<kN, row_lanes_b, ElementB>;
    const int m0 = warp() / warps_n * kWarpM, n0 = warp() % warps_n * kWarpN;
#pragma unroll
    for (int k = 0; k < kK; k += Mma::kDepth) {
      uint32_t a[kThreadM / 2][4], b[kThreadN / 4][4];
#pragma unroll
      for (int i = 0; i < kThreadM / 2; ++i)
        Mma::template load_a<row_lanes_a, kPitchA>(a[i], slice_a, m0 + i * 16, k);
#pragma unroll
      for (int j = 0; j < kThreadN / 4; ++j)
        Mma::template load_b<row_lanes_b, kPitchB>(b[j], slice_b, n0 + j * 16, k);
#pragma unroll
      for (int i = 0; i < kThreadM / 2; ++i)
#pragma unroll
        for (int j = 0; j < kThreadN / 2; ++j)
          Mma::multiply(acc[2 * i][2 * j], acc[2 * i][2 * j + 1], acc[2 * i + 1][2 * j],
                        acc[2 * i + 1][2 * j + 1], a[i], b[j / 2][j % 2 * 2],
                        b[j / 2][j % 2 * 2 + 1]);
    }
  }
};

/// As FmaTiles.
template <class Mma>
struct MmaTiles {
  using Large = MmaTile<Mma, 128, 128, 2, 4, 3, 2>;
  using Medium = MmaTile<Mma, 128, 64, 2, 2, 3, 3>;
  using Small = MmaTile<Mma, 64, 64, 2, 2, 4, 4>;
  using Narrow = MmaTile<Mma, 64, 32, 2, 2, 4, 5>;
  static constexpr const char* kText = Mma::kText;
};

}  // namespace duet
