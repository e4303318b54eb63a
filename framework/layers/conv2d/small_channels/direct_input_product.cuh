// custom_direct, backward_data in nchw: with a stride and few channels, dx of a position is the stride_h x
// stride_w inputs of all channels that begin at a stride, up to 16, which are the rows of an mma.sync
// (kernels/mma_tile.cuh); its columns are eight neighbouring positions, its terms what they read of dy: by four channels, a row
// of taps a stride apart, which are four neighbours in memory. A warp has 8 rows of 16 positions.
//
//   dx[n,c,i*stride_h + a - pad_h, j*stride_w + b - pad_w] =
//       sum over k,u,v of dy[n,k,i-u,j-v] * w[k,c,a + u*stride_h,b + v*stride_w]
//
// The rows of an instruction read the same of dy, and not all of them have all taps: where one has none, its weight is zero. Zero
// times infinity is no number, so that sums that are no numbers are computed once more, of the taps that exist.
#pragma once

#include <algorithm>

#include "device/launch.h"
#include "kernels/load_if.cuh"
#include "kernels/mma_tile.cuh"
#include "kernels/tf32.cuh"
#include "kernels/vector.cuh"
#include "layers/conv2d/conv2d_geometry.cuh"

namespace duet {

/// Rows of a task, taps along an axis that a position reads (u and v), tiles of eight positions of a warp.
inline constexpr int kInputRows = 8, kInputTaps = 4, kInputTiles = 2, kInputWarps = 8;
inline constexpr int kInputRead = kInputRows + kInputTaps - 1;  // rows of dy of a task
/// Of a multiprocessor; in parts a weight takes two registers.
template <class Mma>
inline constexpr int kInputBlocks = Mma::kInParts ? 1 : 2;

/// Sizes of a problem's product. Positions are numbered from the first that has an input.
struct InputProductPlan {
  Conv2dProblem d;
  int quads;                // of filters
  int first_i, first_j;     // positions
  int row_tasks, columns;   // tasks an image; positions
  int warps, pitch, units;  // words between rows in shared memory, 16 bytes of a row of dy
  FastDivisor by_row_tasks, by_units;

  explicit InputProductPlan(const Conv2dProblem& problem) : d(problem), quads(ceil_div(d.k, 4)) {
    first_i = d.pad_h / d.stride_h, first_j = d.pad_w / d.stride_w;
    const int rows = (d.h - 1 + d.pad_h) / d.stride_h + 1 - first_i;
    columns = (d.w - 1 + d.pad_w) / d.stride_w + 1 - first_j;
    row_tasks = ceil_div(rows, kInputRows);
    warps = ceil_div(columns, 8 * kInputTiles);
    const int bytes = int(size_of(d.dtype)), elements = 16 / bytes;
    units = d.q / elements;
    const int width = elements + std::max(d.q, first_j + 8 * kInputTiles * warps) + 2;
    pitch = round_up(ceil_div(width * bytes, 4) + 8, 16) - 8;  // four filters in different banks
    by_row_tasks = FastDivisor(row_tasks), by_units = FastDivisor(std::max(1, units));
  }
  int quads_per_stage() const { return d.dtype == DType::kBFloat16 ? 2 : 1; }
  int weight_words() const { return quads * kInputTaps * 128 * int(size_of(d.dtype)) / 2; }
  int stage_words() const { return kInputRead * quads_per_stage() * 4 * pitch; }
  size_t shared_bytes() const { return 4 * (size_t{1} * weight_words() + 2 * stage_words()); }
};

/// dx of channel c of image n, of the taps that exist.
template <class T>
__device__ float input_gradient(const Conv2dProblem& d, const T* dy, const float* w, int n, int c,
                                int h, int column) {
  float sum = 0;
  for (int k = 0; k < d.k; ++k) {
    for (int r = (h + d.pad_h) % d.stride_h; r < d.r; r += d.stride_h) {
      const int p = (h + d.pad_h - r) / d.stride_h;
      if (h + d.pad_h < r || p >= d.p) continue;
      for (int s = (column + d.pad_w) % d.stride_w; s < d.s; s += d.stride_w) {
        const int q = (column + d.pad_w - s) / d.stride_w;
        if (column + d.pad_w < s || q >= d.q) continue;
        sum += float(dy[(size_t(n * d.k + k) * d.p + p) * d.q + q]) *
               w[((k * d.c + c) * d.r + r) * d.s + s];
      }
    }
  }
  return sum;
}

// Blocks take tasks by turns: kInputRows rows of positions of an image, of which each warp has some columns. The filters of
// a stage are copied while those before are multiplied.
template <class Mma, class T>
__global__ void __launch_bounds__(32 * kInputWarps, kInputBlocks<Mma>)
    conv2d_direct_input_product_kernel(const __grid_constant__ InputProductPlan g, const T* dy,
                                       const float* w, T* __restrict__ dx) {
  constexpr bool kBf16 = sizeof(T) == 2;
  constexpr int kSteps = kBf16 ? 1 : 2;  // instructions of a quad of filters and a row of taps
  constexpr int kQuads = kBf16 ? 2 : 1, kFilters = 4 * kQuads, kElements = kWidest<T>;
  extern __shared__ __align__(16) uint32_t memory[];
  // [quad][u][step][lane][4], and two stages of dy [row][filter][pitch], columns from kElements on
  uint32_t* const weights = memory;
  uint32_t* const stages = memory + g.quads * kInputTaps * kSteps * 128;
  const int stage_words = kInputRead * kFilters * g.pitch;
  const int tid = threadIdx.x, threads = blockDim.x, lane = tid % 32, warp = tid / 32;
  const int row = lane / 4, of_four = lane % 4;
  const int row_parts = g.d.stride_h * g.d.stride_w, rows = g.d.c * row_parts;

  for (int i = tid; i < 2 * stage_words; i += threads) stages[i] = 0;
  wait_for_primary();
  for (int i = tid; i < g.quads * kInputTaps * kSteps * 128; i += threads) {
    const int word = i % 4, of = i / 4 % 32, rest = i / 128;
    const int step = rest % kSteps, u = rest / kSteps % kInputTaps;
    const int filter = rest / (kSteps * kInputTaps) * 4 + of % 4;
    const int m = of / 4 + word % 2 * 8;
    const int channel = m / row_parts, part = m % row_parts;
    const int r = part / g.d.stride_w + u * g.d.stride_h;
    const auto weight = [&](int v) {
      const int s = part % g.d.stride_w + v * g.d.stride_w;
      if (m >= rows || filter >= g.d.k || r >= g.d.r || s >= g.d.s) return 0.f;
      return w[((filter * g.d.c + channel) * g.d.r + r) * g.d.s + s];
    };
    if constexpr (kBf16) {
      const int v = word / 2 == 0 ? 3 : 1;
      weights[i] = bfloat16(weight(v)).bits | uint32_t(bfloat16(weight(v - 1)).bits) << 16;
    } else {
      const float value = weight(3 - 2 * step - word / 2);
      weights[i] = __float_as_uint(Mma::kInParts ? value : tf32_rounded(value));
    }
  }
  __syncthreads();

  const int depth_stages = ceil_div(g.quads, kQuads);
  const int tasks = g.d.n * g.row_tasks;
  const int my_tasks = ceil_div(tasks - int(blockIdx.x), int(gridDim.x));
  const auto place = [&](int number, int& n, int& i0) {
    int task_row;
    g.by_row_tasks.divmod(blockIdx.x + number * gridDim.x, n, task_row);
    i0 = g.first_i + task_row * kInputRows;
  };
  const auto copy = [&](int number, int stage, uint32_t* to) {
    int n, i0;
    place(number, n, i0);
    for (int i = tid; i < kInputRead * kFilters * g.units; i += threads) {
      int rest, unit;
      g.by_units.divmod(i, rest, unit);
      const int filter = stage * kFilters + rest % kFilters;
      const int p = i0 - (kInputTaps - 1) + rest / kFilters;
      const bool inside = filter < g.d.k && uint32_t(p) < uint32_t(g.d.p);
      const T* const from =
          inside ? dy + (size_t(n * g.d.k + filter) * g.d.p + p) * g.d.q + unit * kElements : dy;
      copy_or_zeros<16>(to + rest * g.pitch + (unit + 1) * 4, from, inside);
    }
  };
  const auto commit = [] { asm volatile("cp.async.commit_group;" ::: "memory"); };

  // Where this lane's positions begin to read: of filter of_four, kInputTaps - 1 before.
  const int element = warp * kInputTiles * 8 + row + kElements + g.first_j - (kInputTaps - 1);
  const uint32_t halves = element % 2 == 0 ? 0x3210 : 0x5432;
  const int at = of_four * g.pitch + (kBf16 ? element / 2 : element);

  copy(0, 0, stages);
  commit();
  int now = 0;
  for (int number = 0; number < my_tasks; ++number) {
    float sums[kInputRows][kInputTiles][4] = {};
    for (int stage = 0; stage < depth_stages; ++stage) {
      asm volatile("cp.async.wait_group 0;" ::: "memory");
      __syncthreads();  // the stage is there, and nobody reads the other
      const bool last = stage + 1 == depth_stages;
      if (!last || number + 1 < my_tasks)
        copy(last ? number + 1 : number, last ? 0 : stage + 1, stages + (now ^ 1) * stage_words);
      commit();
      const uint32_t* const from = stages + now * stage_words + at;
      now ^= 1;
#pragma unroll 1
      for (int quad = 0; quad < kQuads; ++quad) {
        if (stage * kQuads + quad >= g.quads) break;
        uint32_t a[kInputTaps][kSteps][4];
#pragma unroll
        for (int u = 0; u < kInputTaps; ++u)
#pragma unroll
          for (int step = 0; step < kSteps; ++step) {
            const int number_of = ((stage * kQuads + quad) * kInputTaps + u) * kSteps + step;
            const uint4 words = reinterpret_cast<const uint4*>(weights)[number_of * 32 + lane];
            a[u][step][0] = words.x, a[u][step][1] = words.y;
            a[u][step][2] = words.z, a[u][step][3] = words.w;
          }
#pragma unroll
        for (int read = 0; read < kInputRead; ++read) {
          const uint32_t* const in_row = from + (read * kFilters + quad * 4) * g.pitch;
#pragma unroll
          for (int tile = 0; tile < kInputTiles; ++tile) {
            uint32_t b[4];
            if constexpr (kBf16) {
              const uint32_t* const words = in_row + tile * 4;
              const uint32_t middle = words[1];
              b[0] = __byte_perm(words[0], middle, halves);
              b[1] = __byte_perm(middle, words[2], halves);
            } else {
#pragma unroll
              for (int i = 0; i < 4; ++i) {
                const uint32_t word = in_row[tile * 8 + i];
                b[i] = Mma::kInParts ? word : __float_as_uint(tf32_rounded(__uint_as_float(word)));
              }
            }
#pragma unroll
            for (int u = 0; u < kInputTaps; ++u) {
              const int i = read + u - (kInputTaps - 1);
              if (i < 0 || i >= kInputRows) continue;
              auto& sum = sums[i][tile];
              float apart[4] = {};
              auto& c = Mma::kInParts ? apart : sum;
#pragma unroll
              for (int step = 0; step < kSteps; ++step)
                Mma::multiply(c[0], c[1], c[2], c[3], a[u][step], b[2 * step], b[2 * step + 1]);
              if constexpr (Mma::kInParts) {
#pragma unroll
                for (int e = 0; e < 4; ++e) sum[e] += apart[e];
              }
            }
          }
        }
      }
    }
    int n, i0;
    place(number, n, i0);
    // Where the sums of a row of the instruction go, and in which column of the task.
    struct Place {
      int channel, h0, w0;
    };
    const auto place_of = [&](int m) {
      const int part = m % row_parts;
      return Place{m / row_parts, i0 * g.d.stride_h + part / g.d.stride_w - g.d.pad_h,
                   g.first_j * g.d.stride_w + part % g.d.stride_w - g.d.pad_w};
    };
    const auto column_of = [&](int tile, int e) {
      return ((warp * kInputTiles + tile) * 8 + of_four * 2 + e) * g.d.stride_w;
    };
    float spoilt = 0;  // no number if any of the sums is infinite or none
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int m = row + 8 * half;
      if (m >= rows) continue;
      const auto [channel, h0, w0] = place_of(m);
      T* const plane = dx + size_t(n * g.d.c + channel) * g.d.h * g.d.w;
#pragma unroll
      for (int i = 0; i < kInputRows; ++i) {
        const int h = h0 + i * g.d.stride_h;
        if (uint32_t(h) >= uint32_t(g.d.h)) continue;
#pragma unroll
        for (int tile = 0; tile < kInputTiles; ++tile)
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const int to = w0 + column_of(tile, e);
            const float sum = sums[i][tile][2 * half + e];
            spoilt = fmaf(sum, 0.f, spoilt);
            if (uint32_t(to) < uint32_t(g.d.w)) plane[size_t(h) * g.d.w + to] = T(sum);
          }
      }
    }
    if (spoilt == 0) continue;
#pragma unroll 1
    for (int at = 0; at < 2 * kInputRows * kInputTiles * 2; ++at) {
      const int m = row + at / (kInputRows * kInputTiles * 2) * 8;
      if (m >= rows) break;
      const auto [channel, h0, w0] = place_of(m);
      const int h = h0 + at / (kInputTiles * 2) % kInputRows * g.d.stride_h;
      const int to = w0 + column_of(at / 2 % kInputTiles, at % 2);
      if (uint32_t(h) >= uint32_t(g.d.h) || uint32_t(to) >= uint32_t(g.d.w)) continue;
      T& value = dx[(size_t(n * g.d.c + channel) * g.d.h + h) * g.d.w + to];
      if (!isfinite(float(value))) value = T(input_gradient(g.d, dy, w, n, channel, h, to));
    }
  }
  asm volatile("cp.async.wait_group 0;" ::: "memory");
}

/// Whether backward_data has this product.
inline bool input_product_possible(const Conv2dProblem& d) {
  if (ungrouped_unsupported(d) || d.layout != Layout::kNCHW || d.dilation_h != 1 ||
      d.dilation_w != 1 || d.c > 4 || d.stride_h * d.stride_w == 1 ||
      int64_t{d.c} * d.stride_h * d.stride_w > 16 || ceil_div(d.r, d.stride_h) > kInputTaps ||
      ceil_div(d.s, d.stride_w) > kInputTaps || d.pad_h >= d.r || d.pad_w >= d.s ||
      d.q * int(size_of(d.dtype)) % 16 != 0 || !gpu_available() ||
      gpu_attribute(cudaDevAttrComputeCapabilityMajor) < 8) {
    return false;
  }
  const InputProductPlan plan(d);
  return plan.warps <= kInputWarps &&
         plan.shared_bytes() <= size_t(gpu_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin));
}

/// backward_data. REQUIRES: input_product_possible().
template <class Mma, class T>
class DirectInputProduct {
 public:
  explicit DirectInputProduct(const Conv2dProblem& problem) : plan_(problem) {
    const int tasks = problem.n * plan_.row_tasks;
    const int most = kInputBlocks<Mma> * multiprocessor_count();
    blocks_ = ceil_div(tasks, ceil_div(tasks, most));
  }
  void run(const T* dy, const float* w, T* dx, cudaStream_t stream) const {
    const auto kernel = conv2d_direct_input_product_kernel<Mma, T>;
    const size_t bytes = plan_.shared_bytes();
    DUET_CUDA(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes)));
    launch_following({blocks_, 32 * plan_.warps, bytes, stream}, kernel, plan_, dy, w, dx);
  }
  std::string text() const {
    return "8 rows of " + std::to_string(8 * kInputTiles * plan_.warps) + " positions" + Mma::kText;
  }

 private:
  const InputProductPlan plan_;
  int blocks_ = 1;
};

}  // namespace duet
