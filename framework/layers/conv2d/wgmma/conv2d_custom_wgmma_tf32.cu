// conv2d custom_wgmma in tf32; see conv2d_custom_wgmma.cu.
#include "layers/conv2d/wgmma/wgmma_convolution.cuh"

namespace duet {

template class WgmmaConvolution<float, false>;

}  // namespace duet
