// A network that makes pictures: trained on image_pairs, evaluated, and its pictures written.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "compare/report/report_page.h"
#include "core/error.h"
#include "data/format/image_file.h"
#include "support/trainer_process.h"

namespace duet {
namespace {

constexpr const char* kDoubling = R"(
name: doubling
backend: cpu
data:
  dataset: image_pairs
  folder: ./
  batch: 4
  validation: val
  channels: 1
  patch: 6
  degrade: {type: bicubic, scale: 2}
train: {epochs: 2, goal: {metric: val_psnr, value: 1}}
optimizer: {type: adam, learning_rate: 0.003}
layers:
  - {name: conv1, type: conv2d, out_channels: 8, kernel: 3, padding: 1}
  - {name: tanh1, type: tanh}
  - {name: conv2, type: conv2d, out_channels: 4, kernel: 3, padding: 1}
  - {name: shuffle, type: pixel_shuffle, scale: 2}
  - {name: loss, type: charbonnier_loss}
  - {name: psnr, type: psnr, data_range: 1, border: 2}
  - {name: mae, type: mean_absolute_error}
  - {name: similarity, type: ssim, data_range: 1, window: uniform, border: 2}
)";

class Doubling : public testing::Test {
 protected:
  void SetUp() override {
    folder_.write("net.yaml", kDoubling);
    for (int i = 0; i < 3; ++i) {
      folder_.write("train/" + std::to_string(i) + ".png", png_of(waves(36, 48, i)));
    }
    folder_.write("val/a.png", png_of(waves(24, 24, 5)));
    folder_.write("small.png", png_of(waves(9, 14, 6)));
    folder_.write("other/small.png", png_of(waves(5, 5, 6)));
  }
  static Image waves(int64_t height, int64_t width, int phase) {
    Image image{height, width, 1, {}};
    for (int64_t y = 0; y < height; ++y) {
      for (int64_t x = 0; x < width; ++x) {
        const double value =
            std::sin(0.4 * static_cast<double>(x) + phase) * std::cos(0.3 * static_cast<double>(y));
        image.pixels.push_back(static_cast<uint8_t>(std::lround(127.5 + 100.0 * value)));
      }
    }
    return image;
  }

  const TrainerFolder folder_;
};

TEST_F(Doubling, IsTrainedEvaluatedAndWritten) {
  EXPECT_OUTCOME(folder_.run("--config net.yaml --out run"), kExitDone, "psnr",
                 "reached the goal of val_psnr 1.0000");
  const std::string lines = folder_.read("run/metrics.jsonl");
  for (const char* key : {"\"val_psnr\":", "\"train_psnr\":", "\"val_mae\":", "\"val_loss\":",
                          "\"val_similarity\":", "\"train_similarity\":"}) {
    EXPECT_TRUE(has(lines, key));
  }
  EXPECT_FALSE(has(lines, "accuracy"));
  const Outcome evaluated = folder_.run("evaluate --checkpoint run --json");
  ASSERT_EQ(evaluated.code, kExitDone) << evaluated.err;
  const nlohmann::json values = nlohmann::json::parse(evaluated.out);
  EXPECT_EQ(values["images"], 4);
  EXPECT_GT(values["val_psnr"], 5.0);
  EXPECT_GT(values["val_similarity"], 0.01);
  EXPECT_LT(values["val_similarity"], 1.0);
  EXPECT_GT(values["images_psnr"], 20.0);  // of waves that bicubic knows
  EXPECT_FALSE(values.contains("val_accuracy"));
  EXPECT_OUTCOME(folder_.run("predict --checkpoint run --out made small.png"), kExitDone);
  const Image made = read_png(folder_.read("made/small.png"));
  EXPECT_EQ(made.height, 18);
  EXPECT_EQ(made.width, 28);
  EXPECT_EQ(made.channels, 1);
  EXPECT_OUTCOME(folder_.run("accuracy run --write table.md"), kExitDone);
  EXPECT_TRUE(has(folder_.read("table.md"), "val_loss, mean", "val_psnr, mean"));
  EXPECT_FALSE(has(folder_.read("table.md"), "| accuracy"));
  if (report_available()) {
    EXPECT_OUTCOME(folder_.run("report run --out page.html"), kExitDone);
    EXPECT_TRUE(has(folder_.read("page.html"), "validation psnr"));
  }
}

TEST_F(Doubling, WrongInputIsNamed) {
  const auto with = [&](const std::string& set) {
    return folder_.run("--config net.yaml --dry-run --set " + set);
  };
  EXPECT_OUTCOME(with("train.best=val_accuracy"), kExitUsage, "unknown metric 'val_accuracy'",
                 "val_psnr");
  EXPECT_OUTCOME(with("train.goal=0.5"), kExitUsage, "the network has no val_accuracy");
  EXPECT_OUTCOME(with("layers.shuffle.scale=1"), kExitUsage, "layer loss (charbonnier_loss)",
                 "4x4x6x6", "4x1x12x12");
  EXPECT_OUTCOME(with("layers.similarity.window=gaussian"), kExitUsage, "layer similarity (ssim)",
                 "windows of 11x11 pixels", "4x1x12x12, less 2 pixels at each side");
  EXPECT_OUTCOME(
      with("layers.loss.type=softmax_cross_entropy"), kExitUsage,
      "the data set has no field 'labels' of classes; it has images, rows, targets (images)");
  EXPECT_OUTCOME(folder_.run("--config net.yaml --out run --epochs 1 --quiet"), kExitDone);
  EXPECT_OUTCOME(folder_.run("predict --checkpoint run small.png"), kExitUsage, "--out DIR");
  EXPECT_OUTCOME(folder_.run("predict --checkpoint run --out made small.png other/small.png"),
                 kExitUsage, "small.png");
  EXPECT_OUTCOME(folder_.run("predict --checkpoint run --out . small.png"), kExitUsage,
                 "small.png");
  EXPECT_OUTCOME(folder_.run("predict --checkpoint run --out made absent.png"), kExitUsage,
                 "absent.png");
}

}  // namespace
}  // namespace duet
