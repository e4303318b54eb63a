// The loops that the cpu references of the poolings share.
#pragma once

#include "layers/pool2d/pool2d.h"

namespace duet {

/// Calls visit(x_offset(h, w), y_offset(p, q)) for each image and channel, with functions from
/// pixels to elements of x's (dx's) and y's (dy's) memory. Channels run in parallel: none touches
/// another.
template <class Visit>
void for_each_plane(const Pool2dProblem& problem, Visit&& visit) {
  const TensorDesc x = problem.x_desc(), y = problem.y_desc();
  // Waking the threads costs more than a small pooling.
  constexpr int64_t kLarge = 1 << 14;
#pragma omp parallel for if (x.elements() > kLarge)
  for (int plane = 0; plane < problem.n * problem.c; ++plane) {
    const int n = plane / problem.c, c = plane % problem.c;
    visit([&](int h, int w) { return offset_of(x, n, c, h, w); },
          [&](int p, int q) { return offset_of(y, n, c, p, q); });
  }
}

/// Calls visit(p, q) for each output of a plane, in row-major order.
template <class Visit>
void for_each_output(const Pool2dProblem& problem, Visit&& visit) {
  for (int p = 0; p < problem.p; ++p) {
    for (int q = 0; q < problem.q; ++q) visit(p, q);
  }
}

/// Calls visit(h, w) for each pixel of a range, in row-major order.
template <class Visit>
void for_each_pixel(const PixelRange& pixels, Visit&& visit) {
  for (int h = pixels.h_begin; h < pixels.h_end; ++h) {
    for (int w = pixels.w_begin; w < pixels.w_end; ++w) visit(h, w);
  }
}

}  // namespace duet
