// conv2d custom_wgmma_halo in tf32; see conv2d_custom_wgmma_halo.cu.
#include "layers/conv2d/wgmma/halo_convolution.cuh"

namespace duet {

template class HaloConvolution<float>;

}  // namespace duet
