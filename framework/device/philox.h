// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): a counter
// in, four random words out. On a GPU they are cuRAND's, on the CPU computed here: the same bits.
#pragma once

#include <cstdint>

#include "core/host_device.h"
#ifdef __CUDACC__
#include <curand_philox4x32_x.h>
#endif

namespace duet {

struct Philox4 {
  uint32_t v[4];
};

/// Ten rounds over the 128-bit `counter` under the 64-bit `key`.
DUET_HOST_DEVICE inline Philox4 philox4x32(const uint32_t (&counter)[4], uint64_t key) {
#ifdef __CUDA_ARCH__
  const uint4 words =
      curand_Philox4x32_10({counter[0], counter[1], counter[2], counter[3]},
                           {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)});
  return {{words.x, words.y, words.z, words.w}};
#else
  uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = static_cast<uint64_t>(0xD2511F53u) * c0;
    const uint64_t p1 = static_cast<uint64_t>(0xCD9E8D57u) * c2;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(p1);
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
#endif
}

/// The four words for element block `index` (elements 4*index .. 4*index+3) of stream `stream`
/// (a layer, or one of kStream*) at training step `step`, under `seed`.
DUET_HOST_DEVICE inline Philox4 philox_block(uint64_t seed, uint64_t step, uint32_t stream,
                                             uint32_t index) {
  const uint32_t counter[4] = {index, stream, static_cast<uint32_t>(step),
                               static_cast<uint32_t>(step >> 32)};
  return philox4x32(counter, seed);
}

/// A float in [0, 1) from the upper 24 bits.
DUET_HOST_DEVICE inline float uniform_float(uint32_t word) {
  return static_cast<float>(word >> 8) * 0x1p-24f;
}

/// Streams that are not layers. A layer's own stream is its index in the network.
inline constexpr uint32_t kStreamShuffle = 0xFFFF0000u;
inline constexpr uint32_t kStreamSynthetic = 0xFFFF0001u;
/// Parameter i of the network draws its initial values from stream kStreamInit + i.
inline constexpr uint32_t kStreamInit = 0x80000000u;

}  // namespace duet
