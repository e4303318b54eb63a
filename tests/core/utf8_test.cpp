#include "core/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace duet {
namespace {

using std::string_literals::operator""s;

TEST(Utf8, TakesEveryCharacter) {
  for (const std::string& text :
       {""s, "plain\n\0"s, "é"s, "\xc2\x80"s, "\xdf\xbf"s, "\xe0\xa0\x80"s, "\xed\x9f\xbf"s,
        "\xee\x80\x80"s, "\xef\xbf\xbf"s, "\xf0\x90\x80\x80"s, "\xf4\x8f\xbf\xbf"s,
        "größe 学習 🙂"s}) {
    EXPECT_TRUE(is_utf8(text)) << text;
  }
}

TEST(Utf8, FindsTheFirstByteThatIsNone) {
  // The start of a character alone, in the middle and at the end; a continuation alone; forms that are
  // longer than needed; surrogates; beyond the last character.
  for (const std::string& bytes :
       {"\xe9"s, "\xe9t"s, "\xe9\xa0"s, "\xf0\x9f\x99"s, "\xe9\xa0 "s, "\x80"s, "\xbf"s,
        "\xc0\xaf"s, "\xc1\xbf"s, "\xe0\x9f\xbf"s, "\xf0\x8f\xbf\xbf"s, "\xed\xa0\x80"s,
        "\xed\xbf\xbf"s, "\xf4\x90\x80\x80"s, "\xf5\x80\x80\x80"s, "\xfe"s, "\xff"s}) {
    EXPECT_EQ(first_not_utf8(bytes), 0u);
    EXPECT_EQ(first_not_utf8("aé" + bytes), 3u);
    EXPECT_EQ(first_not_utf8("aé" + bytes + "b"), 3u);
  }
}

}  // namespace
}  // namespace duet
