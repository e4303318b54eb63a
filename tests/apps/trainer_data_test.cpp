// Training on data of one's own, from the files to predictions.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "core/error.h"
#include "support/trainer_process.h"

namespace duet {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

json last_epoch(const TrainerFolder& folder, const std::string& run) {
  return metrics(folder, run, "epoch").back();
}

std::string config_path(const std::string& name) {
  return DUET_SOURCE_DIR "/configs/" + name + ".yaml";
}

TEST(TrainerData, PointsAreLearnt) {
  const TrainerFolder folder;
  for (const std::string name : {"perceptron_points", "mlp_xor"}) {
    EXPECT_OUTCOME(
        folder.run("--config " + config_path(name) + " --backend cpu --out " + name + " --quiet"),
        kExitDone);
    EXPECT_GT(last_epoch(folder, name)["val_accuracy"].get<double>(), 0.99) << name;
  }
}

// A perceptron learns nothing of xor: the points are not as easy as that.
TEST(TrainerData, APerceptronDoesNotLearnXor) {
  const TrainerFolder folder;
  EXPECT_OUTCOME(folder.run("--config " + config_path("perceptron_points") +
                            " --backend cpu --out run --quiet --set data.kind=xor"),
                 kExitDone);
  EXPECT_LT(last_epoch(folder, "run")["val_accuracy"].get<double>(), 0.8);
}

// What is drawn follows from the step alone.
TEST(TrainerData, AnAugmentedTrainingIsResumedToTheSameBits) {
  const TrainerFolder folder;
  folder.write("augmented.yaml",
               changed(kTinyNetwork, {{"batch: 16",
                                       "batch: 16, augment: [{type: random_crop, padding: 2}, "
                                       "{type: horizontal_flip, alternate: true}, "
                                       "{type: cutout, size: 3}, {type: random_resized_crop}, "
                                       "{type: colour_jitter, contrast: 0.5}]"}}));
  const std::string arguments = "--config augmented.yaml --quiet";
  EXPECT_OUTCOME(folder.run(arguments + " --epochs 3 --out whole"), kExitDone);
  EXPECT_OUTCOME(folder.run(arguments + " --epochs 1 --out parts"), kExitDone);
  EXPECT_OUTCOME(folder.run(arguments + " --epochs 3 --out parts --resume last"), kExitDone);
  EXPECT_OUTCOME(folder.run("--config tiny.yaml --quiet --epochs 3 --out plain"), kExitDone);
  const auto weights = [&](const std::string& run) {
    return tensors(folder / (run + "/checkpoints/last.safetensors"));
  };
  EXPECT_EQ(weights("whole"), weights("parts"));
  EXPECT_NE(weights("whole"), weights("plain"));
}

const char* const kTable =
    "name: table\nbackend: cpu\n"
    "data: {dataset: csv, folder: iris, features: 2, classes: 2, batch: 8}\n"
    "train: {epochs: 8}\noptimizer: {type: adam, learning_rate: 0.1}\n"
    "layers:\n  - {type: flatten}\n  - {type: linear, out_features: 2}\n"
    "  - {type: softmax_cross_entropy}\n";

TEST(TrainerData, ATableIsTrainedEvaluatedAndResumed) {
  const TrainerFolder folder;
  std::string text = "width,height,label\n";
  for (int i = 0; i < 60; ++i) {
    text += std::to_string(1000 + i) + "," + std::to_string(i % 7) + "," +
            (i < 30 ? "rose" : "tulip") + "\n";
  }
  folder.write("data/iris/train.csv", text);
  folder.write("table.yaml", kTable);
  EXPECT_OUTCOME(folder.run("--config table.yaml --data data --out run --quiet"), kExitDone);
  const json run = json::parse(folder.read("run/run.json"))["dataset"];
  EXPECT_EQ(run["input"], "(number - mean) / stddev");
  EXPECT_NEAR(run["mean"][0].get<double>(), 1029.5, 5.0);
  EXPECT_EQ(run["classes"], json({"rose", "tulip"}));
  EXPECT_GT(last_epoch(folder, "run")["val_accuracy"].get<double>(), 0.8);
  const Outcome evaluated = folder.run("evaluate --checkpoint run --data data --json");
  EXPECT_OUTCOME(evaluated, kExitDone);
  EXPECT_EQ(json::parse(evaluated.out)["classes"][1]["name"], "tulip");
  EXPECT_OUTCOME(
      folder.run("predict --checkpoint run " DUET_SOURCE_DIR "/tests/data/pictures/grey.png"),
      kExitUsage, "takes the numbers of csv, not pictures");
  EXPECT_OUTCOME(folder.run("--config table.yaml --data data --out run --resume last --epochs 9"),
                 kExitDone, "54 training and 6 validation");
  // Other data, and another normalisation, are told.
  folder.write("data/iris/train.csv", text + "1,2,rose\n");
  EXPECT_OUTCOME(folder.run("evaluate --checkpoint run --data data"), kExitUsage, "data");
  EXPECT_OUTCOME(folder.run("--config table.yaml --data data --out run --resume last --epochs 10 "
                            "--set data.mean=0 --set data.stddev=1"),
                 kExitUsage, "data.mean: (none) -> 0");
}

const char* const kPets =
    "name: pets\nbackend: cpu\n"
    "data:\n  {dataset: image_folder, folder: pets, validation: val, classes: 2, size: 4,\n"
    "   resize: 4, batch: 4, on_error: skip, augment: [{type: horizontal_flip}]}\n"
    "train: {epochs: 2}\noptimizer: {type: adam, learning_rate: 0.01}\n"
    "layers:\n  - {type: flatten}\n  - {type: linear, out_features: 2}\n"
    "  - {type: softmax_cross_entropy}\n";

// 12 + 12 pictures in two classes, one that is broken, and pets.yaml.
void write_pets(const TrainerFolder& folder) {
  for (const std::string split : {"train", "val"}) {
    for (int i = 0; i < 6; ++i) {
      for (const std::string name : {"grey.png", "colour.png"}) {
        const fs::path to = folder / ("data/pets/" + split + "/" + name.substr(0, 4) + "/" +
                                      std::to_string(i) + ".png");
        fs::create_directories(to.parent_path());
        fs::copy_file(DUET_SOURCE_DIR "/tests/data/pictures/" + name, to);
      }
    }
  }
  folder.write("data/pets/train/grey/broken.png", "x");
  folder.write("pets.yaml", kPets);
}

TEST(TrainerData, PicturesAreTrainedAndPredicted) {
  const TrainerFolder folder;
  write_pets(folder);
  EXPECT_OUTCOME(folder.run("--config pets.yaml --data data --out run"), kExitDone,
                 "1 of 13 pictures cannot be read and are left out", "broken.png",
                 "12 training and 12 validation images, 1 left out, from ");
  EXPECT_EQ(last_epoch(folder, "run")["val_accuracy"], 1.0);
  EXPECT_EQ(last_epoch(folder, "run")["left_out"], 1);
  const json left_out = json::parse(folder.read("run/run.json"))["dataset"]["left_out"];
  EXPECT_EQ(left_out["count"], 1);
  EXPECT_TRUE(has(left_out["named"][0].get<std::string>(), "broken.png: is no picture"));
  const Outcome predicted = folder.run("predict --checkpoint run --json " DUET_SOURCE_DIR
                                       "/tests/data/pictures/grey.png");
  EXPECT_OUTCOME(predicted, kExitDone);
  EXPECT_FALSE(has(predicted.err, "normalised"));
  EXPECT_EQ(json::parse(predicted.out)["images"][0]["predictions"][0]["name"], "grey");
  // Augmentation decides nothing of an evaluation, but all of a training.
  EXPECT_OUTCOME(folder.run("evaluate --checkpoint run --data data --set data.augment=[]"),
                 kExitDone);
  EXPECT_OUTCOME(folder.run("--config pets.yaml --data data --out run --resume last --epochs 3 "
                            "--set data.augment=[]"),
                 kExitUsage, "data.augment: ");
  EXPECT_OUTCOME(folder.run("--config pets.yaml --data data --set data.on_error=stop"), kExitUsage,
                 "1 of 13 pictures cannot be read", "broken.png: is no picture");
}

// From files, from memory or resident, stopped or not: one training.
TEST(TrainerData, AStreamedTrainingIsTheResidentOne) {
  const TrainerFolder folder;
  write_pets(folder);
  const std::string train = "--config pets.yaml --data data ";
  EXPECT_OUTCOME(folder.run(train + "--epochs 40 --out resident"), kExitDone,
                 "training images in memory, validation images in memory");
  EXPECT_OUTCOME(folder.run(train + "--epochs 40 --out files --set data.stream=files"), kExitDone,
                 "1 of 13 pictures cannot be read and are left out", "training images streamed",
                 "from files by");
  EXPECT_OUTCOME(folder.run(train + "--epochs 40 --out memory --set data.stream=memory"), kExitDone,
                 "streamed from memory by");
  const auto weights = [&](const std::string& run) {
    return tensors(folder / (run + "/checkpoints/last.safetensors"));
  };
  EXPECT_EQ(weights("files"), weights("resident"));
  EXPECT_EQ(weights("memory"), weights("resident"));
  EXPECT_EQ(last_epoch(folder, "files")["val_loss"], last_epoch(folder, "resident")["val_loss"]);
  EXPECT_EQ(json::parse(folder.read("files/run.json"))["dataset"]["fingerprint"],
            json::parse(folder.read("resident/run.json"))["dataset"]["fingerprint"]);
  const Outcome evaluated = folder.run("evaluate --checkpoint files --data data --json");
  EXPECT_OUTCOME(evaluated, kExitDone);

  // Stopped within an epoch, and gone on with otherwise.
  const std::string long_epochs = train + "--set data.batch=1 --set train.log_every=1 ";
  const std::string endless = long_epochs + "--epochs 1000000 --set data.stream=";
  const Outcome stopped =
      folder.run_until(endless + "files --out stopped", folder / "stopped/metrics.jsonl", SIGINT);
  EXPECT_EQ(stopped.code, kExitInterrupted) << stopped.err;
  EXPECT_LT(stopped.seconds_after_signal, 5.0);
  const int reached = metrics(folder, "stopped", "step").back()["step"].get<int>();
  const std::string epochs = "--epochs " + std::to_string(reached / 12 + 2);
  EXPECT_OUTCOME(folder.run(long_epochs + epochs + " --out stopped --resume last"), kExitDone,
                 "data.stream: files -> (none)");
  EXPECT_OUTCOME(folder.run(long_epochs + epochs + " --out whole --set data.stream=memory"),
                 kExitDone);
  EXPECT_EQ(weights("stopped"), weights("whole"));
}

TEST(TrainerData, APictureThatIsSpoiltLaterEndsTheTrainingWithItsLastCheckpoint) {
  const TrainerFolder folder;
  write_pets(folder);
  const fs::path last = folder / "run/checkpoints/last.safetensors";
  std::thread spoiler([&] {
    for (int i = 0; i < 6000 && !fs::exists(last); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    folder.write("data/pets/train/colo/3.png", "x");
  });
  const std::string train = "--config pets.yaml --data data --out run ";
  EXPECT_OUTCOME(folder.run(train + "--epochs 10000000 --set data.stream=files"), kExitUsage,
                 "colo/3.png: is no picture", "when the data set was loaded it was right",
                 "the last good checkpoint is kept: ");
  spoiler.join();
  const size_t done = metrics(folder, "run", "epoch").size();
  fs::copy_file(folder / "data/pets/train/colo/2.png", folder / "data/pets/train/colo/3.png",
                fs::copy_options::overwrite_existing);
  EXPECT_OUTCOME(folder.run(train + "--resume last --epochs " + std::to_string(done + 1)),
                 kExitDone, "epoch " + std::to_string(done + 1));
}

}  // namespace
}  // namespace duet
