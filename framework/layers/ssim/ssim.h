// ssim: the mean structural similarity of each image and its target (core/image_quality.h), at most 1
// and exactly 1 of equal images in cpu_reference; the tensors are those of layers/metric.h, images
// N,C,H,W. The mean is over the windows that lie wholly inside the image, and over its channels.
//   window gaussian  11 x 11 pixels, sigma 1.5, population covariance: scikit-image's
//                    structural_similarity(gaussian_weights=True, sigma=1.5,
//                    use_sample_covariance=False)
//   window uniform   7 x 7 equal weights, sample covariance: its structural_similarity() without these
//                    options
// Keys: data_range (the largest difference that images can have: 1 for values of 0 to 1, 255 for bytes),
// window gaussian, border 0 (pixels left out at each side before anything else).
// All is computed in double.
#pragma once

#include "core/ssim.h"
#include "layers/metric.h"

namespace duet {

struct SsimProblem {
  TensorDesc x = {{1, 1, 11, 11}};  // and the targets
  DType dtype = DType::kFloat32;
  double data_range = 1.0;
  SsimWindow window = SsimWindow::kGaussian11;
  int64_t border = 0;

  SsimFormula formula() const { return {data_range, window, window == SsimWindow::kUniform7}; }
  int64_t images() const { return x.shape[0]; }
  int64_t channels() const { return x.shape[1]; }
  /// Of an image, its border cut off.
  int64_t height() const { return x.shape[2] - 2 * border; }
  int64_t width() const { return x.shape[3] - 2 * border; }
  /// Of an image, in all channels.
  int64_t windows() const {
    const int taps = formula().taps;
    return channels() * (height() - taps + 1) * (width() - taps + 1);
  }
  std::string to_string() const;
};

/// Offsets in memory of the values of an image, its border cut off.
struct InnerPixels {
  int64_t first = 0, channel = 0, row = 0, column = 0;

  explicit InnerPixels(const SsimProblem& problem) {
    const auto of = [&](int64_t c, int64_t h, int64_t w) {
      return offset_of(problem.x, 0, c, h, w);
    };
    channel = of(1, 0, 0);
    row = of(0, 1, 0);
    column = of(0, 0, 1);
    first = problem.border * (row + column);
  }
};

using SsimImpl = MetricImpl<SsimProblem>;
using SsimImpls = std::vector<ImplEntry<SsimProblem>>;

const LayerType& ssim_type();

SsimImpls& ssim_impls();

}  // namespace duet
