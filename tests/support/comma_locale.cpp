#include "support/comma_locale.h"

#include <locale.h>

#include <cstdlib>
#include <filesystem>

namespace duet {
namespace {

class Comma : public std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

// What localedef writes for: decimal_point ",", thousands_sep ".", grouping 3;3.
constexpr unsigned char kNumeric[] = {
    0x14, 0x11, 0x03, 0x20, 6,   0, 0,    0, 0x20, 0, 0,    0, 0x22, 0,   0,   0,   0x24, 0,
    0,    0,    0x28, 0,    0,   0, 0x2c, 0, 0,    0, 0x30, 0, 0,    0,   ',', 0,   '.',  0,
    3,    3,    0,    0,    ',', 0, 0,    0, '.',  0, 0,    0, 'U',  'T', 'F', '-', '8',  0};

}  // namespace

CommaLocale::CommaLocale()
    : before_(setlocale(LC_NUMERIC, nullptr)),
      cpp_before_(std::locale::global(std::locale(std::locale(), new Comma))) {
  std::filesystem::create_directory(folder_ / "xx_comma");
  folder_.write("xx_comma/LC_NUMERIC", {reinterpret_cast<const char*>(kNumeric), sizeof kNumeric});
  setenv("LOCPATH", folder_.path().c_str(), 1);
  complete_ = setlocale(LC_NUMERIC, "xx_comma") != nullptr;
  unsetenv("LOCPATH");
}

CommaLocale::~CommaLocale() {
  std::locale::global(cpp_before_);
  setlocale(LC_NUMERIC, before_.c_str());
}

}  // namespace duet
