// How the image of a pair is made of its target: what a network is to undo.
#pragma once

#include <cstdint>

#include "core/config.h"
#include "data/format/image.h"
#include "data/format/resample.h"
#include "data/set/dataset.h"

namespace duet {

/// What `degrade` says: {type: bicubic, scale: 3} shrinks, by that or another filter of resample.h;
/// {type: noise, sigma: 25} adds to each byte a normally distributed number of that deviation,
/// rounds and clamps.
struct Degradation {
  int64_t scale = 1;  // sides of the target, of the image's; 1 with noise
  ResampleFilter filter = ResampleFilter::kBicubic;
  double sigma = 0.0;  // in bytes; 0: no noise
  uint64_t seed = 1;   // of the noise
};

/// Reads the map under `degrade`, which is required; mistakes go to the reader.
Degradation read_degradation(ConfigReader& reader);

/// The image of the pair. `number` is the target's among those of its data set: each has noise of
/// its own, the same bytes in every run and on every machine. REQUIRES: both sides of `target` are
/// multiples of the scale.
Image degraded(const Image& target, const Degradation& how, uint64_t number);

/// What a network for pairs is measured by: the mean over the pairs of `split`, which are in
/// memory, of the PSNR in dB (core/image_quality.h) of the images, enlarged by bicubic to the
/// targets' size where that is larger, beside the targets; `border` pixels are cut off each side.
/// Infinite where a pair is equal.
double psnr_of_images(const DatasetInfo& info, const Split& split, int64_t border);

}  // namespace duet
