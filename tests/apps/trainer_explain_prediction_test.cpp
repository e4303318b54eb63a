// trainer explain-prediction: a drawing of where a network sees a class.
#include <gtest/gtest.h>

#include <limits>

#include "core/error.h"
#include "data/format/image_file.h"
#include "data/set/pictures.h"
#include "device/device.h"
#include "support/trainer_process.h"
#include "train/checkpoint/safetensors.h"
#include "train/evaluate/explain_prediction.h"

namespace duet {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const std::string kPictureFolder = DUET_SOURCE_DIR "/tests/data/pictures/";
const std::string kExplainedPicture = kPictureFolder + "grey8.png";  // of the tiny network's size

// A folder with a run of the tiny network in "run".
class ExplainedNetwork : public testing::Test {
 protected:
  void SetUp() override { train(kTinyNetwork, "run"); }

  void train(const std::string& yaml, const std::string& run) const {
    folder_.write("net.yaml", yaml);
    EXPECT_OUTCOME(folder_.run("--config net.yaml --quiet --out " + run), kExitDone);
  }
  Outcome explain(const std::string& arguments) const {
    return folder_.run("explain-prediction " + arguments);
  }
  json explained(const std::string& arguments) const {
    const Outcome outcome = explain("--json " + arguments);
    EXPECT_OUTCOME(outcome, kExitDone);
    return json::parse(outcome.out);
  }
  void expect_refused(const std::string& arguments, const std::vector<std::string>& parts,
                      int code = kExitUsage) const {
    const Outcome outcome = explain(arguments);
    EXPECT_EQ(outcome.code, code) << outcome.err;
    EXPECT_TRUE(has(outcome.err, parts));
    EXPECT_EQ(outcome.out, "");
  }

  TrainerFolder folder_;
};

TEST_F(ExplainedNetwork, DrawsWhereThePredictedClassIsSeen) {
  const json predicted =
      json::parse(folder_.run("predict --json --checkpoint run " + kExplainedPicture)
                      .out)["images"][0]["predictions"];
  const json found = explained("run " + kExplainedPicture + " --out maps/heat.png");
  EXPECT_EQ(found["class"], predicted[0]["class"]);
  EXPECT_EQ(found["name"], predicted[0]["name"]);
  EXPECT_NEAR(found["confidence"], predicted[0]["confidence"], 1e-5);
  EXPECT_EQ(found["image"], kExplainedPicture);
  EXPECT_EQ(found["layer"], "relu1");
  EXPECT_EQ(found["layer_size"], json({{"channels", 4}, {"height", 6}, {"width", 6}}));
  EXPECT_EQ(found["size"], json({{"height", 8}, {"width", 8}}));
  EXPECT_EQ(found["checkpoint"], "run/checkpoints/best.safetensors");
  EXPECT_EQ(found["out"], "maps/heat.png");

  // The map of that class over the picture, in its size.
  Trained trained = open_to_explain({.checkpoint = folder_ / "run/checkpoints/best.safetensors"});
  const DatasetInfo info = normalised_as_trained(trained);
  const Explanation same = explain_prediction(
      trained, info, read_pictures({kExplainedPicture}, info, false).images, "", "");
  const Image expected = draw_over(read_image_file(kExplainedPicture), fitted(same.map, 8, 8));
  const Image drawn = read_image_file(folder_ / "maps/heat.png");
  EXPECT_EQ(drawn.height, 8);
  EXPECT_EQ(drawn.width, 8);
  EXPECT_EQ(drawn.pixels, expected.pixels);

  const Outcome text = explain("run --quiet --out again.png " + kExplainedPicture);
  EXPECT_OUTCOME(text, kExitDone);
  EXPECT_TRUE(has(text.out, "image", "class", "confidence", "layer", kExplainedPicture,
                  "relu1 (4x6x6)", predicted[0]["name"].get<std::string>(), "%"));
  EXPECT_EQ(folder_.read("again.png"), folder_.read("maps/heat.png"));
}

TEST_F(ExplainedNetwork, LayerAndClassCanBeNamed) {
  const std::string start = "run --out heat.png " + kExplainedPicture;
  json names = json::parse(
      safetensors::describe(folder_ / "run/checkpoints/best.safetensors").metadata().at("dataset"));
  names["classes"] = {"north", "1", "0", "north west"};
  const safetensors::File file = safetensors::read(folder_ / "run/checkpoints/best.safetensors");
  safetensors::Metadata metadata = file.metadata();
  metadata["dataset"] = names.dump();
  safetensors::write(folder_ / "named.safetensors", file.entries(), metadata);

  EXPECT_EQ(explained(start + " --layer conv1")["layer"], "conv1");
  double sum = 0;
  for (int i = 0; i < 4; ++i) {
    const json found = explained(start + " --class " + std::to_string(i));
    EXPECT_EQ(found["class"], i);
    sum += found["confidence"].get<double>();
  }
  EXPECT_NEAR(sum, 1, 1e-6);
  const std::string named = "named.safetensors --out heat.png " + kExplainedPicture + " --class ";
  EXPECT_EQ(explained(named + "north")["class"], 0);
  EXPECT_EQ(explained(named + "0")["class"], 2) << "a name goes before a number";
  EXPECT_EQ(explained(named + "3")["name"], "north west");
  expect_refused(named + "nroth", {"--class nroth: there is no such class (did you mean 'north'?)",
                                   "has 4, numbered from 0: north, 1, 0, north west"});
  for (const std::string number : {"4", "-1", "1.5", "99999999999999999999"}) {
    expect_refused(start + " --class=" + number, {"--class " + number + ": there is no such"});
  }
  expect_refused(start + " --layer relu2", {"--layer relu2: there is no such layer (did you mean "
                                            "'relu1'?); layers that make images: conv1, relu1"});
  expect_refused(start + " --layer fc1", {"--layer fc1: its output is 1x4, no image"});
  expect_refused(start + " --layer loss",
                 {"--layer loss: is no part of what makes the prediction"});
  EXPECT_FALSE(fs::exists(folder_ / "new.png"));
}

TEST_F(ExplainedNetwork, PicturesThatCannotBeReadAreTold) {
  const std::string start = "run --out new.png ";
  expect_refused(start + "none.png", {"none.png: cannot open"});
  expect_refused(start + "net.yaml", {"net.yaml: is no picture"});
  expect_refused(start + kPictureFolder + "grey.png", {"is 5x4 pixels", "--resize scales it"});
  std::string idx = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 8, 0, 0, 0, 8};
  for (int i = 0; i < 2 * 64; ++i) idx += static_cast<char>(i * 37);
  folder_.write("images", idx);
  expect_refused(start + "images", {"images: holds 2 images; name one of them: images:0"});
  EXPECT_FALSE(fs::exists(folder_ / "new.png"));
  EXPECT_EQ(explained(start + "images:1")["image"], "images:1");
  // A drawing is as large as its picture, and of its colours.
  EXPECT_EQ(explained(start + "--resize " + kPictureFolder + "colour.jpg")["size"],
            json({{"height", 4}, {"width", 5}}));
  const Image drawn = read_image_file(folder_ / "new.png");
  EXPECT_EQ(drawn.height, 4);
  EXPECT_EQ(drawn.width, 5);
}

TEST_F(ExplainedNetwork, OutputsThatWouldDestroyAreRefused) {
  fs::copy_file(kExplainedPicture, folder_ / "mine.png");
  expect_refused("run mine.png", {"--out is required"});
  expect_refused("run mine.png --out ''", {"--out: the value is empty"});
  expect_refused("run mine.png --out mine.png", {"--out mine.png", "give it one of its own"});
  expect_refused("run mine.png --out run/checkpoints/best.safetensors",
                 {"--out run/checkpoints/best.safetensors", "one of its own"});
  expect_refused("run mine.png --out run", {"--out run"});
  expect_refused("--out heat.png run", {"picture is required"});
  expect_refused("--out heat.png nowhere mine.png", {"there is no such file or folder"});
  expect_refused("run mine.png other.png --out heat.png", {"other.png"});
  EXPECT_OUTCOME(folder_.run("--epochs 3 explain-prediction run mine.png --out heat.png"),
                 kExitUsage, "--epochs: does not belong to 'explain-prediction'");
  EXPECT_EQ(read_image_file(folder_ / "mine.png").pixels,
            read_image_file(kExplainedPicture).pixels);
}

// Batch normalisations by themselves and in a block, and dropout, as in evaluation.
TEST_F(ExplainedNetwork, WhatEvaluationDoesOtherwiseIsLikeThat) {
  train(changed(kTinyNetwork,
                {{"  - {name: relu1, type: relu}",
                  "  - {name: norm1, type: batch_norm2d}\n"
                  "  - {name: relu1, type: relu}\n"
                  "  - {name: drop1, type: dropout, p: 0.9}\n"
                  "  - {name: block, type: batch_norm2d_relu_pool, pool_kernel: 2}"},
                 {"  - {name: loss", "  - {name: norm2, type: batch_norm1d}\n  - {name: loss"}}),
        "norms");
  const json predicted =
      json::parse(folder_.run("predict --json --checkpoint norms " + kExplainedPicture)
                      .out)["images"][0]["predictions"];
  const std::string start = "norms --out heat.png " + kExplainedPicture;
  for (const std::string more : {"", " --set fold_norms=true", " --backend cpu_reference",
                                 " --set layout=nhwc", " --backend auto"}) {
    const json found = explained(start + more);
    EXPECT_EQ(found["class"], predicted[0]["class"]) << more;
    EXPECT_NEAR(found["confidence"], predicted[0]["confidence"], 1e-5) << more;
    EXPECT_EQ(found["layer"], "block") << more;
    EXPECT_EQ(found["layer_size"]["height"], 3) << more;
  }
  for (const std::string layer : {"norm1", "drop1"}) {
    EXPECT_EQ(explained(start + " --layer " + layer)["layer"], layer);
  }
}

TEST_F(ExplainedNetwork, NetworksWithoutImagesOrClassesAreTold) {
  train(changed(kTinyNetwork, {{"  - {name: conv1, type: conv2d, out_channels: 4, kernel: 3}\n"
                                "  - {name: relu1, type: relu}\n",
                                ""}}),
        "plain");
  expect_refused("plain --out heat.png " + kExplainedPicture,
                 {"no layer of the network makes images"});
  expect_refused("plain --out heat.png --layer flatten " + kExplainedPicture,
                 {"--layer flatten: its output is 1x64, no image"});
}

TEST_F(ExplainedNetwork, WeightsThatAreNotFiniteAreAFailure) {
  const safetensors::File file = safetensors::read(folder_ / "run/checkpoints/last.safetensors");
  std::vector<safetensors::Entry> entries(file.entries().begin(), file.entries().end());
  const std::vector<float> nan(4 * 144, std::numeric_limits<float>::quiet_NaN());
  for (safetensors::Entry& entry : entries) {
    if (entry.name == "fc1.weight") entry.data = nan.data();
  }
  safetensors::write(folder_ / "nan.safetensors", entries, file.metadata());
  expect_refused("nan.safetensors --out heat.png " + kExplainedPicture,
                 {"nan.safetensors: what the network makes of the picture is not finite"},
                 kExitFailure);
  EXPECT_FALSE(fs::exists(folder_ / "heat.png"));
}

TEST_F(ExplainedNetwork, ACheckpointWithoutItsNetworkNeedsAConfiguration) {
  const safetensors::File file = safetensors::read(folder_ / "run/checkpoints/last.safetensors");
  safetensors::write(folder_ / "weights.safetensors", file.entries(), {{"format", "pt"}});
  const std::string start = "weights.safetensors --out heat.png " + kExplainedPicture;
  expect_refused(start, {"does not say what network", "--config CONFIG"});
  EXPECT_EQ(explained(start + " --config net.yaml")["layer"], "relu1");
  folder_.write("own.yaml",
                changed(kTinyNetwork, {{"dataset: synthetic_images", "dataset: image_folder"},
                                       {", train_count: 64, validation_count: 32", ""}}));
  expect_refused(start + " --config own.yaml", {"does not say how images are normalised"});
  if (gpu_available()) return;
  expect_refused(start + " --config net.yaml --backend cudnn", {"cudnn"}, kExitUnsupported);
}

}  // namespace
}  // namespace duet
