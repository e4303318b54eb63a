// Rows of a matrix that a team of threads keeps in registers: what needs a sum over the row before
// it can write the row reads it from memory once.
#pragma once

#include <string>
#include <type_traits>

#include "kernels/block_combine.cuh"
#include "kernels/vector.cuh"

namespace duet {

/// The longest row that fits into registers.
inline constexpr int64_t kLongestRegisterRow = kCombineThreads * 32;

/// How a row lies in its team: `threads` threads, a warp or a block of kCombineThreads; each keeps
/// `values` values, v neighbours at a time, as they are moved. Device functions are called by the
/// whole team.
template <int threads, int values, int v>
struct RegisterRow {
  static constexpr int kThreads = threads, kValues = values, V = v;
  static constexpr int kMost = kThreads * kValues;             // columns
  static constexpr bool kWhole = kMost < kLongestRegisterRow;  // no row is longer
  static constexpr int kRowsPerBlock = kCombineThreads / kThreads;
  static_assert(kThreads == 32 || kThreads == kCombineThreads);
  static_assert(kValues % V == 0);

  /// Of a grid with a team for each row.
  static unsigned blocks(int64_t rows) {
    return static_cast<unsigned>((rows + kRowsPerBlock - 1) / kRowsPerBlock);
  }
  /// For tables.
  static std::string text() {
    return std::string(kThreads == 32 ? "warp" : "block") + " a row, " + std::to_string(kValues) +
           " values a thread, " + std::to_string(V) + " at a time";
  }
  /// The team's number in the grid.
  static __device__ __forceinline__ int64_t team() {
    return static_cast<int64_t>(blockIdx.x) * kRowsPerBlock + threadIdx.x / kThreads;
  }
  /// The column of the thread's value i, and how far it is from that of value 0.
  static __device__ __forceinline__ int column(int i) {
    return static_cast<int>(threadIdx.x % kThreads) * V + distance(i);
  }
  static constexpr __device__ int distance(int i) { return i / V * kThreads * V + i % V; }
  /// Calls visit(begin) with the first column of each piece of a row that fits into registers.
  template <class Visit>
  static __device__ __forceinline__ void for_each_piece(int columns, Visit visit) {
    if constexpr (kWhole) {
      visit(0);
    } else {
      for (int begin = 0; begin < columns; begin += kMost) visit(begin);
    }
  }

  /// A thread's values as they are stored.
  template <class T>
  struct Loaded {
    static constexpr int kPart =
        V < kWidest<T> ? V : kWidest<T>;  // of another type than V is for, less
    Packed<T, kPart> parts[kValues / kPart];
  };
  /// Nothing but loads, so that all are under way before the first is waited for: to choose between
  /// a loaded value and what is behind the row's end here made each load wait for the one before.
  /// REQUIRES: `row` and `columns` are multiples of V; nothing writes the row while the kernel runs.
  template <class T>
  static __device__ __forceinline__ void load_row(const T* row, int columns, Loaded<T>& to) {
    constexpr int kPart = Loaded<T>::kPart;
    const T* const first = row + column(0);
#pragma unroll
    for (int i = 0; i < kValues; i += kPart) {
      if (column(i) < columns) to.parts[i / kPart] = Packed<T, kPart>::load(first + distance(i));
    }
  }
  /// Behind the row's end, `fill`.
  template <class T>
  static __device__ __forceinline__ void unpack(const Loaded<T>& from, int columns, float fill,
                                                float (&to)[kValues]) {
    constexpr int kPart = Loaded<T>::kPart;
#pragma unroll
    for (int i = 0; i < kValues; i += kPart) {
      const Vector<float, kPart> part = widened(from.parts[i / kPart].values());
#pragma unroll
      for (int k = 0; k < kPart; ++k) to[i + k] = column(i) < columns ? part.v[k] : fill;
    }
  }
  /// Both.
  template <class T>
  static __device__ __forceinline__ void load_row(const T* row, int columns, float fill,
                                                  float (&to)[kValues]) {
    Loaded<T> loaded;
    load_row(row, columns, loaded);
    unpack(loaded, columns, fill, to);
  }
  /// Leaves out what is behind the row's end.
  template <class T>
  static __device__ __forceinline__ void store_row(T* row, int columns,
                                                   const float (&from)[kValues]) {
    T* const first = row + column(0);
#pragma unroll
    for (int i = 0; i < kValues; i += V) {
      Vector<float, V> part;
#pragma unroll
      for (int k = 0; k < V; ++k) part.v[k] = from[i + k];
      if (column(i) < columns) store(first + distance(i), part);
    }
  }
  /// As warp_combine() and block_combine(), over the team; every thread gets the same bits.
  template <class Value, class Combine>
  static __device__ __forceinline__ Value combine_row(Value value, Combine combine) {
    if constexpr (kThreads == 32) {
      value = warp_combine(value, 1, combine);
      Value first;
#pragma unroll
      for (int i = 0; i < static_cast<int>(sizeof(Value) / sizeof(float)); ++i) {
        reinterpret_cast<float*>(&first)[i] =
            __shfl_sync(0xFFFFFFFFu, reinterpret_cast<const float*>(&value)[i], 0);
      }
      return first;
    } else {
      return block_combine(value, 1, combine);
    }
  }
};

/// Calls visit(RegisterRow()) with what fits rows of `columns` values of T best, or for longer rows
/// than kLongestRegisterRow with the largest there is.
template <class T, class Visit>
void with_register_row(int64_t columns, Visit&& visit) {
  const auto with_vector = [&](auto vector) {
    constexpr int V = decltype(vector)::value;
    if (columns <= 32 * 8) return visit(RegisterRow<32, 8, V>());
    if (columns <= 32 * 16) return visit(RegisterRow<32, 16, V>());
    if (columns <= 32 * 32) return visit(RegisterRow<32, 32, V>());
    if (columns <= kCombineThreads * 8) return visit(RegisterRow<kCombineThreads, 8, V>());
    if (columns <= kCombineThreads * 16) return visit(RegisterRow<kCombineThreads, 16, V>());
    return visit(RegisterRow<kCombineThreads, 32, V>());
  };
  if (columns % kWidest<T> == 0) return with_vector(std::integral_constant<int, kWidest<T>>());
  with_vector(std::integral_constant<int, 1>());
}

}  // namespace duet
