// The order of the samples in an epoch, without storing it: a keyed bijection on [0, count).
//
// Source: Mitchell, Stokes, Frank, Holmes, "Bandwidth-optimal random shuffling for GPUs" (2021): a
// Feistel-like network on the smallest power of two that holds count, walked until it lands below
// count (under two walks on average). Any thread can ask for any position, the CPU and the GPU get
// the same answer, and a run resumes in the middle of an epoch from its step number alone.
#pragma once

#include <bit>
#include <cstdint>

#include "device/philox.h"

namespace duet {

/// Bits of numbers below `count`.
DUET_HOST_DEVICE inline int bits_below(uint32_t count) {
#ifdef __CUDA_ARCH__
  return 32 - __clz(static_cast<int>(count - 1));
#else
  return std::bit_width(count - 1);
#endif
}

/// The sample at position `i` of epoch `epoch`. REQUIRES: i < count <= 2^31.
DUET_HOST_DEVICE inline uint32_t shuffled(uint32_t i, uint32_t count, uint64_t seed,
                                          uint64_t epoch) {
  // The multiplier of a round is part of its key. The paper's multiplier is fixed, which needs 24
  // rounds and as many words of key: with the four words of one Philox block stretched to 24, a
  // sample's position was 200 standard deviations from uniform. With this, 16 rounds suffice.
  constexpr int kRounds = 16;
  constexpr uint32_t kWeyl = 0x9E3779B9u;  // stretches four words to a key a round, as in Philox

  // With 4, the 5! orders of five samples are not equally likely.
  const int needed = bits_below(count), bits = needed < 6 ? 6 : needed;
  const int left_bits = bits / 2, right_bits = bits - left_bits;
  const uint32_t left_mask = (uint32_t{1} << left_bits) - 1;
  const uint32_t right_mask = (uint32_t{1} << right_bits) - 1;
  const Philox4 key = philox_block(seed, epoch, kStreamShuffle, 0);

  do {
    uint32_t left = i >> right_bits, right = i & right_mask;
    uint32_t k0 = key.v[0], k1 = key.v[1], k2 = key.v[2], k3 = key.v[3];
    for (int round = 0; round < kRounds; ++round) {
      // An odd multiplier makes the low bits of the product a bijection of `left`; its high word is
      // the Feistel function.
      const uint64_t product = (static_cast<uint64_t>(k0) << 32 | k1 | 1) * left;
      const uint32_t low = static_cast<uint32_t>(product);
      const uint32_t high = static_cast<uint32_t>(product >> 32) ^ k2;
      const uint32_t next_right =
          (low << (right_bits - left_bits) | right >> left_bits) & right_mask;
      left = (high ^ right) & left_mask;
      right = next_right;
      const uint32_t next_key = k0 + kWeyl;
      k0 = k1, k1 = k2, k2 = k3, k3 = next_key;
    }
    i = left << right_bits | right;
  } while (i >= count);
  return i;
}

}  // namespace duet
