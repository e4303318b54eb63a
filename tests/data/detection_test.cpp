// detection: what is read of COCO's JSON, where boxes come to lie, and what is wrong with files.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "core/error.h"
#include "data/batch/boxes.h"
#include "data/format/image_file.h"
#include "support/load_data.h"
#include "support/temporary_folder.h"
#include "support/text.h"

namespace duet {
namespace {

constexpr const char* kCategories =
    R"("categories": [{"id": 90, "name": "dog"}, {"id": 3, "name": "cat", "supercategory": "pet"}])";

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

class Detection : public testing::Test {
 protected:
  void SetUp() override {
    draw("images/a.png", 20, 30);
    draw("images/b.png", 20, 30);
    draw("images/c.png", 20, 30);
  }
  void draw(const std::string& name, int64_t height, int64_t width) const {
    Image image{height, width, 3, {}};
    for (int64_t i = 0; i < 3 * height * width; ++i) {
      image.pixels.push_back(static_cast<uint8_t>(i * 31));
    }
    folder_.write(name, png_of(image));
  }
  // A file with pictures a, b and c of ids 7, 5 and 2^40, and these annotations.
  void annotate(const std::string& file, const std::string& annotations,
                const std::string& more = kCategories) const {
    folder_.write(file, R"({"info": {"year": 2017}, "licenses": [], "images": [
      {"id": 7, "file_name": "a.png", "height": 20, "width": 30, "license": 1},
      {"id": 5, "file_name": "b.png", "height": 20, "width": 30},
      {"id": 1099511627776, "file_name": "c.png", "height": 20, "width": 30}],
      "annotations": [)" + annotations +
                            "], " + more + "}");
  }
  static std::string box(int64_t image, int64_t category, const std::string& numbers,
                         const std::string& more = "") {
    return R"({"id": 0, "image_id": )" + std::to_string(image) + R"(, "category_id": )" +
           std::to_string(category) + R"(, "bbox": [)" + numbers + "]" + more + "}";
  }
  // With those keys, and what they leave out.
  Dataset load(const std::string& keys = "") const {
    std::string all = "{dataset: detection, classes: 2, validation: val.json";
    for (const std::string usual : {"size: [20, 30]", "max_boxes: 3"}) {
      if (!has(keys, usual.substr(0, usual.find(' ')))) all += ", " + usual;
    }
    return load_data(all + (keys.empty() ? "}" : ", " + keys + "}"), folder_.path());
  }
  std::string error(const std::string& keys = "") const {
    return error_of([&] { load(keys); });
  }
  // Of sample n: left, top, right, bottom, class of each box, in pixels.
  static std::vector<std::vector<double>> boxes_of(const Split& split, size_t n, size_t most = 3) {
    std::vector<std::vector<double>> boxes;
    for (size_t i = 0; i < most; ++i) {
      std::vector<double> box;
      for (size_t k = 0; k < 5; ++k) {
        const auto word = static_cast<int32_t>(split.records[0][(n * most + i) * 5 + k]);
        box.push_back(k < 4 ? word / 256.0 : word);
      }
      if (box[4] >= 0) boxes.push_back(box);
    }
    return boxes;
  }
  using Boxes = std::vector<std::vector<double>>;

  const TemporaryFolder folder_;
};

TEST_F(Detection, ReadsBoxesAndNumbersCategoriesByTheirIds) {
  annotate("train.json",
           box(5, 90, "1, 2, 3.5, 4", R"(, "area": 14, "segmentation": [[1, 2, [3]]])") + "," +
               box(1099511627776, 3, "0, 0, 30, 20") + "," + box(5, 3, "10, 10, 1, 1") + "," +
               box(5, 3, "0, 0, 9, 9", R"(, "iscrowd": 1)"));
  annotate("val.json", "");
  const Dataset data = load();
  EXPECT_EQ(data.train.count, 3);
  EXPECT_TRUE(data.train.labels.empty());
  EXPECT_EQ(data.classes, 0);
  ASSERT_EQ(data.records.size(), 1u);
  EXPECT_EQ(data.records[0].elements, std::vector<std::string>({"cat", "dog"}));
  EXPECT_EQ(boxes_of(data.train, 0), Boxes());
  EXPECT_EQ(boxes_of(data.train, 1), Boxes({{1, 2, 4.5, 6, 1}, {10, 10, 11, 11, 0}}));
  EXPECT_EQ(boxes_of(data.train, 2), Boxes({{0, 0, 30, 20, 0}}));
  EXPECT_EQ(data.train.images.size(), 3u * 3 * 20 * 30);
  ASSERT_EQ(data.warnings.size(), 1u);
  EXPECT_TRUE(has(data.warnings[0], "train.json: 1 box left out, of a crowd (iscrowd)"));
  std::vector<std::string> fields;
  for (const BatchField& field : fields_of(data, 4)) {
    fields.push_back(text_of(field) + " " + field.desc.shape.to_string());
  }
  EXPECT_EQ(fields, std::vector<std::string>({"images 4x3x20x30", "rows 4",
                                              "boxes (boxes with classes) 4x3x5",
                                              "box_counts (counts) 4"}));
}

TEST_F(Detection, BoxesAreResizedAndCroppedWithTheirPicture) {
  annotate("train.json", box(7, 3, "3, 4, 6, 8") + "," + box(7, 90, "0, 0, 6, 20") + "," +
                             box(7, 90, "14, 0, 15, 20"));
  annotate("val.json", "");
  // The shorter side becomes 10, the longer 15, of which 2 are cropped at the left and 3 at the right.
  const Dataset data = load("size: 10, resize: 10");
  EXPECT_EQ(boxes_of(data.train, 0),
            Boxes({{0, 2, 2.5, 6, 0}, {0, 0, 1, 10, 1}, {5, 0, 10, 10, 1}}));
  const Dataset stretched = load("size: [40, 45], resize: [40, 45]");
  EXPECT_EQ(boxes_of(stretched.train, 0)[0], std::vector<double>({4.5, 8, 13.5, 24, 0}));
  annotate("train.json", box(7, 3, "0, 0, 4.3, 20") + "," + box(7, 3, "0, 0, 4.5, 20"));
  const Dataset cropped = load("size: 10, resize: 10");
  EXPECT_EQ(boxes_of(cropped.train, 0), Boxes({{0, 0, 0.25, 10, 0}}));
  ASSERT_EQ(cropped.warnings.size(), 1u);
  EXPECT_TRUE(has(cropped.warnings[0], "train.json: 1 box left out, of which less than a tenth"));
}

TEST_F(Detection, BoxesBeyondThePictureAreCutAndTold) {
  annotate("train.json", box(7, 3, "-5, -1, 10, 5") + "," + box(5, 90, "20, 10, 1e300, 99") + "," +
                             box(5, 90, "20, 10, 10, 10"));
  annotate("val.json", "");
  const Dataset data = load();
  EXPECT_EQ(boxes_of(data.train, 0), Boxes({{0, 0, 5, 4, 0}}));
  EXPECT_EQ(boxes_of(data.train, 1), Boxes({{20, 10, 30, 20, 1}, {20, 10, 30, 20, 1}}));
  ASSERT_EQ(data.warnings.size(), 1u);
  EXPECT_TRUE(has(data.warnings[0], "2 boxes cut, which reached beyond the picture"));
}

TEST_F(Detection, MistakesOfPicturesAreToldAtOnceOrLeaveThemOut) {
  std::filesystem::remove(folder_ / "images/c.png");
  annotate("train.json", box(7, 3, "1, 1, 0, 5") + "," + box(7, 3, "40, 1, 2, 5") + "," +
                             box(7, 3, "1, 2, null, 4") + "," + box(7, 3, "1, 2, 3") + "," +
                             box(5, 3, "1, 1, 2, 2"));
  annotate("val.json", "");
  const std::string message = error();
  EXPECT_TRUE(has(message, "2 of 3 pictures cannot be used:\n",
                  "train.json: a.png: annotations[2]: expected 'bbox' of four numbers",
                  "annotations[3]: expected 'bbox'",
                  "annotations[0]: the box from (1, 1) to (1, 6) has no area",
                  "annotations[1]: the box from (40, 1) to (42, 6) lies outside the picture of "
                  "30x20 pixels",
                  "train.json: c.png: there is no ", "data.on_error: skip leaves them out"));
  draw("more/a.png", 20, 30);  // of the validation data, which are right
  draw("more/b.png", 20, 30);
  draw("more/c.png", 20, 30);
  const Dataset data = load("on_error: skip, validation_images: more");
  EXPECT_EQ(data.train.count, 1);
  EXPECT_EQ(data.validation.count, 3);
  EXPECT_EQ(boxes_of(data.train, 0), Boxes({{1, 1, 3, 3, 0}}));
  EXPECT_EQ(data.left_out.count, 2);
  EXPECT_TRUE(has(data.left_out.named.at(1), "c.png"));
  ASSERT_EQ(data.warnings.size(), 1u);
  EXPECT_TRUE(has(data.warnings[0], "2 of 3 pictures cannot be used and are left out"));
}

TEST_F(Detection, MistakesOfTheFileAreToldAtOnce) {
  annotate("val.json", "");
  annotate("train.json",
           box(8, 3, "1, 1, 2, 2") + "," + box(7, 4, "1, 1, 2, 2") + R"(, 5, {"image_id": 7})",
           R"("images": [{"id": 7, "file_name": "d.png", "height": 20, "width": 30},
                         {"id": 8.5, "file_name": "../e.png", "height": 20, "width": 0},
                         {"id": 9, "file_name": "../e.png", "height": 20, "width": 1},
                         {"id": 10, "file_name": "./a.png", "height": 20, "width": 30}],
              "categories": [{"id": 3, "name": "cat"}, {"id": 3, "name": "dog"}, [1]])");
  const std::string message = error();
  for (const char* part :
       {"train.json: annotations[2]: is no object", "annotations[3]: expected 'category_id' to be",
        "images[0]: has the id 7 of images[0]",
        "images[1]: expected 'id' to be a whole number, "
        "found 8.5",
        "images[1]: expected 'width' to be a number of pixels, found 0",
        "images[2]: 'file_name' is '../e.png', expected a file in the folder of the pictures",
        "images[3]: has the file_name './a.png' of images[0]",
        "categories[1]: the id 3 is there twice", "categories[2]: is no object",
        "annotations[0]: no entry of 'images' has the id 8",
        "annotations[1]: no entry of 'categories' has the id 4"}) {
    EXPECT_TRUE(has(message, part));
  }
}

TEST_F(Detection, FilesThatAreNoAnnotationsAreRefused) {
  annotate("val.json", "");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "not JSON, or cut short"},
      {R"({"images": [)", "not JSON, or cut short"},
      {"[1, 2]", "has no list 'images'"},
      {"[{\"image_id\": 1, \"bbox\": [1, 2, 3, 4]}]", "has no list 'annotations'"},
      {"7", "has no list 'categories'"},
      {R"({"images": {}, "annotations": 1, "categories": []})", "has no list 'images'"},
      {R"({"images": [{"id": NaN}]})", "JSON has no NaN and no Infinity"},
      {R"({"images": [{"id": 1e999}]})", "not JSON"},
      {R"({"images": [{"id": 18446744073709551615, "file_name": "a", "height": 1, "width": 1}]})",
       "images[0]: expected 'id' to be a whole number"},
      {R"({"annotations": [{"bbox": [0)" + repeated(", 0", 1000) + "]}]}",
       "annotations[0]: has more than 1000 values"},
      {std::string(100, '['), "nested more than 64 deep"},
      {R"({"annotations": [{"segmentation": )" + std::string(100, '['), "nested more than 64 deep"},
  };
  for (const auto& [text, expected] : cases) {
    folder_.write("train.json", text);
    EXPECT_TRUE(has(error(), "train.json: ", expected)) << text;
  }
}

TEST_F(Detection, CategoriesAreThoseOfTheKeysAndOfTheTrainingData) {
  annotate("train.json", "");
  annotate("val.json", "", R"("categories": [{"id": 1, "name": "dog"}, {"id": 2, "name": "cat"}])");
  EXPECT_TRUE(has(error(),
                  "val.json: its categories (dog, cat) are not those of the training data "
                  "(cat, dog)"));
  annotate("train.json", "", R"("categories": [{"id": 1, "name": "dog"}])");
  EXPECT_TRUE(has(error(), "train.json: has 1 category (dog), and data.classes is 2"));
}

TEST_F(Detection, PicturesHaveTheSizeThatIsAnnotatedAndNoMoreBoxesThanMay) {
  annotate("val.json", "");
  annotate("train.json",
           box(7, 3, "1, 1, 2, 2") + "," + box(7, 3, "1, 1, 2, 3") + "," + box(7, 3, "1, 1, 2, 4"));
  EXPECT_EQ(boxes_of(load().train, 0).size(), 3u);
  EXPECT_TRUE(
      has(error("max_boxes: 2"), "train.json: a.png: has 3 boxes, and data.max_boxes is 2"));
  EXPECT_TRUE(has(error("size: 8"), "train.json: a.png: is 30x20 pixels", "data.resize: 8"));
  draw("images/b.png", 30, 20);
  EXPECT_TRUE(has(error(), "1 of 3 pictures cannot be read:\n",
                  "b.png: is 20x30 pixels (width x "
                  "height), and its annotations are of 30x20"));
}

TEST_F(Detection, HoldsOutPicturesWithTheirBoxesAndStreamsThem) {
  std::string images, annotations;
  for (int i = 0; i < 10; ++i) {
    const std::string n = std::to_string(i);
    draw("images/deep/" + n + ".png", 20, 30);
    images += std::string(i ? "," : "") + R"({"id": )" + n + R"(, "file_name": "deep/)" + n +
              R"(.png", "height": 20, "width": 30})";
    annotations += std::string(i ? "," : "") + box(i, 3, n + ", 1, 2, 2");
  }
  folder_.write("train.json", R"({"annotations": [)" + annotations + R"(], "images": [)" + images +
                                  "], " + kCategories + "}");
  for (const std::string stream : {"memory", "files"}) {
    const Dataset data = load_data(
        "{dataset: detection, classes: 2, size: [20, 30], max_boxes: 3, stream: " + stream +
            ", validation_split: {count: 3}}",
        folder_.path());
    EXPECT_EQ(data.train.count, 7);
    EXPECT_EQ(data.validation.count, 3);
    EXPECT_EQ(data.train.read != nullptr, stream == "files");
    std::vector<double> lefts;
    for (size_t n = 0; n < 7; ++n) lefts.push_back(boxes_of(data.train, n).at(0)[0]);
    for (size_t n = 0; n < 3; ++n) lefts.push_back(boxes_of(data.validation, n).at(0)[0]);
    std::sort(lefts.begin(), lefts.end());
    EXPECT_EQ(lefts, std::vector<double>({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  }
}

TEST_F(Detection, KeysThatDoNotFitAreNamed) {
  annotate("train.json", "");
  annotate("val.json", "");
  EXPECT_TRUE(has(error("augment: [{type: horizontal_flip}, {type: mixup}]"),
                  "data: augment: mixup lays images over one another"));
  EXPECT_TRUE(has(error("max_boxes: 0"), "max_boxes"));
  EXPECT_TRUE(has(error("validation_split: {count: 1}"), "'validation' names a file"));
  EXPECT_TRUE(has(error_of([&] {
                    load_data("{dataset: detection, classes: 2, size: 8, validation_images: x}",
                              folder_.path());
                  }),
                  "validation_images"));
}

}  // namespace
}  // namespace duet
