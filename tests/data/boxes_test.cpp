// Boxes of a batch: they stay with the pixels of their images whatever augmentation does, are cut,
// dropped and counted; and streamed batches have the same.
#include "data/batch/boxes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "data/batch/batches.h"
#include "data/batch/order.h"
#include "support/read_augments.h"
#include "support/small_split.h"
#include "support/text.h"

namespace duet {
namespace {

constexpr int32_t kDrawnHeight = 20, kDrawnWidth = 26, kDrawnBoxes = 3;
constexpr int64_t kDrawnRows = 5;
constexpr uint64_t kDrawnSeed = 4;

Augment drawn_augment(const std::string& list) {
  return read_augments(list, 3, kDrawnHeight, kDrawnWidth);
}

DatasetInfo drawn_info() {
  DatasetInfo info{"drawn", kDrawnBoxes, kDrawnHeight, kDrawnWidth};
  info.mean.assign(kDrawnBoxes, 0.0);
  info.stddev.assign(kDrawnBoxes, 1.0);
  info.records = {
      {std::string(kBoxesField), FieldKind::kBoxes, {kDrawnBoxes, kBoxNumbers}, kDrawnBoxes}};
  return info;
}

// Black images of three channels, each with one white box, of that class, from whole pixel to whole
// pixel. The places of all are kept in `boxes`.
Split drawn_split(int64_t count, std::vector<Box>& boxes) {
  Split split{count, std::vector<uint8_t>(
                         static_cast<size_t>(count * kDrawnBoxes * kDrawnHeight * kDrawnWidth))};
  split.records.emplace_back();
  std::mt19937 random(7);
  const auto draw = [&](int32_t first, int32_t last) {
    return std::uniform_int_distribution<int32_t>(first, last)(random);
  };
  for (int64_t n = 0; n < count; ++n) {
    std::vector<Box> own;
    for (int32_t c = 0; c < kDrawnBoxes; ++c) {
      Box box{draw(0, kDrawnWidth - 3), draw(0, kDrawnHeight - 3), 0, 0, c};
      box.right = draw(box.left + 3, kDrawnWidth);
      box.bottom = draw(box.top + 3, kDrawnHeight);
      uint8_t* const channel =
          split.images.data() + (n * kDrawnBoxes + c) * kDrawnHeight * kDrawnWidth;
      for (int32_t y = box.top; y < box.bottom; ++y) {
        for (int32_t x = box.left; x < box.right; ++x) channel[y * kDrawnWidth + x] = 255;
      }
      for (int32_t* edge : {&box.left, &box.top, &box.right, &box.bottom}) *edge *= kBoxUnit;
      own.push_back(box);
    }
    add_record(own, kDrawnBoxes, split.records[0]);
    boxes.insert(boxes.end(), own.begin(), own.end());
  }
  return split;
}

// How far inside a box the middle of a pixel lies, in pixels of the image as it was; negative
// outside.
double depth_in(const float* box, double x, double y, double scale_x, double scale_y) {
  return std::min(std::min(x - box[0], box[2] - x) / scale_x,
                  std::min(y - box[1], box[3] - y) / scale_y);
}

struct Kept {
  int boxes = 0, dropped = 0, cut = 0;
};

// Compares pixels and boxes of many steps.
Kept compare_with_pixels(const std::string& list) {
  SCOPED_TRACE(list);
  const Augment augment = drawn_augment(list);
  const DatasetInfo info = drawn_info();
  std::vector<Box> all;
  const Split split = drawn_split(23, all);
  Context context(Device::kCpu);
  const Batches batches(
      context, info, split,
      {.batch = kDrawnRows, .seed = kDrawnSeed, .shuffle = true, .augment = augment});
  FieldBuffers batch(info, kDrawnRows, Device::kCpu, DType::kFloat32);
  Kept kept;
  for (uint64_t step = 0; step < 60; ++step) {
    batch.fill(0x77);
    batches.gather(context, &step, batch.tensors);
    for (int64_t row = 0; row < kDrawnRows; ++row) {
      const uint64_t epoch = step / 4, place = step % 4 * kDrawnRows + static_cast<uint64_t>(row);
      const uint32_t sample = shuffled(static_cast<uint32_t>(place), 23, kDrawnSeed, epoch);
      const AugmentDraw d =
          draw_augment(augment, kDrawnSeed, epoch, sample, kDrawnHeight, kDrawnWidth);
      const double scale_x = static_cast<double>(kDrawnWidth) / d.box_width;
      const double scale_y = static_cast<double>(kDrawnHeight) / d.box_height;
      const double blur = augment.resized_crop ? 0.55 : 0.0;  // of bilinear edges
      const auto count = batch.tensors["box_counts"].data<int32_t>()[row];
      const float* const boxes = batch.tensors["boxes"].data<float>() + row * kDrawnBoxes * 5;
      for (int32_t c = 0; c < kDrawnBoxes; ++c) {
        const float* box = nullptr;
        for (int i = 0; i < count; ++i) {
          if (boxes[5 * i + 4] == static_cast<float>(c)) box = boxes + 5 * i;
        }
        const Box& was = all[sample * kDrawnBoxes + static_cast<uint32_t>(c)];
        const double area = scale_x * scale_y * (was.right - was.left) / kBoxUnit *
                            (was.bottom - was.top) / kBoxUnit;
        int white = 0;
        for (int32_t y = 0; y < kDrawnHeight; ++y) {
          for (int32_t x = 0; x < kDrawnWidth; ++x) {
            const int32_t from_y = y + d.down,
                          from_x = (d.flipped ? kDrawnWidth - 1 - x : x) + d.right;
            const bool padded =
                from_y < 0 || from_y >= kDrawnHeight || from_x < 0 || from_x >= kDrawnWidth;
            if (padded && augment.padding != Augment::Padding::kBlack) continue;
            if (is_in_hole(augment, d, y, x)) continue;
            const float value =
                batch.tensors["images"]
                    .data<float>()[((row * kDrawnBoxes + c) * kDrawnHeight + y) * kDrawnWidth + x];
            white += value > 0.5f ? 1 : 0;
            if (!box) continue;
            const double depth = depth_in(box, x + 0.5, y + 0.5, scale_x, scale_y);
            if (std::fabs(depth) < blur) continue;
            EXPECT_EQ(value > 0.5f, depth > 0.0)
                << "step " << step << " row " << row << " class " << c << " at " << y << ", " << x;
            if (testing::Test::HasFailure()) return kept;
          }
        }
        ++(box ? kept.boxes : kept.dropped);
        if (box) {
          const double left = (box[2] - box[0]) * (box[3] - box[1]);
          EXPECT_GE(left, 0.0999 * area);
          kept.cut += left < 0.999 * area ? 1 : 0;
        } else if (!augment.resized_crop) {
          EXPECT_LT(10 * white, area);
        } else {  // the middles of pixels are a coarse measure of a narrow rest
          EXPECT_LT(white, 0.1 * area + kDrawnHeight + kDrawnWidth);
        }
      }
    }
  }
  return kept;
}

TEST(Boxes, StayWithTheirPixels) {
  const Kept still = compare_with_pixels("[{type: cutout, size: 6}]");
  EXPECT_EQ(still.dropped + still.cut, 0);
  const Kept flipped = compare_with_pixels("[{type: horizontal_flip}]");
  EXPECT_EQ(flipped.dropped + flipped.cut, 0);
  compare_with_pixels("[{type: horizontal_flip, alternate: true}]");
  for (const std::string mode : {"constant", "edge", "reflect"}) {
    const Kept moved = compare_with_pixels(
        "[{type: random_crop, padding: 12, padding_mode: " + mode + "}, {type: horizontal_flip}]");
    EXPECT_GT(moved.dropped, 10);
    EXPECT_GT(moved.cut, 100);
  }
  const Kept resized = compare_with_pixels("[{type: random_resized_crop, scale: [0.1, 1]}]");
  EXPECT_GT(resized.dropped, 10);
  EXPECT_GT(resized.cut, 100);
  compare_with_pixels(
      "[{type: random_resized_crop}, {type: random_crop, padding: 4}, {type: horizontal_flip}, "
      "{type: colour_jitter, brightness: 0.2, contrast: 0.2, saturation: 0.2}, "
      "{type: cutout, size: 5}]");
}

TEST(Boxes, FlippedTwiceAreWhatTheyWere) {
  const AugmentDraw flip = {0, 0, 31, 37, 0, 0, true, 256, 256, 256, 0, 0};
  DatasetInfo info = make_info(1, 31, 37);
  Split split = make_split(info, 9);
  add_boxes(info, split, 50);
  const std::vector<uint32_t>& words = split.records[0];
  int moved = 0;
  for (size_t i = 0; i + 4 < words.size(); i += 5) {
    const Box box = {static_cast<int32_t>(words[i]), static_cast<int32_t>(words[i + 1]),
                     static_cast<int32_t>(words[i + 2]), static_cast<int32_t>(words[i + 3]),
                     static_cast<int32_t>(words[i + 4])};
    Box other = box;
    ASSERT_EQ(move_box(flip, 31, 37, other), box.right > box.left);
    moved += other.left != box.left ? 1 : 0;
    if (box.label < 0) continue;
    ASSERT_TRUE(move_box(flip, 31, 37, other));
    EXPECT_EQ(std::tie(other.left, other.top, other.right, other.bottom, other.label),
              std::tie(box.left, box.top, box.right, box.bottom, box.label));
  }
  EXPECT_GT(moved, 50);
}

TEST(Boxes, AreDroppedWhereLessThanATenthIsLeft) {
  Box box;
  EXPECT_TRUE(cut_box({-90 * kBoxUnit, 0, 10 * kBoxUnit, 256}, 3, 40, 50, box));
  EXPECT_EQ(std::tie(box.left, box.right, box.label), std::make_tuple(0, 10 * kBoxUnit, 3));
  EXPECT_FALSE(cut_box({-90 * kBoxUnit - 1, 0, 10 * kBoxUnit, 256}, 3, 40, 50, box));
  EXPECT_TRUE(cut_box({-3 * kBoxUnit, -2 * kBoxUnit, kBoxUnit, 3 * kBoxUnit}, 0, 4, 4, box));
  EXPECT_FALSE(cut_box({5, 7, 5, 9}, 0, 4, 4, box)) << "it has no area";
  EXPECT_FALSE(cut_box({4 * kBoxUnit, 0, 9 * kBoxUnit, 9}, 0, 4, 4, box)) << "it lies beside";
}

TEST(Boxes, StreamedHaveTheBitsOfResidentOnes) {
  DatasetInfo info = make_info(3, 9, 7);
  Split split = make_split(info, 22);
  add_records(info, split);
  add_boxes(info, split, 6);
  Context context(Device::kCpu);
  for (const bool shuffle : {false, true}) {
    BatchOptions options{.batch = 4, .seed = 3, .shuffle = shuffle};
    if (shuffle) options.augment = drawn_augment("[{type: random_crop, padding: 3}]");
    const Batches resident(context, info, split, options);
    options.stream = Stream::kMemory;
    const Batches streamed(context, info, split, options);
    FieldBuffers found(info, 4, Device::kCpu, DType::kBFloat16);
    FieldBuffers same(info, 4, Device::kCpu, DType::kBFloat16);
    for (uint64_t step = 0; step < 11; ++step) {
      found.fill(0x77);
      same.fill(0x77);
      resident.gather(context, &step, found.tensors);
      ASSERT_TRUE(streamed.stage(step));
      streamed.gather(context, &step, same.tensors);
      for (const std::string& name : found.names) EXPECT_EQ(same.words(name), found.words(name));
    }
  }
}

TEST(Boxes, AreCountedAndPadded) {
  DatasetInfo info = make_info(1, 8, 8);
  Split split = make_split(info, 6);
  add_boxes(info, split, 4);
  Context context(Device::kCpu);
  const Batches batches(context, info, split, {.batch = 4, .stream = Stream::kMemory});
  FieldBuffers found(info, 4, Device::kCpu, DType::kFloat32);
  const float* const boxes = found.tensors["boxes"].data<float>();
  const int32_t* const counts = found.tensors["box_counts"].data<int32_t>();
  for (const uint64_t step : {uint64_t{0}, uint64_t{1}}) {
    found.fill(0x77);
    ASSERT_TRUE(batches.stage(step));
    batches.gather(context, &step, found.tensors);
    for (int row = 0; row < 4; ++row) {
      const int sample = static_cast<int>(step) * 4 + row;
      const int count = sample < 6 ? sample * 7 % 5 : -1;
      EXPECT_EQ(counts[row], count);
      for (int i = 0; i < 4; ++i) {
        const float* const box = boxes + (row * 4 + i) * 5;
        if (i < count) {
          const auto first = static_cast<size_t>(sample * 4 + i) * 5;
          for (size_t k = 0; k < 4; ++k) {
            EXPECT_EQ(box[k] * 256, static_cast<float>(split.records[0][first + k]));
          }
          EXPECT_EQ(box[4], static_cast<float>(split.records[0][first + 4]));
        } else {
          EXPECT_EQ(std::vector<float>(box, box + 5), std::vector<float>({0, 0, 0, 0, -1}));
        }
      }
    }
  }
  const uint64_t other = 4;  // whose place has the batch of step 0
  batches.gather(context, &other, found.tensors);
  EXPECT_EQ(counts[0], -1);
  for (int i = 0; i < 4 * 4 * 5; ++i) EXPECT_TRUE(std::isnan(boxes[i]));
  FieldTensors counts_alone = {{"images", found.tensors["images"]},
                               {"box_counts", found.tensors["box_counts"]}};
  const uint64_t step = 1;
  batches.gather(context, &step, counts_alone);
  EXPECT_EQ(counts[0], 3);
  counts_alone["boxes"] = found.tensors["boxes"];
  counts_alone["boxes"].desc.dtype = DType::kBFloat16;
  EXPECT_THROW(batches.gather(context, &step, counts_alone), std::logic_error);
}

}  // namespace
}  // namespace duet
