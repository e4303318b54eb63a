// conv2d custom_winograd: F(2x2, 3x3): 16 multiplications for the 36 of a 2x2 tile of outputs.
//           backward_data sums the overlapping patches of an image where its tiles fit one block,
//           else it is a forward pass over dy with the filters turned.
// Mapping:  block = 256 threads, thread = 8x16 (or 9x16) accumulators; forward: 16 points x 32 (or
//           36) tiles x 64 filters, or 32 x 32 where that fills more multiprocessors; backward_data
//           likewise, or 32 (36) tiles of one image x 32 channels; backward_filter: 16 points x 32
//           filters x 64 channels, split along the tiles. Where blocks are few, a cluster of up to
//           8 shares the depth of each.
// Traffic:  transformed weights once a block (L2), x once a block of filters, y once, dy once (a
//           block of channels); partial dw once a split.
// Limits:   fp32, 3x3, stride 1, dilation 1, groups = 1, NCHW, 64 channels and filters or more,
//           128 tiles or more in backward_filter; needs Hopper's bulk copies. A NaN or an infinity
//           in x reaches all of its 4x4 patch.
// Measured: H200, alone in a CUDA graph, Nx64x13x13 -> 128: forward 8.1 us at N = 1 (15 without a
//           cluster), 25 at 64, 344 at 1024; backward_data 9.0 (24), 27 and 407; backward_filter
//           with db 39 at 64 and 362 at 1024. One image's 36 tiles a block make N = 64 a single
//           wave: blocks of 32 tiles take 40 us forward. 32x128x28x28 -> 128, padded: forward 111,
//           backward_filter 151.
#include "layers/conv2d/winograd/conv2d_winograd.cuh"

namespace duet {

ImplEntry<Conv2dProblem> conv2d_custom_winograd() {
  return impl_entry<Conv2dWinograd<false>>("custom_winograd", conv2d_winograd_unsupported<false>);
}

}  // namespace duet
