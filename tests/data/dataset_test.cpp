// Data sets: where their folders are found, every way an IDX or gzip file can be wrong, and what
// the generated images are like.
#include "data/set/dataset.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <zlib.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "data/format/idx.h"
#include "support/temporary_folder.h"
#include "support/text.h"

namespace duet {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<uint8_t>;

// Sets an environment variable (or unsets it) until the end of the scope.
class Environment {
 public:
  Environment(const char* name, const std::optional<std::string>& value) : name_(name) {
    if (const char* old = getenv(name)) old_ = old;
    set(value);
  }
  ~Environment() { set(old_); }

 private:
  void set(const std::optional<std::string>& value) {
    value ? setenv(name_, value->c_str(), 1) : unsetenv(name_);
  }
  const char* name_;
  std::optional<std::string> old_;
};

void write(const fs::path& file, const Bytes& bytes) {
  fs::create_directories(file.parent_path());
  std::ofstream out(file, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
}

Bytes idx(const std::vector<uint32_t>& dims, const Bytes& data) {
  Bytes bytes = {0, 0, 8, static_cast<uint8_t>(dims.size())};
  for (uint32_t d : dims) {
    for (int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<uint8_t>(d >> shift));
  }
  bytes.insert(bytes.end(), data.begin(), data.end());
  return bytes;
}

Bytes gzip(const Bytes& bytes) {
  z_stream z{};
  EXPECT_EQ(deflateInit2(&z, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  Bytes packed(deflateBound(&z, bytes.size()));
  z.next_in = const_cast<Bytef*>(bytes.data());
  z.avail_in = static_cast<uInt>(bytes.size());
  z.next_out = packed.data();
  z.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
  packed.resize(z.total_out);
  deflateEnd(&z);
  return packed;
}

// 28x28 images whose bytes and labels follow from their numbers.
Bytes images(uint32_t count, int salt = 0) {
  Bytes data(count * 784);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<uint8_t>(i * 31 + i / 784 + salt);
  return data;
}
Bytes labels(uint32_t count) {
  Bytes data(count);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<uint8_t>(i * 7 % 10);
  return data;
}

// A data set of 5 + 3 images, the first file plain, the others gzip.
void write_dataset(const fs::path& folder) {
  write(folder / "train-images-idx3-ubyte", idx({5, 28, 28}, images(5)));
  write(folder / "train-labels-idx1-ubyte.gz", gzip(idx({5}, labels(5))));
  write(folder / "t10k-images-idx3-ubyte.gz", gzip(idx({3, 28, 28}, images(3, 9))));
  write(folder / "t10k-labels-idx1-ubyte.gz", gzip(idx({3}, labels(3))));
}

Dataset load(const char* name, const fs::path& data_dir,
             const std::vector<std::pair<std::string, std::string>>& keys = {}) {
  ConfigNode node = ConfigNode::map();
  for (const auto& [key, value] : keys) node.at_or_add(key) = ConfigNode::of(value);
  ConfigErrors errors("test");
  ConfigReader reader(node, "data", errors);
  const DatasetLoader loader = find_dataset_type(name)->read(reader);
  reader.finish();
  errors.raise_if_any();
  return loader.load(data_dir);
}

TEST(Dataset, ListsItsTypesOnce) {
  for (const DatasetType* type : dataset_types()) EXPECT_EQ(find_dataset_type(type->name), type);
  EXPECT_EQ(find_dataset_type("imagenet"), nullptr);
}

TEST(Dataset, ReadsPlainAndGzipFiles) {
  const TemporaryFolder folder;
  for (const char* name : {"mnist", "fashion_mnist"}) {
    write_dataset(folder / name);
    const Dataset data = load(name, folder.path());
    EXPECT_EQ(data.name, name);
    EXPECT_EQ(data.source, (folder / name).string());
    EXPECT_EQ(data.channels * 10000 + data.height * 100 + data.width, 12828);
    EXPECT_EQ(data.classes, 10);
    EXPECT_EQ(data.class_names.size(), 10u);
    EXPECT_EQ(data.class_names[9], data.name == "mnist" ? "9" : "Ankle boot");
    EXPECT_EQ(data.mean.size(), 1u);
    EXPECT_EQ(data.stddev.size(), 1u);
    EXPECT_EQ(data.train.count, 5);
    EXPECT_EQ(data.train.images, images(5));
    EXPECT_EQ(data.train.labels, std::vector<int32_t>({0, 7, 4, 1, 8}));
    EXPECT_EQ(data.validation.count, 3);
    EXPECT_EQ(data.validation.images, images(3, 9));
    EXPECT_EQ(data.validation.labels, std::vector<int32_t>({0, 7, 4}));
  }
}

TEST(Dataset, LooksInEachFolderInTurn) {
  const TemporaryFolder folder;
  const fs::path named = folder / "named", variable = folder / "variable";
  const fs::path cache = folder / "cache", home = folder / "home";
  const Environment data("DUET_DATA", variable.string());
  const DatasetType& mnist = *find_dataset_type("mnist");
  if (fs::exists("/usr/share/datasets/mnist"))
    GTEST_SKIP() << "needs a machine without /usr/share/datasets/mnist";

  {
    const Environment xdg("XDG_CACHE_HOME", std::nullopt);
    const Environment home_variable("HOME", home.string());
    EXPECT_EQ(find_data_folder(mnist.data_files()), fs::path());
    write_dataset(home / ".cache/duet/mnist");
    EXPECT_EQ(find_data_folder(mnist.data_files()), home / ".cache/duet/mnist");
  }
  const Environment xdg("XDG_CACHE_HOME", cache.string());
  write_dataset(cache / "duet/mnist");
  EXPECT_EQ(find_data_folder(mnist.data_files()), cache / "duet/mnist");
  write_dataset(variable / "mnist");
  EXPECT_EQ(find_data_folder(mnist.data_files()), variable / "mnist");
  // Fashion-MNIST's files have the same names: only a folder named after the data set will do.
  write_dataset(variable);
  EXPECT_NE(find_data_folder(find_dataset_type("fashion_mnist")->data_files()), variable);
  // A folder the user names is the only one looked in.
  EXPECT_EQ(find_data_folder(mnist.data_files(), named), fs::path());
  write_dataset(named / "mnist");
  EXPECT_EQ(find_data_folder(mnist.data_files(), named), named / "mnist");
  EXPECT_EQ(find_data_folder(find_dataset_type("synthetic_images")->data_files()), fs::path());
}

TEST(Dataset, APathIsLookedForFromTheCurrentFolder) {
  const TemporaryFolder folder;
  write_dataset(folder / "mine");
  write_dataset(folder / "variable/mine");
  const Environment data("DUET_DATA", (folder / "variable").string());
  DataFiles own = find_dataset_type("mnist")->data_files();
  const fs::path before = fs::current_path();
  fs::current_path(folder / ".");
  const std::string above = "../" + (folder / "mine").parent_path().filename().string();
  for (const std::string& path : {std::string("./mine"), above + "/mine"}) {
    own.folder = path;
    EXPECT_EQ(find_data_folder(own), fs::path(path));
  }
  own.folder = "./variable";
  EXPECT_EQ(find_data_folder(own), fs::path());
  own.folder = "mine";
  EXPECT_EQ(find_data_folder(own), folder / "variable/mine");
  fs::current_path(before);
}

TEST(Dataset, TellsWhereItLookedAndWhatToDo) {
  const TemporaryFolder folder;
  write_dataset(folder / "fashion_mnist");
  fs::remove(folder / "fashion_mnist/t10k-labels-idx1-ubyte.gz");
  const std::string text = error_of<DataError>([&] { load("fashion_mnist", folder.path()); });
  EXPECT_TRUE(
      has(text, folder.path().string() + ": it has no train-images-idx3-ubyte[.gz], train-labels"));
  EXPECT_TRUE(has(text, "/fashion_mnist: it has no t10k-labels-idx1-ubyte[.gz]\n",
                  "apt install dataset-fashion-mnist", "--data DIR", "DUET_DATA"));
  EXPECT_TRUE(
      has(error_of<DataError>([&] { load("mnist", folder / "none"); }), "none: no such folder\n"));
}

// Each case spoils one file of a good data set and names parts of the message.
struct Spoiled {
  const char* file;
  std::function<Bytes()> bytes;
  std::vector<std::string> expected;
};

Bytes with(Bytes bytes, size_t at, uint8_t value) {
  bytes[at] = value;
  return bytes;
}
Bytes first(Bytes bytes, size_t size) {
  bytes.resize(size);
  return bytes;
}

TEST(Dataset, RefusesEveryWrongFile) {
  const char* kImages = "train-images-idx3-ubyte";
  const char* kLabels = "train-labels-idx1-ubyte";
  const char* kPacked = "train-labels-idx1-ubyte.gz";
  const Bytes good_images = idx({5, 28, 28}, images(5));
  const Bytes good_labels = idx({5}, labels(5));
  const Bytes packed = gzip(good_labels);
  const std::vector<Spoiled> cases = {
      {kImages, [&] { return Bytes(); }, {"offset 0", "truncated", "header of 16 bytes"}},
      {kImages, [&] { return first(good_images, 3); }, {"offset 3", "truncated"}},
      {kImages, [&] { return first(good_images, 15); }, {"offset 15", "truncated"}},
      {kImages, [&] { return with(good_images, 0, 0x1f); }, {"offset 0", "IDX", "0x1f 0x00"}},
      {kImages, [&] { return with(good_images, 2, 0x0d); }, {"offset 2", "unsigned bytes", "0x0d"}},
      {kImages, [&] { return good_labels; }, {"offset 3", "expected 3 dimensions, found 1"}},
      {kLabels, [&] { return good_images; }, {"offset 3", "expected 1 dimension, found 3"}},
      {kImages,
       [&] { return first(good_images, 16 + 784); },
       {"offset 800", "truncated", "expected 5x28x28 bytes of data, found 784"}},
      {kImages,
       [&] { return first(good_images, good_images.size() + 2); },
       {"offset 3936", "left over", "expected 5x28x28 bytes of data, found 3922"}},
      {kImages,
       [&] {
         return idx({0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, {});
       },
       {"offset 16", "truncated", "4294967295x4294967295x4294967295"}},
      {kImages,
       [&] {
         return idx({5, 14, 56}, images(5));
       },
       {"offset 8", "expected images of 28x28 pixels, found 14x56"}},
      {kImages,
       [&] {
         return idx({0, 28, 28}, {});
       },
       {"offset 4", "found none"}},
      {kLabels, [&] { return idx({4}, labels(4)); }, {"offset 4", "expected 5 labels", "found 4"}},
      {kLabels,
       [&] { return with(good_labels, 10, 10); },
       {"offset 10", "expected a label from 0 to 9, found 10"}},
      {kPacked,
       [&] { return gzip(with(good_labels, 10, 200)); },
       {"offset 10 of the unpacked data", "from 0 to 9, found 200"}},
      {kPacked, [&] { return Bytes(); }, {"offset 0", "expected gzip data"}},
      {kPacked, [&] { return good_labels; }, {"offset 0", "expected gzip data"}},
      {kPacked, [&] { return first(packed, 5); }, {"offset 5", "truncated"}},
      {kPacked, [&] { return first(packed, packed.size() - 9); }, {"truncated"}},
      {kPacked, [&] { return first(packed, packed.size() - 1); }, {"truncated"}},
      {kPacked, [&] { return with(packed, 2, 99); }, {"corrupt", "compression method"}},
      {kPacked,
       [&] { return with(packed, packed.size() - 5, packed[packed.size() - 5] ^ 1); },
       {"corrupt", "incorrect data check"}},
      {kPacked,
       [&] { return with(packed, packed.size() - 4, 99); },
       {"corrupt", "incorrect length check"}},
      {kPacked,
       [&] { return first(packed, packed.size() + 3); },
       {"offset " + std::to_string(packed.size()), "expected the end of the file, found 3 bytes"}},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    const TemporaryFolder folder;
    write_dataset(folder.path());
    fs::remove(folder / kPacked);
    write(folder / kLabels, good_labels);
    if (cases[i].file == kPacked) fs::remove(folder / kLabels);
    write(folder / cases[i].file, cases[i].bytes());
    const std::string text = error_of<DataError>([&] { load("mnist", folder.path()); });
    EXPECT_TRUE(has(text, (folder / cases[i].file).string() + ": "));
    for (const std::string& part : cases[i].expected) EXPECT_TRUE(has(text, part));
  }
}

TEST(Dataset, EveryCutOfAGzipFileIsRefused) {
  const TemporaryFolder folder;
  const fs::path file = folder / "labels.gz";
  const Bytes packed = gzip(idx({5}, labels(5)));
  for (size_t size = 0; size < packed.size(); ++size) {
    write(file, first(packed, size));
    EXPECT_THROW(read_idx(file, 1), DataError) << size;
  }
  // Two members are one file, wherever the first ends.
  const Bytes whole = idx({5}, labels(5));
  for (size_t cut = 0; cut <= whole.size(); ++cut) {
    Bytes members = gzip(first(whole, cut));
    const Bytes second = gzip({whole.begin() + static_cast<std::ptrdiff_t>(cut), whole.end()});
    members.insert(members.end(), second.begin(), second.end());
    write(file, members);
    EXPECT_EQ(read_idx(file, 1).bytes, labels(5)) << cut;
  }
}

// What a header announces is all that is read: a small file can unpack to more than any memory.
TEST(Dataset, NoMoreIsReadThanTheHeaderAnnounces) {
  const TemporaryFolder folder;
  const fs::path plain = folder / "images", packed = folder / "images.gz";
  const auto error = [&](const fs::path& file) {
    return error_of<DataError>([&] { read_idx(file, 3); });
  };
  // Damaged long after what is announced, which is never looked at.
  const Bytes bomb = gzip(idx({1, 28, 28}, Bytes(8 << 20)));
  write(packed, first(bomb, bomb.size() - 100));
  EXPECT_TRUE(has(error(packed), "left over: expected 1x28x28 bytes of data, found more"));
  write(packed, gzip(idx({0xFFFFFFFF, 28, 28}, images(1))));
  EXPECT_TRUE(has(error(packed), "this machine's memory"));
  write(packed, gzip(idx({1000000, 28, 28}, images(1))));
  EXPECT_TRUE(has(error(packed), "truncated: expected 1000000x28x28 bytes of data, found 784"));
  write(plain, idx({1, 28, 28}, images(1)));
  fs::resize_file(plain, uint64_t{20} << 30);  // sparse
  EXPECT_TRUE(has(error(plain), "left over: expected 1x28x28 bytes of data, found 21474836464"));
  // Sizes that do not fit the data set are refused before the data, which is damaged here.
  write_dataset(folder.path());
  const Bytes wide = gzip(idx({5, 280, 28}, images(50)));
  fs::remove(folder / "train-images-idx3-ubyte");
  write(folder / "train-images-idx3-ubyte.gz", first(wide, wide.size() - 9));
  EXPECT_TRUE(has(error_of<DataError>([&] { load("mnist", folder.path()); }), "found 280x28"));
}

TEST(Dataset, APipeIsNotAFile) {
  const TemporaryFolder folder;
  write_dataset(folder.path());
  const fs::path pipe = folder / "t10k-images-idx3-ubyte";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_TRUE(has(error_of<DataError>([&] { load("mnist", folder.path()); }),
                  pipe.string() + ": is a pipe"));
}

TEST(Dataset, AFolderIsNotAFile) {
  const TemporaryFolder folder;
  EXPECT_TRUE(
      has(error_of<DataError>([&] { read_idx(folder.path(), 1); }), folder.path().string()));
  EXPECT_TRUE(
      has(error_of<DataError>([&] { read_idx(folder / "none", 1); }), "No such file or directory"));
}

TEST(Dataset, ReadsTheSystemsFashionMnist) {
  const fs::path folder = find_data_folder(find_dataset_type("fashion_mnist")->data_files());
  if (folder.empty()) GTEST_SKIP() << "needs Fashion-MNIST (trainer download fashion_mnist)";
  const Dataset data = load("fashion_mnist", {});
  EXPECT_EQ(data.train.count, 60000);
  EXPECT_EQ(data.validation.count, 10000);
  double sum = 0, squares = 0;
  for (uint8_t byte : data.train.images) {
    sum += byte / 255.0;
    squares += byte / 255.0 * (byte / 255.0);
  }
  const double mean = sum / static_cast<double>(data.train.images.size());
  EXPECT_NEAR(mean, data.mean[0], 1e-4);
  EXPECT_NEAR(std::sqrt(squares / static_cast<double>(data.train.images.size()) - mean * mean),
              data.stddev[0], 1e-4);
}

TEST(SyntheticImages, TakesItsKeys) {
  const Dataset data = load("synthetic_images", {},
                            {{"classes", "3"},
                             {"channels", "2"},
                             {"size", "9"},
                             {"train_count", "50"},
                             {"validation_count", "7"}});
  EXPECT_EQ(data.source, "generated");
  EXPECT_EQ(data.train.images.size(), 50u * 2 * 81);
  EXPECT_EQ(data.validation.images.size(), 7u * 2 * 81);
  EXPECT_EQ(data.train.labels[49], 49 % 3);
  EXPECT_EQ(data.mean.size(), 2u);
  EXPECT_THROW(load("synthetic_images", {}, {{"size", "0"}}), ConfigError);
  EXPECT_THROW(load("synthetic_images", {}, {{"colour", "1"}}), ConfigError);
  EXPECT_EQ(load("synthetic_images", {}, {{"size", "1"}}).train.images.size(), 12000u);
}

uint32_t crc(const Bytes& bytes) {
  return static_cast<uint32_t>(crc32(0, bytes.data(), static_cast<uInt>(bytes.size())));
}

// The bytes are part of the contract: results of different machines are compared by them.
TEST(SyntheticImages, AreTheSameEverywhere) {
  const Dataset data = load("synthetic_images", {});
  EXPECT_EQ(crc(data.train.images), 3348534946u);
  EXPECT_EQ(crc(data.validation.images), 46985490u);
  // A smaller set is the beginning of a larger one.
  const Dataset few = load("synthetic_images", {}, {{"train_count", "10"}});
  EXPECT_TRUE(
      std::equal(few.train.images.begin(), few.train.images.end(), data.train.images.begin()));
}

// Learnable, but not trivially: the nearest class mean already does much better than chance and is
// still far from perfect.
TEST(SyntheticImages, AreLearnable) {
  const Dataset data = load("synthetic_images", {});
  constexpr int64_t kPixels = 784;
  std::vector<double> mean(10 * kPixels);
  for (int64_t n = 0; n < data.train.count; ++n) {
    for (int64_t i = 0; i < kPixels; ++i) {
      mean[data.train.labels[n] * kPixels + i] += data.train.images[n * kPixels + i] / 1200.0;
    }
  }
  int64_t right = 0;
  double sum = 0, squares = 0;
  for (int64_t n = 0; n < data.validation.count; ++n) {
    int64_t best = 0;
    double best_distance = 1e300;
    for (int64_t k = 0; k < 10; ++k) {
      double distance = 0;
      for (int64_t i = 0; i < kPixels; ++i) {
        const double d = mean[k * kPixels + i] - data.validation.images[n * kPixels + i];
        distance += d * d;
      }
      if (distance < best_distance) best_distance = distance, best = k;
    }
    right += best == data.validation.labels[n];
    for (int64_t i = 0; i < kPixels; ++i) {
      const double value = data.validation.images[n * kPixels + i] / 255.0;
      sum += value, squares += value * value;
    }
  }
  const double accuracy = static_cast<double>(right) / static_cast<double>(data.validation.count);
  EXPECT_GT(accuracy, 0.6);
  EXPECT_LT(accuracy, 0.99);
  const double count = static_cast<double>(data.validation.images.size());
  EXPECT_NEAR(sum / count, data.mean[0], 0.1);
  EXPECT_NEAR(std::sqrt(squares / count - sum / count * (sum / count)), data.stddev[0], 0.1);
  RecordProperty("nearest_mean_accuracy", std::to_string(accuracy));
}

}  // namespace
}  // namespace duet
