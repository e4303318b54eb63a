// Images that a small network learns in a few epochs, made without files, for tests, examples and
// machines without a data set. The same bytes on every machine: whole numbers and Philox only.
//
// Each class has a template: a smooth field, drawn on a grid of kGrid x kGrid random bytes. An
// image is its class's template at a random offset, mixed with up to kMostMixed/256 of another
// class's, under uniform noise. Mixture and noise keep the task from being solved by one pixel, and
// a network from being perfect at once.
#include <algorithm>

#include "core/error.h"
#include "core/parallel.h"
#include "data/batch/data_memory.h"
#include "data/set/dataset_types.h"
#include "device/philox.h"

namespace duet {
namespace {

constexpr int64_t kGrid = 5;
constexpr int64_t kMostMixed = 112;  // of 256
constexpr int64_t kNoise = 96;       // +-, of 256 grey levels

// What each generated thing is drawn under, instead of a seed.
enum ImageDraw : uint64_t { kTemplates = 0, kTrain = 1, kValidation = 2 };

struct ImageSettings {
  int64_t classes, channels, size, train_count, validation_count;
  int64_t margin() const { return size / 5; }
  int64_t template_size() const { return size + 2 * margin(); }
};

Philox4 draw(ImageDraw what, int64_t item, int64_t block) {
  return philox_block(what, static_cast<uint64_t>(item), kStreamSynthetic,
                      static_cast<uint32_t>(block));
}

int64_t byte_of(const Philox4& words, int64_t i) { return words.v[i / 4] >> (8 * (i % 4)) & 0xFF; }

// A whole number in [0, n) from a word.
int64_t below(uint32_t word, int64_t n) {
  return static_cast<int64_t>(static_cast<uint64_t>(word) * static_cast<uint64_t>(n) >> 32);
}

// One template: template_size() squared, a grid of random bytes interpolated bilinearly.
std::vector<uint8_t> make_template(const ImageSettings& s, int64_t index) {
  uint8_t grid[kGrid][kGrid];
  for (int64_t i = 0; i < kGrid * kGrid; ++i) {
    grid[i / kGrid][i % kGrid] =
        static_cast<uint8_t>(byte_of(draw(kTemplates, index, i / 16), i % 16));
  }
  const int64_t size = s.template_size();
  const int64_t steps = std::max<int64_t>(size - 1, 1);
  std::vector<uint8_t> field(static_cast<size_t>(size * size));
  for (int64_t y = 0; y < size; ++y) {
    for (int64_t x = 0; x < size; ++x) {
      const int64_t v = y * (kGrid - 1) * 256 / steps, u = x * (kGrid - 1) * 256 / steps;  // 8.8
      const int64_t r = std::min(v / 256, kGrid - 2), c = std::min(u / 256, kGrid - 2);
      const int64_t a = v - 256 * r, b = u - 256 * c;
      const int64_t upper = grid[r][c] * (256 - b) + grid[r][c + 1] * b;
      const int64_t lower = grid[r + 1][c] * (256 - b) + grid[r + 1][c + 1] * b;
      field[y * size + x] = static_cast<uint8_t>((upper * (256 - a) + lower * a) >> 16);
    }
  }
  return field;
}

Split make_split(const ImageSettings& s, const std::vector<std::vector<uint8_t>>& templates,
                 ImageDraw what, int64_t count) {
  const int64_t pixels = s.size * s.size;
  Split split{count, std::vector<uint8_t>(static_cast<size_t>(count * s.channels * pixels)),
              std::vector<int32_t>(static_cast<size_t>(count))};
  const int64_t work = 10 * count * s.channels * pixels;
  parallel_for(count, work, [&](int64_t n) {
    const Philox4 choice = draw(what, n, 0);
    const int64_t label = n % s.classes;
    const int64_t other = below(choice.v[0], s.classes);
    const int64_t mixed = below(choice.v[1], kMostMixed + 1);
    const int64_t top = below(choice.v[2], 2 * s.margin() + 1);
    const int64_t left = below(choice.v[3], 2 * s.margin() + 1);
    split.labels[n] = static_cast<int32_t>(label);
    Philox4 noise{};
    for (int64_t i = 0; i < s.channels * pixels; ++i) {
      if (i % 16 == 0) noise = draw(what, n, 1 + i / 16);
      const int64_t channel = i / pixels, y = i % pixels / s.size, x = i % s.size;
      const int64_t at = (top + y) * s.template_size() + left + x;
      const int64_t own = templates[label * s.channels + channel][at];
      const int64_t foreign = templates[other * s.channels + channel][at];
      const int64_t clean = (own * (256 - mixed) + foreign * mixed) / 256;
      const int64_t value = clean + (byte_of(noise, i % 16) - 128) * kNoise / 128;
      split.images[n * s.channels * pixels + i] =
          static_cast<uint8_t>(std::clamp<int64_t>(value, 0, 255));
    }
  });
  return split;
}

DatasetLoader read_synthetic_images(ConfigReader& reader) {
  ImageSettings s{};
  s.classes = reader.integer("classes", 10, 2, 1000);
  s.channels = reader.integer("channels", 1, 1, 1024);
  s.size = reader.integer("size", 28, 1, 1024);
  s.train_count = reader.integer("train_count", 12000);
  s.validation_count = reader.integer("validation_count", 2000);

  DatasetLoader loader;
  const auto per_channel = [&](double value) { return std::vector(s.channels, value); };
  loader.info = {"synthetic_images",
                 s.channels,
                 s.size,
                 s.size,
                 s.classes,
                 per_channel(0.5),
                 per_channel(0.25),
                 numbered_classes(s.classes)};
  loader.load = [s, info = loader.info](const std::filesystem::path&) {
    const int64_t bytes = (s.train_count + s.validation_count) * s.channels * s.size * s.size;
    require_memory("synthetic_images", static_cast<uint64_t>(bytes),
                   "choose a smaller train_count, validation_count or size");
    std::vector<std::vector<uint8_t>> templates;
    for (int64_t i = 0; i < s.classes * s.channels; ++i) templates.push_back(make_template(s, i));
    Dataset dataset{info};
    dataset.train = make_split(s, templates, kTrain, s.train_count);
    dataset.validation = make_split(s, templates, kValidation, s.validation_count);
    dataset.source = "generated";
    return dataset;
  };
  return loader;
}

}  // namespace

const DatasetType& synthetic_images_type() {
  static const DatasetType type = {
      "synthetic_images",
      "generated images of random smooth templates, one a class; needs no files",
      read_synthetic_images,
      {},
      "",
      ""};
  return type;
}

}  // namespace duet
