// conv2d_pool_relu custom_winograd: F(2x2, 3x3) whose output tile is the pooling window: 16
//           multiplications for 36, and pooled in place. backward_data of larger images, whose
//           windows do not fit one block, is custom_fused's.
// Mapping:  block = 256 threads, thread = 8x16 accumulators; forward: 16 points x 32 windows x 64
//           filters; backward_data: 16 points x 32 windows (one image) x 32 channels;
//           backward_filter: 16 points x 32 channels x 64 filters, split along the windows. Where
//           blocks are few, a cluster of up to 8 shares the depth of each.
// Traffic:  transformed weights once a block (L2), x once a block of 64 filters, y and dy once (a
//           block of channels) with half a byte of argmax an element; partial dw once a split.
// Limits:   fp32, 3x3, stride 1, dilation 1, groups = 1, NCHW, pooling 2x2 with stride 2; needs
//           Hopper's bulk copies. A NaN or an infinity in x reaches all of its 4x4 patch.
// Measured: H200, alone in a CUDA graph, Nx64x13x13 -> 128: forward 9.0 us at N = 1 (19 without a
//           cluster), 20.2 at 64, 236 at 1024; backward_data 10.3 (22), 22.9 and 338;
//           backward_filter with db 12.2, 33.0 and 239. cuDNN's convolution alone, at 64 and 1024:
//           27.8, 288; 38.6, 344; 30.8, 380. Forward spends half of its time multiplying;
//           two warps a scheduler cannot hide transforms, barriers and the exchange.
#include "layers/conv2d_pool_relu/conv2d_pool_relu_winograd.cuh"

namespace duet {

ImplEntry<Conv2dPoolReluProblem> conv2d_pool_relu_custom_winograd() {
  return impl_entry<Conv2dPoolReluWinograd<WinogradBy::kFma>>(
      "custom_winograd", conv2d_pool_relu_winograd_unsupported<WinogradBy::kFma>);
}

}  // namespace duet
