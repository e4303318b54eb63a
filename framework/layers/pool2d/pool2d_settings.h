// A pooling as cuDNN's settings. Include only in files that are compiled with CUDA.
#pragma once

#include "device/cudnn_descriptors.h"
#include "layers/pool2d/pool2d.h"

namespace duet {

/// An average by its own mode, a maximum by `maximum`.
inline gpu::PoolingSettings pooling_settings(const Pool2dProblem& problem,
                                             cudnnPoolingMode_t maximum) {
  return {.mode = problem.kind == PoolKind::kMax ? maximum
                  : problem.count_include_pad    ? CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING
                                                 : CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING,
          .window_h = problem.r,
          .window_w = problem.s,
          .pad_h = problem.pad_h,
          .pad_w = problem.pad_w,
          .stride_h = problem.stride_h,
          .stride_w = problem.stride_w};
}

}  // namespace duet
