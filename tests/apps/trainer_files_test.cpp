// Files that are missing, cut short, corrupt or in the way: each is named, and nothing is lost.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <zlib.h>

#include <limits>

#include "core/error.h"
#include "support/trainer_process.h"
#include "train/checkpoint/safetensors.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

// IDX of bytes: header, sizes, content.
std::string idx(const std::vector<uint32_t>& dims, const std::string& content) {
  std::string text = {0, 0, 8, static_cast<char>(dims.size())};
  for (uint32_t dim : dims) {
    for (int shift : {24, 16, 8, 0}) text += static_cast<char>(dim >> shift & 0xFF);
  }
  return text + content;
}

std::string images(uint32_t count) {
  std::string pixels;
  for (uint32_t i = 0; i < count * 28 * 28; ++i) pixels += static_cast<char>(i * 7 + i / 784);
  return idx({count, 28, 28}, pixels);
}

std::string labels(uint32_t count) {
  std::string values;
  for (uint32_t i = 0; i < count; ++i) values += static_cast<char>(i % 10);
  return idx({count}, values);
}

std::string gzip(const std::string& content) {
  std::string packed(compressBound(content.size()) + 64, '\0');
  z_stream z{};
  deflateInit2(&z, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  z.avail_in = static_cast<uInt>(content.size());
  z.next_out = reinterpret_cast<Bytef*>(packed.data());
  z.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
  packed.resize(z.total_out);
  deflateEnd(&z);
  return packed;
}

constexpr const char* kMnistNetwork = R"(name: small
backend: cpu
data: {dataset: mnist, batch: 8}
train: {epochs: 1}
layers:
  - {type: flatten}
  - {name: fc, type: linear, out_features: 10}
  - {type: softmax_cross_entropy}
)";

// A folder "data" with 40 + 16 images, the first two files gzip.
void write_mnist(const TrainerFolder& folder) {
  folder.write("net.yaml", kMnistNetwork);
  folder.write("data/train-images-idx3-ubyte.gz", gzip(images(40)));
  folder.write("data/train-labels-idx1-ubyte.gz", gzip(labels(40)));
  folder.write("data/t10k-images-idx3-ubyte", images(16));
  folder.write("data/t10k-labels-idx1-ubyte", labels(16));
}

TEST(TrainerData, MissingDataSetSaysWhereItLookedAndWhatToDo) {
  const TrainerFolder folder;
  folder.write("net.yaml", kMnistNetwork);
  EXPECT_OUTCOME(folder.run("--config net.yaml --data nowhere"), kExitUsage,
                 "data set mnist was not found", "nowhere", "--data DIR", "DUET_DATA",
                 "train-images-idx3-ubyte");
  EXPECT_FALSE(fs::exists(folder / "runs"));
}

TEST(TrainerData, DamagedFilesAreNamedWithThePlace) {
  const TrainerFolder folder;
  write_mnist(folder);
  EXPECT_EQ(folder.run("--config net.yaml --data data --out good").code, kExitDone);
  const auto expect = [&](const std::string& file, const std::string& content,
                          const std::vector<std::string>& parts) {
    SCOPED_TRACE(file + ": " + parts.front());
    const std::string before = folder.read("data/" + file);
    folder.write("data/" + file, content);
    const Outcome outcome = folder.run("--config net.yaml --data data --out bad");
    EXPECT_OUTCOME(outcome, kExitUsage, file);
    for (const std::string& part : parts) {
      EXPECT_NE(outcome.err.find(part), std::string::npos) << part << " is not in: " << outcome.err;
    }
    EXPECT_FALSE(fs::exists(folder / "bad"));
    folder.write("data/" + file, before);
  };
  const std::string test_images = "t10k-images-idx3-ubyte", test_labels = "t10k-labels-idx1-ubyte";
  const std::string train_images = "train-images-idx3-ubyte.gz";
  expect(test_images, images(16).substr(0, 500), {"offset 500", "truncated"});
  expect(test_images, images(16).substr(0, 7), {"offset 7"});
  expect(test_images, images(16) + "x", {"left over"});
  expect(test_images, "PNG" + images(16), {"offset 0"});
  expect(test_labels, labels(15), {"expected 16 labels"});
  expect(test_labels, labels(15).replace(4, 4, std::string("\0\0\0\x10", 4)) + '\x11',
         {"offset 23", "label from 0 to 9", "17"});
  const std::string packed = gzip(images(40));
  expect(train_images, packed.substr(0, packed.size() / 2), {"truncated"});
  std::string corrupt = packed;
  corrupt[packed.size() / 2] ^= 0x55;
  expect(train_images, corrupt, {"corrupt"});
  expect(train_images, "hello", {"expected gzip data"});
}

// Unpacking the images takes a while: what the headers tell is told before.
TEST(TrainerData, HeadersThatDisagreeAreToldFirst) {
  for (const std::string wrong : {"train-labels-idx1-ubyte.gz", "t10k-labels-idx1-ubyte"}) {
    const TrainerFolder folder;
    write_mnist(folder);
    std::string packed = gzip(images(40));
    packed[packed.size() / 2] ^= 0x55;
    folder.write("data/train-images-idx3-ubyte.gz", packed);
    folder.write("data/" + wrong, wrong.ends_with(".gz") ? gzip(labels(7)) : labels(7));
    EXPECT_OUTCOME(folder.run("--config net.yaml --data data"), kExitUsage, wrong,
                   "labels, one for each image", "found 7");
  }
}

// Whoever waited for a pipe's content could wait for ever.
TEST(TrainerData, APipeIsRefusedAtOnce) {
  const TrainerFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  write_mnist(folder);
  fs::remove(folder / "data/t10k-images-idx3-ubyte");
  ASSERT_EQ(mkfifo((folder / "data/t10k-images-idx3-ubyte").c_str(), 0600), 0);
  EXPECT_OUTCOME(folder.run("--config pipe"), kExitUsage, "pipe: is a pipe");
  EXPECT_OUTCOME(folder.run("--config tiny.yaml --resume pipe"), kExitUsage, "pipe: is a pipe");
  EXPECT_OUTCOME(folder.run("--config tiny.yaml --evaluate pipe"), kExitUsage, "pipe: is a pipe");
  EXPECT_OUTCOME(folder.run("--config net.yaml --data data"), kExitUsage, "idx3-ubyte: is a pipe");
  EXPECT_FALSE(fs::exists(folder / "runs"));
}

// A folder with a run of the tiny network in "run".
class TrainerCheckpoint : public testing::Test {
 protected:
  void SetUp() override {
    EXPECT_OUTCOME(folder_.run("--config tiny.yaml --out run --quiet"), kExitDone);
    last_ = folder_.read("run/checkpoints/last.safetensors");
  }
  void TearDown() override {
    EXPECT_TRUE(folder_.read("run/checkpoints/last.safetensors") == last_) << "it was touched";
  }
  // Resuming from and evaluating `content` are both refused.
  void expect_refused(const std::string& content, const std::vector<std::string>& parts) {
    SCOPED_TRACE(parts.front());
    folder_.write("bad.safetensors", content);
    for (const char* option : {"--resume", "--evaluate"}) {
      const Outcome outcome =
          folder_.run(std::string("--config tiny.yaml --epochs 9 ") + option + " bad.safetensors");
      EXPECT_OUTCOME(outcome, kExitUsage, "bad.safetensors");
      for (const std::string& part : parts) {
        EXPECT_NE(outcome.err.find(part), std::string::npos) << part << " not in: " << outcome.err;
      }
    }
    EXPECT_FALSE(fs::exists(folder_ / "runs"));
  }

  TrainerFolder folder_;
  std::string last_;
};

TEST_F(TrainerCheckpoint, DamagedOnesAreRefused) {
  expect_refused("", {"truncated"});
  expect_refused(last_.substr(0, 4), {"truncated"});
  expect_refused(last_.substr(0, 100), {"truncated"});
  expect_refused(last_.substr(0, last_.size() - 1), {"truncated"});
  expect_refused(last_ + "x", {"left over"});
  expect_refused("this is a text and no checkpoint at all", {"not safetensors?"});
  std::string header = last_;
  header[8] = '[';
  expect_refused(header, {"offset 8", "JSON object"});
  std::string names = last_;
  names.replace(names.find("conv1.weight"), 12, "conv9.weight");
  expect_refused(names, {"conv1.weight"});
}

TEST_F(TrainerCheckpoint, DamagedNumbersAreRefused) {
  std::string text = last_;
  const size_t at = text.find("\"step\":\"8\"");
  ASSERT_NE(at, std::string::npos);
  text.replace(at, 10, "\"step\":\"x\"");
  folder_.write("bad.safetensors", text);
  EXPECT_OUTCOME(folder_.run("--config tiny.yaml --resume bad.safetensors"), kExitUsage,
                 "is damaged", "'step' is 'x'");
}

// The last checkpoint with other metadata.
class TrainerMetadata : public TrainerCheckpoint {
 protected:
  std::string resume_with(const std::string& key, const std::string& value,
                          const std::string& arguments = "") {
    const safetensors::File file = safetensors::read(folder_ / "run/checkpoints/last.safetensors");
    safetensors::Metadata metadata = file.metadata();
    metadata["stopping_metric"] = "val_accuracy";
    metadata["stopping_score"] = "0.5";
    metadata[key] = value;
    safetensors::write(folder_ / "bad.safetensors", file.entries(), metadata);
    const Outcome outcome =
        folder_.run("--config tiny.yaml --epochs 9 --resume bad.safetensors" + arguments);
    EXPECT_EQ(outcome.code, kExitUsage);
    return outcome.err;
  }
};

TEST_F(TrainerMetadata, AnAccuracyIsAFraction) {
  for (const char* value : {"nan", "inf", "-inf", "1.5", "-2", "1e300"}) {
    EXPECT_TRUE(has(resume_with("best_accuracy", value), "bad.safetensors: is damaged",
                    std::string("'best_accuracy' is '") + value));
  }
}

TEST_F(TrainerMetadata, CountsAreNotNegative) {
  EXPECT_TRUE(has(resume_with("stopping_epochs", "-3",
                              " --set train.early_stopping.patience=2 --set "
                              "train.early_stopping.metric=val_accuracy"),
                  "bad.safetensors: is damaged",
                  "'stopping_epochs' is '-3', expected a number of at least 0"));
  const std::string plateau =
      " --allow-changes --set schedule.type=reduce_on_plateau --set schedule.metric=";
  EXPECT_TRUE(has(resume_with("plateau_metric", "val_loss", plateau + "val_loss"),
                  "has no 'plateau_bad_epochs'"));
  EXPECT_TRUE(has(resume_with("totals", "1 -3 0 0"), "bad.safetensors: is damaged",
                  "'totals' has a weight below 0"));
}

TEST_F(TrainerMetadata, TotalsAreThoseOfTheNetwork) {
  EXPECT_TRUE(has(resume_with("totals", "1 2"), "is damaged", "has 2 numbers, expected 4"));
  EXPECT_TRUE(has(resume_with("totals", "1 2 3 four"), "is damaged",
                  "'totals' is 'four', expected a number"));
  EXPECT_TRUE(has(resume_with("totals", "1 2 inf 4"), "is damaged", "'totals' holds inf"));
}

// What an evaluation refuses a resumed training does too.
TEST_F(TrainerMetadata, WhatDescribesTheNetworkIsWholeForAll) {
  const safetensors::File file = safetensors::read(folder_ / "run/checkpoints/last.safetensors");
  const std::string dataset = file.metadata().at("dataset");
  for (const auto& [key, value] : std::vector<std::pair<std::string, std::string>>{
           {"dataset", "{"},
           {"dataset", dataset + std::string("\0garbage", 8)},
           {"dataset", "{}"},
           {"config", "layers: ["},
           {"init_from", std::string("{}\0{}", 5)}}) {
    const std::string expected = "bad.safetensors: is damaged: its metadata: '" + key + "': ";
    EXPECT_TRUE(has(resume_with(key, value), expected)) << value;
    EXPECT_OUTCOME(folder_.run("evaluate --checkpoint bad.safetensors"), kExitUsage, expected);
    EXPECT_OUTCOME(folder_.run("--config tiny.yaml --evaluate bad.safetensors"), kExitUsage,
                   expected);
  }
}

// Earlier versions knew one loss and its hits; the first of them weighed each batch by its rows.
TEST_F(TrainerMetadata, OfEarlierVersionsIsReadTheSame) {
  const safetensors::File file = safetensors::read(folder_ / "run/checkpoints/last.safetensors");
  safetensors::Metadata metadata = file.metadata();
  EXPECT_EQ(metadata.erase("totals"), 1u);
  metadata.insert({{"loss_sum", "0x1p3"}, {"hits", "7"}, {"counted", "9"}});
  const auto resumes = [&](const std::string& out) {
    safetensors::write(folder_ / "old.safetensors", file.entries(), metadata);
    return folder_.run("--config tiny.yaml --epochs 3 --out " + out + " --resume old.safetensors");
  };
  EXPECT_OUTCOME(resumes("first"), kExitDone);
  metadata["weight_sum"] = "0x1.8p3";
  EXPECT_OUTCOME(resumes("second"), kExitDone);
  metadata["weight_sum"] = "nan";
  EXPECT_OUTCOME(resumes("bad"), kExitUsage, "'weight_sum' is not a number");
  metadata["weight_sum"] = "0x1.8p3";
  metadata["hits"] = "-3";
  EXPECT_OUTCOME(resumes("bad"), kExitUsage, "'hits' is '-3', expected a number of at least 0");
}

TEST_F(TrainerMetadata, NothingOfItReachesATerminalRaw) {
  const std::string hostile = "\033[2J\a\177\302\233" + std::string(5000, 'x');
  for (const char* key : {"step", "best_accuracy", "format", "data"}) {
    const std::string message = resume_with(key, hostile);
    EXPECT_TRUE(has(message, "\\x1b[2J\\x07\\x7f\\xc2\\x9bxxx", "..."));
    EXPECT_EQ(message.find_first_of("\033\a\177"), std::string::npos) << message;
    EXPECT_EQ(message.find("\302\233"), std::string::npos) << message;
    EXPECT_LT(message.size(), 1500u);
  }
}

TEST_F(TrainerCheckpoint, WeightsThatAreNotFiniteAreAFailure) {
  safetensors::File file = safetensors::read(folder_ / "run/checkpoints/last.safetensors");
  std::vector<safetensors::Entry> entries(file.entries().begin(), file.entries().end());
  std::vector<float> nan(4 * 144, std::numeric_limits<float>::quiet_NaN());
  for (safetensors::Entry& entry : entries) {
    if (entry.name == "fc1.weight") entry.data = nan.data();
  }
  safetensors::write(folder_ / "nan.safetensors", entries, file.metadata());
  const Outcome outcome = folder_.run("--config tiny.yaml --json --evaluate nan.safetensors");
  EXPECT_OUTCOME(outcome, kExitFailure, "nan.safetensors: the validation loss", "is not finite");
  EXPECT_EQ(outcome.out, "");
  // Where nothing is left to train, too.
  const Outcome resumed =
      folder_.run("--config tiny.yaml --json --out other --resume nan.safetensors");
  EXPECT_OUTCOME(resumed, kExitFailure, "the validation loss is not finite");
  EXPECT_EQ(resumed.out, "");
}

TEST_F(TrainerCheckpoint, PathsThatAreNone) {
  for (const std::string option : {"--resume", "--evaluate"}) {
    EXPECT_OUTCOME(folder_.run("--config tiny.yaml " + option + " none"), kExitUsage,
                   option + " none", "no such file");
    EXPECT_OUTCOME(folder_.run("--config tiny.yaml " + option + " run"), kExitUsage, "is a folder",
                   "run/checkpoints/last.safetensors");
  }
}

TEST_F(TrainerCheckpoint, OfAnotherNetwork) {
  const std::string from = " run/checkpoints/last.safetensors";
  for (const std::string option : {"--resume", "--evaluate"}) {
    const std::string allow = option == "--resume" ? "--allow-changes " : "";
    const std::string start = "--config tiny.yaml --epochs 9 " + allow + option + from;
    EXPECT_OUTCOME(folder_.run(start + " --set layers.fc1.out_features=5"), kExitUsage,
                   "do not fit", "'fc1.weight' is 4x144 float32 there, but 5x144 float32 here");
    EXPECT_OUTCOME(folder_.run(start + " --set layers.fc1.name=fc"), kExitUsage, "another network",
                   "no 'fc.weight'; it has: fc1.");
    EXPECT_OUTCOME(folder_.run(start + " --set layers.fc1.bias=false"), kExitUsage,
                   "another network", "'fc1.bias'");
  }
}

// Whose data take no disk, and would take all memory.
TEST_F(TrainerCheckpoint, LargerThanTheNetwork) {
  constexpr uint64_t kSparse = uint64_t{20} << 30;
  const auto length =
      static_cast<unsigned char>(last_[0]) + 256u * static_cast<unsigned char>(last_[1]);
  const std::string data = last_.substr(8 + length);
  const auto expect = [&](const nlohmann::json& header, const char* part) {
    const std::string text = header.dump();
    std::string prefix(8, '\0');
    for (int i = 0; i < 8; ++i) prefix[i] = static_cast<char>(text.size() >> (8 * i));
    folder_.write("sparse", prefix + text + data);
    fs::resize_file(folder_ / "sparse", 8 + text.size() + data.size() + kSparse);
    for (const std::string option : {"--resume", "--evaluate"}) {
      EXPECT_OUTCOME(folder_.run("--config tiny.yaml --epochs 9 " + option + " sparse"), kExitUsage,
                     "sparse", part);
    }
  };
  const nlohmann::json tensor = {{"dtype", "U8"},
                                 {"shape", {kSparse}},
                                 {"data_offsets", {data.size(), data.size() + kSparse}}};
  nlohmann::json header = nlohmann::json::parse(last_.substr(8, length));
  header["optimizer.more.fc1.weight"] = tensor;
  expect(header, "more than any optimizer keeps");
  header.erase("optimizer.more.fc1.weight");
  header["fc2.weight"] = tensor;
  expect(header, "another network");
}

// Said with the type that is there, and the names that are.
TEST_F(TrainerCheckpoint, OfOtherTypesOrNames) {
  const std::vector<double> values(4 * 144);
  const safetensors::File file = safetensors::read(folder_ / "run/checkpoints/last.safetensors");
  const auto write = [&](const std::string& name, std::optional<DType> type,
                         const std::string& prefix) {
    std::vector<safetensors::Entry> entries;
    for (safetensors::Entry entry : file.entries()) {
      if (entry.name.starts_with("optimizer.")) continue;
      if (type && entry.name == "fc1.weight") {
        entry.dtype = *type;
        entry.data = values.data();
      }
      entry.name = prefix + entry.name;
      entries.push_back(entry);
    }
    safetensors::write(folder_ / name, entries);
  };
  write("half", DType::kFloat16, "");
  write("wide", DType::kFloat64, "");
  write("module", {}, "module.");
  folder_.write("whole", changed(folder_.read("wide"), {{"F64", "I64"}}));
  for (const auto& [name, type] :
       {std::pair("half", "float16"), {"wide", "float64"}, {"whole", "I64"}}) {
    const std::string expected =
        std::string("'fc1.weight' is 4x144 ") + type + " there, but 4x144 float32 here";
    EXPECT_OUTCOME(folder_.run(std::string("--config tiny.yaml --evaluate ") + name), kExitUsage,
                   name, expected);
    EXPECT_OUTCOME(folder_.run(std::string("--config tiny.yaml --init-from ") + name), kExitUsage,
                   name, expected, "add --init-skip fc1");
  }
  EXPECT_OUTCOME(folder_.run("--config tiny.yaml --evaluate module"), kExitUsage,
                 "it has no 'conv1.weight'; it has: module.conv1.");
}

TEST_F(TrainerCheckpoint, ParametersAloneCanBeEvaluatedButNotResumed) {
  const safetensors::File file = safetensors::read(folder_ / "run/checkpoints/last.safetensors");
  std::vector<safetensors::Entry> parameters;
  for (const safetensors::Entry& entry : file.entries()) {
    if (!entry.name.starts_with("optimizer.")) parameters.push_back(entry);
  }
  safetensors::write(folder_ / "parameters.safetensors", parameters);
  EXPECT_OUTCOME(folder_.run("--config tiny.yaml --evaluate parameters.safetensors"), kExitDone);
  EXPECT_OUTCOME(folder_.run("--config tiny.yaml --resume parameters.safetensors"), kExitUsage,
                 "cannot be resumed from", "parameters only");
}

TEST_F(TrainerCheckpoint, ARunIsNeverOverwritten) {
  EXPECT_OUTCOME(folder_.run("--config tiny.yaml --out run"), kExitUsage,
                 "run: holds a run already", "--resume last --out run", "another folder");
  // Nor by the checkpoint of another run.
  EXPECT_OUTCOME(folder_.run("--config tiny.yaml --out other --quiet --epochs 1"), kExitDone);
  EXPECT_OUTCOME(folder_.run("--config tiny.yaml --epochs 9 --out run --resume "
                             "other/checkpoints/last.safetensors"),
                 kExitUsage, "run: holds a run already");
  // Nor a file that only looks like part of one.
  folder_.write("mine/config.yaml", "name: mine\n");
  EXPECT_OUTCOME(folder_.run("--config tiny.yaml --out mine"), kExitUsage, "config.yaml", "--out");
  EXPECT_EQ(folder_.read("mine/config.yaml"), "name: mine\n");
}

TEST_F(TrainerCheckpoint, ResumeLastWithoutARun) {
  EXPECT_OUTCOME(folder_.run("--config tiny.yaml --resume last --out none"), kExitUsage,
                 "--resume last", "none/checkpoints/last.safetensors");
  EXPECT_OUTCOME(folder_.run("--config tiny.yaml --resume last"), kExitUsage, "no run of 'tiny'",
                 "runs/");
  // The run of a network whose name only begins alike is not meant.
  EXPECT_OUTCOME(folder_.run("--config tiny.yaml --set name=tiny-2 --quiet"), kExitDone);
  EXPECT_OUTCOME(folder_.run("--config tiny.yaml --resume last"), kExitUsage, "no run of 'tiny'");
  EXPECT_OUTCOME(folder_.run("--config tiny.yaml --set name=tiny-2 --epochs 3 --resume last"),
                 kExitDone, "epoch 3/3");
}

TEST_F(TrainerCheckpoint, FullDiskKeepsTheLastGoodOne) {
  // The first file that does not fit is the next checkpoint, the best or the last.
  const Outcome outcome = folder_.run("--config tiny.yaml --resume last --out run --epochs 3",
                                      {.most_file_bytes = last_.size() - 100});
  EXPECT_OUTCOME(outcome, kExitFailure, "cannot write run/checkpoints/",
                 "the last good checkpoint is kept: run/checkpoints/last.safetensors");
  // TearDown sees that its bytes are the same; nothing half-written is left beside it.
  for (const auto& file : fs::recursive_directory_iterator(folder_ / "run")) {
    EXPECT_EQ(file.path().string().find(".tmp"), std::string::npos) << file.path();
  }
  EXPECT_EQ(metrics(folder_, "run", "epoch").size(), 3u);  // all of them whole lines
  EXPECT_OUTCOME(folder_.run("--config tiny.yaml --evaluate run/checkpoints/last.safetensors"),
                 kExitDone);
}

TEST_F(TrainerCheckpoint, FullDiskKeepsConfigurationAndMetrics) {
  const std::string config = folder_.read("run/config.yaml");
  for (const size_t bytes : {size_t{0}, config.size() / 2}) {
    const Outcome outcome = folder_.run("--config tiny.yaml --resume last --out run --epochs 3",
                                        {.environment = {}, .most_file_bytes = bytes});
    EXPECT_EQ(outcome.code, kExitFailure);
    EXPECT_EQ(folder_.read("run/config.yaml"), config);
    EXPECT_TRUE(nlohmann::json::accept(folder_.read("run/run.json")));
    EXPECT_EQ(metrics(folder_, "run", "epoch").size(), 2u);
  }
}

TEST_F(TrainerCheckpoint, LossThatIsNotFiniteKeepsTheLastGoodOne) {
  const Outcome outcome = folder_.run(
      "--config tiny.yaml --resume last --out run --epochs 9 --allow-changes "
      "--set optimizer.learning_rate=1e30");
  EXPECT_OUTCOME(outcome, kExitFailure, "the loss became nan at step 10", "layer fc1",
                 "smaller learning rate", "kept: run/checkpoints/last.safetensors");
  EXPECT_OUTCOME(folder_.run("--config tiny.yaml --evaluate run/checkpoints/last.safetensors"),
                 kExitDone);
}

TEST_F(TrainerCheckpoint, HalfALineOfMetricsIsDropped) {
  folder_.write("run/metrics.jsonl", folder_.read("run/metrics.jsonl") + "{\"event\":\"ste");
  EXPECT_OUTCOME(folder_.run("--config tiny.yaml --out copy --epochs 3 --quiet"), kExitDone);
  const std::string before = last_;
  EXPECT_OUTCOME(folder_.run("--config tiny.yaml --resume last --out run --epochs 3"), kExitDone);
  EXPECT_EQ(metrics(folder_, "run", "epoch").size(), 3u);
  EXPECT_EQ(tensors(folder_ / "run/checkpoints/last.safetensors"),
            tensors(folder_ / "copy/checkpoints/last.safetensors"));
  last_ = folder_.read("run/checkpoints/last.safetensors");
}

TEST(TrainerOutput, FolderThatCannotBeMade) {
  const TrainerFolder folder;
  EXPECT_OUTCOME(folder.run("--config tiny.yaml --out tiny.yaml/run"), kExitUsage, "tiny.yaml/run",
                 "cannot write to this output folder", "--out DIR");
  folder.write("runs", "a file where the folder would be");
  EXPECT_OUTCOME(folder.run("--config tiny.yaml"), kExitUsage, "runs/tiny-", "--out DIR");
}

TEST(TrainerOutput, LossThatIsNotFiniteInTheFirstEpoch) {
  const TrainerFolder folder;
  const std::string train =
      "--config tiny.yaml --out run --set optimizer.type=sgd --set optimizer.learning_rate=1e30";
  EXPECT_OUTCOME(folder.run(train), kExitFailure, "the loss became nan at step 2", "layer fc1",
                 "no checkpoint had been saved yet");
  EXPECT_OUTCOME(folder.run(train), kExitUsage, "holds a run already", "no checkpoint",
                 "remove it");
}

}  // namespace
}  // namespace duet
