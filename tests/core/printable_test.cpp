#include "core/printable.h"

#include <gtest/gtest.h>

namespace duet {
namespace {

using std::string_literals::operator""s;

TEST(Printable, EscapesWhatATerminalWouldFollow) {
  EXPECT_EQ(printable("conv1.weight"), "conv1.weight");
  EXPECT_EQ(printable(""), "");
  EXPECT_EQ(printable("a\0b\x1b[2J\n\x7f"s), "a\\x00b\\x1b[2J\\x0a\\x7f");
  EXPECT_EQ(printable("\u009b1m"), "\\xc2\\x9b1m");  // a control character in UTF-8
  EXPECT_EQ(printable("größe \u00a7 \xff"), "größe \u00a7 \xff");
}

TEST(Printable, ShortensWhatIsLong) {
  const std::string most(200, 'x');
  EXPECT_EQ(printable(most), most);
  EXPECT_EQ(printable(most + "x"), std::string(197, 'x') + "...");
  std::string umlauts = "x";
  for (int i = 0; i < 100'000; ++i) umlauts += "ü";
  EXPECT_EQ(printable(umlauts), umlauts.substr(0, 197) + "...");
  EXPECT_EQ(printable("x" + umlauts), "x" + umlauts.substr(0, 195) + "...");  // no half of one
  EXPECT_LE(printable(std::string(100'000, '\x80')).size(), 200u);
  EXPECT_LE(printable(std::string(100'000, '\x1b')).size(), 200u);
}

}  // namespace
}  // namespace duet
