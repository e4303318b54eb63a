// What rounding may cost a sum of products: the one table, the same for every implementation.
#pragma once

#include <cmath>

#include "core/tensor.h"

namespace duet {

/// The most that the RMS of the errors of sums of `terms` products may be, by the RMS of their
/// sizes. The size of y = sum of a_i b_i is sqrt(sum of (a_i b_i)^2 + y^2): unlike y it does not
/// cancel, and the errors of rounding are proportional to it.
///
/// The errors of `terms` roundings are independent and add up like a random walk, to c * eps *
/// sqrt(terms) (N. Higham, T. Mary: A New Approach to Probabilistic Rounding Error Analysis, SIAM
/// J. Sci. Comput. 41, 2019). To that comes what a transform of the operands costs, however many
/// terms there are (A. Lavin, S. Gray: Fast Algorithms for Convolutional Neural Networks, 2015).
/// Measured in fp32, in units of eps = 2^-24 (tests/measure/rounding_test.cpp):
///
///   a plain loop                   0.25 sqrt(terms)
///   Winograd's F(4x4, 3x3)         0.85 sqrt(terms) + 9
///   operands rounded to tf32       3500
///   operands rounded to bf16       28000
///   one of the two in bf16         20000
///
/// So fp32 is allowed 4 sqrt(terms) + 16, and never more than a third of what tf32 leaves. tf32
/// rounds the operands alone, to nearest or, on the hardware, towards zero: that leaves 0.4 to 1 of
/// 2^-11, and operands in bf16 3.4, whatever the terms.
///
/// kBF16 permits what matrix units do: the weights may be rounded to bfloat16 too, once, and sums
/// are in float32. x and dy are bfloat16 as they come, so that nothing else errs. A product's error
/// is then uniform within half of the weight's last digit, 2^-9 to 2^-8 of it, and its RMS 0.42 *
/// 2^-8: by the size, 0.3 of 2^-8, 0.25 in images, and 0.42 where every y cancels. Allowed is 0.5 *
/// 2^-8 more than in fp32. Both operands in 7 digits leave 0.6 to 0.9; sums in bfloat16 leave more
/// from some 40 terms on. dw has fp32's limit, as both its factors are stored in bfloat16. What
/// storing the sums costs is storage_rounding().
///
/// Differences (batch normalisation's x less its mean) have the limit of one term. Their size is
/// the same without cancelling: sqrt(x^2 + mean(x^2) + y^2), where the mean over the batch errs by
/// c * eps * RMS(x), whatever its length: c * eps * sqrt(terms) * sqrt(sum of x^2) / terms. Sums of
/// them over the batch, dw, have the limit of their terms.
double rounding_limit(Math math, double terms);

/// The most that storing a value in `dtype` may change it by, as a share of it, beyond what float32
/// has: 2^-8 for bfloat16, half a unit in the last of its 8 digits where that weighs most; else 0.
/// The RMS of many values changes by some 0.4 of it. Every element y or dx is allowed that on top
/// of its other limit, once, and in kBF16 every dw and db of sums of products, which a library may
/// round: rounding twice, or sums in bfloat16, go beyond.
double storage_rounding(DType dtype);

/// No element's error may be more than so many times the limit above, by its own size. Winograd's
/// F(4x4, 3x3) reaches 8, and 15 on images of single bright pixels.
inline constexpr double kWorstElement = 16;

/// The size of an element of images or filters holds so much of the RMS of all sizes: transforms mix
/// the errors of what they add up first. backward_filter of one image (n = 1, on an H200 and H100): cuDNN
/// leaves 3e-7 of the RMS where all operands of a channel are zero, and Winograd's F(2x2, 3x3) 2e-6,
/// half of what this allows, where no tap meets a dy that is not zero but a tile has both.
inline constexpr double kMixedChannels = 1.0 / 16;

/// Two sums of products whose difference is below this share of the RMS of all may change places by
/// rounding. Convolutions in fp32 err by some 1e-6 of it, in tf32 by 3e-4, and with weights in bf16 by
/// 1.6e-3, of which the difference of the worst two of 1e5 windows is ten times.
double near_tie(Math math);

/// The size of a value, of the sum of its terms' squares. An error of 2^-126, below which float32
/// loses bits or is flushed to zero, is always allowed.
inline double square(double value) { return value * value; }
inline double size_of_squares(double squares) {
  constexpr double kUnderflow = 0x1p-126 / 0x1p-24;
  return std::sqrt(squares + square(kUnderflow));
}

}  // namespace duet
