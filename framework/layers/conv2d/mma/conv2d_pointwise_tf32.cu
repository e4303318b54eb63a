// conv2d custom_mma of 1x1 filters in tf32; see pointwise_product.cuh.
#include "layers/conv2d/mma/pointwise_product.cuh"

namespace duet {

template class PointwiseConvolution<float, false>;

}  // namespace duet
