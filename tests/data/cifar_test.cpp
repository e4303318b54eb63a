// CIFAR's binary files: right ones, and every way in which they can be wrong.
#include "data/format/cifar.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "support/load_data.h"
#include "support/temporary_folder.h"
#include "support/text.h"

namespace duet {
namespace {

// A record of these labels, whose byte i is i + salt.
std::string record(const std::string& labels, int salt = 0) {
  std::string bytes = labels;
  for (int i = 0; i < 3072; ++i) bytes += static_cast<char>(i + salt);
  return bytes;
}

const std::string kTen = "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n";

void write_cifar10(const TemporaryFolder& folder, const std::string& below) {
  for (int i = 1; i <= 5; ++i) {
    folder.write(below + "data_batch_" + std::to_string(i) + ".bin",
                 record(std::string(1, static_cast<char>(i)), i) + record("\x09", 50));
  }
  folder.write(below + "test_batch.bin", record("\x03", 7));
  folder.write(below + "batches.meta.txt", kTen);
}

TEST(Cifar, ReadsTheTenClasses) {
  const TemporaryFolder folder;
  write_cifar10(folder, "cifar-10-batches-bin/");
  const Dataset data = load_data("{dataset: cifar10}", folder.path());
  EXPECT_EQ(data.source, (folder / "cifar-10-batches-bin").string());
  EXPECT_EQ(data.train.count, 10);
  EXPECT_EQ(data.train.labels, std::vector<int32_t>({1, 9, 2, 9, 3, 9, 4, 9, 5, 9}));
  ASSERT_EQ(data.train.images.size(), 10u * 3072);
  EXPECT_EQ(data.train.images[2 * 3072 + 5], 7);
  EXPECT_EQ(data.validation.labels, std::vector<int32_t>({3}));
  EXPECT_EQ(data.validation.images[0], 7);
  EXPECT_EQ(data.class_names[9], "truck");
  EXPECT_EQ(data.mean.size(), 3u);
  // Each file is named that has not as many images as the published one; then the missing classes.
  ASSERT_EQ(data.warnings.size(), 7u);
  EXPECT_TRUE(has(data.warnings[0], "data_batch_1.bin: holds 2 images", "has 10000"));
  EXPECT_TRUE(has(data.warnings[5], "no training sample of 4 of 10 classes (airplane, frog"));
}

TEST(Cifar, TakesTheFineOrTheCoarseLabels) {
  const TemporaryFolder folder;
  std::string fine, coarse;
  for (int i = 0; i < 100; ++i) fine += "fine" + std::to_string(i) + "\r\n";
  for (int i = 0; i < 20; ++i) coarse += "coarse" + std::to_string(i) + "\n";
  folder.write("train.bin", record("\x13\x63") + record("\x02\x05"));
  folder.write("test.bin", record("\x01\x02"));
  folder.write("fine_label_names.txt", fine);
  folder.write("coarse_label_names.txt", coarse);
  const Dataset data = load_data("{dataset: cifar100}", folder.path());
  EXPECT_EQ(data.train.labels, std::vector<int32_t>({99, 5}));
  EXPECT_EQ(data.class_names[99], "fine99");
  const Dataset groups = load_data("{dataset: cifar100, labels: coarse}", folder.path());
  EXPECT_EQ(groups.classes, 20);
  EXPECT_EQ(groups.train.labels, std::vector<int32_t>({19, 2}));
  EXPECT_EQ(groups.class_names[19], "coarse19");
  folder.write("train.bin", record("\x14\x63"));
  EXPECT_NO_THROW(load_data("{dataset: cifar100}", folder.path()));
  EXPECT_TRUE(has(
      error_of<DataError>([&] { load_data("{dataset: cifar100, labels: coarse}", folder.path()); }),
      "train.bin: record 0 (offset 0): expected a label from 0 to 19, found 20"));
  EXPECT_THROW(load_data("{dataset: cifar100, labels: both}", folder.path()), ConfigError);
}

TEST(Cifar, WhatIsWrongIsNamedWithItsPlace) {
  const TemporaryFolder folder;
  const auto error = [&](const std::string& name, const std::string& content) {
    write_cifar10(folder, "");
    folder.write(name, content);
    return error_of<DataError>([&] { load_data("{dataset: cifar10}", folder.path()); });
  };
  const std::string whole = record("\x01") + record("\x02");
  EXPECT_TRUE(has(error("data_batch_2.bin", whole.substr(0, 4000)),
                  "data_batch_2.bin: record 1 (offset 4000): the file is truncated",
                  "records of 3073 bytes, the last has 927"));
  EXPECT_TRUE(
      has(error("test_batch.bin", record("\x01") + record("\x0a")),
          "test_batch.bin: record 1 (offset 3073): expected a label from 0 to 9, found 10"));
  EXPECT_TRUE(has(error("data_batch_3.bin", ""), "data_batch_3.bin: is empty"));
  EXPECT_TRUE(has(error("batches.meta.txt", "cat\ndog\n"), "batches.meta.txt: expected 10 names",
                  "found 2"));
  EXPECT_TRUE(has(error("batches.meta.txt", "cat\ndog\ncat\n"),
                  "batches.meta.txt:3: the class 'cat' is there twice"));
  std::filesystem::remove(folder / "data_batch_4.bin");
  EXPECT_TRUE(has(error_of<DataError>([&] { load_data("{dataset: cifar10}", folder.path()); }),
                  "was not found", "data_batch_4.bin[.gz]", "trainer download cifar10",
                  "--data DIR"));
}

}  // namespace
}  // namespace duet
