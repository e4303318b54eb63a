// Batches on the CPU: which sample each row gets, the values' bits, both layouts, the end of a
// split.
#include "data/batch/batches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "core/bfloat16.h"
#include "core/error.h"
#include "core/mixed_labels.h"
#include "data/batch/order.h"
#include "support/small_split.h"
#include "support/text.h"

namespace duet {
namespace {

struct Batch {
  std::vector<float> x;
  std::vector<int32_t> labels;
};

Batch gather(const Batches& batches, Context& context, const DatasetInfo& info, uint64_t step,
             Layout layout = Layout::kNCHW, bool mixed = false) {
  const Shape shape{batches.batch(), info.channels, info.height, info.width};
  const TensorDesc labels = (mixed ? mixed_labels_desc : labels_desc)(batches.batch());
  Batch batch{std::vector<float>(static_cast<size_t>(shape.elements()), NAN),
              std::vector<int32_t>(static_cast<size_t>(labels.elements()), -7)};
  batches.gather(context, &step,
                 {{"images", {{shape, DType::kFloat32, layout}, batch.x.data()}},
                  {"labels", {labels, batch.labels.data()}}});
  return batch;
}

TEST(Batches, NormaliseWithOneRounding) {
  Context context(Device::kCpu);
  const DatasetInfo info = make_info(3, 5, 4);
  const Split split = make_split(info, 20);
  const Batches batches(context, info, split, {.batch = 8});
  const Batch nchw = gather(batches, context, info, 1);
  const Batch nhwc = gather(batches, context, info, 1, Layout::kNHWC);
  for (int64_t r = 0; r < 8; ++r) {
    EXPECT_EQ(nchw.labels[r], 8 + r);
    for (int64_t c = 0; c < 3; ++c) {
      for (int64_t p = 0; p < 20; ++p) {
        const double byte = split.images[((8 + r) * 3 + c) * 20 + p];
        const float scale = static_cast<float>(1 / (255 * info.stddev[c]));
        const float shift = static_cast<float>(-info.mean[c] / info.stddev[c]);
        const float value = nchw.x[(r * 3 + c) * 20 + p];
        EXPECT_EQ(value, static_cast<float>(byte * double{scale} + double{shift}));
        EXPECT_NEAR(value, (byte / 255 - info.mean[c]) / info.stddev[c], 1e-5);
        EXPECT_EQ(value, nhwc.x[(r * 20 + p) * 3 + c]);
      }
    }
  }
}

TEST(Batches, InBfloat16AreRoundedOnceMore) {
  Context context(Device::kCpu);
  const DatasetInfo info = make_info(3, 5, 4);
  const Batches batches(context, info, make_split(info, 10), {.batch = 8});
  const uint64_t step = 1;
  for (const Layout layout : {Layout::kNCHW, Layout::kNHWC}) {
    const Batch wide = gather(batches, context, info, step, layout);
    std::vector<bfloat16> x(wide.x.size());
    std::vector<int32_t> labels(8);
    batches.gather(context, &step,
                   {{"images", {{{8, 3, 5, 4}, DType::kBFloat16, layout}, x.data()}},
                    {"labels", {{{8}, DType::kInt32}, labels.data()}}});
    EXPECT_EQ(labels, wide.labels);
    for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(x[i].bits, bfloat16(wide.x[i]).bits) << i;
  }
}

TEST(Batches, TrainingTakesFullBatchesInTheOrdersOfTheEpochs) {
  Context context(Device::kCpu);
  const DatasetInfo info = make_info(1, 2, 3);
  const Batches batches(context, info, make_split(info, 50),
                        {.batch = 8, .seed = 11, .shuffle = true});
  EXPECT_EQ(batches.per_epoch(), 6);
  for (uint64_t epoch : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 33}) {
    std::set<int32_t> seen;
    for (uint64_t b = 0; b < 6; ++b) {
      const Batch batch = gather(batches, context, info, epoch * 6 + b);
      for (int64_t r = 0; r < 8; ++r) {
        const uint32_t position = static_cast<uint32_t>(b * 8 + static_cast<uint64_t>(r));
        EXPECT_EQ(batch.labels[r], static_cast<int32_t>(shuffled(position, 50, 11, epoch)));
        seen.insert(batch.labels[r]);
      }
    }
    EXPECT_EQ(seen.size(), 48u);
  }
}

TEST(Batches, EvaluationEndsWithEmptyRows) {
  Context context(Device::kCpu);
  const DatasetInfo info = make_info(1, 2, 2);
  const Batches batches(context, info, make_split(info, 10), {.batch = 4});
  EXPECT_EQ(batches.per_epoch(), 3);
  const Batch last = gather(batches, context, info, 2);
  EXPECT_EQ(last.labels, std::vector<int32_t>({8, 9, -1, -1}));
  for (int i = 8; i < 16; ++i) EXPECT_EQ(last.x[i], 0.0f);
  EXPECT_EQ(gather(batches, context, info, 3).labels, std::vector<int32_t>({0, 1, 2, 3}));

  const Batches one(context, info, make_split(info, 3), {.batch = 5});
  EXPECT_EQ(one.per_epoch(), 1);
  EXPECT_EQ(gather(one, context, info, 0).labels, std::vector<int32_t>({0, 1, 2, -1, -1}));
}

// Everything that makes a batch: order, augmentation, contrast's mean, the blank rows at the end.
std::vector<BatchOptions> ways_to_batch() {
  Augment augment;
  augment.crop = 1;
  augment.flip = 32768;
  augment.contrast = 128;
  return {{.batch = 8},
          {.batch = 7, .seed = 3, .shuffle = true},
          {.batch = 64},
          {.batch = 6, .seed = 4, .shuffle = true, .augment = augment},
          {.batch = 6, .seed = 4, .shuffle = true, .augment = {.crop = 1, .mixup = 0.2}}};
}

TEST(Batches, StreamedTheyHaveTheBitsOfResidentOnes) {
  Context context(Device::kCpu);
  const DatasetInfo info = make_info(3, 5, 4);
  const Split split = make_split(info, 50);
  for (BatchOptions options : ways_to_batch()) {
    const Batches resident(context, info, split, options);
    options.stream = Stream::kMemory;
    const Batches streamed(context, info, split, options);
    EXPECT_TRUE(streamed.is_streamed());
    EXPECT_FALSE(resident.is_streamed());
    const auto epoch = static_cast<uint64_t>(streamed.per_epoch());
    std::vector<uint64_t> steps;
    for (uint64_t step = 0; step < 3 * epoch; ++step) steps.push_back(step);
    // As on resuming, back to where a loss was not finite, and a batch that is staged twice.
    for (const uint64_t step : {uint64_t{1} << 40, uint64_t{5}, uint64_t{5}, uint64_t{6},
                                uint64_t{4}, uint64_t{0}, uint64_t{8}}) {
      steps.push_back(step);
    }
    for (const uint64_t step : steps) {
      EXPECT_TRUE(streamed.stage(step));
      const bool mixed = options.augment.mixup > 0.0;
      const Batch expected = gather(resident, context, info, step, Layout::kNCHW, mixed);
      const Batch found = gather(streamed, context, info, step, Layout::kNCHW, mixed);
      ASSERT_EQ(found.labels, expected.labels) << step;
      ASSERT_EQ(found.x, expected.x) << step;
    }
  }
}

TEST(Batches, NumbersAreStreamedToo) {
  Context context(Device::kCpu);
  DatasetInfo info = make_info(3, 1, 1);
  info.numbers = true;
  Split split{40, {}, std::vector<int32_t>(40, 1), {}};
  for (int i = 0; i < 120; ++i) split.numbers.push_back(0.37f * static_cast<float>(i));
  const Batches resident(context, info, split, {.batch = 16});
  const Batches streamed(context, info, split, {.batch = 16, .stream = Stream::kMemory});
  for (const uint64_t step : {0, 1, 2, 3}) {
    streamed.stage(step);
    EXPECT_EQ(gather(streamed, context, info, step).x, gather(resident, context, info, step).x);
  }
}

// A network that is queued on after a loss that is not finite must not find other images.
TEST(Batches, AnotherBatchThanTheStagedOneIsNotANumber) {
  Context context(Device::kCpu);
  const DatasetInfo info = make_info(1, 2, 2);
  const Split split = make_split(info, 40);
  const Batches batches(context, info, split,
                        {.batch = 4, .shuffle = true, .stream = Stream::kMemory});
  for (uint64_t step = 0; step < 6; ++step) batches.stage(step);
  for (const float value : gather(batches, context, info, 1).x) EXPECT_TRUE(std::isnan(value));
  for (const float value : gather(batches, context, info, 5).x) EXPECT_TRUE(std::isfinite(value));
}

TEST(Batches, SamplesThatFitAreNotStreamedUnlessTheyAreToBe) {
  Context context(Device::kCpu);
  const DatasetInfo info = make_info(1, 2, 2);
  const Split split = make_split(info, 10);
  EXPECT_FALSE(Batches(context, info, split, {.batch = 4, .stream = Stream::kAuto}).is_streamed());
  const DatasetInfo large = make_info(1, 1 << 11, 1 << 11);
  Split files{1 << 20, {}, std::vector<int32_t>(1 << 20), {}};  // 4 TiB
  files.read = [](int64_t, uint8_t*) {};
  const Batches batches(context, large, files, {.batch = 1, .stream = Stream::kAuto});
  EXPECT_TRUE(batches.is_streamed());
  EXPECT_TRUE(has(batches.whereabouts(), "streamed from files by "));
}

TEST(Batches, OfFilesTheyMayAllLieOnTheDevice) {
  Context context(Device::kCpu);
  const DatasetInfo info = make_info(1, 3, 3);
  const Split split = make_split(info, 20);
  Split files{20, {}, split.labels, {}};
  files.read = [&](int64_t sample, uint8_t* to) {
    if (sample == 17) throw DataError("17.png");
    std::copy_n(split.images.begin() + 9 * sample, 9, to);
  };
  EXPECT_EQ(error_of([&] { Batches(context, info, files, {.batch = 4}); }), "17.png");
  const Batches streamed(context, info, files, {.batch = 4, .stream = Stream::kFiles});
  for (const uint64_t step : {0, 1, 2, 3}) EXPECT_TRUE(streamed.stage(step));
  EXPECT_EQ(error_of([&] { streamed.stage(4); }), "17.png");
  EXPECT_EQ(error_of([&] { streamed.stage(4); }), "17.png");
  EXPECT_TRUE(streamed.stage(2));
  Split whole{20, {}, split.labels, {}};
  whole.read = [&](int64_t sample, uint8_t* to) {
    std::copy_n(split.images.begin() + 9 * sample, 9, to);
  };
  const Batches resident(context, info, whole, {.batch = 20});
  EXPECT_EQ(gather(resident, context, info, 0).x,
            gather(Batches(context, info, split, {.batch = 20}), context, info, 0).x);
}

// The words of the record of a row, as float32 numbers or classes lie there.
std::vector<uint32_t> record_of_row(const FieldBuffers& fields, const std::string& name,
                                    size_t words, int64_t row) {
  const std::vector<uint32_t> all = fields.words(name);
  const auto first = all.begin() + row * static_cast<int64_t>(words);
  return {first, first + static_cast<int64_t>(words)};
}

TEST(Batches, RecordsGoWithTheirSamples) {
  Context context(Device::kCpu);
  DatasetInfo info = make_info(3, 5, 5);  // an image of 75 bytes: records do not follow it directly
  Split split = make_split(info, 50);
  add_records(info, split);
  for (const bool shuffle : {false, true}) {
    const BatchOptions options{.batch = 8, .seed = 11, .shuffle = shuffle};
    BatchOptions streaming = options;
    streaming.stream = Stream::kMemory;
    const Batches resident(context, info, split, options);
    const Batches streamed(context, info, split, streaming);
    FieldBuffers found(info, 8, Device::kCpu, DType::kFloat32);
    FieldBuffers same(info, 8, Device::kCpu, DType::kFloat32);
    for (const uint64_t step : {uint64_t{0}, uint64_t{5}, uint64_t{6}, uint64_t{23}}) {
      found.fill(0x77);
      same.fill(0x77);
      resident.gather(context, &step, found.tensors);
      ASSERT_TRUE(streamed.stage(step));
      streamed.gather(context, &step, same.tensors);
      for (const std::string& name : found.names) EXPECT_EQ(same.words(name), found.words(name));
      const std::vector<uint32_t> labels = found.words("labels"), rows = found.words("rows");
      for (int64_t r = 0; r < 8; ++r) {
        for (size_t i = 0; i < info.records.size(); ++i) {
          const RecordField& field = info.records[i];
          const auto words = static_cast<size_t>(field.shape.elements());
          const bool numbers = field.kind == FieldKind::kNumbers;
          std::vector<uint32_t> expected(words, numbers ? 0 : ~uint32_t{0});  // of rows that pad
          if (rows[r] == 0) {
            const auto first = split.records[i].begin() + static_cast<int64_t>(labels[r] * words);
            expected.assign(first, first + static_cast<int64_t>(words));
          }
          EXPECT_EQ(record_of_row(found, field.name, words, r), expected)
              << field.name << " step " << step << " row " << r;
        }
      }
      const bool pads = !shuffle && step == 6;  // samples 48 and 49, and six rows that pad
      EXPECT_EQ(std::count(rows.begin(), rows.end(), ~uint32_t{0}), pads ? 6 : 0) << step;
    }
    EXPECT_GT(resident.memory_bytes(), 50 * (75 + 4 * (3 + 150 + 20 + 1)));
    EXPECT_GT(streamed.memory_bytes(), 8 * (75 + 4 * (3 + 150 + 20 + 1)));
  }
}

TEST(Batches, NumbersOfRecordsAreRoundedToBfloat16) {
  Context context(Device::kCpu);
  DatasetInfo info = make_info(1, 2, 2);
  Split split = make_split(info, 20);
  add_records(info, split);
  const Batches batches(context, info, split, {.batch = 4});
  FieldBuffers wide(info, 4, Device::kCpu, DType::kFloat32);
  FieldBuffers narrow(info, 4, Device::kCpu, DType::kBFloat16);
  const uint64_t step = 3;
  batches.gather(context, &step, wide.tensors);
  batches.gather(context, &step, narrow.tensors);
  EXPECT_EQ(narrow.words("tokens"), wide.words("tokens"));
  for (int i = 0; i < 4 * 20; ++i) {
    EXPECT_EQ(narrow.tensors["numbers"].data<bfloat16>()[i].bits,
              bfloat16(wide.tensors["numbers"].data<float>()[i]).bits);
  }
}

TEST(Batches, RecordsOfABatchThatIsNotStagedSaySo) {
  Context context(Device::kCpu);
  DatasetInfo info = make_info(1, 2, 2);
  Split split = make_split(info, 40);
  add_records(info, split);
  const Batches batches(context, info, split,
                        {.batch = 4, .shuffle = true, .stream = Stream::kMemory});
  for (uint64_t step = 0; step < 6; ++step) batches.stage(step);
  FieldBuffers found(info, 4, Device::kCpu, DType::kFloat32);
  const uint64_t step = 1;
  batches.gather(context, &step, found.tensors);
  for (int i = 0; i < 12; ++i) EXPECT_TRUE(std::isnan(found.tensors["targets"].data<float>()[i]));
  for (const uint32_t word : found.words("tokens")) EXPECT_EQ(word, ~uint32_t{0});
}

// As what a network is to predict from.
TEST(Batches, SamplesNeedNoLabels) {
  Context context(Device::kCpu);
  DatasetInfo info = make_info(1, 2, 2);
  Split split = make_split(info, 6);
  split.labels.clear();
  info.classes = 0;
  const Batches batches(context, info, split, {.batch = 4});
  FieldBuffers found(info, 4, Device::kCpu, DType::kFloat32);
  EXPECT_EQ(found.names, (std::vector<std::string>{"images", "rows"}));
  const uint64_t step = 1;
  batches.gather(context, &step, found.tensors);
  EXPECT_EQ(found.words("rows"), (std::vector<uint32_t>{0, 0, ~uint32_t{0}, ~uint32_t{0}}));
  EXPECT_THROW(gather(batches, context, info, 0), std::logic_error) << "it asks for labels";
}

TEST(Batches, RefuseRecordsThatDoNotFit) {
  Context context(Device::kCpu);
  DatasetInfo info = make_info(1, 2, 2);
  Split split = make_split(info, 10);
  add_records(info, split);
  const auto batches = [&](const Augment& augment = {}) {
    return Batches(context, info, split, {.batch = 4, .augment = augment});
  };
  FieldBuffers fields(info, 4, Device::kCpu, DType::kFloat32);
  const uint64_t step = 0;
  const Batches right = batches({.flip = 65536});
  FieldTensors wrong = fields.tensors;
  wrong["numbers"].desc.shape = {4, 5, 4};
  EXPECT_THROW(right.gather(context, &step, wrong), std::logic_error);
  wrong = fields.tensors;
  wrong["tokens"].desc.dtype = DType::kFloat32;
  EXPECT_THROW(right.gather(context, &step, wrong), std::logic_error);
  wrong = fields.tensors;
  wrong["others"] = wrong["numbers"];
  EXPECT_TRUE(has(error_of<std::logic_error>([&] { right.gather(context, &step, wrong); }),
                  "the samples have no field 'others'"));
  EXPECT_THROW(batches({.mixup = 0.2}), std::logic_error);
  split.records[1].pop_back();
  EXPECT_THROW(batches(), std::logic_error);
  split.records.pop_back();
  EXPECT_THROW(batches(), std::logic_error);
}

TEST(Batches, RefuseWhatDoesNotFit) {
  Context context(Device::kCpu);
  const DatasetInfo info = make_info(1, 2, 2);
  const Split split = make_split(info, 10);
  EXPECT_THROW(Batches(context, info, split, {.batch = 11, .shuffle = true}), ConfigError);
  EXPECT_THROW(Batches(context, make_info(2, 2, 2), split, {.batch = 1}), std::logic_error);
  const Batches batches(context, info, split, {.batch = 10, .shuffle = true});
  EXPECT_THROW(gather(batches, context, make_info(1, 4, 1), 0), std::logic_error);
}

}  // namespace
}  // namespace duet
