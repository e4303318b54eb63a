// How close an image is to its original: PSNR and SSIM, computed in double.
#pragma once

#include <cstdint>
#include <span>

#include "core/ssim.h"

namespace duet {

/// A view of an image's values: channel after channel, each row-major.
struct ImageValues {
  int64_t channels = 0, height = 0, width = 0;
  std::span<const double> values;  // channels x height x width
};

/// Peak signal-to-noise ratio in dB, 10 log10(data_range^2 / mse), where mse is the mean of the
/// squared differences over all channels together; infinite if the images are equal. scikit-image's
/// peak_signal_noise_ratio. `data_range` is the distance between the smallest and the largest
/// possible value: 255 for bytes, also where the luma of bytes spans only 16 to 235. `border`
/// pixels are cut off each side first, as super-resolution papers do (by the scale). Throws
/// DataError if the sizes differ or nothing remains, ConfigError if `border` is negative or
/// `data_range` is not a positive number.
double psnr(const ImageValues& x, const ImageValues& y, double data_range, int64_t border = 0);

struct SsimOptions {
  SsimWindow window = SsimWindow::kGaussian11;
  /// False: variances and the covariance are the weighted means of a window (population), as Wang
  /// et al. have them. True: these times n / (n - 1), n being the pixels of a window (sample), with
  /// either window; scikit-image's default.
  bool sample_covariance = false;
  int64_t border = 0;  // pixels that are cut off each side first
};

/// Mean structural similarity, at most 1; exactly 1 if the images are equal. Z. Wang, A. C. Bovik,
/// H. R. Sheikh and E. P. Simoncelli, "Image Quality Assessment: From Error Visibility to
/// Structural Similarity", IEEE Transactions on Image Processing 13 (2004), equation 13 with K1 =
/// 0.01 and K2 = 0.03: the mean over all windows that lie wholly inside the image (nothing is
/// padded), and over the channels. With the default options scikit-image's structural_similarity(x,
/// y, data_range, gaussian_weights=True, sigma=1.5, use_sample_covariance=False); with kUniform7
/// and sample_covariance its structural_similarity(x, y, data_range). Throws as psnr(), and
/// DataError if what remains of the image is smaller than a window.
double ssim(const ImageValues& x, const ImageValues& y, double data_range,
            const SsimOptions& options = {});

}  // namespace duet
