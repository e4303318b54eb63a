// What a checkpoint says of its inputs and classes, and texts that say it wrongly.
#include "train/checkpoint/dataset_metadata.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/text.h"

namespace duet {
namespace {

using nlohmann::json;

DatasetInfo info() { return {"pets", 2, 3, 4, 2, {0.1, 0.25}, {1.0 / 3.0, 0.5}, {"cat", "do\"g"}}; }

std::string refusal(const std::string& text) {
  return error_of<DataError>([&] { read_dataset_metadata(text); });
}

TEST(DatasetMetadata, ComesBackAsItWas) {
  const std::string text = dataset_metadata(info(), "0123");
  EXPECT_EQ(text.find('\n'), std::string::npos);
  const DatasetInfo back = read_dataset_metadata(text);
  EXPECT_EQ(back.name, "pets");
  EXPECT_EQ(back.channels * 100 + back.height * 10 + back.width, 234);
  EXPECT_EQ(back.classes, 2);
  EXPECT_EQ(back.mean, info().mean);
  EXPECT_EQ(back.stddev, info().stddev);
  EXPECT_EQ(back.class_names, info().class_names);
  const json object = json::parse(text);
  EXPECT_EQ(object["fingerprint"], "0123");
  EXPECT_EQ(object["input"], "(byte / 255 - mean) / stddev");
}

TEST(DatasetMetadata, HoldsTheColumnsOfATable) {
  DatasetInfo table = info();
  table.numbers = true;
  table.columns = {"a", "b"};
  table.records = {{"targets", FieldKind::kNumbers, {2}, 0, {"price", "size"}}};
  const std::string text = dataset_metadata(table, "0123");
  EXPECT_EQ(json::parse(text)["targets"], json({"price", "size"}));
  EXPECT_EQ(read_dataset_metadata(text).columns, table.columns);
  json wrong = json::parse(text);
  wrong["columns"] = {"a"};
  EXPECT_TRUE(has(refusal(wrong.dump()), "'columns' are 1 names of 2 numbers"));
  wrong["columns"] = "a";
  EXPECT_TRUE(has(refusal(wrong.dump()), "'columns'", "a list of names"));
}

TEST(DatasetMetadata, WrongTextsAreNamed) {
  const json right = json::parse(dataset_metadata(info(), "0123"));
  const auto with = [&](const char* key, const json& value) {
    json object = right;
    object[key] = value;
    return refusal(object.dump());
  };
  EXPECT_EQ(refusal(right.dump()), "");
  EXPECT_TRUE(has(refusal("{"), "not JSON"));
  EXPECT_TRUE(has(refusal("[]"), "expected a JSON object"));
  EXPECT_TRUE(has(refusal(std::string(100'000, '[')), "nested"));
  EXPECT_TRUE(has(refusal("{}"), "it has no 'name'"));
  EXPECT_TRUE(has(with("channels", 0), "'channels' is 0", "from 1"));
  EXPECT_TRUE(has(with("channels", 3), "'mean'", "3 numbers"));
  EXPECT_TRUE(has(with("height", "3"), "'height'", "whole number"));
  EXPECT_TRUE(has(with("height", 1 << 20), "")) << "large, but possible";
  EXPECT_TRUE(has(with("width", int64_t{1} << 40), "'width'"));
  json large = right;
  large["height"] = large["width"] = 1 << 20;
  EXPECT_TRUE(has(refusal(large.dump()), "larger than any network takes"));
  EXPECT_TRUE(has(with("stddev", {0.5, 0.0}), "'stddev'", "2 positive numbers"));
  EXPECT_TRUE(has(with("mean", {0.5, nullptr}), "'mean'", "2 numbers"));
  EXPECT_TRUE(has(with("input", "byte / 255"), "'input' is 'byte / 255'"));
  EXPECT_TRUE(has(with("classes", json::array()), "")) << "of pairs of images";
  EXPECT_TRUE(has(with("classes", "cat"), "'classes'", "a list of names"));
  EXPECT_TRUE(has(with("classes", {"cat", 1}), "'classes'", "a list of names"));
}

}  // namespace
}  // namespace duet
