// Neighbouring values of a tensor, moved by one instruction and computed with in the type that its
// layer sums in: float for bfloat16. Kernels that use it are written once for both.
#pragma once

#include <cstring>

#include "core/storage.h"

namespace duet {

/// V neighbouring values.
template <class T, int V>
struct alignas(sizeof(T) * V) Vector {
  T v[V];
};

/// Values of T in 16 bytes, the most that one instruction moves.
template <class T>
constexpr int kWidest = 16 / static_cast<int>(sizeof(T));

/// As they are computed with.
template <class T, int V>
__device__ __forceinline__ Vector<Accumulator<T>, V> widened(const Vector<T, V>& stored) {
  if constexpr (std::is_same_v<Accumulator<T>, T>) {
    return stored;
  } else {
    Vector<Accumulator<T>, V> values;
#pragma unroll
    for (int k = 0; k < V; ++k) values.v[k] = stored.v[k];
    return values;
  }
}

/// A built-in type of so many bytes: the compiler loads it by one instruction, and a struct of
/// bfloat16 piece by piece.
template <size_t bytes>
using WordOf = std::conditional_t<
    bytes == 1, unsigned char,
    std::conditional_t<
        bytes == 2, unsigned short,
        std::conditional_t<bytes == 4, float, std::conditional_t<bytes == 8, float2, float4>>>>;

template <class T, int V>
__device__ __forceinline__ Vector<Accumulator<T>, V> widened_word(WordOf<sizeof(T) * V> word) {
  static_assert(sizeof word == sizeof(T) * V);
  Vector<T, V> stored;
  memcpy(&stored, &word, sizeof word);
  return widened(stored);
}

/// V values as they are stored, kept as the word that one instruction loaded: nobody waits for it
/// before it is taken apart. {} is zeros.
template <class T, int V>
struct Packed {
  static_assert(sizeof(T) * V <= 16);
  using Word = std::conditional_t<sizeof(T) * V == 2, unsigned, WordOf<sizeof(T) * V>>;
  Word word;

  __device__ __forceinline__ Packed() : word{} {}
  __device__ __forceinline__ explicit Packed(const Vector<T, V>& values) : word{} {
    memcpy(&word, &values, sizeof values);
  }
  /// From memory that nothing writes while the kernel runs. REQUIRES: as load().
  __device__ __forceinline__ static Packed load(const T* from) {
    Packed packed;
    packed.word = __ldg(reinterpret_cast<const WordOf<sizeof(T) * V>*>(from));
    return packed;
  }
  __device__ __forceinline__ Vector<T, V> values() const {
    Vector<T, V> values;
    memcpy(&values, &word, sizeof values);
    return values;
  }
  __device__ __forceinline__ void store(T* to) const {
    *reinterpret_cast<WordOf<sizeof(T) * V>*>(to) = word;
  }
};

/// REQUIRES: `from` is a multiple of V values from the start of a tensor.
template <int V, class T>
__device__ __forceinline__ Vector<Accumulator<T>, V> load(const T* from) {
  if constexpr (std::is_same_v<Accumulator<T>, T>) {
    return *reinterpret_cast<const Vector<T, V>*>(from);
  } else {
    return widened_word<T, V>(*reinterpret_cast<const WordOf<sizeof(T) * V>*>(from));
  }
}

/// The same from memory that nothing writes while the kernel runs.
template <int V, class T>
__device__ __forceinline__ Vector<Accumulator<T>, V> load_constant(const T* from) {
  return widened_word<T, V>(__ldg(reinterpret_cast<const WordOf<sizeof(T) * V>*>(from)));
}

/// Rounds where T is narrower. REQUIRES: as load().
template <class T, int V>
__device__ __forceinline__ void store(T* to, const Vector<Accumulator<T>, V>& values) {
  if constexpr (std::is_same_v<Accumulator<T>, T>) {
    *reinterpret_cast<Vector<T, V>*>(to) = values;
  } else {
    Vector<T, V> rounded;
#pragma unroll
    for (int k = 0; k < V; ++k) rounded.v[k] = T(values.v[k]);
    *reinterpret_cast<Vector<T, V>*>(to) = rounded;
  }
}

/// The same of values of any type that T is stored of, by one instruction.
template <class T, class Value, int V>
__device__ __forceinline__ WordOf<sizeof(T) * V> word_of(const Vector<Value, V>& values) {
  Vector<T, V> rounded;
#pragma unroll
  for (int k = 0; k < V; ++k) rounded.v[k] = T(values.v[k]);
  WordOf<sizeof rounded> word;
  memcpy(&word, &rounded, sizeof rounded);
  return word;
}
template <class T, class Value, int V>
__device__ __forceinline__ void store_word(T* to, const Vector<Value, V>& values) {
  *reinterpret_cast<WordOf<sizeof(T) * V>*>(to) = word_of<T>(values);
}
/// Of what this kernel does not read again: it is the first to leave L2, and what is read again stays
/// there.
template <class T, class Value, int V>
__device__ __forceinline__ void store_streaming(T* to, const Vector<Value, V>& values) {
  __stcs(reinterpret_cast<WordOf<sizeof(T) * V>*>(to), word_of<T>(values));
}

}  // namespace duet
