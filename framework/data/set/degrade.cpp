#include "data/set/degrade.h"

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

}  // namespace

double psnr_of_images(const DatasetInfo& info, const Split& split, int64_t border) {
  const auto& [channels, height, width] = info.target;
  const auto size = static_cast<size_t>(info.channels * info.height * info.width);
  const auto target_size = static_cast<size_t>(channels * height * width);
  double sum = 0.0;
  for (size_t n = 0; n < static_cast<size_t>(split.count); ++n) {
    const Image image =
        image_of_planes(split.images.data() + n * size, info.channels, info.height, info.width);
    const std::vector<uint8_t> large =
        planes_of(resample(image, height, width, ResampleFilter::kBicubic));
    const uint8_t* const target = split.targets->images.data() + n * target_size;
    const std::vector<double> x(large.begin(), large.end()), t(target, target + target_size);
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
