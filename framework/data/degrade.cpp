#include "data/degrade.h"

#include <algorithm>
#include <cmath>

#include "core/image_quality.h"
#include "device/normal.h"
#include "device/philox.h"

namespace duet {
namespace {

constexpr int64_t kMostScale = 16;
constexpr double kLeastSigma = 0.1, kMostSigma = 255.0;
constexpr uint32_t kStreamNoise = 0xFFFF0003u;

uint8_t byte_of(double value) {
  return static_cast<uint8_t>(std::lround(std::clamp(value, 0.0, 255.0)));
}

Image with_noise(Image image, double sigma, uint64_t seed, uint64_t number) {
  for (size_t i = 0; i < image.pixels.size(); i += 4) {
    const Philox4 words = philox_block(seed, number, kStreamNoise, static_cast<uint32_t>(i / 4));
    double noise[4];
    normal_pair(words.v[0], words.v[1], &noise[0], &noise[1]);
    normal_pair(words.v[2], words.v[3], &noise[2], &noise[3]);
    for (size_t j = i; j < std::min(i + 4, image.pixels.size()); ++j) {
      image.pixels[j] = byte_of(image.pixels[j] + sigma * noise[j - i]);
    }
  }
  return image;
}

// Image `n`, whose channels lie one behind the other.
Image image_at(const std::vector<uint8_t>& planes, int64_t n, const DatasetInfo::Sizes& sizes) {
  const auto pixels = static_cast<size_t>(sizes.height * sizes.width);
  const auto channels = static_cast<size_t>(sizes.channels);
  Image image{sizes.height, sizes.width, sizes.channels, std::vector<uint8_t>(pixels * channels)};
  const uint8_t* const first = planes.data() + static_cast<size_t>(n) * pixels * channels;
  for (size_t i = 0; i < pixels * channels; ++i) {
    image.pixels[i % pixels * channels + i / pixels] = first[i];
  }
  return image;
}

// As many planes: whatever their order, the PSNR is that of all their values.
std::vector<double> planes_of(const Image& image) {
  std::vector<double> planes(image.pixels.size());
  const auto channels = static_cast<size_t>(image.channels);
  for (size_t i = 0; i < planes.size(); ++i) {
    planes[i % channels * (planes.size() / channels) + i / channels] = image.pixels[i];
  }
  return planes;
}

}  // namespace

double psnr_of_images(const DatasetInfo& info, const Split& split, int64_t border) {
  const auto& [channels, height, width] = info.target;
  double sum = 0.0;
  for (int64_t n = 0; n < split.count; ++n) {
    const Image small = image_at(split.images, n, {info.channels, info.height, info.width});
    const Image target = image_at(split.targets->images, n, info.target);
    const Image large = resample(small, height, width, ResampleFilter::kBicubic);
    const std::vector<double> x = planes_of(large), t = planes_of(target);
    sum += psnr({channels, height, width, x}, {channels, height, width, t}, 255.0, border);
  }
  return sum / static_cast<double>(split.count);
}

Degradation read_degradation(ConfigReader& reader) {
  if (!reader.raw("degrade")) {
    reader.error("degrade", "is required: {type: bicubic, scale: 3} or {type: noise, sigma: 25}");
    return {};
  }
  Degradation how;
  ConfigReader keys = reader.map("degrade");
  std::vector<std::string> types = resample_filter_names();
  types.push_back("noise");
  const std::string type = keys.choice("type", types);
  if (type == "noise") {
    how.sigma = keys.number("sigma", {}, kLeastSigma, kMostSigma);
    how.seed = static_cast<uint64_t>(keys.integer("seed", 1, 0));
  } else {
    how.scale = keys.integer("scale", {}, 2, kMostScale);
    if (!type.empty()) how.filter = resample_filter_from(type);
  }
  keys.finish();
  return how;
}

Image degraded(const Image& target, const Degradation& how, uint64_t number) {
  if (how.sigma > 0.0) return with_noise(target, how.sigma, how.seed, number);
  return resample(target, target.height / how.scale, target.width / how.scale, how.filter);
}

}  // namespace duet
