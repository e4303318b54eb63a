#include "core/config.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/open_range.h"
#include "support/text.h"

namespace duet {
namespace {

/// A map with its entries on lines 10, 11, ...
ConfigNode map_of(const std::vector<std::pair<std::string, std::string>>& entries) {
  ConfigNode map = ConfigNode::map();
  map.mark = {9, 1};
  int line = 10;
  for (const auto& [key, text] : entries) {
    ConfigNode& value = map.at_or_add(key);
    value = ConfigNode::of(text);
    value.key_mark = {line, 3};
    value.mark = {line, 20};
    ++line;
  }
  return map;
}

template <class Read>
std::string mistakes(ConfigNode node, Read&& read) {
  ConfigErrors errors("net.yaml");
  ConfigReader reader(node, "layer conv1", errors);
  read(reader);
  reader.finish();
  return error_of<ConfigError>([&] { errors.raise_if_any(); });
}

TEST(Config, ReadsEveryType) {
  ConfigNode node = map_of(
      {{"i", "12"}, {"n", "2.5e-3"}, {"f", "true"}, {"t", "text"}, {"c", "two"}, {"p", "3"}});
  ConfigNode& list = node.at_or_add("l");
  list.kind = ConfigNode::Kind::kList;
  list.items = {ConfigNode::of("5"), ConfigNode::of("7")};
  ConfigErrors errors("net.yaml");
  ConfigReader reader(node, "layer conv1", errors);
  EXPECT_EQ(reader.integer("i"), 12);
  EXPECT_EQ(reader.number("n"), 2.5e-3);
  EXPECT_EQ(reader.flag("f"), true);
  EXPECT_EQ(reader.text("t"), "text");
  EXPECT_EQ(reader.choice("c", {"one", "two"}), "two");
  EXPECT_EQ(reader.integer_pair("p", {}, 1), (std::pair<int64_t, int64_t>(3, 3)));
  EXPECT_EQ(reader.integer_pair("l", {}, 1), (std::pair<int64_t, int64_t>(5, 7)));
  EXPECT_EQ(reader.numbers("l", {}), (std::vector<double>{5, 7}));
  reader.finish();
  EXPECT_TRUE(errors.empty());
}

TEST(Config, AbsentKeysAreWrittenBackWithTheirDefaults) {
  ConfigNode node = ConfigNode::map();
  ConfigErrors errors("net.yaml");
  ConfigReader reader(node, "layer conv1", errors);
  EXPECT_EQ(reader.integer("i", 4), 4);
  EXPECT_EQ(reader.number("n", 0.1), 0.1);
  EXPECT_EQ(reader.flag("f", false), false);
  EXPECT_EQ(reader.choice("c", {"one", "two"}, "one"), "one");
  EXPECT_EQ(reader.integer_pair("p", 2, 1), (std::pair<int64_t, int64_t>(2, 2)));
  reader.finish();
  EXPECT_TRUE(errors.empty());
  EXPECT_EQ(node.find("i")->scalar, "4");
  EXPECT_EQ(node.find("n")->scalar, "0.1");
  EXPECT_EQ(node.find("f")->scalar, "false");
  EXPECT_EQ(node.find("c")->scalar, "one");
  EXPECT_EQ(node.find("p")->scalar, "2");
}

TEST(Config, UnknownKeyNamesTheNearest) {
  const std::string text = mistakes(map_of({{"kernal", "3"}}), [](ConfigReader& r) {
    r.integer("kernel", 1);
    r.integer("stride", 1);
  });
  EXPECT_TRUE(has(text, "net.yaml:10:3: ", "'kernal'", "'kernel'"));
}

TEST(Config, UnknownValueNamesTheNearest) {
  const std::string text = mistakes(map_of({{"init", "he_nromal"}}), [](ConfigReader& r) {
    r.choice("init", {"zeros", "he_normal"}, "zeros");
  });
  EXPECT_TRUE(has(text, "net.yaml:10:20: ", "did you mean 'he_normal'"));
}

TEST(Config, MissingRequiredKey) {
  const std::string text = mistakes(map_of({}), [](ConfigReader& r) { r.integer("out_channels"); });
  EXPECT_TRUE(has(text, "net.yaml:9:1: layer conv1", "'out_channels'"));
}

TEST(Config, WrongTypes) {
  for (const char* value : {"2.5", "three", "", "1e3", "99999999999999999999", "0x10"}) {
    EXPECT_NE(mistakes(map_of({{"k", value}}), [](ConfigReader& r) { r.integer("k"); }), "")
        << value;
  }
  for (const char* value : {"fast", "", "nan", "inf", "1.5x"}) {
    EXPECT_NE(mistakes(map_of({{"k", value}}), [](ConfigReader& r) { r.number("k"); }), "")
        << value;
  }
  for (const char* value : {"yes", "1", "True"}) {
    EXPECT_NE(mistakes(map_of({{"k", value}}), [](ConfigReader& r) { r.flag("k"); }), "") << value;
  }
}

TEST(Config, Ranges) {
  const auto read = [](ConfigReader& r) { r.integer("k", 1, 1, 8); };
  EXPECT_EQ(mistakes(map_of({{"k", "1"}}), read), "");
  EXPECT_EQ(mistakes(map_of({{"k", "8"}}), read), "");
  EXPECT_NE(mistakes(map_of({{"k", "0"}}), read), "");
  EXPECT_TRUE(has(mistakes(map_of({{"k", "9"}}), read), "from 1 to 8"));
  EXPECT_NE(mistakes(map_of({{"p", "1.5"}}), [](ConfigReader& r) { r.number("p", 0.5, 0, 1); }),
            "");
}

TEST(Config, RangesThatAreOpen) {
  const auto of = [](const char* value, double min, double max) {
    return mistakes(map_of({{"p", value}}), [&](ConfigReader& r) { r.number("p", 0.5, min, max); });
  };
  EXPECT_EQ(of("1e-30", kAboveZero, kBelowOne) + of("0.9999", kAboveZero, kBelowOne), "");
  for (const char* bad : {"0", "1", "-1", "nan"}) {
    EXPECT_TRUE(has(of(bad, kAboveZero, kBelowOne),
                    std::string("expected a number above 0 and below 1, found '") + bad));
  }
  EXPECT_TRUE(has(of("1", 0, kBelowOne), "expected a number of at least 0 and below 1, found '1'"));
  EXPECT_TRUE(has(of("0", kAboveZero, 8), "expected a number above 0 and at most 8, found '0'"));
  EXPECT_TRUE(has(of("0", kAboveZero, 1e30), "expected a number above 0, found '0'"));
}

// Whatever computes with them does so in float32.
TEST(Config, NumbersAreThoseOfFloat) {
  const auto read = [](const std::string& text) {
    return mistakes(map_of({{"n", text}, {"l", text}}), [](ConfigReader& reader) {
      reader.number("n");
      reader.numbers("l", {});
    });
  };
  for (const char* held :
       {"0", "-0.0", "0e9", "0.000", "1.18e-38", "-3.4e38", "1e-30", "16777217"}) {
    EXPECT_EQ(read(held), "") << held;
  }
  for (const char* beyond :
       {"1e300", "-1e39", "3.5e38", "1e-42", "-1e-300", "1e-400", "0.1e-399"}) {
    const std::string what = std::string(
                                 "expected a number that float32 holds (0, or from 1.2e-38 to "
                                 "3.4e38 in size), found '") +
                             beyond + "'";
    EXPECT_TRUE(has(read(beyond), "n: " + what, "l: " + what)) << beyond;
  }
}

TEST(Config, AllMistakesAtOnceInFileOrder) {
  const std::string text =
      mistakes(map_of({{"typo_of_nothing", "1"}, {"b", "x"}, {"a", "y"}}), [](ConfigReader& r) {
        r.integer("a");
        r.integer("b");
        r.integer("absent");
      });
  std::vector<size_t> places;
  for (const char* mark : {"net.yaml:9:", "net.yaml:10:", "net.yaml:11:", "net.yaml:12:"}) {
    places.push_back(text.find(mark));
    ASSERT_NE(places.back(), std::string::npos) << mark << "\n" << text;
  }
  EXPECT_TRUE(std::is_sorted(places.begin(), places.end())) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3) << text;
}

TEST(Config, OnlyUnsupportedIsItsOwnError) {
  ConfigErrors errors("net.yaml");
  errors.add_unsupported({3, 1}, "no GPU");
  EXPECT_THROW(errors.raise_if_any(), UnsupportedError);
  errors.add({4, 1}, "a mistake");
  EXPECT_THROW(errors.raise_if_any(), ConfigError);
}

TEST(Config, NearestIsNearEnoughOrNothing) {
  EXPECT_EQ(nearest("relo", {"conv2d", "relu"}), "relu");
  EXPECT_FALSE(nearest("attention", {"conv2d", "relu"}));
}

TEST(Config, EmptyTextIsAMistake) {
  const std::string text = mistakes(map_of({{"a", ""}, {"b", ""}}), [](ConfigReader& reader) {
    EXPECT_EQ(reader.text("a", "fallback"), "fallback");
    EXPECT_EQ(reader.choice("b", {"one", "two"}), "one");
  });
  EXPECT_EQ(text,
            "net.yaml:10:20: layer conv1: a: expected text, found ''\n"
            "net.yaml:11:20: layer conv1: b: expected text, found ''");
}

TEST(Config, OfVeryManyMistakesTheFirstAreTold) {
  ConfigErrors errors("net.yaml");
  for (int line = 1; line <= 100'000; ++line) errors.add({line, 1}, "wrong");
  EXPECT_EQ(errors.count(), 100'000u);
  const std::string text = error_of<ConfigError>([&] { errors.raise_if_any(); });
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 100);
  EXPECT_TRUE(has(text, "net.yaml:100:1: wrong\nand 99900 more mistakes"));
}

}  // namespace
}  // namespace duet
