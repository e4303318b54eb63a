// How training images are changed as they are gathered: drawn anew for each image in each epoch, by
// whole numbers, so that batches have the same bits on the CPU and on the GPU.
#pragma once

#include <cstdint>

#include "core/config.h"
#include "core/host_device.h"

namespace duet {

/// What `data.augment` lists; a member left at its initial value changes nothing. Whatever the
/// list's order, an image goes through these in the order of the members.
struct Augment {
  enum class Padding : uint32_t { kBlack, kEdge, kReflect };

  bool resized_crop = false;  // random_resized_crop
  double area[2] = {};        // least and most, of the image
  double log_ratio[2] = {};   // of width / height

  uint32_t crop = 0;  // random_crop: pixels of padding on each side
  Padding padding = Padding::kBlack;

  uint32_t flip = 0;  // horizontal_flip: probability, of 65536
  bool alternate = false;

  uint32_t brightness = 0, contrast = 0, saturation = 0;  // colour_jitter: the most, of 256

  uint32_t cutout = 0;  // side of the square

  double mixup = 0.0;  // alpha

  DUET_HOST_DEVICE bool any() const {
    return resized_crop || crop || flip || brightness || contrast || saturation || cutout ||
           mixup > 0.0;
  }
};

/// Reads the list under `augment` of images of that size; mistakes go to the reader.
Augment read_augment(ConfigReader& reader, int64_t channels, int64_t height, int64_t width);

}  // namespace duet
