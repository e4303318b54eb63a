// image_pairs: targets are patches of pictures, images are the same patches of the pictures degraded; and how
// batches of them are gathered.
#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "data/batch/batches.h"
#include "data/format/image_file.h"
#include "data/format/resample.h"
#include "data/set/degrade.h"
#include "support/load_data.h"
#include "support/temporary_folder.h"
#include "support/text.h"

namespace duet {
namespace {

// A picture whose bytes tell apart every pixel of every channel.
Image picture(int64_t height, int64_t width, int seed) {
  Image image{height, width, 3, {}};
  for (int64_t i = 0; i < height * width * 3; ++i) {
    image.pixels.push_back(static_cast<uint8_t>((i * 37 + i * i % 101 + seed * 53) % 256));
  }
  return image;
}

class ImagePairs : public testing::Test {
 protected:
  void write(const std::string& name, const Image& image) const {
    folder_.write(name, png_of(image));
  }
  Dataset load(const std::string& keys) const {
    return load_data("{dataset: image_pairs, " + keys + "}", folder_.path());
  }
  std::string error(const std::string& keys) const {
    return error_of([&] { load(keys); });
  }

  const TemporaryFolder folder_;
};

constexpr const char* kThirds = "patch: 4, degrade: {type: bicubic, scale: 3}, validation: val";

// Pixel (y, x) of channel c of sample n.
uint8_t byte_at(const std::vector<uint8_t>& images, int64_t n, int64_t side, int64_t c, int64_t y,
                int64_t x, int64_t channels = 3) {
  return images[static_cast<size_t>(((n * channels + c) * side + y) * side + x)];
}

TEST_F(ImagePairs, PatchesLieOverEachOther) {
  const Image whole = picture(26, 40, 1);  // 2 rows and 1 column more than multiples of 3
  write("train/b.png", whole);
  write("train/a.png", picture(12, 12, 2));
  write("val/deep/c.png", picture(13, 12, 3));
  folder_.write("train/notes.txt", "not a picture");
  const Dataset data = load(std::string(kThirds) + ", stride: 2");
  EXPECT_EQ(data.classes, 0);
  EXPECT_EQ(data.target.height, 12);
  // a.png has one patch; b.png 3 x 5: an image of 8 x 13.
  ASSERT_EQ(data.train.count, 1 + 3 * 5);
  ASSERT_EQ(data.validation.count, 1);
  ASSERT_TRUE(data.train.targets);
  EXPECT_EQ(data.train.targets->count, data.train.count);
  Image target{24, 39, 3, {}};
  for (int64_t y = 0; y < 24; ++y) {
    const auto row = whole.pixels.begin() + y * 40 * 3;
    target.pixels.insert(target.pixels.end(), row, row + 39 * 3);
  }
  const Image image = resample(target, 8, 13, ResampleFilter::kBicubic);
  for (int64_t n = 0; n < 15; ++n) {
    const int64_t top = n / 5 * 2, left = n % 5 * 2;
    for (int64_t c = 0; c < 3; ++c) {
      for (int64_t i = 0; i < 4 * 4; ++i) {
        ASSERT_EQ(byte_at(data.train.images, n + 1, 4, c, i / 4, i % 4),
                  image.pixels[static_cast<size_t>(((top + i / 4) * 13 + left + i % 4) * 3 + c)]);
      }
      for (int64_t i = 0; i < 12 * 12; ++i) {
        ASSERT_EQ(byte_at(data.train.targets->images, n + 1, 12, c, i / 12, i % 12),
                  whole.pixels[static_cast<size_t>(
                      ((3 * top + i / 12) * 40 + 3 * left + i % 12) * 3 + c)]);
      }
    }
  }
}

TEST_F(ImagePairs, LuminanceIsOneChannel) {
  write("train/a.png", picture(12, 12, 2));
  write("val/a.png", picture(12, 12, 2));
  const Dataset data = load(std::string(kThirds) + ", channels: 1");
  EXPECT_EQ(data.train.images.size(), 16u);
  const Image grey = to_grey(picture(12, 12, 2));
  EXPECT_EQ(data.train.targets->images, grey.pixels);
}

TEST_F(ImagePairs, NoiseIsTheSameEveryTimeAndItsOwnInEachPicture) {
  const Image flat{40, 40, 3, std::vector<uint8_t>(40 * 40 * 3, 100)};
  write("train/a.png", flat);
  write("train/b.png", flat);
  write("val/a.png", flat);
  const std::string keys = "patch: 40, degrade: {type: noise, sigma: 10}, validation: val";
  const Dataset data = load(keys), again = load(keys);
  EXPECT_EQ(data.train.images, again.train.images);
  EXPECT_NE(
      load("patch: 40, degrade: {type: noise, sigma: 10, seed: 2}, validation: val").train.images,
      data.train.images);
  EXPECT_EQ(data.train.targets->images, std::vector<uint8_t>(2 * 4800, 100));
  const auto first = data.train.images.begin();
  EXPECT_NE(std::vector<uint8_t>(first, first + 4800),
            std::vector<uint8_t>(first + 4800, first + 9600));
  EXPECT_NE(std::vector<uint8_t>(first, first + 4800), data.validation.images);
  double sum = 0, squares = 0;
  for (const uint8_t byte : data.train.images) {
    sum += byte - 100.0;
    squares += (byte - 100.0) * (byte - 100.0);
  }
  // Of 9,600 numbers; and rounding adds 1/12 to the variance.
  EXPECT_NEAR(sum / 9600, 0.0, 0.5);
  EXPECT_NEAR(std::sqrt(squares / 9600), std::sqrt(100 + 1 / 12.0), 0.4);
}

TEST_F(ImagePairs, WhatDoesNotFitIsNamed) {
  write("train/a.png", picture(12, 12, 2));
  write("train/small.png", picture(30, 11, 2));
  folder_.write("train/broken.png", "no picture");
  write("val/a.png", picture(12, 12, 2));
  EXPECT_TRUE(has(error(kThirds), "2 of 3 pictures cannot be used", "broken.png",
                  "small.png: is 11x30 pixels (width x height), smaller than a patch of 12x12",
                  "on_error: skip"));
  const Dataset data = load(std::string(kThirds) + ", on_error: skip");
  EXPECT_EQ(data.train.count, 1);
  EXPECT_EQ(data.left_out.count, 2);
  EXPECT_TRUE(has(error("patch: 4"), "data: degrade", "{type: bicubic, scale: 3}"));
  EXPECT_TRUE(has(error("patch: 4, degrade: {type: bicubik, scale: 3}"), "did you mean 'bicubic'"));
  EXPECT_TRUE(has(error("patch: 4, degrade: {type: bicubic, scale: 1}"), "scale", "from 2 to 16"));
  EXPECT_TRUE(has(error("patch: 4, degrade: {type: noise, sigma: 0}"), "sigma"));
  EXPECT_TRUE(
      has(error("patch: 4, degrade: {type: noise, scale: 2, sigma: 3}"), "unknown key 'scale'"));
  EXPECT_TRUE(has(error(std::string(kThirds) + ", channels: 2"), "channels"));
  EXPECT_TRUE(has(error(std::string(kThirds) + ", augment: [{type: random_crop, padding: 1}]"),
                  "pairs of images can only be flipped"));
}

TEST_F(ImagePairs, TrainingImagesAreHeldOut) {
  for (int i = 0; i < 10; ++i) {
    write("train/" + std::to_string(i) + ".png", picture(12, 12, i));
  }
  const Dataset data =
      load("patch: 4, degrade: {type: bicubic, scale: 3}, validation_split: {count: 3}");
  EXPECT_EQ(data.train.count, 7);
  ASSERT_EQ(data.validation.count, 3);
  ASSERT_EQ(data.validation.targets->count, 3);
  for (int64_t n = 0; n < 3; ++n) {  // whose targets went with them
    Image target{12, 12, 3, {}};
    for (int64_t i = 0; i < 12 * 12 * 3; ++i) {
      target.pixels.push_back(
          byte_at(data.validation.targets->images, n, 12, i % 3, i / 36, i / 3 % 12));
    }
    const Image image = resample(target, 4, 4, ResampleFilter::kBicubic);
    for (int64_t i = 0; i < 16 * 3; ++i) {
      ASSERT_EQ(image.pixels[static_cast<size_t>(i)],
                byte_at(data.validation.images, n, 4, i % 3, i / 12, i / 3 % 4));
    }
  }
}

TEST_F(ImagePairs, AreMeasuredByTheirImages) {
  const Image flat{12, 12, 3, std::vector<uint8_t>(432, 100)};
  write("train/a.png", flat);
  write("val/a.png", picture(12, 12, 3));
  const Dataset data = load(kThirds);
  // Of equal images; and against values by hand.
  EXPECT_TRUE(std::isinf(psnr_of_images(data, data.train, 0)));
  const Image target = picture(12, 12, 3);
  const Image large =
      resample(resample(target, 4, 4, ResampleFilter::kBicubic), 12, 12, ResampleFilter::kBicubic);
  for (const int64_t border : {0, 3}) {
    double squares = 0, count = 0;
    for (int64_t y = border; y < 12 - border; ++y) {
      for (int64_t i = border * 3; i < (12 - border) * 3; ++i, ++count) {
        const double d = large.pixels[static_cast<size_t>(y * 36 + i)] -
                         static_cast<double>(target.pixels[static_cast<size_t>(y * 36 + i)]);
        squares += d * d;
      }
    }
    EXPECT_NEAR(psnr_of_images(data, data.validation, border),
                10 * std::log10(255 * 255 * count / squares), 1e-9);
  }
}

struct PairBatch {
  std::vector<float> images, targets;
  std::vector<int32_t> rows;
};

PairBatch gather(const Batches& batches, Context& context, const DatasetInfo& info, uint64_t step) {
  const Shape x{batches.batch(), info.channels, info.height, info.width};
  const Shape t{batches.batch(), info.target.channels, info.target.height, info.target.width};
  PairBatch batch{std::vector<float>(static_cast<size_t>(x.elements()), NAN),
                  std::vector<float>(static_cast<size_t>(t.elements()), NAN),
                  std::vector<int32_t>(static_cast<size_t>(batches.batch()), -7)};
  batches.gather(context, &step,
                 {{"images", {{x}, batch.images.data()}},
                  {"rows", {rows_desc(batches.batch()), batch.rows.data()}},
                  {"targets", {{t}, batch.targets.data()}}});
  return batch;
}

TEST_F(ImagePairs, TargetsFollowTheirImages) {
  for (int i = 0; i < 6; ++i) write("train/" + std::to_string(i) + ".png", picture(12, 12, i));
  write("val/a.png", picture(12, 12, 7));
  const Dataset data = load(std::string(kThirds) + ", augment: [{type: horizontal_flip, p: 0.5}]");
  Context context(Device::kCpu);
  const BatchOptions options{.batch = 4, .seed = 3, .shuffle = true, .augment = data.augment};
  const Batches resident(context, data, data.train, options);
  BatchOptions streaming = options;
  streaming.stream = Stream::kMemory;
  const Batches streamed(context, data, data.train, streaming);
  int flipped = 0, kept = 0;
  for (uint64_t step = 0; step < 12; ++step) {
    const PairBatch batch = gather(resident, context, data, step);
    EXPECT_EQ(batch.rows, std::vector<int32_t>(4, 0));
    ASSERT_TRUE(streamed.stage(step));
    const PairBatch same = gather(streamed, context, data, step);
    EXPECT_EQ(same.images, batch.images);
    EXPECT_EQ(same.targets, batch.targets);
    for (int64_t r = 0; r < 4; ++r) {
      // The sample that the row is, as it lies or flipped, by its image; its target must be that too.
      int found = 0;
      for (int64_t n = 0; n < 6; ++n) {
        for (const bool flip : {false, true}) {
          const auto is = [&](const std::vector<float>& values, const std::vector<uint8_t>& bytes,
                              int64_t side) {
            for (int64_t i = 0; i < 3 * side * side; ++i) {
              const int64_t x = flip ? side - 1 - i % side : i % side;
              const float byte = byte_at(bytes, n, side, i / (side * side), i / side % side, x);
              const float scale = static_cast<float>(1.0 / 255.0);
              if (values[static_cast<size_t>(r * 3 * side * side + i)] != byte * scale)
                return false;
            }
            return true;
          };
          if (!is(batch.images, data.train.images, 4)) continue;
          EXPECT_TRUE(is(batch.targets, data.train.targets->images, 12)) << step << " " << r;
          ++found;
          ++(flip ? flipped : kept);
        }
      }
      EXPECT_EQ(found, 1) << step << " " << r;
    }
  }
  EXPECT_GT(flipped, 10);
  EXPECT_GT(kept, 10);
}

TEST_F(ImagePairs, RowsPastTheEndDoNotCount) {
  for (int i = 0; i < 3; ++i) write("val/" + std::to_string(i) + ".png", picture(12, 12, i));
  write("train/a.png", picture(12, 12, 7));
  const Dataset data = load(kThirds);
  Context context(Device::kCpu);
  const Batches batches(context, data, data.validation, {.batch = 2});
  const PairBatch last = gather(batches, context, data, 1);
  EXPECT_EQ(last.rows, (std::vector<int32_t>{0, -1}));
  for (size_t i = last.targets.size() / 2; i < last.targets.size(); ++i) {
    ASSERT_EQ(last.targets[i], 0.0f);
  }
}

}  // namespace
}  // namespace duet
