// What the current GPU says of itself. Include only in files that are compiled with CUDA.
#pragma once

#include "device/check.h"

namespace duet {

inline int gpu_attribute(cudaDeviceAttr which) {
  int device = 0, value = 0;
  DUET_CUDA(cudaGetDevice(&device));
  DUET_CUDA(cudaDeviceGetAttribute(&value, which, device));
  return value;
}

}  // namespace duet
