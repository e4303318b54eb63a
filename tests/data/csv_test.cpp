// csv: what is read of a table, and where it is wrong.
#include "data/format/csv.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <stdexcept>

#include "core/error.h"
#include "data/set/fingerprint.h"
#include "support/load_data.h"
#include "support/temporary_folder.h"
#include "support/text.h"

namespace duet {
namespace {

class Csv : public testing::Test {
 protected:
  Dataset load(const std::string& text, const std::string& keys) const {
    folder_.write("train.csv", text);
    return load_data("{dataset: csv, " + keys + "}", folder_.path());
  }
  std::string error(const std::string& text, const std::string& keys = kTwo) const {
    return error_of([&] { load(text, keys); });
  }

  static constexpr const char* kTwo = "features: 2, classes: 2";
  const TemporaryFolder folder_;
};

// In a checkpoint the two would be one.
TEST_F(Csv, NamesOfClassesAreUtf8) {
  EXPECT_TRUE(has(error("a,b,label\n1,2,caf\xe9\n3,4,caf\xe8\n",
                        std::string(kTwo) + ", validation_split: {count: 1}"),
                  "the name of a class, 'caf", "is not UTF-8"));
  EXPECT_EQ(load("a,b,label\n1,2,café\n3,4,cafè\n5,6,café\n",
                 std::string(kTwo) + ", validation_split: {count: 1, stratified: false}")
                .class_names.size(),
            2u);
}

TEST_F(Csv, ReadsNumbersAndNames) {
  const Dataset data = load(
      "\xef\xbb\xbfwidth,label,\"the \"\"height\"\"\"\r\n"
      "1.5, rose ,-2e-1\r\n"
      "\r\n"
      "\"3\",tulip, +4 \r\n"
      "1e-60,rose,0\r\n"
      "2,\"tulip\",7",
      std::string(kTwo) + ", validation_split: {count: 1}, mean: 0, stddev: 1");
  EXPECT_TRUE(data.numbers);
  EXPECT_EQ(data.channels, 2);
  EXPECT_EQ(data.height * data.width, 1);
  EXPECT_EQ(data.class_names, std::vector<std::string>({"rose", "tulip"}));
  EXPECT_EQ(data.train.count, 3);
  EXPECT_EQ(data.validation.count, 1);
  EXPECT_EQ(data.train.numbers.size(), 6u);
  EXPECT_EQ(data.mean, std::vector<double>({0, 0}));
  EXPECT_EQ(data.stddev, std::vector<double>({1, 1}));
}

TEST_F(Csv, NumbersOfClassesAreTheClasses) {
  folder_.write("more.csv", "0;5;2\n");
  const Dataset data = load("1;2;0\n3;4;2\n5;9;2\n",
                            "features: 2, classes: 3, header: false, delimiter: semicolon, "
                            "validation: more.csv");
  EXPECT_EQ(data.train.labels, std::vector<int32_t>({0, 2, 2}));
  EXPECT_EQ(data.train.numbers, std::vector<float>({1, 2, 3, 4, 5, 9}));
  EXPECT_EQ(data.validation.labels, std::vector<int32_t>({2}));
  EXPECT_EQ(data.class_names, std::vector<std::string>({"0", "1", "2"}));
  EXPECT_NEAR(data.mean[0], 3.0, 1e-12);  // computed, a column each
  EXPECT_NEAR(data.mean[1], 5.0, 1e-12);
  EXPECT_NEAR(data.stddev[0], std::sqrt(8.0 / 3.0), 1e-12);
  const Dataset first = load("0;1;2\n1;3;4\n",
                             "features: 2, classes: 2, header: false, label: 0, "
                             "delimiter: semicolon, validation_split: {count: 1}");
  EXPECT_EQ(first.train.count, 1);
  // A constant column is not divided by zero.
  EXPECT_EQ(first.stddev, std::vector<double>({1, 1}));
}

TEST_F(Csv, WhatIsWrongIsNamedWithItsPlace) {
  EXPECT_TRUE(has(error("a,b,label\n1,2,x\n1,2\n"), "train.csv:3: expected 3 columns", "found 2"));
  EXPECT_TRUE(has(error("a;b;label\n"), "train.csv:1: expected 3 columns", "found 1",
                  "is data.delimiter right?"));
  EXPECT_TRUE(has(error("a,b,lable\n1,2,x\n"), "train.csv:1: no column is called 'label'",
                  "did you mean 'lable'?", "data.label"));
  for (const char* bad :
       {"nan", "inf", "-inf", "1e39", "1e400", "0x10", "1 2", "one", "++1", "1,5"}) {
    const std::string field = std::string("\"") + bad + "\"";
    EXPECT_TRUE(has(error("a,b,label\n1,2,x\n1," + field + ",y\n"),
                    "train.csv:3: column 2 ('b'): expected a finite number, found '",
                    "on_error: skip"))
        << bad;
  }
  EXPECT_TRUE(has(error("a,b,label\n1,,x\n"), "train.csv:2: column 2 ('b')", "found nothing"));
  EXPECT_TRUE(has(error("a,b,label\n1,2, \n"), ":2: column 3 ('label'): expected a label"));
  EXPECT_TRUE(has(error("a,b,label\n1,\"2,x\n"), "train.csv:2: a quote (\") does not end"));
  EXPECT_TRUE(has(error("a,b,label\n1,\"2\"3,x\n"), ":2: a quoted field is followed by other"));
  EXPECT_TRUE(has(error("a,b,label\n1,2,x\n1,2,y\n1,2,z\n"), "labels have 3 values (x, y, z)",
                  "data.classes is 2"));
  EXPECT_TRUE(has(error("a,b,label\n1,2,x\n\n1,2,y\n1,2,z\n1,2,x\n"),
                  "train.csv:5: the label 'z' is one too many: the labels have 3 values"));
  EXPECT_TRUE(
      has(error("a,b,label\n1,2,0\n1,2,7\n1,2,1\n"),
          "train.csv:3: the label '7' is one too many: the labels have 3 values (0, 1, 7)"));
  EXPECT_TRUE(has(error("a,b,label\n1,2,-1\n1,2,0\n1,2,1\n"), "train.csv:2: the label '-1'"));
  EXPECT_TRUE(has(error("a,b,label\n1,2,x\n1,2,x\n"), "train.csv: the labels have 1 value (x)"));
  EXPECT_TRUE(has(error("a,b,label\n"), "train.csv: holds no rows"));
  EXPECT_TRUE(has(error(""), "train.csv: holds no rows"));
  EXPECT_TRUE(has(error(std::string("a,b,label\n1,\0,x\n", 16)), ":2: holds a byte 0", "UTF-8"));
  EXPECT_TRUE(has(error("1,2,0\n", std::string(kTwo) + ", header: false, label: kind"),
                  "data.label is a column's number, from 0 to 2, not 'kind'"));
  EXPECT_TRUE(has(error("a,b,label\n" + std::string(2 << 20, '1')), ":2: is longer than"));
  folder_.write("more.csv", "a,b,label\n1,2,z\n");
  EXPECT_TRUE(has(error("a,b,label\n1,2,x\n1,2,y\n", std::string(kTwo) + ", validation: more.csv"),
                  "more.csv:2: the label 'z' is of no class"));
  EXPECT_TRUE(has(error("a,b,label\n1,2,x\n1,2,y\n",
                        std::string(kTwo) + ", augment: [{type: horizontal_flip}]"),
                  "augment: csv has no images"));
}

TEST_F(Csv, SkipCountsTheRowsLeftOut) {
  const Dataset data = load("a,b,label\n1,2,x\n1,nan,y\n3,4,y\n5,,x\n",
                            std::string(kTwo) + ", on_error: skip, validation_split: {count: 1}");
  EXPECT_EQ(data.train.count + data.validation.count, 2);
  ASSERT_GE(data.warnings.size(), 1u);
  EXPECT_TRUE(has(data.warnings[0], "2 rows are left out; the first: line 3, column 2 ('b')"));
  EXPECT_EQ(data.left_out.count, 2);
  EXPECT_TRUE(has(data.left_out.named.at(1), "train.csv: line 5, "));
}

// A quote may stand behind blanks, and blanks behind a quote.
TEST_F(Csv, BlanksAroundQuotes) {
  const Dataset data = load(
      "\"a\", \"b\" ,\t\"label\"\n"
      "1, \"2\", \"cat\"\n"
      " \"3\" ,4,\"dog, small\"  \n"
      "\"1,\"\"5\"\"\", 6, cat \n",
      std::string(kTwo) + ", on_error: skip, validation_split: {count: 1, stratified: false}");
  EXPECT_EQ(data.class_names, std::vector<std::string>({"cat", "dog, small"}));
  EXPECT_EQ(data.left_out.count, 1);
  EXPECT_TRUE(has(data.left_out.named.at(0), "line 4, column 1 ('a')", "found '1,\"5\"'"));
}

// The network knows a number by its place alone.
TEST_F(Csv, ValidationDataHaveTheColumnsOfTheTrainingData) {
  const std::string keys = std::string(kTwo) + ", validation: more.csv",
                    text = "a,b,label\n1,2,x\n1,2,y\n";
  const auto with = [&](const std::string& header) {
    folder_.write("more.csv", header + "\n1,2,x\n");
    return error(text, keys);
  };
  EXPECT_EQ(with("a, \"b\",label"), "");
  EXPECT_TRUE(has(with("b,a,label"), "more.csv: its columns are not those of the training data",
                  "where those have 'a', it has 'b'", "in the same order"));
  EXPECT_TRUE(has(with("a,c,label"), "where those have 'b', it has 'c'"));
  folder_.write("more.csv", "label,a,b\nx,3,4\n");
  const Dataset data = load(text, keys);
  EXPECT_EQ(data.validation.numbers, std::vector<float>({3, 4}));
  EXPECT_EQ(data.validation.labels, std::vector<int32_t>({0}));
}

TEST_F(Csv, TheLabelIsOneColumn) {
  EXPECT_TRUE(
      has(error("a,label,label\n1,2,x\n"), "train.csv:1: more than one column is called 'label'"));
  EXPECT_TRUE(has(error("a, label,\"label\"\n1,2,x\n"), "more than one column"));
}

std::vector<float> targets_of(const Split& split) {
  std::vector<float> targets;
  for (const uint32_t word : split.records.at(0)) targets.push_back(std::bit_cast<float>(word));
  return targets;
}

constexpr const char* kTargets = "features: 2, targets: [price, size]";

TEST_F(Csv, TargetsAreNumbersAsTheyStand) {
  folder_.write("more.csv", "size,a,price,b\n70,4,1e3,40\n");
  const Dataset data = load("a,price,b,size\n1,-2.5,10,50\n2,\"+7\",20,60\n",
                            std::string(kTargets) + ", validation: more.csv");
  EXPECT_EQ(data.classes, 0);
  EXPECT_TRUE(data.train.labels.empty());
  EXPECT_TRUE(data.class_names.empty());
  EXPECT_EQ(data.columns, std::vector<std::string>({"a", "b"}));
  EXPECT_EQ(data.train.numbers, std::vector<float>({1, 10, 2, 20}));
  EXPECT_EQ(targets_of(data.train), std::vector<float>({-2.5, 50, 7, 60}));
  EXPECT_EQ(targets_of(data.validation), std::vector<float>({1000, 70}));  // by their names
  EXPECT_NEAR(data.mean[1], 15.0, 1e-12);
  ASSERT_EQ(data.records.size(), 1u);
  EXPECT_EQ(data.records[0].elements, std::vector<std::string>({"price", "size"}));
  std::vector<std::string> fields;
  for (const BatchField& field : fields_of(data, 8)) {
    fields.push_back(field.name + " " + field.desc.to_string());
  }
  EXPECT_EQ(fields, (std::vector<std::string>{"images 8x2x1x1 float32 nchw", "rows 8 int32",
                                              "targets 8x2 float32"}));
}

TEST_F(Csv, LabelsAndTargetsMayBothBeThere) {
  const std::string text = "a,b,kind,price\n1,2,x,3\n4,5,y,6\n",
                    keys =
                        "features: 2, classes: 2, label: kind, targets: price, "
                        "validation: train.csv";
  const Dataset data = load(text, keys);
  EXPECT_EQ(data.train.labels, std::vector<int32_t>({0, 1}));
  EXPECT_EQ(targets_of(data.train), std::vector<float>({3, 6}));
  EXPECT_EQ(data.records[0].shape, Shape({1}));
  // Another target is another data set.
  EXPECT_EQ(fingerprint(load(text, keys)), fingerprint(data));
  EXPECT_NE(fingerprint(load("a,b,kind,price\n1,2,x,3\n4,5,y,7\n", keys)), fingerprint(data));
  // Without a header columns are counted, and the last one is the label's.
  const Dataset counted = load("3,1,2,0\n6,4,5,1\n",
                               "features: 2, classes: 2, header: false, targets: [0], "
                               "validation: train.csv");
  EXPECT_EQ(counted.train.numbers, data.train.numbers);
  EXPECT_EQ(counted.train.labels, data.train.labels);
  EXPECT_EQ(targets_of(counted.train), targets_of(data.train));
  EXPECT_TRUE(counted.columns.empty());
}

TEST_F(Csv, HeldOutRowsKeepTheirTargets) {
  std::string text = "a,b,price,size\n";
  for (int i = 0; i < 40; ++i) {
    const std::string a = std::to_string(i), b = std::to_string(i % 7);
    text += a + "," + b + ",1" + a + ",2" + a + "\n";
  }
  const Dataset data = load(text, std::string(kTargets) + ", validation_split: {count: 9}");
  EXPECT_EQ(data.validation.count, 9);
  for (const Split* split : {&data.train, &data.validation}) {
    const std::vector<float> targets = targets_of(*split);
    ASSERT_EQ(std::ssize(targets), 2 * split->count);
    for (int64_t n = 0; n < split->count; ++n) {
      const std::string a = std::to_string(static_cast<int>(split->numbers[2 * n]));
      EXPECT_EQ(targets[2 * n], std::stof("1" + a));
      EXPECT_EQ(targets[2 * n + 1], std::stof("2" + a));
    }
  }
}

TEST_F(Csv, WhatIsWrongWithTargetsIsNamedWithItsPlace) {
  const std::string text = "a,b,price,size\n1,2,3,4\n";
  EXPECT_TRUE(has(error("a,b,price,size\n1,2,3,4\n1,2,3,big\n", kTargets),
                  "train.csv:3: column 4 ('size'): expected a finite number, found 'big'",
                  "on_error: skip"));
  EXPECT_TRUE(has(error("a,b,price,size\n1,2,,4\n", kTargets), ":2: column 3", "found nothing"));
  EXPECT_TRUE(has(error("a,b,prise,sise\n1,2,3,4\n", kTargets),
                  "train.csv:1: no column is called 'price' (did you mean 'prise'?)",
                  "data.targets names it", "no column is called 'size' (did you mean 'sise'?)"));
  EXPECT_TRUE(has(error("a,price,price,size\n1,2,3,4\n", kTargets),
                  ":1: more than one column is called 'price', which data.targets names"));
  EXPECT_TRUE(has(error("a,b,price\n1,2,3\n", kTargets),
                  ":1: expected 4 columns (2 numbers, as data.features says, and 2 targets), "
                  "found 3"));
  EXPECT_TRUE(has(error(text, std::string(kTargets) + ", classes: 2"),
                  "expected 5 columns (2 numbers, as data.features says, a label, and 2 targets)"));
  EXPECT_TRUE(has(error(text, "features: 2, classes: 2, label: price, targets: [size, price]"),
                  "test:1:", "targets: 'price' is the column of the label (data.label)"));
  EXPECT_TRUE(has(error(text, "features: 2, targets: [size, size]"), "'size' is named twice"));
  EXPECT_TRUE(has(error(text, "features: 2, targets: []"),
                  "test:1:", "targets: expected the name of a column, or a list of names"));
  EXPECT_TRUE(has(error(text, "features: 2, targets: [size, {a: 1}]"), "expected the name"));
  EXPECT_TRUE(has(error(text, "features: 2, targets: [size], label: price"),
                  "required key 'classes' is missing"));
  EXPECT_TRUE(has(error(text, "features: 2, header: false, targets: [size, 4, 03, 3]"),
                  "without a header data.targets is a column's number, from 0 to 5, not 'size'",
                  "not '03'"));
  const Dataset some =
      load("a,b,price,size\n1,2,3,4\n5,6,x,8\n9,10,11,12\n", std::string(kTargets) +
                                                                 ", on_error: skip, "
                                                                 "validation_split: {count: 1}");
  EXPECT_EQ(some.train.count + some.validation.count, 2);
  EXPECT_EQ(some.left_out.count, 1);
  folder_.write("more.csv", "a,price,b\n1,2,3\n");
  EXPECT_TRUE(has(error(text, std::string(kTargets) + ", validation: more.csv"),
                  "more.csv:1: expected 4 columns"));
  folder_.write("more.csv", "price,size,b,a\n1,2,3,4\n");
  EXPECT_TRUE(has(error(text, std::string(kTargets) + ", validation: more.csv"),
                  "more.csv: its columns are not those of the training data"));
}

// As for a prediction, which needs neither label nor targets.
TEST_F(Csv, FeaturesAreReadAlone) {
  CsvRules rules{.label = {}, .targets = {"price"}, .features = 2};
  const auto read = [&](const std::string& text, const std::vector<std::string>& names) {
    folder_.write("some.csv", text);
    return read_csv_features(folder_ / "some.csv", rules, names);
  };
  const auto refused = [&](const std::string& text, const std::vector<std::string>& names) {
    return error_of([&] { read(text, names); });
  };
  using Numbers = std::vector<float>;
  EXPECT_EQ(read("b,note,a\n2,good,1\n\n4,bad,3\n", {"a", "b"}).numbers, Numbers({1, 2, 3, 4}));
  EXPECT_EQ(read("b,note,a\n2,good,1\n\n4,bad,3\n", {"a", "b"}).lines,
            std::vector<int64_t>({2, 4}));
  EXPECT_TRUE(has(refused("b,note\n2,good\n", {"a", "b"}), "some.csv:1: no column is called 'a'"));
  EXPECT_TRUE(has(refused("a,b,a\n2,3,4\n", {"a", "b"}), "more than one column is called 'a'"));
  EXPECT_TRUE(has(refused("a,b\n2,x\n", {"a", "b"}),
                  "some.csv:2: column 2 ('b'): expected a finite number, found 'x'"));
  EXPECT_TRUE(has(refused("a,b\n2,3,4\n", {"a", "b"}), ":2: expected 2 columns, found 3"));
  EXPECT_TRUE(has(refused("a,b\n", {"a", "b"}), "holds no rows"));
  // By their places: those of the training data, or the features alone.
  EXPECT_EQ(read("x,price,y\n1,9,2\n", {}).numbers, Numbers({1, 2}));
  EXPECT_EQ(read("x,y\n1,2\n", {}).numbers, Numbers({1, 2}));
  EXPECT_TRUE(has(refused("x\n1\n", {}), ":1: expected 3 columns, found 1"));
  rules.header = false;
  rules.targets = {"0"};
  EXPECT_EQ(read("9,1,2\n8,3,4\n", {}).numbers, Numbers({1, 2, 3, 4}));
  EXPECT_EQ(read("1,2\n3,4\n", {}).numbers, Numbers({1, 2, 3, 4}));
}

TEST_F(Csv, FieldsOfALine) {
  using Fields = std::vector<std::string>;
  EXPECT_EQ(csv_fields("a, \"b\" , \"c, \"\"d\"\"\"\t,\t\"\"", ','),
            Fields({"a", "b", "c, \"d\"", ""}));
  EXPECT_EQ(csv_fields(" \"a\"\t\"b;\" \t", '\t'), Fields({"a", "b;", ""}));
  EXPECT_EQ(csv_fields(" a \"b\",  ", ','), Fields({" a \"b\"", "  "}));
  EXPECT_THROW(csv_fields("a, \"b\" c", ','), std::invalid_argument);
  EXPECT_THROW(csv_fields("a, \"b ", ','), std::invalid_argument);
  EXPECT_EQ(csv_fields("", ','), Fields({""}));
  EXPECT_EQ(csv_fields("a,,", ','), Fields({"a", "", ""}));
  EXPECT_EQ(csv_fields("\"a,b\",\"\",c\"d", ','), Fields({"a,b", "", "c\"d"}));
  EXPECT_THROW(csv_fields("\"", ','), std::invalid_argument);
  EXPECT_THROW(csv_fields("\"a\"\"", ','), std::invalid_argument);
}

}  // namespace
}  // namespace duet
