// conv2d custom_implicit_gemm: the im2col matrix is never stored; tiles are gathered on the way to
//           shared memory.
// Mapping:  block = 128 (or 64) rows x 128 (or 64, or 32) columns of the product, thread = 8x8
//           (or 8x4) accumulators; rows are outputs (n,p,q) forward, inputs (n,h,w) backward_data
//           (with a stride those of a phase), filters backward_filter. Where tiles are too few a
//           sum is split, and a second kernel adds up.
// Traffic:  x (or dy) read r*s / tile-reuse times through L2, the weights once a block, the result
//           once; a split one also writes and reads its partial results.
// Limits:   fp32 or bf16 (products and sums in fp32 alike), groups = 1, 32-bit element numbers,
//           padded height and width below 16384.
// Measured: H200, alone in a CUDA graph, 1024x64x13x13 -> 128, 3x3, NHWC: forward 505 us,
//           backward_data 726, backward_filter 455 with db; cuDNN's best (Winograd or FFT) 288,
//           344, 380. NHWC is 10-20% faster than NCHW: 16-byte gathers.
#include "layers/conv2d/ladder/implicit_gemm.cuh"

namespace duet {

// conv2d_custom_implicit_gemm_bf16.cu and _nhwc.cu
extern template class Conv2dCustomImplicitGemm<Layout::kNCHW, bfloat16>;
extern template class Conv2dCustomImplicitGemm<Layout::kNHWC, float>;
extern template class Conv2dCustomImplicitGemm<Layout::kNHWC, bfloat16>;

namespace {

template <class T>
using Nchw = Conv2dCustomImplicitGemm<Layout::kNCHW, T>;
template <class T>
using Nhwc = Conv2dCustomImplicitGemm<Layout::kNHWC, T>;

}  // namespace

ImplEntry<Conv2dProblem> conv2d_custom_implicit_gemm() {
  return layouts_entry<Nchw, Nhwc>("custom_implicit_gemm", gathers_unsupported);
}

}  // namespace duet
