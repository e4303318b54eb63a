// conv2d custom_implicit_gemm with the channels last.
#include "layers/conv2d/ladder/implicit_gemm.cuh"

namespace duet {

template class Conv2dCustomImplicitGemm<Layout::kNHWC, float>;
template class Conv2dCustomImplicitGemm<Layout::kNHWC, bfloat16>;

}  // namespace duet
