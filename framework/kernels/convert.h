// Copies between float32 and bfloat16 on a GPU. Only in a build with CUDA.
#pragma once

#include <cstdint>

#include "core/bfloat16.h"

struct CUstream_st;

namespace duet {

/// to[i] = from[i], rounded. REQUIRES: both start at multiples of 16 bytes.
void queue_conversion(const float* from, bfloat16* to, int64_t count, CUstream_st* stream);
/// to[i] = from[i]. REQUIRES: as above.
void queue_conversion(const bfloat16* from, float* to, int64_t count, CUstream_st* stream);

}  // namespace duet
