// conv2d custom_wgmma: implicit GEMM on Hopper's tensor cores, by wgmma and the copy engine; bf16 or
//           tf32.
// Mapping:  tile = 128 output positions (dw: filters) x 256, 128 or 64 columns of the product, which blocks take by
//           turns; one thread starts copies, two warpgroups multiply (kernels/wgmma_product.cuh). The positions
//           of a tile are a box of columns, rows and images, so that the operand of a tap is one
//           copy, and what lies in the padding becomes zeros on the way. backward_data of a stride of 2 is
//           a product for each phase (wgmma_phases.cuh), all in one launch.
// Traffic:  as custom_mma: what does not lie with its channels last and in whole 16 bytes, and the
//           weights, is rewritten first (mma_staging.cuh).
// Limits:   math bf16 or tf32, groups = 1, more than 32 (tf32: 16) channels and filters, strides up to 2;
//           backward_filter in bf16: images that boxes of 16 to 64 positions divide; compute capability 9.0.
#include "layers/conv2d/mma/pointwise.h"
#include "layers/conv2d/wgmma/conv2d_wgmma.cuh"
#include "layers/conv2d/wgmma/halo_convolution.cuh"

namespace duet {

template class WgmmaConvolution<bfloat16, false>;

template <class T>
using Conv2dCustomWgmma = Conv2dWgmma<T, false>;

ImplEntry<Conv2dProblem> conv2d_custom_wgmma() {
  auto entry = gpu_entry<Conv2dCustomWgmma>("custom_wgmma", wgmma_convolution_unsupported);
  entry.preferred = [](const Conv2dProblem& problem, Pass pass, size_t limit) {
    return wgmma_convolution_preferred(problem, pass, limit) &&
           !halo_convolution_preferred(problem, pass) && !pointwise_preferred(problem);
  };
  return entry;
}

}  // namespace duet
