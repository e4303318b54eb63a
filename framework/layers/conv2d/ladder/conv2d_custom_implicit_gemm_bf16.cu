// conv2d custom_implicit_gemm for NCHW in bf16, apart from the rest to compile beside it.
#include "layers/conv2d/ladder/implicit_gemm.cuh"

namespace duet {

template class Conv2dCustomImplicitGemm<Layout::kNCHW, bfloat16>;

}  // namespace duet
