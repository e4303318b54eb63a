// A detection data set in the programs: its fields are shown, losses of other fields are refused, and
// a network of its pictures is trained on it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "data/format/image_file.h"
#include "support/trainer_process.h"

namespace duet {
namespace {

constexpr const char* kNetwork = R"(
name: cells
backend: cpu
data:
  dataset: detection
  folder: ./
  classes: 2
  size: 12
  max_boxes: 4
  batch: 4
  validation_split: {count: 3}
  augment: [{type: horizontal_flip}, {type: random_crop, padding: 2}]
train: {epochs: 2, best: val_loss}
optimizer: {type: adam, learning_rate: 0.01}
layers:
  - {name: conv, type: conv2d, out_channels: 3, kernel: 3, padding: 1}
  - {name: loss, type: mse_loss, inputs: [conv, images]}
)";

class Cells : public testing::Test {
 protected:
  void SetUp() override {
    folder_.write("net.yaml", kNetwork);
    std::string images, boxes;
    for (int i = 0; i < 12; ++i) {
      const std::string n = std::to_string(i), comma = i ? "," : "";
      Image image{12, 12, 3, std::vector<uint8_t>(432)};
      for (size_t k = 0; k < 432; ++k) image.pixels[k] = static_cast<uint8_t>(k * (31 + i));
      folder_.write("images/" + n + ".png", png_of(image));
      images += comma + "{\"id\": " + n + ", \"file_name\": \"" + n +
                ".png\", \"width\": 12, \"height\": 12}";
      boxes += comma + "{\"image_id\": " + n + ", \"category_id\": " + std::to_string(i % 2 + 1) +
               ", \"bbox\": [1, 2, 5, " + std::to_string(i % 5 + 1) + "]}";
    }
    folder_.write("train.json", "{\"images\": [" + images + "], \"annotations\": [" + boxes +
                                    "], \"categories\": [{\"id\": 1, \"name\": \"red\"}, "
                                    "{\"id\": 2, \"name\": \"white\"}]}");
  }
  Outcome with(const std::string& set) const {
    return folder_.run("--config net.yaml --dry-run --set " + set);
  }

  const TrainerFolder folder_;
};

TEST_F(Cells, FieldsAreShown) {
  const Outcome shown = folder_.run("show net.yaml");
  EXPECT_OUTCOME(shown, kExitDone);
  EXPECT_TRUE(has(shown.out,
                  "batch      images 4x3x12x12, rows 4, boxes (boxes with classes) 4x4x5, "
                  "box_counts (counts) 4"));
  const Outcome dry = folder_.run("--config net.yaml --dry-run --json");
  ASSERT_EQ(dry.code, kExitDone) << dry.err;
  const auto fields = nlohmann::json::parse(dry.out)["fields"];
  ASSERT_EQ(fields.size(), 4u);
  EXPECT_EQ(fields[2], nlohmann::json::parse(
                           R"({"name": "boxes", "kind": "boxes with classes", "shape": "4x4x5"})"));
  EXPECT_TRUE(has(folder_.run("list datasets").out, "detection", "boxes and their classes"));
}

TEST_F(Cells, AnotherFieldThanALossTakesIsRefused) {
  EXPECT_OUTCOME(with("layers.loss.type=softmax_cross_entropy"), kExitUsage, "net.yaml:17",
                 "layer loss (softmax_cross_entropy): reads the field images in place of 'labels'",
                 "the data set has images, rows, boxes (boxes with classes), box_counts (counts)");
  EXPECT_OUTCOME(with("layers.loss.type=softmax_cross_entropy --set layers.loss.inputs=conv"),
                 kExitUsage,
                 "layer loss (softmax_cross_entropy): the data set has no field 'labels' of "
                 "classes; it has images, rows, boxes (boxes with classes), box_counts (counts)");
  for (const std::string loss : {"softmax_cross_entropy", "mse_loss", "multi_margin"}) {
    EXPECT_OUTCOME(
        with("layers.loss.type=" + loss + " --set layers.loss.inputs=[conv,boxes]"), kExitUsage,
        "layer loss (" + loss + "): reads the field boxes (boxes with classes) in place of '",
        "which it cannot be");
  }
  EXPECT_OUTCOME(with("layers.loss.inputs=[conv,images,boxes]"), kExitUsage,
                 "reads the field boxes (boxes with classes) in place of 'rows'");
  EXPECT_OUTCOME(with("layers.loss.inputs=[conv,images,box_counts]"), kExitDone);
  std::string mixed = kNetwork;
  mixed.replace(mixed.find("horizontal_flip"), std::string("horizontal_flip").size(), "mixup");
  folder_.write("mixed.yaml", mixed);
  EXPECT_OUTCOME(folder_.run("--config mixed.yaml --dry-run"), kExitUsage, "mixed.yaml:12",
                 "data: augment: mixup lays images over one another");
}

TEST_F(Cells, ANetworkOfThePicturesIsTrained) {
  EXPECT_OUTCOME(folder_.run("--config net.yaml --out run"), kExitDone, "batch      images");
  const Outcome evaluated = folder_.run("evaluate --checkpoint run --json");
  ASSERT_EQ(evaluated.code, kExitDone) << evaluated.err;
  EXPECT_EQ(nlohmann::json::parse(evaluated.out)["images"], 3);
  EXPECT_TRUE(
      has(folder_.read("run/checkpoints/last.safetensors"), R"(\"boxes\":[\"red\",\"white\"])"));
  EXPECT_OUTCOME(folder_.run("--config net.yaml --set data.classes=3 --out other"), kExitUsage,
                 "train.json: has 2 categories (red, white), and data.classes is 3");
}

}  // namespace
}  // namespace duet
