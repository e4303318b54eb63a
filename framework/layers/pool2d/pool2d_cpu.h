// The loops that the cpu references of the poolings share.
#pragma once

#include "core/parallel.h"
#include "layers/pool2d/pool2d.h"

namespace duet {

/// Calls visit(x_offset(h, w), y_offset(p, q)) for each image and channel, with functions from
/// pixels to elements of x's (dx's) and y's (dy's) memory. Channels run in parallel: none touches
/// another.
template <class Visit>
void for_each_plane(const Pool2dProblem& problem, Visit&& visit) {
  const TensorDesc x = problem.x_desc(), y = problem.y_desc();
  constexpr int64_t kOperations = 4;  // a pixel
  const int64_t planes = int64_t{problem.n} * problem.c;
  parallel_ranges(planes, planes > 0 ? kOperations * x.elements() / planes : 1,
                  [&](int64_t first, int64_t last) {
                    for (int64_t plane = first; plane < last; ++plane) {
                      const int64_t n = plane / problem.c, c = plane % problem.c;
                      visit([&](int h, int w) { return offset_of(x, n, c, h, w); },
                            [&](int p, int q) { return offset_of(y, n, c, p, q); });
                    }
                  });
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
