// Products of a matrix of weights with few rows, up to some tens, y and dx by the warp-wide instruction mma.sync:
//
//   y [n][o] = sum over i of x [n][i] * w[o][i]
//   dx[n][i] = sum over o of dy[n][o] * w[o][i]
//   dw[o][i] = sum over n of dy[n][o] * x[n][i]
//
// Their time is that of reading w once, or writing dw, and with small weights that of the longest chain of loads. So nothing
// is staged for y and dx: a lane loads four neighbours of memory, and they are its operands. What term of a sum is which k of an instruction is free,
// as long as both operands agree, and so is what row or column of a matrix is which of a tile.
//
// Rows of the instruction (16) are rows of x, its columns (8) those of w: lane l holds rows l/4 and l/4 + 8 of A, column l/4
// of B, k l%4 and l%4 + 4 of both; of the sums rows l/4 and l/4 + 8, columns 2 (l%4) and the next. The warps of a
// block have parts of a sum and add up in shared memory.
#pragma once

#include <algorithm>
#include <functional>

#include "device/launch.h"
#include "kernels/integers.cuh"
#include "kernels/load_if.cuh"
#include "kernels/mma_tile.cuh"
#include "kernels/tf32.cuh"
#include "kernels/vector.cuh"

namespace duet {

inline constexpr int kRowsAtOnce = 16, kMostRowWarps = 16;
inline constexpr int kRowTerms = 16;  // of a sum that a warp takes at once

/// V neighbours as they are stored, of which `left` are inside, the others 0. vec: values that are loaded at once; with V,
/// all are inside or none is.
template <int V, int vec, class T>
struct Neighbours {
  Vector<T, V> stored;

  __device__ __forceinline__ void load(const T* from, int left) {
    if constexpr (vec == V) {
      WordOf<sizeof stored> word;
      load_if(left > 0, from, word);
      memcpy(&stored, &word, sizeof word);
    } else {
#pragma unroll
      for (int e = 0; e < V; ++e) stored.v[e] = e < left ? from[e] : T(0.f);
    }
  }
  __device__ __forceinline__ float operator[](int e) const { return float(stored.v[e]); }
};

/// Sums of one tile of 16 x 8, a lane's four. kInParts: float32 in parts, see StoredMma3xTf32; else both are rounded to
/// tf32, which bfloat16 is already.
template <bool kInParts>
struct RowSums {
  float sums[4] = {};

  __device__ __forceinline__ void add(const float (&a)[4], float b0, float b1) {
    uint32_t of_a[4], of_b[2];
#pragma unroll
    for (int e = 0; e < 4; ++e) of_a[e] = operand(a[e]);
    of_b[0] = operand(b0), of_b[1] = operand(b1);
    using Mma = std::conditional_t<kInParts, StoredMma3xTf32, MmaTf32>;
    Mma::multiply(sums[0], sums[1], sums[2], sums[3], of_a, of_b[0], of_b[1]);
  }

 private:
  __device__ __forceinline__ static uint32_t operand(float value) {
    return __float_as_uint(kInParts ? value : tf32_rounded(value));
  }
};

/// Adds to `sums` the products of kAhead times four terms: `rows` has those of rows l/4 and l/4 + 8, weight(k, e, t) is that of
/// tile t with term e of the k-th four.
template <int kAhead, int kTiles, bool kInParts, class Row, class Weight>
__device__ __forceinline__ void multiply_terms(RowSums<kInParts> (&sums)[kTiles],
                                               const Row (&rows)[kAhead][2], Weight weight) {
  RowSums<kInParts> batch[kTiles];
  auto& to = kInParts ? batch : sums;
#pragma unroll
  for (int k = 0; k < kAhead; ++k)
#pragma unroll
    for (int e = 0; e < 4; e += 2)
#pragma unroll
      for (int t = 0; t < kTiles; ++t)
        to[t].add({rows[k][0][e], rows[k][1][e], rows[k][0][e + 1], rows[k][1][e + 1]},
                  weight(k, e, t), weight(k, e + 1, t));
  if constexpr (kInParts)
#pragma unroll
    for (int t = 0; t < kTiles; ++t)
#pragma unroll
      for (int e = 0; e < 4; ++e) sums[t].sums[e] += batch[t].sums[e];
}

/// Adds up what the warps of a block have of `count` rows from `out` on, `columns` columns from there on of those left.
/// sums[t] of a lane are columns column(2 (l%4), t) and column(2 (l%4) + 1, t).
template <int kTiles, class Function, class T, class Column, bool kInParts>
__device__ __forceinline__ void store_rows(const RowSums<kInParts> (&sums)[kTiles], Column column,
                                           int count, int columns, int pitch, const float* bias,
                                           T* out) {
  constexpr int kColumns = 8 * kTiles;
  __shared__ float parts[kMostRowWarps][kRowsAtOnce][kColumns];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
#pragma unroll
  for (int t = 0; t < kTiles; ++t)
#pragma unroll
    for (int e = 0; e < 4; ++e)
      if (lane / 4 + e / 2 * 8 < count)
        parts[warp][lane / 4 + e / 2 * 8][column(lane % 4 * 2 + e % 2, t)] = sums[t].sums[e];
  __syncthreads();
  for (int i = threadIdx.x; i < count * kColumns; i += blockDim.x) {
    const int row = i / kColumns, at = i % kColumns;
    if (at >= columns) continue;
    float sum = 0.f;
#pragma unroll 4
    for (int w = 0; w < warps; ++w) sum += parts[w][row][at];
    if (bias != nullptr) sum += bias[at];
    out[size_t(row) * pitch + at] = T(Function()(sum));
  }
}

// y = function(x w^T + b). Weights are multiplied as T, which those that are prepared are stored as. blockIdx.x is 8 * kTiles
// outputs, y 16 rows; warps take 16 terms by turns, lane l those from 4 (l%4) on.
template <int kTiles, int vec, bool kInParts, class Function, class T, class W>
__global__ void __launch_bounds__(32 * kMostRowWarps)
    few_rows_forward_kernel(int rows, int in, int out, const T* x, const W* w, const float* bias,
                            T* y) {
  wait_for_primary();
  constexpr int kAhead = kTiles == 1 ? 5 : 2;
  const int lane = threadIdx.x % 32, step = blockDim.x / 32 * kRowTerms;
  const int n0 = blockIdx.y * kRowsAtOnce, o0 = blockIdx.x * 8 * kTiles;
  const int n = n0 + lane / 4, o = o0 + lane / 4;
  RowSums<kInParts> sums[kTiles];
  for (int first = threadIdx.x / 32 * kRowTerms; first < in; first += kAhead * step) {
    Neighbours<4, vec, T> images[kAhead][2];
    Neighbours<4, vec, W> weights[kAhead][kTiles];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const int i = first + k * step + lane % 4 * 4, left = in - i;
#pragma unroll
      for (int t = 0; t < kTiles; ++t)
        weights[k][t].load(w + size_t(o + 8 * t) * in + i, o + 8 * t < out ? left : 0);
#pragma unroll
      for (int h = 0; h < 2; ++h)
        images[k][h].load(x + size_t(n + 8 * h) * in + i, n + 8 * h < rows ? left : 0);
    }
    __syncwarp();  // no product comes before the last of the loads
    multiply_terms(sums, images, [&](int k, int e, int t) { return float(T(weights[k][t][e])); });
  }
  store_rows<kTiles, Function>(
      sums, [](int column, int t) { return t * 8 + column; }, min(rows - n0, kRowsAtOnce), out - o0,
      out, bias != nullptr ? bias + o0 : nullptr, y + size_t(n0) * out + o0);
}

// dx = dy w. blockIdx.x is 8 * kTiles columns of w, of which lane l loads kTiles neighbours from l/4 * kTiles on; y 16 rows;
// warps take 16 terms by turns, lane l those from 4 (l%4) on. vec: of dy.
template <int kTiles, int vec, bool kInParts, class T>
__global__ void __launch_bounds__(32 * kMostRowWarps)
    few_rows_backward_data_kernel(int rows, int in, int out, const T* dy, const float* w, T* dx) {
  wait_for_primary();
  constexpr int kAhead = kTiles == 4 ? 2 : 4;
  const int lane = threadIdx.x % 32, step = blockDim.x / 32 * kRowTerms;
  const int n0 = blockIdx.y * kRowsAtOnce, i0 = blockIdx.x * 8 * kTiles;
  const int n = n0 + lane / 4, i = i0 + lane / 4 * kTiles;
  RowSums<kInParts> sums[kTiles];
  for (int first = threadIdx.x / 32 * kRowTerms; first < out; first += kAhead * step) {
    Neighbours<4, vec, T> gradients[kAhead][2];
    Neighbours<kTiles, kTiles, float> weights[kAhead][4];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const int o = first + k * step + lane % 4 * 4, left = out - o;
#pragma unroll
      for (int e = 0; e < 4; ++e)
        weights[k][e].load(w + size_t(o + e) * in + i, e < left ? in - i : 0);
#pragma unroll
      for (int h = 0; h < 2; ++h)
        gradients[k][h].load(dy + size_t(n + 8 * h) * out + o, n + 8 * h < rows ? left : 0);
    }
    __syncwarp();  // no product comes before the last of the loads
    multiply_terms(sums, gradients, [&](int k, int e, int t) { return weights[k][e][t]; });
  }
  store_rows<kTiles, std::identity>(
      sums, [](int column, int t) { return column * kTiles + t; }, min(rows - n0, kRowsAtOnce),
      in - i0, in, nullptr, dx + size_t(n0) * in + i0);
}

// dw = dy^T x, db the sums of dy. To write dw takes longer than float32's multiply-adds: a thread has four neighbours of x and
// kOutputs outputs, whose dy a block has in shared memory, and a warp stores 512 bytes of a row of dw at once. Blocks are
// numbered along the rows of dw.
inline constexpr int kFilterThreads = 128, kFilterColumns = 4 * kFilterThreads;
template <int kOutputs, int vec, class T>
__global__ void __launch_bounds__(kFilterThreads)
    few_rows_backward_filter_kernel(int rows, int in, int out, const T* x, const T* dy, float* dw,
                                    float* db) {
  wait_for_primary();
  constexpr int kAhead = 8;
  __shared__ alignas(16) float gradients[kAhead][kOutputs];
  const int blocks = (in + kFilterColumns - 1) / kFilterColumns, block = blockIdx.x % blocks;
  const int o0 = blockIdx.x / blocks * kOutputs, i = block * kFilterColumns + threadIdx.x * 4;
  float sums[kOutputs][4] = {};
  float of_dy = 0.f;
  for (int n0 = 0; n0 < rows; n0 += kAhead) {
    Neighbours<4, vec, T> images[kAhead];
#pragma unroll
    for (int n = 0; n < kAhead; ++n)
      images[n].load(x + size_t(n0 + n) * in + i, n0 + n < rows ? in - i : 0);
    __syncthreads();  // for those who still read
    for (int at = threadIdx.x; at < kAhead * kOutputs; at += kFilterThreads) {
      const int n = n0 + at / kOutputs, o = o0 + at % kOutputs;
      gradients[0][at] = n < rows && o < out ? float(dy[size_t(n) * out + o]) : 0.f;
    }
    __syncthreads();
#pragma unroll
    for (int n = 0; n < kAhead; ++n) {
      if (n0 + n >= rows) break;
#pragma unroll
      for (int o = 0; o < kOutputs; o += 4) {
        const float4 four = *reinterpret_cast<const float4*>(&gradients[n][o]);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          sums[o][e] += four.x * images[n][e];
          sums[o + 1][e] += four.y * images[n][e];
          sums[o + 2][e] += four.z * images[n][e];
          sums[o + 3][e] += four.w * images[n][e];
        }
      }
      if (threadIdx.x < kOutputs) of_dy += gradients[n][threadIdx.x];
    }
  }
#pragma unroll
  for (int o = 0; o < kOutputs; ++o) {
    if (o0 + o >= out) break;
    float* const to = dw + size_t(o0 + o) * in + i;
    if constexpr (vec == 4) {
      if (i < in) store(to, Vector<float, 4>{{sums[o][0], sums[o][1], sums[o][2], sums[o][3]}});
    } else {
#pragma unroll
      for (int e = 0; e < 4; ++e)
        if (i + e < in) to[e] = sums[o][e];
    }
  }
  if (db != nullptr && block == 0 && threadIdx.x < kOutputs && o0 + int(threadIdx.x) < out)
    db[o0 + threadIdx.x] = of_dy;
}

/// Warps of a block for sums of so many terms.
inline int row_warps(int terms) { return std::clamp(ceil_div(terms, kRowTerms), 1, kMostRowWarps); }

/// y = function(x w^T + bias) of `rows` rows; `bias` may be nullptr. Weights are stored as W.
template <bool kInParts, class T, class W, class Function = std::identity>
void launch_few_rows_forward(int rows, int in, int out, const T* x, const W* w, const float* bias,
                             T* y, cudaStream_t stream, Function = {}) {
  const auto launch = [&](auto kernel, int columns) {
    launch_following(
        {dim3(ceil_div(out, columns), ceil_div(rows, kRowsAtOnce)), 32 * row_warps(in), 0, stream},
        kernel, rows, in, out, x, w, bias, y);
  };
  constexpr int kMany = 2048;  // with fewer outputs narrower blocks reach more multiprocessors
  if (in % 4 != 0) {
    launch(few_rows_forward_kernel<1, 1, kInParts, Function, T, W>, 8);
  } else if (out <= kMany) {
    launch(few_rows_forward_kernel<1, 4, kInParts, Function, T, W>, 8);
  } else {
    launch(few_rows_forward_kernel<4, 4, kInParts, Function, T, W>, 32);
  }
}

/// dx = dy w of `rows` rows.
template <bool kInParts, class T>
void launch_few_rows_backward_data(int rows, int in, int out, const T* dy, const float* w, T* dx,
                                   cudaStream_t stream) {
  const auto launch = [&](auto kernel, int columns) {
    launch_following(
        {dim3(ceil_div(in, columns), ceil_div(rows, kRowsAtOnce)), 32 * row_warps(out), 0, stream},
        kernel, rows, in, out, dy, w, dx);
  };
  if (out % 4 != 0) {
    launch(few_rows_backward_data_kernel<1, 1, kInParts, T>, 8);
  } else if (in % 2 != 0 || in < 1000) {
    launch(few_rows_backward_data_kernel<1, 4, kInParts, T>, 8);
  } else if (in % 4 != 0 || in < 3000) {
    launch(few_rows_backward_data_kernel<2, 4, kInParts, T>, 16);
  } else {
    launch(few_rows_backward_data_kernel<4, 4, kInParts, T>, 32);
  }
}

/// dw = dy^T x, and the sums of dy where `db` is not nullptr.
template <class T>
void launch_few_rows_backward_filter(int rows, int in, int out, const T* x, const T* dy, float* dw,
                                     float* db, cudaStream_t stream) {
  const int columns = ceil_div(in, kFilterColumns);
  const auto launch = [&](auto kernel, int outputs) {
    launch_following({columns * ceil_div(out, outputs), kFilterThreads, 0, stream}, kernel, rows,
                     in, out, x, dy, dw, db);
  };
  constexpr int kMany = 1024;  // blocks; with fewer, smaller ones reach more multiprocessors
  if (in % 4 != 0) {
    launch(few_rows_backward_filter_kernel<4, 1, T>, 4);
  } else if (columns * ceil_div(out, 16) < kMany) {
    launch(few_rows_backward_filter_kernel<4, 4, T>, 4);
  } else {
    launch(few_rows_backward_filter_kernel<16, 4, T>, 16);
  }
}

}  // namespace duet
