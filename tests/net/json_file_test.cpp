#include "net/json_file.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "support/text.h"

namespace duet {
namespace {

// nlohmann::json takes a byte 0 for the end.
TEST(JsonFile, NothingStandsBehindTheValue) {
  EXPECT_EQ(parse_json(" {\"a\": [1]} ")["a"][0], 1);
  for (const std::string& more : {std::string(1, '\0'), std::string("\0garbage", 8),
                                  std::string(" \0 {}", 5), std::string("x"), std::string("{}")}) {
    const std::string text = "{\"a\":1}" + more;
    EXPECT_NE(error_of<DataError>([&] { parse_json(text); }), "") << text;
    EXPECT_TRUE(object_of_line(text).is_null());
  }
  EXPECT_EQ(error_of<DataError>([&] { parse_json(std::string("[1,\0]", 6)); }),
            "offset 3: a byte 0, which JSON cannot hold");
  EXPECT_TRUE(has(error_of<DataError>([&] { parse_json("[1,"); }), "not JSON, or cut short"));
  EXPECT_TRUE(object_of_line("[1]").is_null());
  EXPECT_EQ(object_of_line("{\"a\":1}")["a"], 1);
}

}  // namespace
}  // namespace duet
