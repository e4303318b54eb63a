// Augmented batches on the CPU: against images made step by step in plain arrays from what was
// drawn; how draws are spread; and keys that do not fit. batches_gpu_test.cpp compares the GPU's.
#include "data/batch/augment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/error.h"
#include "core/mixed_labels.h"
#include "data/batch/augment_pixels.h"
#include "data/batch/batches.h"
#include "data/batch/mixup.h"
#include "data/batch/order.h"
#include "support/read_augments.h"
#include "support/small_split.h"
#include "support/text.h"

namespace duet {
namespace {

constexpr uint64_t kSeed = 21;

Augment augment_of(const std::string& list, int64_t channels = 3, int64_t height = 12,
                   int64_t width = 10) {
  return read_augments(list, channels, height, width);
}

// An image as doubles, channel by channel.
struct Planes {
  int channels, height, width;
  std::vector<double> values;

  double& at(int c, int y, int x) { return values[(c * height + y) * width + x]; }
  double at(int c, int y, int x) const { return values[(c * height + y) * width + x]; }
};

Planes empty(int channels, int height, int width) {
  return {channels, height, width,
          std::vector<double>(static_cast<size_t>(channels * height * width))};
}

Planes resized_box(const Planes& image, const AugmentDraw& d) {
  Planes result = empty(image.channels, image.height, image.width);
  for (int c = 0; c < image.channels; ++c) {
    for (int y = 0; y < image.height; ++y) {
      for (int x = 0; x < image.width; ++x) {
        const double v =
            std::clamp((y + 0.5) * d.box_height / image.height - 0.5, 0.0, d.box_height - 1.0);
        const double u =
            std::clamp((x + 0.5) * d.box_width / image.width - 0.5, 0.0, d.box_width - 1.0);
        const int top = static_cast<int>(v), left = static_cast<int>(u);
        const int bottom = std::min(top + 1, d.box_height - 1);
        const int right = std::min(left + 1, d.box_width - 1);
        const auto pixel = [&](int row, int column) {
          return image.at(c, d.box_top + row, d.box_left + column);
        };
        const double fy = v - top, fx = u - left;
        result.at(c, y, x) = (1 - fy) * ((1 - fx) * pixel(top, left) + fx * pixel(top, right)) +
                             fy * ((1 - fx) * pixel(bottom, left) + fx * pixel(bottom, right));
      }
    }
  }
  return result;
}

Planes padded(const Planes& image, int by, Augment::Padding padding) {
  Planes result = empty(image.channels, image.height + 2 * by, image.width + 2 * by);
  for (int c = 0; c < image.channels; ++c) {
    for (int y = 0; y < result.height; ++y) {
      for (int x = 0; x < result.width; ++x) {
        int row = y - by, column = x - by;
        const bool inside = row >= 0 && row < image.height && column >= 0 && column < image.width;
        if (!inside && padding == Augment::Padding::kBlack) continue;
        if (padding == Augment::Padding::kReflect) {
          if (row < 0) row = -row;
          if (row >= image.height) row = 2 * (image.height - 1) - row;
          if (column < 0) column = -column;
          if (column >= image.width) column = 2 * (image.width - 1) - column;
        }
        result.at(c, y, x) = image.at(c, std::clamp(row, 0, image.height - 1),
                                      std::clamp(column, 0, image.width - 1));
      }
    }
  }
  return result;
}

Planes cropped(const Planes& image, int top, int left, int height, int width) {
  Planes result = empty(image.channels, height, width);
  for (int c = 0; c < image.channels; ++c) {
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x) result.at(c, y, x) = image.at(c, top + y, left + x);
    }
  }
  return result;
}

void flip(Planes& image) {
  for (int c = 0; c < image.channels; ++c) {
    for (int y = 0; y < image.height; ++y) {
      for (int x = 0; x < image.width / 2; ++x) {
        std::swap(image.at(c, y, x), image.at(c, y, image.width - 1 - x));
      }
    }
  }
}

double grey(const Planes& image, int y, int x) {
  return image.channels == 1
             ? image.at(0, y, x)
             : 0.299 * image.at(0, y, x) + 0.587 * image.at(1, y, x) + 0.114 * image.at(2, y, x);
}

void jitter(Planes& image, const AugmentDraw& d, double mean) {
  const auto blend = [](double from, double value, uint32_t factor) {
    return std::clamp(from + (value - from) * factor / 256.0, 0.0, 255.0);
  };
  for (double& value : image.values) {
    value = blend(blend(0, mean, d.brightness), blend(0, value, d.brightness), d.contrast);
  }
  if (image.channels == 1) return;
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) {
      const double from = grey(image, y, x);
      for (int c = 0; c < 3; ++c) image.at(c, y, x) = blend(from, image.at(c, y, x), d.saturation);
    }
  }
}

// What a sample of `split` becomes: normalised, with the hole as zeros.
Planes expected(const Augment& a, const DatasetInfo& info, const Split& split, uint32_t sample,
                uint64_t epoch) {
  const int height = static_cast<int>(info.height), width = static_cast<int>(info.width);
  Planes image = empty(static_cast<int>(info.channels), height, width);
  for (size_t i = 0; i < image.values.size(); ++i) {
    image.values[i] = split.images[sample * image.values.size() + i];
  }
  double mean = 0;
  for (int i = 0; i < height * width; ++i) mean += grey(image, i / width, i % width);
  mean /= height * width;
  const AugmentDraw d = draw_augment(a, kSeed, epoch, sample, height, width);
  image = resized_box(image, d);
  const int pad = static_cast<int>(a.crop);
  image = cropped(padded(image, pad, a.padding), pad + d.down, pad + d.right, height, width);
  if (d.flipped) flip(image);
  jitter(image, d, mean);
  for (int c = 0; c < image.channels; ++c) {
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x) {
        const int size = static_cast<int>(a.cutout);
        const bool hole =
            y >= d.hole_top && y < d.hole_top + size && x >= d.hole_left && x < d.hole_left + size;
        double& value = image.at(c, y, x);
        value = hole ? 0.0 : (value / 255 - info.mean[c]) / info.stddev[c];
      }
    }
  }
  return image;
}

// The largest difference, in byte levels, of batches to what is expected.
double difference(const std::string& list, int64_t channels, Layout layout = Layout::kNCHW) {
  Context context(Device::kCpu);
  DatasetInfo info = make_info(channels, 12, 10);
  const Split split = make_split(info, 50);
  const Augment augment = augment_of(list, channels);
  const Batches batches(context, info, split,
                        {.batch = 8, .seed = kSeed, .shuffle = true, .augment = augment});
  std::vector<float> x(8 * channels * 120);
  std::vector<int32_t> labels(8);
  double worst = 0;
  for (const uint64_t step : {uint64_t{0}, uint64_t{4}, uint64_t{6}, (uint64_t{1} << 34) + 1}) {
    batches.gather(context, &step,
                   {{"images", {{{8, channels, 12, 10}, DType::kFloat32, layout}, x.data()}},
                    {"labels", {{{8}, DType::kInt32}, labels.data()}}});
    for (uint32_t row = 0; row < 8; ++row) {
      const uint64_t epoch = step / 6;
      const uint32_t sample = shuffled(static_cast<uint32_t>(step % 6) * 8 + row, 50, kSeed, epoch);
      EXPECT_EQ(labels[row], static_cast<int32_t>(sample));
      const Planes image = expected(augment, info, split, sample, epoch);
      for (int c = 0; c < image.channels; ++c) {
        for (int i = 0; i < 120; ++i) {
          const size_t at = layout == Layout::kNCHW ? (row * channels + c) * 120 + i
                                                    : (row * 120 + i) * channels + c;
          const double off = std::fabs(x[at] - image.values[c * 120 + i]);
          worst = std::max(worst, off * 255 * info.stddev[c]);
        }
      }
    }
  }
  return worst;
}

TEST(Augment, MovesPixelsAsPlainLoops) {
  for (const Layout layout : {Layout::kNCHW, Layout::kNHWC}) {
    for (const int64_t channels : {1, 3}) {
      for (const char* list :
           {"[{type: random_crop, padding: 4}]",
            "[{type: random_crop, padding: 3, padding_mode: reflect}]",
            "[{type: random_crop, padding: 10, padding_mode: edge}]", "[{type: horizontal_flip}]",
            "[{type: horizontal_flip, alternate: true}]", "[{type: cutout, size: 5}]",
            "[{type: cutout, size: 4}, {type: horizontal_flip, p: 0.3}, "
            "{type: random_crop, padding: 2}]"}) {
        EXPECT_LT(difference(list, channels, layout), 1e-3) << list;
      }
    }
  }
}

TEST(Augment, ResizesAndColoursAsPlainLoops) {
  for (const int64_t channels : {1, 3}) {
    // Places are rounded to 1/256 pixel; neighbours differ by up to 255 levels either way.
    EXPECT_LT(difference("[{type: random_resized_crop}]", channels), 2.5);
    EXPECT_LT(difference("[{type: colour_jitter, brightness: 0.4, contrast: 0.4, "
                         "saturation: 0.4}]",
                         channels),
              0.02);
    EXPECT_LT(difference("[{type: colour_jitter, brightness: 1, contrast: 1, saturation: 1}, "
                         "{type: random_resized_crop, scale: [0.3, 0.9], ratio: [0.5, 2]}, "
                         "{type: random_crop, padding: 2}, {type: horizontal_flip}, "
                         "{type: cutout, size: 4}]",
                         channels),
              10.0);
  }
}

TEST(Augment, AnImageDoesNotDependOnItsBatch) {
  Context context(Device::kCpu);
  const DatasetInfo info = make_info(1, 12, 10);
  const Split split = make_split(info, 48);
  const Augment augment = augment_of("[{type: random_crop, padding: 4}]", 1);
  const auto images = [&](int64_t batch) {
    const Batches batches(context, info, split,
                          {.batch = batch, .seed = 3, .shuffle = true, .augment = augment});
    std::map<int32_t, std::vector<float>> by_sample;
    for (uint64_t step = 0; step < 48 / static_cast<uint64_t>(batch); ++step) {
      std::vector<float> x(batch * 120);
      std::vector<int32_t> labels(batch);
      batches.gather(context, &step,
                     {{"images", {{{batch, 1, 12, 10}}, x.data()}},
                      {"labels", {{{batch}, DType::kInt32}, labels.data()}}});
      for (int64_t row = 0; row < batch; ++row) {
        by_sample[labels[row]] = {x.begin() + row * 120, x.begin() + (row + 1) * 120};
      }
    }
    return by_sample;
  };
  EXPECT_EQ(images(4), images(16));
}

TEST(Augment, DrawsAreSpreadEvenly) {
  const Augment a = augment_of(
      "[{type: random_crop, padding: 2}, {type: horizontal_flip, p: 0.25}, "
      "{type: cutout, size: 3}, {type: random_resized_crop, scale: [0.2, 0.9], ratio: [0.5, 2]}, "
      "{type: colour_jitter, brightness: 0.5, saturation: 0.25}]",
      3, 64, 64);
  constexpr int kDraws = 20000;
  std::map<int, int> down, hole;
  int flips = 0, brighter = 0;
  double area = 0;
  for (uint32_t n = 0; n < kDraws; ++n) {
    const AugmentDraw d = draw_augment(a, 5, n % 7, n, 64, 64);
    ++down[d.down];
    ++hole[d.hole_top];
    flips += d.flipped;
    brighter += d.brightness > 256;
    EXPECT_TRUE(d.brightness >= 128 && d.brightness <= 384 && d.contrast == 256);
    EXPECT_TRUE(d.saturation >= 192 && d.saturation <= 320);
    const double share = d.box_height * d.box_width / 4096.0;
    area += share / kDraws;
    EXPECT_TRUE(share > 0.18 && share < 0.92) << share;
    const double ratio = static_cast<double>(d.box_width) / d.box_height;
    EXPECT_TRUE(ratio > 0.47 && ratio < 2.1) << ratio;
    EXPECT_TRUE(d.box_top >= 0 && d.box_top + d.box_height <= 64);
    EXPECT_TRUE(d.box_left >= 0 && d.box_left + d.box_width <= 64);
  }
  ASSERT_EQ(down.size(), 5u);
  EXPECT_EQ(down.begin()->first, -2);
  for (const auto& [place, count] : down) EXPECT_NEAR(count, kDraws / 5, 300) << place;
  EXPECT_EQ(hole.size(), 64u);
  EXPECT_EQ(hole.begin()->first, -1);
  EXPECT_NEAR(flips, kDraws / 4, 300);
  EXPECT_NEAR(brighter, kDraws / 2, 300);
  EXPECT_NEAR(area, 0.5, 0.06);  // less than 0.55, as large narrow boxes do not fit
}

TEST(Augment, AlternateFlipsEveryOtherEpoch) {
  const Augment a = augment_of("[{type: horizontal_flip, alternate: true}]");
  int first = 0;
  for (uint32_t sample = 0; sample < 1000; ++sample) {
    const auto flipped = [&](uint64_t epoch) {
      return draw_augment(a, 5, epoch, sample, 12, 10).flipped;
    };
    first += flipped(0);
    for (uint64_t epoch = 0; epoch < 5; ++epoch) EXPECT_NE(flipped(epoch), flipped(epoch + 1));
  }
  EXPECT_NEAR(first, 500, 80);
}

TEST(Augment, ExponentialIsThatOfTheLibrary) {
  for (double x = -3.9; x < 3.9; x += 0.1) {
    EXPECT_NEAR(exp_series(x) / std::exp(x), 1.0, 1e-13);
  }
}

// Held to the same batches without mixup.
TEST(Augment, MixupIsOfEachImageAndTheOneBeforeIt) {
  Context context(Device::kCpu);
  const DatasetInfo info = make_info(3, 12, 10);
  const Split split = make_split(info, 50);
  Augment augment = augment_of("[{type: random_crop, padding: 2}, {type: cutout, size: 5}]");
  constexpr int64_t kBatch = 8, kSize = 360;
  const auto gather = [&](uint64_t step, bool mix) {
    augment.mixup = mix ? 0.4 : 0.0;
    const Batches batches(context, info, split,
                          {.batch = kBatch, .seed = kSeed, .shuffle = true, .augment = augment});
    std::pair<std::vector<float>, std::vector<int32_t>> batch(kBatch * kSize, kBatch * kMixedWords);
    batches.gather(context, &step,
                   {{"images", {{{kBatch, 3, 12, 10}}, batch.first.data()}},
                    {"labels", {mixed_labels_desc(kBatch), batch.second.data()}}});
    return batch;
  };
  std::map<int32_t, int> shares;
  for (uint64_t step = 0; step < 40; ++step) {
    const auto [x, labels] = gather(step, false);
    const auto [mixed, mixed_labels] = gather(step, true);
    const int32_t drawn = mixed_labels[2];
    ++shares[drawn];
    const float share = static_cast<float>(drawn) / 65536.0f;
    for (size_t row = 0; row < kBatch; ++row) {
      const size_t before = (row + kBatch - 1) % kBatch;
      EXPECT_EQ(labels[3 * row + 1], labels[3 * row]);
      EXPECT_EQ(labels[3 * row + 2], kWholeShare);
      EXPECT_EQ(mixed_labels[3 * row], labels[3 * row]);
      EXPECT_EQ(mixed_labels[3 * row + 2], drawn);
      if (drawn != kWholeShare) {
        EXPECT_EQ(mixed_labels[3 * row + 1], labels[3 * before]);
      }
      for (size_t i = 0; i < kSize; ++i) {
        const float own = x[row * kSize + i], other = x[before * kSize + i];
        ASSERT_NEAR(mixed[row * kSize + i], share * own + (1 - share) * other, 1e-5) << step;
      }
    }
  }
  EXPECT_GT(shares.size(), 30u);  // one a step
}

TEST(Augment, MixedLabelsAreAKindOfFieldThatOnlyATrainingWithMixupHas) {
  DatasetInfo info = make_info(3, 12, 10);
  const auto labels_of = [&](bool training) { return fields_of(info, 8, training).at(1); };
  for (const bool training : {false, true}) {
    EXPECT_EQ(labels_of(training).kind, FieldKind::kClasses);
    EXPECT_EQ(labels_of(training).desc, labels_desc(8));
  }
  info.augment = augment_of("[{type: mixup}]");
  EXPECT_EQ(labels_of(false).kind, FieldKind::kClasses);
  const BatchField mixed = labels_of(true);
  EXPECT_EQ(mixed.name, kLabelsField);
  EXPECT_EQ(text_of(mixed), "labels (mixed classes)");
  EXPECT_EQ(mixed.desc, mixed_labels_desc(8));
  EXPECT_EQ(mixed.classes, 10);
}

TEST(Augment, MixupSharesAreThoseOfTheBetaDistribution) {
  for (const double alpha : {0.01, 0.2, 1.0, 3.0, 100.0}) {
    const std::vector<uint32_t> shares = mixup_shares(alpha);
    ASSERT_EQ(shares.size(), 4096u);
    EXPECT_TRUE(std::is_sorted(shares.begin(), shares.end())) << alpha;
    double mean = 0, variance = 0;
    for (const uint32_t share : shares) {
      EXPECT_LE(share, 65536u);
      const double x = share / 65536.0;
      mean += x / 4096;
      variance += (x - 0.5) * (x - 0.5) / 4096;
    }
    EXPECT_NEAR(mean, 0.5, 1e-4) << alpha;
    EXPECT_NEAR(variance, 1 / (8 * alpha + 4), 1e-4) << alpha;
  }
  const std::vector<uint32_t> uniform = mixup_shares(1.0), parabolic = mixup_shares(2.0);
  for (size_t i = 0; i < 4096; i += 100) {
    const double u = (static_cast<double>(i) + 0.5) / 4096, x = parabolic[i] / 65536.0;
    EXPECT_NEAR(uniform[i] / 65536.0, u, 2e-4);
    EXPECT_NEAR(x * x * (3 - 2 * x), u, 2e-4);
  }
}

// For small alpha nearly all of the distribution is where x * (1 - x) is too small for a double.
TEST(Augment, MixupSharesOfASmallAlphaAreNearlyAllWholes) {
  for (const double alpha : {0.0005, 0.001, 0.002, 0.01}) {
    const std::vector<uint32_t> shares = mixup_shares(alpha);
    const auto between = std::count_if(shares.begin(), shares.end(), [](uint32_t share) {
      return share != 0 && share != kWholeShare;
    });
    // P(x < 2^-17) is 2^(-17 alpha) / (alpha B(alpha, alpha)) but for parts in 2^17.
    const double beta = std::exp(2 * std::lgamma(alpha) - std::lgamma(2 * alpha));
    const double rounded = 2 * std::pow(2.0, -17 * alpha) / (alpha * beta);
    EXPECT_NEAR(static_cast<double>(between), 4096 * (1 - rounded), 1.0) << alpha;
  }
}

TEST(Augment, KeysThatDoNotFitAreNamed) {
  const auto error = [](const std::string& list, int64_t channels = 3) {
    return error_of<ConfigError>([&] { augment_of(list, channels); });
  };
  EXPECT_FALSE(augment_of("[]").any());
  EXPECT_TRUE(has(error("{type: cutout}"), "data: augment: expected a list"));
  EXPECT_TRUE(has(error("[{type: rotate}]"), "data.augment[0]: type: unknown value 'rotate'"));
  EXPECT_TRUE(has(error("[{size: 3}]"), "data.augment[0]: required key 'type' is missing"));
  EXPECT_TRUE(has(error("[cutout]"), "data.augment[0]: expected a map"));
  EXPECT_TRUE(has(error("[{type: cutout, size: 3}, {type: cutout, size: 2}]"),
                  "data.augment[1]: type: 'cutout' is there twice"));
  EXPECT_TRUE(has(error("[{type: random_crop, padding: 10, padding_mode: reflect}]"),
                  "padding: images of 10x12 can be padded by at most 9 pixels"));
  EXPECT_TRUE(has(error("[{type: random_crop}]"), "required key 'padding' is missing"));
  EXPECT_TRUE(has(error("[{type: horizontal_flip, p: 1.5}]"), "p: expected a number"));
  EXPECT_TRUE(
      has(error("[{type: horizontal_flip, p: 0.5, alternate: true}]"), "'p'", "every other"));
  EXPECT_TRUE(has(error("[{type: random_resized_crop, scale: [0.5, 1.5]}]"),
                  "scale: expected [least, most], above 0 and at most 1"));
  EXPECT_TRUE(has(error("[{type: random_resized_crop, ratio: [2, 1]}]"), "ratio: expected"));
  EXPECT_TRUE(has(error("[{type: colour_jitter, hue: 0.1}]"), "unknown key 'hue'"));
  EXPECT_TRUE(has(error("[{type: colour_jitter}]", 2), "images with 1 or 3 channels, not 2"));
  EXPECT_TRUE(has(error("[{type: mixup, alpha: 0}]"), "alpha: expected a number"));
  EXPECT_TRUE(has(error("[{type: mixup, alpha: 0.009}]"), "alpha: expected a number", "0.01"));
  EXPECT_TRUE(has(error("[{type: mixup, alpha: nan}]"), "alpha: expected a"));
  EXPECT_EQ(augment_of("[{type: mixup}]").mixup, 0.2);
}

}  // namespace
}  // namespace duet
