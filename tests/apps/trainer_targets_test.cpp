// A network that makes numbers: trained on the targets of a table, evaluated, resumed, and its numbers
// written.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "support/trainer_process.h"

namespace duet {
namespace {

using nlohmann::json;

constexpr const char* kHouses = R"(
name: houses
backend: cpu
data:
  dataset: csv
  folder: ./
  features: 2
  targets: [price, tall]
  batch: 8
train: {epochs: 60, goal: {metric: val_mae, value: 0.01}}
optimizer: {type: adam, learning_rate: 0.05}
layers:
  - {type: flatten}
  - {name: fc, type: linear, out_features: 2}
  - {name: loss, type: mse_loss}
  - {name: mae, type: mean_absolute_error}
)";

class Houses : public testing::Test {
 protected:
  void SetUp() override {
    folder_.write("net.yaml", kHouses);
    std::string text = "width,price,height,tall\n";
    for (int i = 0; i < 80; ++i) text += row(i * 7 % 23, i * 5 % 17);
    folder_.write("train.csv", text);
  }
  static double price(int width, int height) { return 0.3 * width - 0.2 * height + 1.5; }
  static std::string row(int width, int height) {
    return std::to_string(width) + "," + std::to_string(price(width, height)) + "," +
           std::to_string(height) + "," + std::to_string(0.1 * height) + "\n";
  }

  const TrainerFolder folder_;
};

TEST_F(Houses, AreTrainedEvaluatedAndPredicted) {
  EXPECT_OUTCOME(folder_.run("--config net.yaml --out run"), kExitDone, "mae",
                 "reached the goal of val_mae 0.0100");
  const std::string lines = folder_.read("run/metrics.jsonl");
  for (const char* key : {"\"val_mae\":", "\"train_mae\":", "\"val_loss\":"}) {
    EXPECT_TRUE(has(lines, key));
  }
  EXPECT_FALSE(has(lines, "accuracy"));
  const json data = json::parse(folder_.read("run/run.json"))["dataset"];
  EXPECT_EQ(data["columns"], json({"width", "height"}));
  EXPECT_EQ(data["targets"], json({"price", "tall"}));
  const Outcome evaluated = folder_.run("evaluate --checkpoint run --json");
  ASSERT_EQ(evaluated.code, kExitDone) << evaluated.err;
  const json values = json::parse(evaluated.out);
  EXPECT_EQ(values["images"], 8);
  EXPECT_LE(values["val_mae"], 0.02);
  EXPECT_FALSE(values.contains("val_accuracy"));

  // Columns are found by their names, others are passed by.
  folder_.write("new.csv", "note,height,width\nsmall,3,4\n\nlarge,16,20\n");
  folder_.write("few.csv", "width,height\n4,3\n");
  const Outcome predicted = folder_.run("predict --checkpoint run --json new.csv few.csv");
  ASSERT_EQ(predicted.code, kExitDone) << predicted.err;
  const json rows = json::parse(predicted.out)["rows"];
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0]["row"], "new.csv:2");
  EXPECT_EQ(rows[1]["row"], "new.csv:4");
  EXPECT_EQ(rows[2]["row"], "few.csv:2");
  EXPECT_NEAR(rows[0]["numbers"]["price"], price(4, 3), 0.1);
  EXPECT_NEAR(rows[1]["numbers"]["price"], price(20, 16), 0.1);
  EXPECT_NEAR(rows[1]["numbers"]["tall"], 1.6, 0.1);
  EXPECT_NEAR(rows[2]["numbers"]["price"], rows[0]["numbers"]["price"].get<double>(), 1e-5);
  const Outcome told = folder_.run("predict --checkpoint run new.csv");
  EXPECT_TRUE(has(told.out, "row", "price", "tall", "new.csv:2", "new.csv:4"));
  EXPECT_OUTCOME(folder_.run("report run --out page.html"), kExitDone);
  EXPECT_TRUE(has(folder_.read("page.html"), "validation mae"));
}

// Resident, streamed, and stopped in between: one training.
TEST_F(Houses, AreResumedToTheBit) {
  const std::string train = "--config net.yaml --quiet --epochs ";
  const auto weights = [&](const std::string& run) {
    return tensors(folder_ / (run + "/checkpoints/last.safetensors"));
  };
  EXPECT_OUTCOME(folder_.run(train + "6 --out whole"), kExitDone);
  EXPECT_OUTCOME(folder_.run(train + "6 --out streamed --set data.stream=memory"), kExitDone);
  EXPECT_OUTCOME(folder_.run(train + "2 --out parts"), kExitDone);
  EXPECT_NE(weights("parts"), weights("whole"));
  EXPECT_OUTCOME(folder_.run(train + "6 --out parts --resume last"), kExitDone);
  EXPECT_EQ(weights("parts"), weights("whole"));
  EXPECT_EQ(weights("streamed"), weights("whole"));
  // Other targets are other data.
  std::string text = folder_.read("train.csv");
  text.replace(text.find("1.5"), 3, "1.6");
  folder_.write("train.csv", text);
  EXPECT_OUTCOME(folder_.run(train + "8 --out parts --resume last"), kExitUsage,
                 "was trained otherwise", "fingerprint");
}

TEST_F(Houses, ClassesMayBeTrainedBeside) {
  std::string text = "width,height,kind,price\n";
  for (int i = 0; i < 80; ++i) {
    const int width = i * 7 % 23, height = i * 5 % 17;
    text += std::to_string(width) + "," + std::to_string(height) + "," +
            (width > height ? "wide" : "high") + "," + std::to_string(price(width, height)) + "\n";
  }
  folder_.write("train.csv", text);
  folder_.write("both.yaml", R"(
name: both
backend: cpu
data: {dataset: csv, folder: ./, features: 2, classes: 2, label: kind, targets: price, batch: 8}
train: {epochs: 20}
optimizer: {type: adam, learning_rate: 0.05}
layers:
  - {type: flatten}
  - {name: price, type: linear, out_features: 1}
  - {name: price_loss, type: mse_loss}
  - {name: kind, type: linear, out_features: 2, inputs: flatten1}
  - {name: kind_loss, type: softmax_cross_entropy}
)");
  EXPECT_OUTCOME(folder_.run("--config both.yaml --out run --quiet"), kExitDone);
  const json last = metrics(folder_, "run", "epoch").back();
  EXPECT_GT(last["val_kind_loss_accuracy"], 0.7);
  EXPECT_TRUE(last.contains("val_price_loss"));
  folder_.write("new.csv", "width,height\n20,1\n1,16\n");
  const Outcome predicted = folder_.run("predict --checkpoint run --top 1 --json new.csv");
  ASSERT_EQ(predicted.code, kExitDone) << predicted.err;
  const json rows = json::parse(predicted.out)["rows"];
  EXPECT_EQ(rows[0]["predictions"][0]["name"], "wide");
  EXPECT_EQ(rows[1]["predictions"][0]["name"], "high");
}

TEST_F(Houses, WrongInputIsNamed) {
  const auto with = [&](const std::string& set) {
    return folder_.run("--config net.yaml --dry-run --set " + set);
  };
  EXPECT_OUTCOME(folder_.run("--config net.yaml --dry-run"), kExitDone);
  EXPECT_OUTCOME(with("layers.fc.out_features=3"), kExitUsage, "layer loss (mse_loss)", "8x3",
                 "8x2");
  EXPECT_OUTCOME(with("layers.loss.type=softmax_cross_entropy"), kExitUsage,
                 "layer loss (softmax_cross_entropy): the data set has no field 'labels' of "
                 "classes; it has images, rows, targets (numbers)");
  EXPECT_OUTCOME(with("data.targets=[price,price]"), kExitUsage, "'price' is named twice");
  EXPECT_OUTCOME(with("data.label=kind --set data.classes=2 --set data.targets=[kind,tall] "
                      "--set data.features=0"),
                 kExitUsage, "data: features:", "data: targets: 'kind' is the column of the label");
  EXPECT_OUTCOME(folder_.run("--config net.yaml --set data.targets=[prize,tall]"), kExitUsage,
                 "train.csv:1: no column is called 'prize' (did you mean 'price'?)");
  folder_.write("labels.yaml", R"(
backend: cpu
data: {dataset: csv, folder: ./, features: 2, classes: 2, batch: 8}
layers:
  - {type: flatten}
  - {type: linear, out_features: 2}
  - {name: loss, type: l1_loss}
)");
  EXPECT_OUTCOME(folder_.run("--config labels.yaml --dry-run"), kExitUsage,
                 "layer loss (l1_loss): the data set has no field 'targets'; it has images, labels "
                 "(classes), rows");
  EXPECT_OUTCOME(folder_.run("--config net.yaml --out run --epochs 1 --quiet"), kExitDone);
  folder_.write("new.csv", "note,width\nsmall,4\n");
  folder_.write("text.csv", "height,width\n3,4\n3,x\n");
  EXPECT_OUTCOME(folder_.run("predict --checkpoint run new.csv text.csv"), kExitUsage,
                 "new.csv:1: no column is called 'height', as one of the training data is",
                 "text.csv:3: column 2 ('width'): expected a finite number, found 'x'");
  EXPECT_OUTCOME(folder_.run("predict --checkpoint run absent.csv"), kExitUsage, "absent.csv");
  EXPECT_OUTCOME(folder_.run("predict --checkpoint run --out made text.csv"), kExitUsage,
                 "--out: is of networks that make pictures, and this one tells numbers");
  EXPECT_OUTCOME(folder_.run("predict --checkpoint run --resize text.csv"), kExitUsage,
                 "--resize: is of pictures");
  // A layer that is no loss may read targets in a training; a prediction has none.
  folder_.write("leak.yaml", changed(kHouses, {{"  - {name: loss",
                                                "  - {name: sum, type: add, inputs: [fc, targets]}"
                                                "\n  - {name: loss"}}));
  EXPECT_OUTCOME(folder_.run("--config leak.yaml --out leak --epochs 1 --quiet"), kExitDone);
  folder_.write("new.csv", "height,width\n3,4\n");
  EXPECT_OUTCOME(folder_.run("predict --checkpoint leak new.csv"), kExitUsage,
                 "the network reads the field 'targets' in a layer that is no loss or metric");
}

}  // namespace
}  // namespace duet
