// How many multiprocessors a plan is for that is also made where there is no GPU.
#pragma once

#include "device/attribute.h"
#include "device/device.h"

namespace duet {

/// Of this GPU, or where there is none of an H200.
inline int likely_multiprocessor_count() {
  return gpu_available() ? gpu_attribute(cudaDevAttrMultiProcessorCount) : 132;
}

}  // namespace duet
