// trainer evaluate and trainer predict: a checkpoint is all that they need.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "core/error.h"
#include "data/format/image_file.h"
#include "device/device.h"
#include "support/trainer_process.h"
#include "train/checkpoint/safetensors.h"

namespace duet {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const std::string kPictures = DUET_SOURCE_DIR "/tests/data/pictures/";
const std::string kPicture = kPictures + "grey8.png";  // of the tiny network's size

// A folder with a run of the tiny network in "run".
class TrainedNetwork : public testing::Test {
 protected:
  void SetUp() override {
    EXPECT_OUTCOME(folder_.run("--config tiny.yaml --out run --quiet"), kExitDone);
  }

  json evaluate(const std::string& arguments) const {
    const Outcome outcome = folder_.run("evaluate --json " + arguments);
    EXPECT_EQ(outcome.code, kExitDone) << outcome.err;
    return json::parse(outcome.out);
  }
  // The list "images" of what it prints.
  json predict(const std::string& arguments) const {
    const Outcome outcome = folder_.run("predict --json " + arguments);
    EXPECT_EQ(outcome.code, kExitDone) << outcome.err;
    return json::parse(outcome.out)["images"];
  }
  // Writes changed.safetensors: the last checkpoint with other metadata; without an empty value.
  void write_with(const std::string& key, const std::string& value) const {
    const safetensors::File file = safetensors::read(folder_ / "run/checkpoints/last.safetensors");
    safetensors::Metadata metadata = file.metadata();
    metadata[key] = value;
    if (value.empty()) metadata.erase(key);
    safetensors::write(folder_ / "changed.safetensors", file.entries(), metadata);
  }
  json dataset() const {
    return json::parse(safetensors::describe(folder_ / "run/checkpoints/last.safetensors")
                           .metadata()
                           .at("dataset"));
  }
  // Both commands refuse what `checkpoint` names.
  void expect_refused(const std::string& checkpoint, const std::vector<std::string>& parts) const {
    for (const std::string& command : {std::string("evaluate"), "predict " + kPicture}) {
      const Outcome outcome = folder_.run(command + " --checkpoint " + checkpoint);
      EXPECT_EQ(outcome.code, kExitUsage) << outcome.err;
      EXPECT_TRUE(has(outcome.err, parts));
      EXPECT_EQ(outcome.out, "");
    }
  }

  TrainerFolder folder_;
};

TEST_F(TrainedNetwork, CheckpointAndRunSayWhatInputsMean) {
  const json run = json::parse(folder_.read("run/run.json"))["dataset"];
  EXPECT_EQ(run["source"], "generated");
  for (const json& data : {dataset(), run}) {
    EXPECT_EQ(data["name"], "synthetic_images");
    EXPECT_EQ(data["fingerprint"].get<std::string>().size(), 16u);
    EXPECT_EQ(data["channels"], 1);
    EXPECT_EQ(data["height"], 8);
    EXPECT_EQ(data["width"], 8);
    EXPECT_EQ(data["input"], "(byte / 255 - mean) / stddev");
    EXPECT_EQ(data["mean"], json({0.5}));
    EXPECT_EQ(data["stddev"], json({0.25}));
    EXPECT_EQ(data["classes"], json({"0", "1", "2", "3"}));
  }
}

// Rows of the confusion matrix add up to the images of a class, columns to those predicted.
void check_confusion(const json& evaluation) {
  const json& classes = evaluation["classes"];
  const json& matrix = evaluation["confusion"];
  ASSERT_EQ(matrix.size(), classes.size());
  for (size_t i = 0; i < classes.size(); ++i) {
    int64_t images = 0, predicted = 0;
    for (size_t j = 0; j < classes.size(); ++j) {
      images += matrix[i][j].get<int64_t>();
      predicted += matrix[j][i].get<int64_t>();
    }
    EXPECT_EQ(classes[i]["images"], images) << i;
    EXPECT_EQ(classes[i]["predicted"], predicted) << i;
    if (images > 0) {
      EXPECT_EQ(classes[i]["recall"], matrix[i][i].get<double>() / static_cast<double>(images));
    }
  }
}

TEST_F(TrainedNetwork, EvaluatesAsItsEpochDid) {
  const std::vector<json> epochs = metrics(folder_, "run", "epoch");
  const std::string last = "run/checkpoints/last.safetensors";
  const json result = evaluate("--checkpoint " + last);
  EXPECT_EQ(result["val_loss"], epochs.back()["val_loss"]);
  EXPECT_EQ(result["val_accuracy"], epochs.back()["val_accuracy"]);
  EXPECT_EQ(result["images"], 32);
  // Of four outputs it is always 1.
  EXPECT_FALSE(result.contains("val_top5") || epochs.back().contains("val_top5"));
  double images = 0, right = 0;
  for (const json& found : result["classes"]) {
    images += found["images"].get<double>();
    if (!found["recall"].is_null()) {
      right += found["recall"].get<double>() * found["images"].get<double>();
    }
  }
  EXPECT_EQ(images, 32);
  EXPECT_NEAR(right / 32, result["val_accuracy"], 1e-9);
  check_confusion(result);
  json best = json::parse(folder_.read("run/evaluation.json"));
  EXPECT_EQ(best["val_loss"], epochs.at(best["epoch"].get<size_t>() - 1)["val_loss"]);
  check_confusion(best);
  EXPECT_EQ(result["checkpoint"], last);
  EXPECT_EQ(result["dataset"], "synthetic_images");
  // The other way to ask for it, and other batches and implementations.
  const Outcome old = folder_.run("--config tiny.yaml --json --evaluate " + last);
  EXPECT_EQ(json::parse(old.out)["val_loss"], result["val_loss"]);
  const double loss = result["val_loss"];
  for (const std::string more : {"--batch 5", "--batch 1000", "--backend cpu_reference",
                                 "--set layers.conv1.backend=cpu_reference"}) {
    EXPECT_NEAR(evaluate("--checkpoint " + last + " " + more)["val_loss"], loss, 1e-5 * loss)
        << more;
  }
  const Outcome text = folder_.run("evaluate --quiet --checkpoint " + last);
  EXPECT_TRUE(has(text.out, last + ": validation loss", "% of 32 images", " images/s"));
  EXPECT_EQ(text.err, "");
  EXPECT_FALSE(fs::exists(folder_ / "runs"));
}

TEST_F(TrainedNetwork, ARunStandsForItsBestEpoch) {
  const auto used = [&](const std::string& named) {
    const Outcome outcome = folder_.run("evaluate --json --checkpoint " + named);
    const json result = json::parse(outcome.out);
    EXPECT_TRUE(has(outcome.err, "checkpoint " + result["checkpoint"].get<std::string>()));
    return result["checkpoint"];
  };
  EXPECT_EQ(used("run"), "run/checkpoints/best.safetensors");
  fs::remove(folder_ / "run/checkpoints/best.safetensors");
  EXPECT_EQ(used("run/"), "run/checkpoints/last.safetensors");
  fs::remove(folder_ / "run/checkpoints/last.safetensors");
  expect_refused("run", {"run: is a folder without checkpoints/best.safetensors"});
  expect_refused("none", {"--checkpoint none: there is no such file or folder"});
}

TEST_F(TrainedNetwork, AnotherNetworkIsNotEvaluatedUnasked) {
  const std::string changed = "evaluate --checkpoint run --set layers.relu1.type=tanh";
  EXPECT_OUTCOME(folder_.run(changed), kExitUsage, "trained otherwise",
                 "layers.relu1.type: relu -> tanh", "--allow-changes");
  EXPECT_OUTCOME(folder_.run(changed + " --allow-changes"), kExitDone, "otherwise than");
  EXPECT_OUTCOME(folder_.run("predict --checkpoint run --set layers.relu1.type=tanh " + kPicture),
                 kExitUsage, "trained otherwise");
  EXPECT_OUTCOME(folder_.run("evaluate --checkpoint run --batch 0"), kExitUsage, "data: batch");
}

TEST_F(TrainedNetwork, PredictsPictures) {
  const json images = predict("--checkpoint run --top 4 " + kPicture);
  ASSERT_EQ(images.size(), 1u);
  EXPECT_EQ(images[0]["image"], kPicture);
  const json& predictions = images[0]["predictions"];
  ASSERT_EQ(predictions.size(), 4u);
  double sum = 0.0, before = 1.0;
  std::string classes;
  for (const json& prediction : predictions) {
    const double confidence = prediction["confidence"];
    EXPECT_LE(confidence, before);
    before = confidence;
    sum += confidence;
    EXPECT_EQ(prediction["name"], std::to_string(prediction["class"].get<int>()));
    classes += prediction["name"];
  }
  EXPECT_NEAR(sum, 1.0, 1e-12);
  std::sort(classes.begin(), classes.end());
  EXPECT_EQ(classes, "0123");
  EXPECT_EQ(predict("--checkpoint run " + kPicture)[0]["predictions"].size(), 3u);
  EXPECT_EQ(predict("--checkpoint run --top 1 " + kPicture)[0]["predictions"].size(), 1u);
  EXPECT_EQ(predict("--checkpoint run --top 99 " + kPicture)[0]["predictions"].size(), 4u);
  // The same bits the network computes elsewhere.
  const json reference = predict("--checkpoint run --top 4 --backend cpu_reference " + kPicture);
  EXPECT_NEAR(reference[0]["predictions"][0]["confidence"], predictions[0]["confidence"], 1e-5);

  const Outcome table = folder_.run("predict --quiet --checkpoint run --top 2 " + kPicture);
  EXPECT_OUTCOME(table, kExitDone);
  const std::vector<std::string> rows = lines_of(table.out);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_TRUE(has(rows[0], "image", "class", "confidence"));
  EXPECT_TRUE(has(rows[1], kPicture, predictions[0]["name"].get<std::string>(), "%"));
  EXPECT_FALSE(has(rows[2], kPicture));
}

// Its file names the network of any weights, and both are held to each other.
TEST_F(TrainedNetwork, WeightsThatDoNotFitTheNamedNetworkAreTold) {
  const safetensors::File file = safetensors::read(folder_ / "run/checkpoints/last.safetensors");
  std::vector<safetensors::Entry> weights;
  for (const safetensors::Entry& entry : file.entries()) {
    if (!entry.name.starts_with("optimizer.")) weights.push_back(entry);
  }
  const auto expect = [&](const std::vector<safetensors::Entry>& entries,
                          const std::vector<std::string>& parts) {
    safetensors::write(folder_ / "changed.safetensors", entries);
    expect_refused("changed.safetensors --config tiny.yaml", parts);
  };
  std::vector<safetensors::Entry> changed = weights;
  changed.back().name = "fc9.weight";
  expect(changed, {"changed.safetensors: ", "it has no '" + weights.back().name + "'"});
  changed = weights;
  changed.push_back(changed.back());
  changed.back().name = "fc9.weight";
  expect(changed, {"changed.safetensors: ", "it has 'fc9.weight', which this network has not"});
  changed = weights;
  changed.back().shape.insert(changed.back().shape.begin(), 1);
  expect(changed, {"changed.safetensors: ", "'" + weights.back().name + "' is 1x", "float32 here"});
  EXPECT_OUTCOME(folder_.run("predict --config none.yaml --checkpoint run " + kPicture), kExitUsage,
                 "none.yaml: cannot open");
  folder_.write("tanh.yaml", duet::changed(kTinyNetwork, {{"type: relu", "type: tanh"}}));
  EXPECT_OUTCOME(folder_.run("predict --config tanh.yaml --checkpoint run " + kPicture), kExitUsage,
                 "trained otherwise", "layers.relu1.type: relu -> tanh");
}

// The pictures of a folder say how they are normalised when they are loaded, and not before.
TEST_F(TrainedNetwork, WithoutNormalisationNothingIsPredicted) {
  folder_.write("own.yaml",
                changed(kTinyNetwork, {{"dataset: synthetic_images", "dataset: image_folder"},
                                       {", train_count: 64, validation_count: 32", ""}}));
  write_with("format", "pt");
  EXPECT_OUTCOME(
      folder_.run("predict --config own.yaml --checkpoint changed.safetensors " + kPicture),
      kExitUsage, "changed.safetensors: does not say how images are normalised",
      "give data.mean and data.stddev");
}

// 100 images are two batches; the first is in both alone and among them.
TEST_F(TrainedNetwork, ConfidencesDoNotDependOnOtherPictures) {
  std::string idx = {0, 0, 8, 3, 0, 0, 0, 100, 0, 0, 0, 8, 0, 0, 0, 8};
  for (int i = 0; i < 100 * 64; ++i) idx += static_cast<char>(i * 37 + i / 100);
  folder_.write("images", idx);
  const json all = predict("--checkpoint run images");
  ASSERT_EQ(all.size(), 100u);
  EXPECT_EQ(all[99]["image"], "images:99");
  EXPECT_EQ(predict("--checkpoint run images:0")[0], all[0]);
  EXPECT_EQ(predict("--checkpoint run images:64")[0]["predictions"], all[64]["predictions"]);
  for (const int i : {1, 63, 99}) {  // elsewhere in a batch: but for rounding
    const json one = predict("--checkpoint run images:" + std::to_string(i))[0]["predictions"];
    EXPECT_EQ(one[0]["class"], all[i]["predictions"][0]["class"]);
    EXPECT_NEAR(one[0]["confidence"], all[i]["predictions"][0]["confidence"], 1e-5);
  }
}

TEST_F(TrainedNetwork, PicturesThatDoNotFitAreTold) {
  const std::string start = "predict --checkpoint run ";
  const std::string grey = kPictures + "grey.png";
  EXPECT_OUTCOME(folder_.run(start + grey), kExitUsage, "grey.png: is 5x4 pixels",
                 "the network takes 8x8", "--resize");
  EXPECT_EQ(predict("--checkpoint run --resize " + grey + " " + kPictures + "colour.jpg").size(),
            2u);
  EXPECT_OUTCOME(folder_.run(start + kPicture + " tiny.yaml run none.png"), kExitUsage,
                 "tiny.yaml: is no picture", "run: is a folder", "none.png: cannot open");
  EXPECT_OUTCOME(folder_.run("predict --checkpoint run"), kExitUsage, "images is required");
  EXPECT_OUTCOME(folder_.run("predict " + kPicture), kExitUsage, "--checkpoint is required");
  EXPECT_OUTCOME(folder_.run(start + "--top 0 " + kPicture), kExitUsage, "--top: at least 1");
  EXPECT_OUTCOME(folder_.run(start + "--top many " + kPicture), kExitUsage,
                 "--top: expected a whole number, found 'many'");
  EXPECT_OUTCOME(folder_.run("--epochs 3 " + start + kPicture), kExitUsage,
                 "--epochs: does not belong to 'predict'");
}

TEST_F(TrainedNetwork, ActivationsArePictures) {
  const json plain = predict("--checkpoint run " + kPicture + " " + kPicture);
  EXPECT_EQ(predict("--checkpoint run --activations maps/mine " + kPicture + " " + kPicture),
            plain);
  size_t first = 0, second = 0;
  for (const auto& entry : fs::directory_iterator(folder_ / "maps/mine")) {
    const std::string name = entry.path().filename().string();
    first += name.starts_with("1-conv1") && name.ends_with(".png");
    second += name.starts_with("2-conv1");
    EXPECT_GT(read_image_file(entry.path()).width, 4 * 30);  // a tile for each channel
  }
  EXPECT_EQ(first, 1u);
  EXPECT_EQ(second, 1u);
  EXPECT_OUTCOME(folder_.run("predict --checkpoint run --activations tiny.yaml " + kPicture),
                 kExitUsage, "--activations tiny.yaml: cannot make this folder: Not a directory");
}

TEST_F(TrainedNetwork, NormalisationAndNamesAreTheCheckpoints) {
  const json before = predict("--checkpoint run/checkpoints/last.safetensors " + kPicture);
  json data = dataset();
  data["classes"] = {"north", "east", "south", "west"};
  write_with("dataset", data.dump());
  json after = predict("--checkpoint changed.safetensors " + kPicture)[0]["predictions"];
  EXPECT_EQ(after[0]["name"], data["classes"][after[0]["class"].get<size_t>()]);
  EXPECT_EQ(after[0]["confidence"], before[0]["predictions"][0]["confidence"]);
  EXPECT_TRUE(has(folder_.run("predict --checkpoint changed.safetensors " + kPicture).out,
                  after[0]["name"].get<std::string>()));
  const double loss = evaluate("--checkpoint changed.safetensors")["val_loss"];
  const std::string commands[] = {"evaluate --checkpoint ",
                                  "predict " + kPicture + " --checkpoint ",
                                  "--config tiny.yaml --evaluate "};
  const std::string warning = "images are normalised as the checkpoint says (mean 0.1, stddev ";
  for (const std::string& command : commands) {
    EXPECT_EQ(folder_.run(command + "changed.safetensors").err.find("normalised"), warning.npos);
  }
  data["mean"] = {0.1};
  write_with("dataset", data.dump());
  for (const std::string& command : commands) {
    const std::string said = folder_.run(command + "changed.safetensors").err;
    EXPECT_TRUE(has(said, warning, "), not as synthetic_images says (mean "));
    EXPECT_EQ(said.find(warning), said.rfind(warning)) << said;
  }
  EXPECT_NE(evaluate("--checkpoint changed.safetensors")["val_loss"], loss);
  after = predict("--checkpoint changed.safetensors " + kPicture)[0]["predictions"];
  EXPECT_NE(after[0]["confidence"], before[0]["predictions"][0]["confidence"]);
}

// The first checkpoints of this format say nothing of the data but the data set's name.
TEST_F(TrainedNetwork, OlderCheckpointsMeanWhatTheirDataSetMeans) {
  const std::string last = "run/checkpoints/last.safetensors ";
  write_with("dataset", "");
  EXPECT_EQ(predict("--checkpoint changed.safetensors " + kPicture),
            predict("--checkpoint " + last + kPicture));
  EXPECT_EQ(evaluate("--checkpoint changed.safetensors")["val_loss"],
            evaluate("--checkpoint " + last)["val_loss"]);
  EXPECT_OUTCOME(folder_.run("--config tiny.yaml --epochs 3 --resume changed.safetensors"),
                 kExitDone);
}

TEST_F(TrainedNetwork, DamagedCheckpointsAreRefused) {
  const std::string last = folder_.read("run/checkpoints/last.safetensors");
  folder_.write("changed.safetensors", last.substr(0, last.size() - 9));
  expect_refused("changed.safetensors", {"changed.safetensors", "truncated"});
  folder_.write("changed.safetensors", "hello, I am a text");
  expect_refused("changed.safetensors", {"not safetensors?"});
  write_with("dataset", "{}");
  expect_refused("changed.safetensors",
                 {"changed.safetensors: is damaged: its metadata: 'dataset': it has no 'name'"});
  write_with("config", "name: [");
  expect_refused("changed.safetensors", {"is damaged: its metadata"});
  write_with("config", "name: \033[2J\n");
  expect_refused("changed.safetensors", {"changed.safetensors"});
  EXPECT_EQ(folder_.run("evaluate --checkpoint changed.safetensors").err.find('\033'),
            std::string::npos);
  const safetensors::File file =
      safetensors::describe(folder_ / "run/checkpoints/last.safetensors");
  std::string config = file.metadata().at("config");
  write_with("config", changed(config, {{"out_features: 4", "out_features: 5"}}));
  expect_refused("changed.safetensors", {"its tensors do not fit", "'fc1.weight'"});
  write_with("config", changed(config, {{"type: relu", "type: relo"}}));
  expect_refused("changed.safetensors", {"changed.safetensors", "unknown layer type 'relo'"});
}

TEST_F(TrainedNetwork, ParametersWithoutTheirNetworkAreEvaluatedOtherwise) {
  write_with("format", "pt");
  expect_refused("changed.safetensors",
                 {"changed.safetensors: does not say what network", "PyTorch", "--config CONFIG"});
  EXPECT_OUTCOME(folder_.run("--config tiny.yaml --evaluate changed.safetensors"), kExitDone);
  const std::string last = "--checkpoint run/checkpoints/last.safetensors ";
  const std::string named = "--config tiny.yaml --checkpoint changed.safetensors ";
  EXPECT_EQ(predict(named + kPicture), predict(last + kPicture));
  EXPECT_EQ(evaluate(named)["val_loss"], evaluate(last)["val_loss"]);
}

TEST_F(TrainedNetwork, WeightsThatAreNotFiniteAreAFailure) {
  const safetensors::File file = safetensors::read(folder_ / "run/checkpoints/last.safetensors");
  std::vector<safetensors::Entry> entries(file.entries().begin(), file.entries().end());
  const std::vector<float> nan(4 * 144, std::numeric_limits<float>::quiet_NaN());
  for (safetensors::Entry& entry : entries) {
    if (entry.name == "fc1.weight") entry.data = nan.data();
  }
  safetensors::write(folder_ / "nan.safetensors", entries, file.metadata());
  const Outcome outcome = folder_.run("predict --json --checkpoint nan.safetensors " + kPicture);
  EXPECT_OUTCOME(outcome, kExitFailure, "nan.safetensors", "grey8.png is not finite");
  EXPECT_EQ(outcome.out, "");
}

TEST(TrainerEvaluate, FoldedNormsGiveTheSame) {
  const TrainerFolder folder;
  folder.write("norm.yaml", changed(kTinyNetwork, {{"  - {name: relu1, type: relu}",
                                                    "  - {name: norm1, type: batch_norm2d}\n"
                                                    "  - {name: relu1, type: relu}"}}));
  ASSERT_EQ(folder.run("--config norm.yaml --out run --quiet").code, kExitDone);
  const Outcome plain = folder.run("evaluate --json --checkpoint run");
  const Outcome folded = folder.run("evaluate --json --checkpoint run --set fold_norms=true");
  EXPECT_OUTCOME(plain, kExitDone);
  EXPECT_OUTCOME(folded, kExitDone, "folded into convolutions: norm1");
  EXPECT_FALSE(has(plain.err, "folded"));
  const double loss = json::parse(plain.out)["val_loss"];
  EXPECT_NEAR(json::parse(folded.out)["val_loss"], loss, 1e-5 * loss);
  EXPECT_OUTCOME(folder.run("predict --checkpoint run --set fold_norms=true " + kPicture),
                 kExitDone, "folded into convolutions: norm1");
}

TEST_F(TrainedNetwork, ABackendThatIsNotHereIsTold) {
  if (gpu_available()) GTEST_SKIP() << "needs a machine without a GPU";
  for (const std::string& command : {std::string("evaluate"), "predict " + kPicture}) {
    EXPECT_OUTCOME(folder_.run(command + " --checkpoint run --backend cudnn"), kExitUnsupported,
                   "cudnn", "use '--backend cpu'");
  }
}

}  // namespace
}  // namespace duet
