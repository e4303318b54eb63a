// What data sets share: validation data held out, normalisation, IDX files of any shape; and
// generated points.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "core/error.h"
#include "data/set/fingerprint.h"
#include "data/set/validation_split.h"
#include "support/load_data.h"
#include "support/small_split.h"
#include "support/temporary_folder.h"
#include "support/text.h"

namespace duet {
namespace {

// 60 samples of class 0, 30 of 1 and 10 of 2; the images say which sample they are.
Dataset hundred() {
  Dataset data{make_info(1, 1, 1)};
  data.classes = 3;
  for (int i = 0; i < 100; ++i) {
    data.train.images.push_back(static_cast<uint8_t>(i));
    data.train.labels.push_back(i % 10 < 6 ? 0 : i % 10 < 9 ? 1 : 2);
  }
  data.train.count = 100;
  return data;
}

std::vector<int64_t> counts(const Split& split) {
  std::vector<int64_t> counts(3);
  for (const int32_t label : split.labels) ++counts[label];
  return counts;
}

TEST(ValidationSplit, TakesOfEachClassItsShare) {
  Dataset data = hundred();
  hold_out(data, {.fraction = 0.2});
  EXPECT_EQ(counts(data.validation), std::vector<int64_t>({12, 6, 2}));
  EXPECT_EQ(counts(data.train), std::vector<int64_t>({48, 24, 8}));
  EXPECT_TRUE(std::is_sorted(data.train.images.begin(), data.train.images.end()));
  std::set<uint8_t> all(data.train.images.begin(), data.train.images.end());
  all.insert(data.validation.images.begin(), data.validation.images.end());
  EXPECT_EQ(all.size(), 100u);
  // Left over go to the classes that lost most by rounding: 4.2, 2.1 and 0.7 of 7.
  Dataset seven = hundred();
  hold_out(seven, {.count = 7});
  EXPECT_EQ(counts(seven.validation), std::vector<int64_t>({4, 2, 1}));
}

TEST(ValidationSplit, FollowsFromTheSeed) {
  const auto held = [](uint64_t seed, bool stratified) {
    Dataset data = hundred();
    hold_out(data, {.count = 30, .seed = seed, .stratified = stratified});
    EXPECT_EQ(data.validation.count, 30);
    return data.validation.images;
  };
  for (const bool stratified : {false, true}) {
    EXPECT_EQ(held(1, stratified), held(1, stratified));
    EXPECT_NE(held(1, stratified), held(2, stratified));
  }
  EXPECT_NE(held(1, false), held(1, true));
}

TEST(ValidationSplit, LeavesSomethingOfBoth) {
  Dataset data = hundred();
  data.source = "pets";
  EXPECT_TRUE(has(error_of<DataError>([&] { hold_out(data, {.count = 100}); }),
                  "pets: holds 100 training samples", "would take 100 of them"));
  hold_out(data, {.fraction = 0.001});
  EXPECT_EQ(data.validation.count, 1);
}

std::string idx(std::initializer_list<uint8_t> dims, int bytes) {
  std::string text = {0, 0, 8, static_cast<char>(dims.size())};
  for (const uint8_t dim : dims) text += {0, 0, 0, static_cast<char>(dim)};
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(bytes > 20 ? 3 * i : i % 2);
  return text;
}

TEST(IdxData, TakesImagesOfAnyShape) {
  const TemporaryFolder folder;
  folder.write("x", idx({4, 3, 2, 5}, 120));
  folder.write("y", idx({4}, 4));
  folder.write("grey", idx({4, 6, 5}, 120));
  const std::string keys = "{dataset: idx, labels: y, classes: 2, validation_split: {count: 2}, ";
  const Dataset data = load_data(keys + "images: x, shape: [3, 2, 5]}", folder.path());
  EXPECT_EQ(data.channels * 100 + data.height * 10 + data.width, 325);
  EXPECT_EQ(data.train.count, 2);
  EXPECT_EQ(data.validation.images.size(), 60u);
  EXPECT_EQ(data.mean.size(), 3u);
  const Dataset grey = load_data(
      "{dataset: idx, images: grey, labels: y, validation_images: grey, "
      "validation_labels: y, classes: 2, shape: [6, 5]}",
      folder.path());
  EXPECT_EQ(grey.train.count, 4);
  EXPECT_EQ(grey.validation.count, 4);
  const auto error = [&](const std::string& more) {
    return error_of([&] { load_data(keys + more, folder.path()); });
  };
  EXPECT_TRUE(has(error("images: x, shape: [3, 5, 2]}"), "x: offset 8: expected images of 3x5x2",
                  "found 3x2x5"));
  EXPECT_TRUE(
      has(error("images: grey, shape: [3, 2, 5]}"), "grey: offset 3: expected 4 dimensions"));
  EXPECT_TRUE(has(error("images: x, shape: [5]}"), "shape: expected [height, width] or"));
  EXPECT_TRUE(has(error("images: x, shape: [2, 5], validation_images: x}"),
                  "'validation_labels' is missing", "there is no key 'validation_split'"));
  folder.write("y", idx({3}, 3));
  EXPECT_TRUE(has(error("images: x, shape: [3, 2, 5]}"), "y: offset 4: expected 4 labels"));
}

TEST(Normalisation, IsGivenOrThatOfTheTrainingData) {
  const TemporaryFolder folder;
  folder.write("x", idx({4, 6, 5}, 120));
  folder.write("y", idx({4}, 4));
  const std::string keys =
      "{dataset: idx, images: x, labels: y, validation_images: x, "
      "validation_labels: y, classes: 2, shape: [6, 5]";
  const Dataset computed = load_data(keys + "}", folder.path());
  double mean = 0, squares = 0;
  for (const uint8_t byte : computed.train.images) {
    mean += byte / 255.0 / 120;
    squares += byte / 255.0 * byte / 255.0 / 120;
  }
  EXPECT_NEAR(computed.mean[0], mean, 1e-12);
  EXPECT_NEAR(computed.stddev[0], std::sqrt(squares - mean * mean), 1e-12);
  const Dataset given = load_data(keys + ", mean: [0.25], stddev: 2}", folder.path());
  EXPECT_EQ(given.mean, std::vector<double>({0.25}));
  EXPECT_EQ(given.stddev, std::vector<double>({2}));
  const auto error = [&](const std::string& more) {
    return error_of<ConfigError>([&] { load_data(keys + more, folder.path()); });
  };
  EXPECT_TRUE(has(error(", mean: [1, 2], stddev: 1}"), "mean: expected 1 number, found 2"));
  EXPECT_TRUE(has(error(", mean: 1, stddev: 0}"), "stddev: the numbers must be positive"));
  EXPECT_TRUE(has(error(", stddev: 1}"), "stddev: give mean and stddev, or neither"));
}

TEST(SyntheticPoints, AreWhatTheyAreCalled) {
  const Dataset line = load_data("{dataset: synthetic_points, kind: separable}");
  for (int64_t i = 0; i < line.train.count; ++i) {
    const double x = line.train.numbers[2 * i], y = line.train.numbers[2 * i + 1];
    const double away = (x + 0.5 * y - 0.1) / std::sqrt(1.25);
    EXPECT_GE(line.train.labels[i] == 0 ? -away : away, 0.1 - 1e-4);
  }
  const Dataset xor_ = load_data("{dataset: synthetic_points, kind: xor}");
  for (int64_t i = 0; i < xor_.train.count; ++i) {
    const double product = xor_.train.numbers[2 * i] * xor_.train.numbers[2 * i + 1];
    EXPECT_EQ(product > 0 ? 0 : 1, xor_.train.labels[i]);
  }
  const Dataset arms = load_data(
      "{dataset: synthetic_points, kind: spirals, classes: 3, noise: 0, train_count: 30}");
  EXPECT_EQ(arms.classes, 3);
  EXPECT_EQ(arms.train.count, 30);
  for (int64_t i = 0; i < 30; ++i) {
    const double x = arms.train.numbers[2 * i], y = arms.train.numbers[2 * i + 1];
    const double t = (std::hypot(x, y) - 0.1) / 0.9;  // along its arm
    const double turns = std::atan2(y, x) / (2 * M_PI) - 1.5 * t - (i % 3) / 3.0;
    EXPECT_NEAR(turns, std::round(turns), 1e-3);
  }
  EXPECT_TRUE(has(error_of([] { load_data("{dataset: synthetic_points, kind: xor, classes: 2}"); }),
                  "'classes'", "xor has two classes"));
}

TEST(Stream, IsAChoiceThatFitsTheDataSet) {
  const auto error = [](const std::string& keys) {
    return error_of([&] { load_data("{" + keys + "}"); });
  };
  EXPECT_TRUE(has(error("dataset: synthetic_images, stream: files"),
                  "test:1:37: data: stream: 'files' is of data sets whose images are in files of "
                  "their own (detection, image_folder, tiny_imagenet); synthetic_images can be "
                  "streamed from 'memory'"));
  EXPECT_TRUE(has(error("dataset: synthetic_points, kind: xor, stream: true"),
                  "data: stream: unknown value 'true'; known: auto, never, memory, files"));
  EXPECT_EQ(load_data("{dataset: synthetic_points, kind: xor, stream: memory}").stream,
            Stream::kMemory);
  EXPECT_EQ(load_data("{dataset: synthetic_points, kind: xor, stream: never}").stream,
            Stream::kNever);
  EXPECT_EQ(load_data("{dataset: synthetic_points, kind: xor}").stream, Stream::kAuto);
}

// The numbers are part of the contract, as those of synthetic_images.
TEST(SyntheticPoints, AreTheSameEverywhere) {
  std::string prints;
  for (const char* kind : {"separable", "xor", "spirals"}) {
    prints +=
        fingerprint(load_data(std::string("{dataset: synthetic_points, kind: ") + kind + "}"));
    prints += " ";
  }
  EXPECT_EQ(prints, "a8e088a81fc99190 4258381f4a69f164 a3d3283d93273f8e ");
}

}  // namespace
}  // namespace duet
