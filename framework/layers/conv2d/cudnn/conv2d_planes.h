// Images as planes for a transform: each channel of each image by itself, float32, with zeros around
// it. Only in a build with CUDA.
#pragma once

#include "layers/conv2d/conv2d.h"

namespace duet {

/// Where a tensor of images, or filters, stands in planes of `rows` x `columns`. REQUIRES: it fits;
/// fewer than 2^31 elements of all planes.
struct Planes {
  TensorDesc desc;
  int top = 0, left = 0;  // of each plane
  int rows = 1, columns = 1;

  int count() const { return static_cast<int>(desc.shape[0] * desc.shape[1]); }
  int64_t elements() const { return int64_t{count()} * rows * columns; }
};

/// `planes` = what `from` holds, and zeros around it.
void queue_into_planes(const Planes& at, const Tensor& from, float* planes, const Run& run);
/// to = scale * what the planes hold there, plus `bias` of its channel, which may be nullptr.
void queue_from_planes(const Planes& at, const float* planes, float scale, const float* bias,
                       const Tensor& to, const Run& run);

}  // namespace duet
