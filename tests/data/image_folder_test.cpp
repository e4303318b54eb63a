// image_folder: which pictures it takes, in which order, and folders that do not fit.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "data/set/fingerprint.h"
#include "support/load_data.h"
#include "support/temporary_folder.h"
#include "support/text.h"
#include "test_paths.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

class ImageFolder : public testing::Test {
 protected:
  // A copy of one of the 5 x 4 pictures.
  void copy(const std::string& from, const std::string& to) const {
    fs::create_directories((folder_ / to).parent_path());
    fs::copy_file(DUET_SOURCE_DIR "/tests/data/pictures/" + from, folder_ / to,
                  fs::copy_options::overwrite_existing);
  }
  Dataset load(const std::string& keys) const {
    return load_data("{dataset: image_folder, channels: 1, size: [4, 5], " + keys + "}",
                     folder_.path());
  }
  std::string error(const std::string& keys) const {
    return error_of([&] { load(keys); });
  }
  void write_pets() const {
    for (const char* place : {"train/dog/1.png", "train/Cat/a.PNG", "train/ant/x/2.jpeg",
                              "train/ant/1.png", "val/Cat/1.png", "val/dog/1.png"}) {
      copy(std::string(place).ends_with("jpeg") ? "grey.jpg" : "grey.png", place);
    }
  }

  const TemporaryFolder folder_;
};

TEST_F(ImageFolder, NamesOfClassesAreUtf8) {
  for (const char* name : {"train/caf\xe9/1.png", "train/caf\xe8/1.png"}) copy("grey.png", name);
  EXPECT_TRUE(has(error("classes: 2, validation: train"), "the name of a class, 'caf",
                  "is not UTF-8; save the file, or name the folder, in that encoding"));
}

TEST_F(ImageFolder, ClassesAreTheSortedFolders) {
  write_pets();
  copy("grey.png", "train/.hidden/1.png");
  copy("grey.png", "train/dog/._1.png");
  folder_.write("train/dog/notes.txt", "not a picture");
  folder_.write("train/readme.txt", "nor this");
  const Dataset data = load("classes: 3, validation: val");
  EXPECT_EQ(data.class_names, std::vector<std::string>({"Cat", "ant", "dog"}));
  EXPECT_EQ(data.train.labels, std::vector<int32_t>({0, 1, 1, 2}));
  EXPECT_EQ(data.train.images.size(), 80u);
  EXPECT_EQ(data.train.images[20], 175);  // ant/1.png before ant/x/2.jpeg
  EXPECT_EQ(data.train.images[40], 130);
  EXPECT_EQ(data.validation.labels, std::vector<int32_t>({0, 2}));
  EXPECT_EQ(data.mean.size(), 1u);  // computed
  EXPECT_GT(data.stddev[0], 0.1);
  ASSERT_EQ(data.warnings.size(), 1u);
  EXPECT_TRUE(has(data.warnings[0], "no validation sample of 1 of 3 classes (ant)"));
}

TEST_F(ImageFolder, WithoutValidationDataSomeAreHeldOut) {
  for (int i = 0; i < 10; ++i) {
    copy("grey.png", "train/a/" + std::to_string(i) + ".png");
    copy("grey.png", "train/b/" + std::to_string(i) + ".png");
  }
  const Dataset data = load("classes: 2, validation_split: {fraction: 0.2}");
  EXPECT_EQ(data.train.count, 16);
  EXPECT_EQ(data.validation.labels, std::vector<int32_t>({0, 0, 1, 1}));
  EXPECT_TRUE(has(error("classes: 2, validation: val, validation_split: {count: 2}"),
                  "there is no key 'validation_split'; 'validation' names a folder"));
}

TEST_F(ImageFolder, IsLookedForUnderItsOwnName) {
  copy("grey.png", "pets/all/a/1.png");
  copy("grey.png", "pets/all/b/1.png");
  const Dataset data = load("folder: pets, train: all, classes: 2, validation_split: {count: 1}");
  EXPECT_EQ(data.source, (folder_ / "pets").string());
  EXPECT_TRUE(has(error("folder: pet, classes: 2"), "data set pet was not found",
                  (folder_ / "pet").string() + ": no such folder", "it has no train"));
}

TEST_F(ImageFolder, FoldersThatDoNotFitAreNamed) {
  write_pets();
  EXPECT_TRUE(has(error("classes: 4, validation: val"), (folder_ / "train").string(),
                  "has 3 folders", "(Cat, ant, dog)", "data.classes is 4"));
  EXPECT_TRUE(has(error("train: train/ant, classes: 2"), "train/ant: has 1 folder, one for each",
                  "is it the folder above", "data.train"));
  copy("grey.png", "val/dgo/1.png");
  EXPECT_TRUE(has(error("classes: 3, validation: val"),
                  "val/dgo: is of no class of the training data (did you mean 'dog'?)"));
  fs::remove_all(folder_ / "val/dgo");
  fs::remove(folder_ / "train/dog/1.png");
  folder_.write("train/dog/notes.txt", "");
  EXPECT_TRUE(has(error("classes: 3, validation: val"), "train/dog: no JPEG or PNG picture"));
  for (const char* other : {"1.webp", "1.WebP", "1.BMP", "1.bmp", "1.TIF", "1.heic", "1.jfif"}) {
    for (const char* part : {"train", "val"}) {
      const std::string file = std::string(part) + "/dog/" + other;
      if (part == std::string("val")) copy("grey.png", "train/dog/1.png");
      folder_.write(file, "RIFF");
      EXPECT_TRUE(has(error("classes: 3, validation: val"), file + ": only JPEG and PNG"));
      fs::remove(folder_ / file);
      fs::remove(folder_ / "train/dog/1.png");
    }
  }
  copy("grey.png", "train/dog/1.png");
  folder_.write("train/dog/.1.BMP", "BM");  // hidden
  EXPECT_EQ(error("classes: 3, validation: val"), "");
  fs::create_directory_symlink(folder_ / "train/dog", folder_ / "train/dog/again");
  EXPECT_TRUE(has(error("classes: 3, validation: val"), "folders deep"));
}

TEST_F(ImageFolder, KeysThatDoNotFitAreNamed) {
  EXPECT_TRUE(has(error_of([&] {
                    load_data(
                        "{dataset: image_folder, channels: 2, size: 8, resize: 6, "
                        "on_error: ignore, mean: 0.5, validation_split: {fraction: 1.5}}");
                  }),
                  "required key 'classes' is missing", "channels: expected 1 (grey) or 3",
                  "resize: must not be smaller than 'size' (8x8", "unknown value 'ignore'",
                  "mean: give mean and stddev", "fraction: expected a number"));
}

// Streamed from its files a data set is the one that is in memory, and all of it is checked.
TEST_F(ImageFolder, PicturesMayStayInTheirFiles) {
  write_pets();
  folder_.write("train/dog/broken.png", "x");
  for (const std::string keys : {"classes: 3, validation: val, on_error: skip",
                                 "classes: 3, on_error: skip, "
                                 "validation_split: {count: 1, stratified: false}"}) {
    const Dataset memory = load(keys + ", stream: memory");
    const Dataset files = load(keys + ", stream: files");
    EXPECT_TRUE(files.train.images.empty());
    EXPECT_EQ(files.train.count, memory.train.count);
    EXPECT_EQ(files.train.labels, memory.train.labels);
    EXPECT_EQ(files.warnings, memory.warnings);
    EXPECT_TRUE(has(files.warnings[0], "1 of 5 pictures cannot be read", "broken.png"));
    EXPECT_EQ(files.mean, memory.mean);
    EXPECT_EQ(files.stddev, memory.stddev);
    EXPECT_EQ(fingerprint(files), fingerprint(memory));
    EXPECT_EQ(memory.stream, Stream::kMemory);
    EXPECT_EQ(files.stream, Stream::kFiles);
    for (const auto& [there, here] : {std::pair(&memory.train, &files.train),
                                      std::pair(&memory.validation, &files.validation)}) {
      for (int64_t i = 0; i < there->count; ++i) {
        std::vector<uint8_t> image(20);
        here->read(i, image.data());
        EXPECT_TRUE(std::equal(image.begin(), image.end(), there->images.begin() + 20 * i));
      }
    }
  }
  EXPECT_TRUE(has(error("classes: 3, validation: val, stream: files"), "broken.png"));
}

TEST_F(ImageFolder, AFileThatChangesIsNamed) {
  write_pets();
  const Dataset data = load("classes: 3, validation: val, stream: files");
  std::vector<uint8_t> image(20);
  const auto read = [&] { data.train.read(3, image.data()); };
  EXPECT_EQ(error_of(read), "");
  copy("opaque.png", "train/dog/1.png");
  EXPECT_TRUE(has(error_of(read), (folder_ / "train/dog/1.png").string()));
  copy("grey.jpg", "train/dog/1.png");
  EXPECT_TRUE(has(error_of(read), (folder_ / "train/dog/1.png").string(),
                  "holds another picture than when the data set was loaded"));
  folder_.write("train/dog/1.png", "x");
  EXPECT_TRUE(has(error_of(read), (folder_ / "train/dog/1.png").string(), "is no picture",
                  "when the data set was loaded it was right"));
  fs::remove(folder_ / "train/dog/1.png");
  EXPECT_TRUE(has(error_of(read), (folder_ / "train/dog/1.png").string()));
}

TEST_F(ImageFolder, ADirectoryNamedAsAPictureIsNone) {
  write_pets();
  fs::create_directories(folder_ / "train/dog/2.png");
  EXPECT_EQ(load("classes: 3, validation: val").train.count, 4);
}

}  // namespace
}  // namespace duet
