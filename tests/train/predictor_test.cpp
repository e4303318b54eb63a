// What a network makes of images without labels.
#include "train/evaluate/predictor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "support/allocations.h"
#include "support/network.h"
#include "support/training_cases.h"

namespace duet {
namespace {

// A small CNN after six epochs, and its data. Batch 100.
struct Trained {
  TestTraining t;
  DatasetLoader loader;
  Dataset data;

  explicit Trained(const std::string& backend = "cpu") : t(small_training(backend)) {
    for (int64_t i = 0; i < 6 * t.training->steps_per_epoch(); ++i) t.training->step();
    ConfigErrors errors("test.yaml");
    ConfigReader reader(*t.network.config.find("data"), "data", errors);
    data = find_dataset_type("synthetic_images")->read(reader).load("");
  }
  size_t image_bytes() const { return data.validation.images.size() / 250; }
  std::vector<uint8_t> images(size_t first, size_t count) const {
    const auto start = data.validation.images.begin() + static_cast<int64_t>(first * image_bytes());
    return {start, start + static_cast<int64_t>(count * image_bytes())};
  }
  std::vector<float> logits(std::vector<uint8_t> images) {
    return Predictor(t.network.layers, t.training->weights(), t.context)
        .logits(data, std::move(images));
  }
};

TEST(Predictor, FindsWhatAnEvaluationCounts) {
  Trained trained;
  const std::vector<float> logits = trained.logits(trained.data.validation.images);
  const size_t classes = 10;
  ASSERT_EQ(logits.size(), 250 * classes);
  int64_t hits = 0;
  double loss = 0.0;
  for (size_t i = 0; i < 250; ++i) {
    const float* row = logits.data() + i * classes;
    const auto label = static_cast<size_t>(trained.data.validation.labels[i]);
    hits += std::max_element(row, row + classes) == row + label;
    loss -= std::log(softmax(row, classes)[label]) / 250;
  }
  const Metrics metrics = trained.t.training->evaluation().run();
  EXPECT_DOUBLE_EQ(metrics.accuracy, static_cast<double>(hits) / 250);
  EXPECT_NEAR(metrics.loss, loss, 1e-5 * loss);
  EXPECT_GT(metrics.accuracy, 0.6);  // chance is 0.25
}

// What layers make of images, by layer and image.
using Observed = std::map<std::pair<std::string, int64_t>, std::vector<float>>;

Observed observed(const std::string& backend, std::vector<float>* logits) {
  Trained trained(backend);
  trained.t.training->weights().initialise(7);
  Observed all;
  *logits =
      Predictor(trained.t.network.layers, trained.t.training->weights(), trained.t.context)
          .logits(trained.data, Split{150, trained.images(0, 150)},
                  [&](int64_t image, const std::string& layer, const std::vector<int64_t>& shape,
                      const std::vector<float>& values) {
                    EXPECT_EQ(values.size(), static_cast<size_t>(shape[0] * shape[1] * shape[2]));
                    EXPECT_TRUE(all.emplace(std::pair(layer, image), values).second);
                  });
  EXPECT_EQ(*logits, trained.logits(trained.images(0, 150)));
  return all;
}

TEST(Predictor, ShowsWhatEachLayerMakesOfAnImage) {
  std::vector<float> logits;
  const Observed rows = observed("cpu_reference", &logits);
  EXPECT_EQ(rows.size() % 150, 0u);
  ASSERT_GE(rows.size(), 150u);
  // In every layout the same, in the order channel, row, column.
  const Observed last = observed("cpu_reference\nlayout: nhwc", &logits);
  for (const auto& [place, values] : rows) {
    const auto found = last.find(place);
    ASSERT_NE(found, last.end()) << place.first;
    ASSERT_EQ(found->second.size(), values.size());
    for (size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(found->second[i], values[i], 1e-4);
  }
}

TEST(Predictor, ReadsLogitsOfBf16) {
  Trained trained("cpu\nmath: bf16");
  const std::vector<float> logits = trained.logits(trained.data.validation.images);
  int64_t hits = 0;
  for (size_t i = 0; i < 250; ++i) {
    const float* row = logits.data() + i * 10;
    const auto label = static_cast<size_t>(trained.data.validation.labels[i]);
    hits += std::max_element(row, row + 10) == row + label;
  }
  EXPECT_DOUBLE_EQ(trained.t.training->evaluation().run().accuracy,
                   static_cast<double>(hits) / 250);
}

// Images of the second batch, and of a part of one, too.
TEST(Predictor, AnImageDoesNotDependOnHowManyThereAre) {
  Trained trained;
  const std::vector<float> all = trained.logits(trained.images(0, 130));
  for (const size_t count : {1, 7, 99, 100, 101}) {
    const std::vector<float> some = trained.logits(trained.images(0, count));
    ASSERT_EQ(some.size(), 10 * count);
    EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin())) << count;
  }
  // Elsewhere in a batch: the same but for rounding.
  const std::vector<float> later = trained.logits(trained.images(120, 10));
  for (size_t i = 0; i < later.size(); ++i) EXPECT_NEAR(later[i], all[1200 + i], 1e-4);
}

// Of what is gathered, computed and read back.
TEST(Predictor, TakesNoMemoryInACallAfterTheFirst) {
  const uint64_t none = allocations();
  delete new int;
  ASSERT_EQ(allocations(), none + 1);  // they are counted
  for (const char* backend : {"cpu", "cpu\nlayout: nhwc", "cpu\nmath: bf16", "cpu_reference"}) {
    SCOPED_TRACE(backend);
    Trained trained(backend);
    Predictor predictor(trained.t.network.layers, trained.t.training->weights(), trained.t.context);
    const Split many{230, trained.images(0, 230)}, few{30, trained.images(7, 30)};
    std::vector<float> outputs, first;
    predictor.predict(trained.data, many, &outputs);
    first = outputs;
    uint64_t before = allocations();
    predictor.predict(trained.data, few, &outputs);
    EXPECT_EQ(allocations(), before);
    EXPECT_EQ(outputs, predictor.logits(trained.data, few));
    before = allocations();
    predictor.predict(trained.data, many, &outputs);
    EXPECT_EQ(allocations(), before);
    EXPECT_EQ(outputs, first);
  }
}

TEST(Predictor, NormalisesAsItIsTold) {
  Trained trained;
  Predictor predictor(trained.t.network.layers, trained.t.training->weights(), trained.t.context);
  const std::vector<uint8_t> images = trained.images(0, 10);
  const std::vector<float> first = predictor.logits(trained.data, images);
  DatasetInfo other = trained.data;
  other.mean[0] += 0.25;
  EXPECT_NE(predictor.logits(other, images), first);
  EXPECT_EQ(predictor.logits(trained.data, images), first);
}

TEST(Predictor, SoftmaxIsStable) {
  const float large[] = {1000.0f, 1000.0f, -1000.0f};
  EXPECT_EQ(softmax(large, 3), std::vector<double>({0.5, 0.5, 0.0}));
  const float x[] = {0.0f, 1.0f};
  EXPECT_DOUBLE_EQ(softmax(x, 2)[1], 1.0 / (1.0 + std::exp(-1.0)));
  for (const float bad : {NAN, std::numeric_limits<float>::infinity()}) {
    for (const size_t place : {0, 1, 2}) {
      float values[] = {0.0f, 1.0f, 2.0f};
      values[place] = bad;
      EXPECT_FALSE(std::isfinite(softmax(values, 3)[0])) << bad << " at " << place;
    }
  }
}

}  // namespace
}  // namespace duet
