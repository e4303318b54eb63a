// Wrong configurations: each is refused before anything starts, with place, reason and remedy.
#include <gtest/gtest.h>

#include "core/error.h"
#include "device/device.h"
#include "support/trainer_process.h"

namespace duet {
namespace {

using nlohmann::json;

// The tiny network with `from` replaced by `to`, checked by --dry-run.
Outcome checked(const std::vector<std::pair<std::string, std::string>>& changes,
                const std::string& arguments = "--dry-run") {
  const TrainerFolder folder;
  folder.write("net.yaml", changed(kTinyNetwork, changes));
  const Outcome outcome = folder.run("--config net.yaml " + arguments);
  EXPECT_FALSE(std::filesystem::exists(folder / "runs")) << "a refused run left a folder";
  return outcome;
}

Outcome checked_text(const std::string& text) {
  const TrainerFolder folder;
  folder.write("net.yaml", text);
  return folder.run("--config net.yaml --dry-run");
}

TEST(TrainerConfiguration, FilesThatAreNoConfiguration) {
  EXPECT_OUTCOME(checked_text(""), kExitUsage, "net.yaml", "is empty", "net.yaml: is empty");
  EXPECT_OUTCOME(checked_text("# only this\n"), kExitUsage, "is empty");
  EXPECT_OUTCOME(checked_text("hello\n"), kExitUsage, "expected 'key: value' lines");
  EXPECT_OUTCOME(checked_text("- a\n"), kExitUsage, "expected 'key: value' lines");
  EXPECT_OUTCOME(checked_text("name: a\nlayers: [1, 2\nseed: 3\n"), kExitUsage,
                 "net.yaml:3:", "not valid YAML");
  EXPECT_OUTCOME(checked_text("\tname: a\n"), kExitUsage, "net.yaml:1:", "not valid YAML");
  EXPECT_OUTCOME(checked_text("name: a\nname: b\n"), kExitUsage, "net.yaml:2:1", "twice");
  EXPECT_OUTCOME(checked_text("? [a]\n: b\n"), kExitUsage, "net.yaml:1:", "plain text");
  EXPECT_OUTCOME(checked_text("name: a\n---\nname: b\n"), kExitUsage, "second document");
  EXPECT_OUTCOME(checked_text("layers: []\n"), kExitUsage, "'layers' must be a list",
                 "required key 'dataset' is missing");
}

// It would be another text in a checkpoint, which could not be read or would be taken for another's.
TEST(TrainerConfiguration, TextIsUtf8) {
  EXPECT_OUTCOME(checked({{"name: conv1", "name: caf\xe9"}, {"name: relu1", "name: caf\xe8"}}),
                 kExitUsage, "net.yaml:7:15: ", "a byte (0xe9) that is not UTF-8");
  EXPECT_OUTCOME(checked({}, "--dry-run --set layers.conv1.name=caf\xe9"), kExitUsage,
                 "--set layers.conv1.name=", "a byte (0xe9) that is not UTF-8");
  EXPECT_OUTCOME(checked({}, "--dry-run --set caf\xe9=1"), kExitUsage, "the key is not UTF-8");
  EXPECT_OUTCOME(checked({}, "--dry-run --backend caf\xe9"), kExitUsage, "that is not UTF-8");
  EXPECT_OUTCOME(checked({}, "--dry-run --init-from caf\xe9.safetensors"), kExitUsage,
                 "--init-from caf\xe9.safetensors: ", "is not UTF-8; rename it");
  const TrainerFolder folder;
  folder.write("net.yaml",
               changed(kTinyNetwork, {{"name: conv1", "name: café"},
                                      {"type: relu", "type: relu, backend: cpu_mine"}}));
  EXPECT_OUTCOME(folder.run("new-kernel relu mine --device cpu"), kExitDone);
  folder.write("caf\xe9/relu_cpu_mine.cpp", folder.read("relu_cpu_mine.cpp"));
  EXPECT_OUTCOME(folder.run("--config net.yaml --kernels caf\xe9 --out run"), kExitUsage,
                 "--kernels caf\xe9/relu_cpu_mine.cpp: ", "is not UTF-8; rename it");
  EXPECT_OUTCOME(folder.run("--config net.yaml --kernels . --out run"), kExitDone);
  EXPECT_OUTCOME(folder.run("--config run/config.yaml --out run --resume last --epochs 3"),
                 kExitDone, "epoch 3/3");
}

TEST(TrainerConfiguration, EmptyAndHostileValuesAreRefused) {
  EXPECT_OUTCOME(checked_text(",name: a\n"), kExitUsage, "net.yaml:1:1", "','");
  EXPECT_OUTCOME(checked({{"type: relu", "type: \"\""}}), kExitUsage, "net.yaml:8:", "type",
                 "expected text, found ''");
  EXPECT_OUTCOME(checked({{"type: relu", "type: !relu"}}), kExitUsage, "net.yaml:8:", "tag");
  EXPECT_OUTCOME(checked({}, "--dry-run --set layers.conv1.type="), kExitUsage, "command line",
                 "key 'type' has no value");
  EXPECT_OUTCOME(checked({}, "--dry-run --set layers.conv1.type=\"\""), kExitUsage, "command line",
                 "expected text, found ''");
  EXPECT_OUTCOME(checked({{"dataset: synthetic_images", "dataset: \"\""}}), kExitUsage,
                 "net.yaml:3:", "dataset: expected text, found ''");
  EXPECT_OUTCOME(checked({}, "--dry-run --set name=../x"), kExitUsage, "command line", "'/'");
  EXPECT_OUTCOME(checked({}, "--dry-run --set name=.."), kExitUsage, "begin with '.'");
  EXPECT_OUTCOME(checked({}, "--dry-run --set name=" + std::string(300, 'x')), kExitUsage,
                 "at most 100 bytes");
}

TEST(TrainerConfiguration, MixupNeedsALossThatTakesMixedLabels) {
  const std::string mixup = "batch: 16, augment: [{type: mixup, alpha: 0.2}]";
  EXPECT_OUTCOME(checked({{"batch: 16", mixup}}), kExitDone);
  EXPECT_OUTCOME(checked({{"batch: 16", mixup}, {"softmax_cross_entropy", "multi_margin"}}),
                 kExitUsage, "net.yaml:", "multi_margin", "takes no mixed labels");
}

TEST(TrainerConfiguration, AllMistakesAtOnceWithTheirPlaces) {
  EXPECT_OUTCOME(
      checked({{"batch: 16", "batch: 0"},
               {"adam", "adamm"},
               {"kernel: 3", "kernl: 3"},
               {"type: relu", "type: rlu"},
               {"out_features: 4", "out_features: -4"},
               {"name: tiny", "nam: tiny"}}),
      kExitUsage, "net.yaml:1:1: configuration: unknown key 'nam' (did you mean 'name'?)",
      "net.yaml:3:42: data: batch: expected a whole number of at least 1, found '0'",
      "net.yaml:5:19: optimizer: type: unknown value 'adamm' (did you mean 'adam'?)",
      "net.yaml:7:5: layer conv1 (conv2d): required key 'kernel' is missing",
      "net.yaml:7:50: layer conv1 (conv2d): unknown key 'kernl' (did you mean 'kernel'?)",
      "net.yaml:8:25: layer 2: type: unknown layer type 'rlu' (did you mean 'relu'?)", "linear, ",
      "softmax_cross_entropy",  // what is known
      "net.yaml:10:45: layer fc1 (linear): out_features", "found '-4'");
}

TEST(TrainerConfiguration, ConsequencesOfAMistakeAreNotTold) {
  // Without the flatten layer the linear one does not fit either; without the sizes of the images
  // the kernel might not. Neither is what is wrong.
  const Outcome layer = checked({{"type: flatten", "type: flaten"}});
  EXPECT_OUTCOME(layer, kExitUsage, "unknown layer type 'flaten' (did you mean 'flatten'?)");
  EXPECT_EQ(layer.err.find("fc1"), std::string::npos) << layer.err;
  const Outcome data = checked({{"size: 8", "sise: 2"}, {"kernel: 3", "kernel: 29"}});
  EXPECT_OUTCOME(data, kExitUsage, "unknown key 'sise' (did you mean 'size'?)");
  EXPECT_EQ(data.err.find("kernel"), std::string::npos) << data.err;
}

TEST(TrainerConfiguration, LayersAndImplementationsThatAreUnknown) {
  EXPECT_OUTCOME(checked({{"{name: relu1, type: relu}", "relu"}}), kExitUsage, "net.yaml:8:5",
                 "layer 2", "{name: relu1, type: relu}");
  EXPECT_OUTCOME(checked({{"type: relu", "type: relu, backend: cpu_fast"}}), kExitUsage,
                 "net.yaml:8:40", "layer relu1 (relu)", "unknown implementation 'cpu_fast'",
                 "cpu_reference");
  EXPECT_OUTCOME(
      checked({{"backend: cpu", "backend: gpu"}}), kExitUsage, "net.yaml:2:10",
      "unknown implementation 'gpu'; on a GPU: 'custom' (hand-written kernels), 'cudnn'");
  EXPECT_OUTCOME(checked({{"backend: cpu", "backend: gpus"}}), kExitUsage,
                 "known: auto, cpu, custom, cudnn, cpu_");
  EXPECT_OUTCOME(checked({{"kernel: 3", "kernel: 3, backend: {forwards: cpu}"}}), kExitUsage,
                 "layer conv1 (conv2d): backend: unknown key 'forwards'");
  EXPECT_OUTCOME(checked({{"dataset: synthetic_images", "dataset: synthetic-images"}}), kExitUsage,
                 "net.yaml:3:17", "did you mean 'synthetic_images'?", "fashion_mnist");
}

TEST(TrainerConfiguration, KeysThatAreElsewhere) {
  for (const char* key : {"batch_size", "batch"}) {
    EXPECT_OUTCOME(checked({{"backend: cpu", std::string("backend: cpu\n") + key + ": 16"}}),
                   kExitUsage, "net.yaml:3:1: configuration: there is no key",
                   "write 'data: {batch: ...}', or --set data.batch=...");
    EXPECT_OUTCOME(checked({{"epochs: 2", std::string("epochs: 2, ") + key + ": 16"}}), kExitUsage,
                   std::string("train: there is no key '") + key + "'", "data: {batch: ...}");
  }
  EXPECT_OUTCOME(checked({{"batch: 16", "batch_size: 16"}}), kExitUsage,
                 "data: there is no key 'batch_size'; write 'data: {batch: ...}'");
  EXPECT_OUTCOME(checked({{"epochs: 2", "epochs: 2, lr: 1"}}), kExitUsage,
                 "optimizer: {learning_rate: ...}");
  EXPECT_OUTCOME(checked({{"backend: cpu", "backend: cpu\nepochs: 3"}}), kExitUsage,
                 "train: {epochs: ...}");
  EXPECT_OUTCOME(checked({{"batch: 16", "batch: 16, path: /data"}}), kExitUsage,
                 "net.yaml:3:", "data: there is no key 'path'", "--data DIR", "DUET_DATA");
  EXPECT_OUTCOME(checked({}, "--set data.path=/data"), kExitUsage,
                 "command line: data: there is no key 'path'", "--data DIR");
}

TEST(TrainerConfiguration, ShapesThatDoNotFit) {
  EXPECT_OUTCOME(checked({{"type: flatten", "type: relu"}}), kExitUsage, "net.yaml:10:5",
                 "layer fc1 (linear)", "16x4x6x6", "comes from layer flatten", "put a flatten");
  EXPECT_OUTCOME(checked({{"kernel: 3", "kernel: [3, 9]"}}), kExitUsage, "net.yaml:7:5",
                 "layer conv1 (conv2d)", "kernel 3x9 is larger than the input of 8x8", "16x1x8x8",
                 "comes from the data");
  EXPECT_OUTCOME(checked({{"out_features: 4", "out_features: 3"}}), kExitUsage, "net.yaml:11:5",
                 "labels 0 to 3", "fc1 has only 3 outputs");
  EXPECT_OUTCOME(checked({{"- {name: loss, type: softmax_cross_entropy}", ""}}), kExitUsage,
                 "net.yaml:10:5", "the network has no loss", "softmax_cross_entropy");
}

TEST(TrainerConfiguration, SizesThatAreNone) {
  EXPECT_OUTCOME(checked({{"kernel: 3", "kernel: 0"}}), kExitUsage, "net.yaml:7:58", "'0'");
  EXPECT_OUTCOME(checked({{"kernel: 3", "kernel: 3, padding: -1"}}), kExitUsage, "padding", "'-1'");
  EXPECT_OUTCOME(checked({{"kernel: 3", "kernel: 3, stride: [1, 0]"}}), kExitUsage, "stride",
                 "[height, width]");
  EXPECT_OUTCOME(checked({{"out_channels: 4", "out_channels: -4"}}), kExitUsage, "out_channels",
                 "'-4'");
  EXPECT_OUTCOME(checked({{"kernel: 3", "kernel: 1.5"}}), kExitUsage, "kernel", "'1.5'");
  EXPECT_OUTCOME(checked({{"epochs: 2", "epochs: 99999999999999999999"}}), kExitUsage,
                 "from 1 to 2147483647");
  EXPECT_OUTCOME(checked({{"learning_rate: 0.01", "learning_rate: -1"}}), kExitUsage,
                 "net.yaml:5:", "learning_rate", "'-1'");
  EXPECT_OUTCOME(checked({{"learning_rate: 0.01", "learning_rate: nan"}}), kExitUsage,
                 "learning_rate", "'nan'");
  EXPECT_OUTCOME(checked({{"learning_rate: 0.01", "learning_rate: 1e300"}}), kExitUsage,
                 "net.yaml:5:", "learning_rate", "'1e300'");
}

// A dry run refuses what no step could compute with.
TEST(TrainerConfiguration, NumbersBeyondFloat) {
  const TrainerFolder folder;
  for (const char* assignment : {"optimizer.weight_decay=1e300", "optimizer.learning_rate=1e-42",
                                 "data.mean=1e39", "data.stddev=1e-40", "optimizer.clip_norm=1e-50",
                                 "layers.loss.class_weights=[1,1,1e-60,1]"}) {
    const std::string text(assignment);
    const bool normalised = text.starts_with("data.");
    EXPECT_OUTCOME(folder.run("--config tiny.yaml --dry-run --set " + text +
                              (normalised ? text.starts_with("data.mean") ? " --set data.stddev=1"
                                                                          : " --set data.mean=0"
                                          : "")),
                   kExitUsage, "command line: ", "a number that float32 holds");
  }
}

// A number is one in JSON, however YAML has it written.
TEST(TrainerConfiguration, NumbersAreNumbersInJson) {
  const TrainerFolder folder;
  for (const char* number : {"0.001", ".001", "1.e-3", "+0.001", "1e-3", "00.001", "'0.001'"}) {
    folder.write("net.yaml",
                 changed(kTinyNetwork,
                         {{"learning_rate: 0.01}",
                           std::string("learning_rate: ") + number +
                               "}\nschedule: {type: step, step_size: 2, gamma: " + number + "}"}}));
    const Outcome shown = folder.run("show net.yaml --json");
    EXPECT_OUTCOME(shown, kExitDone);
    const json object = json::parse(shown.out);
    EXPECT_EQ(object["optimizer"]["learning_rate"], json(0.001)) << number;
    EXPECT_EQ(object["schedule"]["gamma"], json(0.001)) << number;
    EXPECT_TRUE(object["schedule"]["step_size"].is_number_integer());
    EXPECT_EQ(object["optimizer"]["type"], "adam");
  }
  EXPECT_OUTCOME(folder.run("--config tiny.yaml --quiet --epochs 1 --out run --set "
                            "optimizer.learning_rate=.01 --set optimizer.decay_biases=false"),
                 kExitDone);
  const json optimizer = json::parse(folder.read("run/run.json"))["optimizer"];
  EXPECT_EQ(optimizer["learning_rate"], json(0.01));
  EXPECT_EQ(optimizer["decay_biases"], json(false));
}

TEST(TrainerConfiguration, WrongSchedules) {
  const auto with = [](const std::string& keys) {
    return checked({{"train: {epochs: 2}", "train: {epochs: 2}\nschedule: {" + keys + "}"}});
  };
  EXPECT_OUTCOME(checked({}, "--set schedule=cosine"), kExitUsage,
                 "command line: schedule: expected a map (key: value), found 'cosine'");
  EXPECT_OUTCOME(with("gamma: 0.5"), kExitUsage,
                 "net.yaml:5:11: schedule: required key 'type' is missing");
  EXPECT_OUTCOME(with("type: onecycle"), kExitUsage,
                 "net.yaml:5:18: schedule: type: unknown value 'onecycle' (did you mean");
  EXPECT_OUTCOME(with("type: cosine, warmup_epochs: 2"), kExitUsage,
                 "net.yaml:5:41: schedule: warmup_epochs: the warm-up must end before");
  EXPECT_OUTCOME(checked({}, "--set schedule.type=cosine --set schedule.warmup_steps=8"),
                 kExitUsage,
                 "command line: schedule: the warm-up takes 8 of the schedule's 8 steps");
}

TEST(TrainerConfiguration, SizesThatNobodyCanCount) {
  EXPECT_OUTCOME(checked({{"out_channels: 4", "out_channels: 512, padding: 8388594"}}), kExitUsage,
                 "net.yaml:7:", "layer conv1 (conv2d)", "more than 2^40 elements");
  EXPECT_OUTCOME(checked({{"kernel: 3", "kernel: 2147483600, padding: 1073741800"}}), kExitUsage,
                 "net.yaml:7:", "more than 2^40 elements");
  EXPECT_OUTCOME(checked({{"kernel: 3", "kernel: 3, padding: 2147483647"}}), kExitUsage,
                 "net.yaml:7:", "more than 2^31-1 rows or columns");
  EXPECT_OUTCOME(checked({{"out_features: 4", "out_features: 2147483647"},
                          {"batch: 16", "batch: 2147483647"}}),
                 kExitUsage, "more than 2^40 elements");
}

TEST(TrainerConfiguration, BatchLargerThanTheData) {
  EXPECT_OUTCOME(checked({{"batch: 16", "batch: 65"}}, ""), kExitUsage, "net.yaml:3:42",
                 "65 is larger than the 64 training images of synthetic_images", "smaller batch");
  EXPECT_OUTCOME(checked({}, "--set data.batch=65"), kExitUsage, "command line: data: batch");
}

TEST(TrainerConfiguration, MoreThanTheMachineHas) {
  EXPECT_OUTCOME(checked({{"train_count: 64", "train_count: 2147483647"}}, ""), kExitFailure,
                 "out of memory", "smaller");
  EXPECT_OUTCOME(checked({{"out_features: 4", "out_features: 120000000"},
                          {"out_channels: 4", "out_channels: 128"}},
                         ""),
                 kExitFailure, "out of memory", "smaller layers");
}

TEST(TrainerConfiguration, WithoutAGpuSaysWhatToDo) {
  if (gpu_available()) GTEST_SKIP() << "needs a machine without a GPU";
  for (const char* family : {"custom", "cudnn"}) {
    const Outcome outcome = checked({}, std::string("--backend ") + family);
    EXPECT_OUTCOME(outcome, kExitUnsupported, family, "--backend cpu", gpu_missing_reason());
    // Without CUDA at all the same is said for the network that only names one.
    const Outcome layer =
        checked({{"type: relu", std::string("type: relu, backend: ") + family + "_unknown"}});
    EXPECT_EQ(layer.code, built_with_cuda() ? kExitUsage : kExitUnsupported) << layer.err;
  }
  EXPECT_OUTCOME(checked({{"type: relu", "type: relu, backend: cudnn"}}), kExitUsage,
                 "layer relu1 (relu)", "all layers of a network run on one device");
}

TEST(TrainerConfiguration, ImplementationThatCannotDoTheLayer) {
  // 46341 squared does not fit in 31 bits, in which BLAS counts.
  const std::string huge = "kernel: 46341, padding: 46341, stride: 50000";
  EXPECT_OUTCOME(checked({{"kernel: 3", huge + ", backend: cpu_blas"}}), kExitUnsupported,
                 "net.yaml:7:", "layer conv1 (conv2d)", "'cpu_blas' cannot run",
                 "BLAS counts rows and columns in 32 bits", "these can: cpu_reference");
  // The family takes the one that can.
  const Outcome family = checked({{"kernel: 3", huge}});
  EXPECT_EQ(family.code, kExitDone) << family.err;
  EXPECT_TRUE(has(family.out, "cpu_reference"));
}

}  // namespace
}  // namespace duet
