// Texts that are no configuration, or would be far more than one: refused at once, with the place.
#include "net/yaml.h"

#include <gtest/gtest.h>

#include "support/temporary_folder.h"
#include "support/text.h"

namespace duet {
namespace {

using std::string_literals::operator""s;

std::string refusal(const std::string& text) {
  return error_of<ConfigError>([&] { read_yaml(text, "a.yaml"); });
}

void expect_refusal(const std::string& text, const std::string& place, const std::string& part) {
  const std::string message = refusal(text);
  EXPECT_EQ(message.rfind(place, 0), 0u) << message;
  EXPECT_TRUE(has(message, part));
}

std::string set_refusal(const std::string& assignment) {
  ConfigNode root = read_yaml("a: 1\n", "a.yaml");
  return error_of<ConfigError>([&] { set_value(root, assignment); });
}

/// a: [x, ...], b: [*a, ...], ...: ten times as many values in each line.
std::string alias_bomb() {
  std::string text = "a: &a [x, x, x, x, x, x, x, x, x, x]\n";
  for (char c = 'b'; c < 'k'; ++c) {
    const std::string before(1, static_cast<char>(c - 1));
    text += std::string(1, c) + ": &" + c + " [*" + before;
    for (int i = 0; i < 9; ++i) text += ", *" + before;
    text += "]\n";
  }
  return text;
}

TEST(Yaml, EndsAtWhatItCannotRead) {
  expect_refusal(",", "a.yaml:1:1: ", "','");
  expect_refusal(",name: a\n", "a.yaml:1:1: ", "a ',' or a bracket too many");
  expect_refusal("{name: a},", "a.yaml:1:10: ", "a ',' or a bracket too many");
  expect_refusal("name: a\n}\n", "a.yaml:2:1: ", "");
  expect_refusal("é: ü\n---\nname: b\n", "a.yaml:2:1: ", "second document");
  EXPECT_TRUE(has(set_refusal("a=,"), "','"));
  EXPECT_TRUE(has(set_refusal("a={b: c},"), "','"));
}

// No checkpoint could hold such a name, and two of them would be one there.
TEST(Yaml, TextIsUtf8) {
  const std::string what = "that is not UTF-8";
  expect_refusal("name: caf\xe9\n", "a.yaml:1:10: ", "a byte (0xe9) " + what);
  expect_refusal("a: 1\nb: [x, \"\xff\"]\n", "a.yaml:2:9: ", "a byte (0xff) " + what);
  expect_refusal("a: 1\n# caf\xe9\n", "a.yaml:2:6: ", what);
  expect_refusal("a: 1\n\xe9: 1\n", "a.yaml:2:1: ", what);
  expect_refusal("a: &\xe9 1\nb: *\xe9\n", "a.yaml:1:5: ", what);
  expect_refusal("a: caf\xc3", "a.yaml:1:7: ", what);         // cut short
  expect_refusal("a: \xed\xa0\x80\n", "a.yaml:1:4: ", what);  // a surrogate
  expect_refusal("a: \xc0\xaf\n", "a.yaml:1:4: ", what);      // '/' in two bytes
  expect_refusal(
      "\xff\xfe"
      "a",
      "a.yaml:1:1: ", what);                                   // UTF-16
  expect_refusal("a: \xe9\nb: \x01\n", "a.yaml:1:4: ", what);  // what comes first is told
  expect_refusal("a: \x01\nb: \xe9\n", "a.yaml:1:4: ", "control character");
  EXPECT_EQ(refusal("\xef\xbb\xbfname: café 学習 🙂\n"), "");
  EXPECT_TRUE(has(set_refusal("a=caf\xe9"), "a byte (0xe9) " + what));
  EXPECT_TRUE(has(set_refusal("a={b: [\xe9]}"), what));
  EXPECT_TRUE(has(set_refusal("b\xe9=1"), "the key is not UTF-8"));
  EXPECT_EQ(set_refusal("a=café"), "");
}

TEST(Yaml, TabsAreNamed) {
  for (const char* text : {"name: a\ndata:\n\tbatch: 3\n", "name: a\nlayers:\n\t- {type: relu}\n",
                           "name: a\ndata:\n  \tbatch: 3\n  b: [\n"}) {
    expect_refusal(text, "a.yaml:3:1: ",
                   "not valid YAML: the line is indented with a tab; YAML allows blanks only");
  }
  expect_refusal("\tname: a\n", "a.yaml:1:1: ", "indented with a tab");
  expect_refusal("a: [1,\t2\n", "a.yaml:", "not valid YAML");
  EXPECT_EQ(refusal("a:\t1\n"), "");
}

TEST(Yaml, DepthIsBounded) {
  const std::string deep = "nested more than 50 deep";
  expect_refusal("a: " + std::string(100'000, '['), "a.yaml:1:", deep);
  expect_refusal("a: " + std::string(100'000, '{'), "a.yaml:1:", deep);
  std::string lines;
  for (int i = 0; i < 60; ++i) lines += std::string(i, ' ') + "a:\n";
  expect_refusal(lines, "a.yaml:51:", deep);
  expect_refusal(std::string(300'000, '-'), "a.yaml:", "");
  std::string dashes;
  for (int i = 0; i < 100'000; ++i) dashes += "- ";
  expect_refusal(dashes, "a.yaml:1:", deep);
  EXPECT_TRUE(has(set_refusal("a=" + std::string(100'000, '[')), deep));
  std::string path;
  for (int i = 0; i < 60'000; ++i) path += "b.";
  EXPECT_TRUE(has(set_refusal(path + "b=1"), "expected a.b=value"));
  // Each alias is a level deeper than the one before.
  std::string ladder = "l0: &l0 [x]\n";
  for (int i = 1; i < 60; ++i) {
    const std::string name = "l" + std::to_string(i);
    ladder += name + ": &" + name + " [*l" + std::to_string(i - 1) + "]\n";
  }
  expect_refusal(ladder, "a.yaml:", deep);
}

TEST(Yaml, AliasesStandForABoundedNumberOfValues) {
  const ConfigNode root = read_yaml("a: &a [1, {b: 2}]\nc: *a\n", "a.yaml");
  EXPECT_EQ(root.find("c")->items.at(1).find("b")->scalar, "2");
  expect_refusal(alias_bomb(), "a.yaml:", "more than 100000 values");
  expect_refusal("a: &a [*a]\n", "a.yaml:1:", "alias (*name) stands for something around it");
  expect_refusal("a: *b\n", "a.yaml:1:", "");
}

// Each of these anchors keeps all that is inside it.
TEST(Yaml, AnchorsKeepABoundedNumberOfValues) {
  std::string text = "a: ", end;
  for (int i = 0; i < 45; ++i) {
    text += "&a" + std::to_string(i) + " [";
    end += "]";
  }
  for (int i = 0; i < 5000; ++i) text += "1,";
  expect_refusal(text + end, "a.yaml:1:", "more than 100000 values");
}

TEST(Yaml, SizesAreBounded) {
  expect_refusal("a: " + std::string(5000, 'x') + "\n", "a.yaml:1:4: ", "5000 bytes");
  expect_refusal(std::string((1 << 20) + 1, '#'), "a.yaml:1:1: ", "larger than 1 MiB");
  std::string many = "a: [";
  for (int i = 0; i < 100'001; ++i) many += "1,";
  expect_refusal(many + "]", "a.yaml:1:", "more than 100000 values");
  const std::string message = set_refusal("a=" + std::string(30'000, 'x'));
  EXPECT_TRUE(has(message, "30000 bytes"));
  EXPECT_LT(message.size(), 500u);
}

TEST(Yaml, ControlCharactersAreRefused) {
  expect_refusal("name: a\0b\n"s, "a.yaml:1:8: ", "control character (0x00)");
  expect_refusal("a: 1\nname: \x1b[31m\n", "a.yaml:2:7: ", "control character (0x1b)");
  expect_refusal("name: \"a\\0b\"\n", "a.yaml:1:7: ", "control character");
  expect_refusal("name: \"a\\nb\"\n", "a.yaml:1:7: ", "control character");
  expect_refusal("\"a\\tb\": 1\n", "a.yaml:1:1: ", "control character");
  EXPECT_TRUE(has(set_refusal("a=\"\\e\""), "control character"));
  EXPECT_TRUE(has(set_refusal("a.b\nc=1"), "expected a.b=value"));
  EXPECT_EQ(refusal("a: 1\r\nb:\t2\r\n"), "");
}

TEST(Yaml, SetNamesWhatIsNoValue) {
  for (const char* value : {"%s", "%", "#1", "%YAML 1.2"}) {
    EXPECT_TRUE(has(set_refusal(std::string("a=") + value),
                    std::string("'") + value + "' is no YAML value"));
  }
  for (const char* value : {"", " ", "~", "null", "'%s'", "[]", "{}"}) {
    EXPECT_EQ(set_refusal(std::string("a=") + value), "") << value;
  }
  for (const char* path : {"a.", "a.b.", ".", ".a", "a..b"}) {
    EXPECT_TRUE(has(set_refusal(path + "=3"s), "expected a.b=value"));
  }
}

TEST(Yaml, FilesThatCannotBeReachedAreNamedWithTheReason) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink("loop", folder / "loop");
  const auto refused = [](const std::string& path) {
    return error_of<ConfigError>([&] { read_yaml_file(path); });
  };
  EXPECT_TRUE(has(refused(folder / "loop"), "loop: cannot open: Too many levels"));
  const std::string longest(300, 'x');
  EXPECT_TRUE(has(refused(folder / longest), longest + ": cannot open: File name too long"));
  EXPECT_TRUE(has(refused(folder.path()), "is a folder"));
}

TEST(Yaml, TagsAreRefused) {
  expect_refusal("type: !relu\n", "a.yaml:1:7: ", "tag");
  expect_refusal("type: !<x> [a]\n", "a.yaml:1:", "tag");
  EXPECT_EQ(refusal("type: !!str relu\nname: \"a\"\n"), "");
}

TEST(Yaml, LargeFilesAreRefused) {
  const TemporaryFolder folder;
  folder.write("large.yaml", "a: 1\n");
  const std::filesystem::path file = folder / "large.yaml";
  std::filesystem::resize_file(file, uint64_t{1} << 34);  // a hole
  EXPECT_THROW(read_yaml_file(file), ConfigError);
  EXPECT_THROW(read_yaml_file("/dev/zero"), ConfigError);
}

}  // namespace
}  // namespace duet
