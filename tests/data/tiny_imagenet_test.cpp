// tiny_imagenet: its folders, and text files that do not agree with them.
#include <gtest/gtest.h>

#include <filesystem>

#include "core/error.h"
#include "support/load_data.h"
#include "support/temporary_folder.h"
#include "support/text.h"
#include "test_paths.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

class TinyImageNet : public testing::Test {
 protected:
  TinyImageNet() {
    for (const char* place :
         {"train/n02/images/n02_0.png", "train/n02/images/n02_1.png", "train/n01/images/n01_0.png",
          "val/images/val_0.png", "val/images/val_1.png"}) {
      fs::create_directories((folder_ / place).parent_path());
      fs::copy_file(DUET_SOURCE_DIR "/tests/data/pictures/colour.png", folder_ / place);
    }
    folder_.write("train/n01/n01_boxes.txt", "n01_0.png\t0\t0\t1\t1\n");
    folder_.write("wnids.txt", "n02\nn01\n");
    folder_.write("words.txt", "n00\tentity\nn01\tgoldfish, Carassius auratus\nn02\tcrane\n");
    folder_.write("val/val_annotations.txt", kRight);
  }
  Dataset load(const std::string& keys = "") const {
    return load_data("{dataset: tiny_imagenet, size: [4, 5], classes: 2" + keys + "}",
                     folder_.path());
  }
  // Of that text as the annotations.
  std::string error(const std::string& file, const std::string& text) const {
    const std::string before = folder_.read(file);
    folder_.write(file, text);
    const std::string message = error_of<DataError>([&] { load(); });
    folder_.write(file, before);
    return message;
  }

  static constexpr const char* kRight =
      "val_0.png\tn02\t0\t1\t2\t3\r\nval_1.png\tn01\t0\t1\t2\t3\r\n";
  const TemporaryFolder folder_;
};

TEST_F(TinyImageNet, IsReadAsItIsPublished) {
  const Dataset data = load();
  EXPECT_EQ(data.train.labels, std::vector<int32_t>({0, 1, 1}));  // by the sorted ids
  EXPECT_EQ(data.validation.labels, std::vector<int32_t>({1, 0}));
  EXPECT_EQ(data.class_names, std::vector<std::string>({"goldfish, Carassius auratus", "crane"}));
  EXPECT_EQ(data.train.images.size(), 180u);
  EXPECT_EQ(data.mean, std::vector<double>({0.4802, 0.4481, 0.3975}));
  EXPECT_TRUE(data.warnings.empty());
}

TEST_F(TinyImageNet, AnnotationsThatDoNotAgreeAreNamed) {
  const std::string file = "val/val_annotations.txt";
  EXPECT_TRUE(has(error(file, "val_0.png n02\n"), "val_annotations.txt:1: expected a picture, its",
                  "with tabs between"));
  EXPECT_TRUE(has(error(file, "val_0.png\tn02\nval_1.png\tn03\n"),
                  "val_annotations.txt:2: 'n03' is no class"));
  EXPECT_TRUE(
      has(error(file, "val_0.png\tn02\nval_0.png\tn01\n"), ":2: 'val_0.png' is there twice"));
  EXPECT_TRUE(has(error(file, "../val_0.png\tn02\n"), ":1: expected the name of a picture"));
  EXPECT_TRUE(has(error(file, std::string(kRight) + "val_2.png\tn01\n"),
                  ":3: ", "val/images/val_2.png is not there", "on_error: skip"));
  EXPECT_TRUE(has(error(file, "val_0.png\tn02\n"), "val_1.png: has no line in", "add it"));
  EXPECT_TRUE(has(error(file, std::string("val_0.png\tn0\0002\n", 15)), ":1: holds a byte 0"));
  EXPECT_TRUE(has(error("wnids.txt", "n01\n"), "wnids.txt: expected 2 names", "found 1"));
  EXPECT_TRUE(has(error("wnids.txt", "n01\nn01\n"), "wnids.txt:2: the class 'n01' is there twice"));
  EXPECT_TRUE(has(error("wnids.txt", "n01\n../x\n"), "'../x' cannot be the name of a folder"));
  EXPECT_TRUE(has(error("words.txt", "n01\tgoldfish\n"), "no line for the class 'n02'"));
  EXPECT_TRUE(has(error("words.txt", "n01 goldfish\n"), "words.txt:1: expected a class and its"));
  EXPECT_TRUE(has(error("train/n02/images/n02_1.png", "x"), "n02_1.png: is no picture"));
}

TEST_F(TinyImageNet, SkipCountsWhatIsMissing) {
  folder_.write("val/val_annotations.txt",
                std::string(kRight) + "val_2.png\tn01\nval_3.png\tn01\n");
  folder_.write("train/n02/images/n02_1.png", "x");
  const Dataset data = load(", on_error: skip");
  EXPECT_EQ(data.train.count, 2);
  EXPECT_EQ(data.validation.count, 2);
  ASSERT_EQ(data.warnings.size(), 2u);
  EXPECT_TRUE(has(data.warnings[0], "2 lines are left out"));
  EXPECT_TRUE(has(data.warnings[1], "1 of 3 pictures"));
  EXPECT_EQ(data.left_out.count, 3);
  EXPECT_TRUE(has(data.left_out.named.at(1), "val_annotations.txt:4: ", "val_3.png is not there"));
}

}  // namespace
}  // namespace duet
