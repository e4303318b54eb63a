// What the CPU's and the GPU's gather compute of an augmented image. Whole numbers, but for the side
// lengths of a resized crop, which correctly rounded operations of doubles give: the same bits on
// both.
#pragma once

#include <cmath>
#include <cstdint>

#include "data/batch/augment.h"
#include "device/philox.h"

namespace duet {

/// Philox streams of the draws; the index is the sample, the step the epoch: an image's changes do
/// not depend on the batch it is in.
inline constexpr uint32_t kStreamAugment = 0xFFFF0100u;
/// That of mixup; the index is 0, the step that of the training.
inline constexpr uint32_t kStreamMixup = 0xFFFF0180u;

/// What was drawn for one image of one epoch.
struct AugmentDraw {
  int32_t box_top, box_left, box_height, box_width;  // of the image, resized to all of it
  int32_t down, right;                               // where the crop begins, less the padding
  bool flipped;
  uint32_t brightness, contrast, saturation;  // factors, of 256
  int32_t hole_top, hole_left;
};

/// Uniform in [0, n).
DUET_HOST_DEVICE inline uint32_t draw_below(uint32_t word, uint32_t n) {
  return static_cast<uint32_t>(static_cast<uint64_t>(word) * n >> 32);
}

/// Uniform in [from, to], in steps of 2^-32 of the range.
DUET_HOST_DEVICE inline double draw_between(uint32_t word, double from, double to) {
  return std::fma(static_cast<double>(word) * 0x1p-32, to - from, from);
}

/// e^x by its series, for |x| < 4: to a few units in the last place, and to the same bits anywhere.
DUET_HOST_DEVICE inline double exp_series(double x) {
  double sum = 1.0;
  for (int n = 40; n > 0; --n) sum = std::fma(sum, x / n, 1.0);
  return sum;
}

/// torchvision's RandomResizedCrop: a share of the area and a ratio of the sides, drawn up to ten
/// times until the box fits; after the tenth its sides are shortened.
DUET_HOST_DEVICE inline void draw_box(const Augment& a, uint64_t seed, uint64_t epoch,
                                      uint32_t sample, int32_t height, int32_t width,
                                      AugmentDraw& draw) {
  constexpr uint32_t kTries = 10;
  for (uint32_t i = 0; i < kTries; ++i) {
    const Philox4 words = philox_block(seed, epoch, kStreamAugment + 2 + i, sample);
    const double share = draw_between(words.v[0], a.area[0], a.area[1]);
    const double side = std::sqrt(share * (static_cast<double>(height) * width));
    const double stretch =
        exp_series(0.5 * draw_between(words.v[1], a.log_ratio[0], a.log_ratio[1]));
    int32_t w = static_cast<int32_t>(std::fma(side, stretch, 0.5));
    int32_t h = static_cast<int32_t>(side / stretch + 0.5);
    const bool fits = w >= 1 && h >= 1 && w <= width && h <= height;
    if (!fits && i + 1 < kTries) continue;
    w = w < 1 ? 1 : w > width ? width : w;
    h = h < 1 ? 1 : h > height ? height : h;
    draw.box_height = h;
    draw.box_width = w;
    draw.box_top =
        static_cast<int32_t>(draw_below(words.v[2], static_cast<uint32_t>(height - h + 1)));
    draw.box_left =
        static_cast<int32_t>(draw_below(words.v[3], static_cast<uint32_t>(width - w + 1)));
    return;
  }
}

DUET_HOST_DEVICE inline AugmentDraw draw_augment(const Augment& a, uint64_t seed, uint64_t epoch,
                                                 uint32_t sample, int32_t height, int32_t width) {
  AugmentDraw draw = {0, 0, height, width, 0, 0, false, 256, 256, 256, 0, 0};
  const Philox4 words = philox_block(seed, epoch, kStreamAugment, sample);
  if (a.crop) {
    const uint32_t places = 2 * a.crop + 1;
    draw.down = static_cast<int32_t>(draw_below(words.v[0], places) - a.crop);
    draw.right = static_cast<int32_t>(draw_below(words.v[1], places) - a.crop);
  }
  if (a.alternate) {  // the first epoch's side is drawn, and changes from epoch to epoch
    const Philox4 first = philox_block(seed, 0, kStreamAugment, sample);
    draw.flipped = ((first.v[2] >> 31) ^ (epoch & 1)) != 0;
  } else {
    draw.flipped = (words.v[2] >> 16) < a.flip;
  }
  if (a.cutout) {  // its middle is anywhere in the image
    const int32_t half = static_cast<int32_t>(a.cutout / 2);
    const uint32_t area = static_cast<uint32_t>(height) * static_cast<uint32_t>(width);
    const int32_t middle = static_cast<int32_t>(draw_below(words.v[3], area));
    draw.hole_top = middle / width - half;
    draw.hole_left = middle % width - half;
  }
  if (a.brightness || a.contrast || a.saturation) {
    const Philox4 more = philox_block(seed, epoch, kStreamAugment + 1, sample);
    draw.brightness = 256 - a.brightness + draw_below(more.v[0], 2 * a.brightness + 1);
    draw.contrast = 256 - a.contrast + draw_below(more.v[1], 2 * a.contrast + 1);
    draw.saturation = 256 - a.saturation + draw_below(more.v[2], 2 * a.saturation + 1);
  }
  if (a.resized_crop) draw_box(a, seed, epoch, sample, height, width, draw);
  return draw;
}

/// Pixels are in units of 2^-16 of a byte from here on.
inline constexpr int64_t kAugmentWhite = int64_t{255} << 16;

DUET_HOST_DEVICE inline int32_t clamp_to(int32_t i, int32_t count) {
  return i < 0 ? 0 : i >= count ? count - 1 : i;
}

/// One pixel of a channel's box, resized to height x width; bilinear, in steps of 1/256 pixel.
DUET_HOST_DEVICE inline int64_t resized_pixel(const AugmentDraw& d, const uint8_t* channel,
                                              int32_t height, int32_t width, int32_t y, int32_t x) {
  if (d.box_height == height && d.box_width == width) {
    return static_cast<int64_t>(channel[y * width + x]) << 16;
  }
  // (y + 1/2) * box / height - 1/2, rounded down; not negative, so that the division does that.
  const auto place = [](int32_t i, int32_t box, int32_t size) {
    const int64_t at = static_cast<int64_t>(2 * i + 1) * box * 128 / size - 128;
    return static_cast<int32_t>(at < 0 ? 0 : at);
  };
  const int32_t v = place(y, d.box_height, height), u = place(x, d.box_width, width);
  const int32_t top = clamp_to(v >> 8, d.box_height), bottom = clamp_to(top + 1, d.box_height);
  const int32_t left = clamp_to(u >> 8, d.box_width), right = clamp_to(left + 1, d.box_width);
  const int32_t fy = v & 255, fx = u & 255;
  const uint8_t* upper = channel + (d.box_top + top) * width + d.box_left;
  const uint8_t* lower = channel + (d.box_top + bottom) * width + d.box_left;
  const int32_t a = upper[left] * (256 - fx) + upper[right] * fx;
  const int32_t b = lower[left] * (256 - fx) + lower[right] * fx;
  return static_cast<int64_t>(a) * (256 - fy) + static_cast<int64_t>(b) * fy;
}

DUET_HOST_DEVICE inline int32_t reflected(int32_t i, int32_t count) {
  return i < 0 ? -i : i >= count ? 2 * count - 2 - i : i;
}

/// Where the pixel at (y, x) comes from, flipped and cropped; false: from black padding.
DUET_HOST_DEVICE inline bool find_place(const Augment& a, const AugmentDraw& d, int32_t height,
                                        int32_t width, int32_t& y, int32_t& x) {
  if (d.flipped) x = width - 1 - x;
  y += d.down;
  x += d.right;
  if (a.crop) {
    if (a.padding == Augment::Padding::kReflect) {
      y = reflected(y, height);
      x = reflected(x, width);
    } else if (a.padding == Augment::Padding::kEdge) {
      y = clamp_to(y, height);
      x = clamp_to(x, width);
    } else if (y < 0 || y >= height || x < 0 || x >= width) {
      return false;
    }
  }
  return true;
}

/// One pixel of a channel, flipped and cropped.
DUET_HOST_DEVICE inline int64_t placed_pixel(const Augment& a, const AugmentDraw& d,
                                             const uint8_t* channel, int32_t height, int32_t width,
                                             int32_t y, int32_t x) {
  return find_place(a, d, height, width, y, x) ? resized_pixel(d, channel, height, width, y, x) : 0;
}

/// `factor` / 256 of the way from `from` to `value`, and beyond; cut off at black and white.
DUET_HOST_DEVICE inline int64_t blended(int64_t from, int64_t value, uint32_t factor) {
  const int64_t sum = from * (256 - static_cast<int64_t>(factor)) + value * factor;
  const int64_t result = sum < 0 ? 0 : sum / 256;
  return result > kAugmentWhite ? kAugmentWhite : result;
}

/// ITU-R 601-2, as to_grey() of data/format/image.h.
DUET_HOST_DEVICE inline int64_t grey_of(int64_t red, int64_t green, int64_t blue) {
  return (19595 * red + 38470 * green + 7471 * blue) >> 16;
}

/// True where the image has its hole.
DUET_HOST_DEVICE inline bool is_in_hole(const Augment& a, const AugmentDraw& d, int32_t y,
                                        int32_t x) {
  const int32_t size = static_cast<int32_t>(a.cutout);
  return y >= d.hole_top && y < d.hole_top + size && x >= d.hole_left && x < d.hole_left + size;
}

/// Channel c of the pixel at (y, x) of an image of `channels` channels, in units of 2^-16 of a byte:
/// at most 2^24, exact in a float. `mean` is that of the image's grey, in the same units.
DUET_HOST_DEVICE inline int64_t augmented_pixel(const Augment& a, const AugmentDraw& d,
                                                const uint8_t* image, int64_t mean,
                                                int32_t channels, int32_t height, int32_t width,
                                                int32_t c, int32_t y, int32_t x) {
  const int32_t pixels = height * width;
  const auto channel = [&](int32_t k) {
    const int64_t placed = placed_pixel(a, d, image + k * pixels, height, width, y, x);
    if (d.brightness == 256 && d.contrast == 256) return placed;  // as it would come out below
    return blended(blended(0, mean, d.brightness), blended(0, placed, d.brightness), d.contrast);
  };
  const int64_t value = channel(c);
  if (d.saturation == 256 || channels != 3) return value;
  return blended(grey_of(channel(0), channel(1), channel(2)), value, d.saturation);
}

}  // namespace duet
