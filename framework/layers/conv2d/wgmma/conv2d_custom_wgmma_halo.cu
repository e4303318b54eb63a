// conv2d custom_wgmma_halo: implicit GEMM on Hopper's tensor cores whose tile of the image is brought
//           once for all taps; bf16 or tf32.
// Mapping:  block = 64 or 128 filters (backward_data: channels) x 128 to 512 positions
//           (kernels/wgmma_halo.cuh). Positions follow each other through rows and images, and the zeros of the
//           padding lie once between two of them; those without a result are computed and not stored. With 64
//           channels in bf16, or 32, the weights stay in shared memory (kept_weights.cuh). backward_filter: block = 64
//           filters x 64 channels, or 32, x nine taps of a part of the sum (kernels/wgmma_filter.cuh).
// Traffic:  as custom_wgmma, which brings a tile once a tap.
// Limits:   those of custom_wgmma, but more than 16 channels and filters in bf16 too; stride 1, more than
//           one tap, no more padding than taps reach, rows that leave room for a tile in shared memory;
//           backward_filter: 3x3, dilation 1.
#include "layers/conv2d/wgmma/conv2d_wgmma.cuh"
#include "layers/conv2d/wgmma/halo_convolution.cuh"

namespace duet {

template class HaloConvolution<bfloat16>;

bool mma_preferred_to_halo(const Conv2dProblem& d, Pass pass) {
  return d.math == Math::kBF16 && !halo_convolution_unsupported(d, pass) &&
         wgmma_convolution_unsupported(d, pass) && !halo_convolution_preferred(d, pass);
}

template <class T>
using Conv2dCustomWgmmaHalo = Conv2dStaged<T, HaloConvolution<T>>;

ImplEntry<Conv2dProblem> conv2d_custom_wgmma_halo() {
  auto entry = gpu_entry<Conv2dCustomWgmmaHalo>("custom_wgmma_halo", halo_convolution_unsupported);
  entry.preferred = [](const Conv2dProblem& problem, Pass pass, size_t) {
    return halo_convolution_preferred(problem, pass);
  };
  return entry;
}

}  // namespace duet
