// conv2d custom_mma in tf32; see conv2d_custom_mma.cu.
#include "layers/conv2d/mma/mma_convolution.cuh"

namespace duet {

template class MmaConvolution<float>;

}  // namespace duet
