#include "core/number_text.h"

#include <locale.h>
#include <stdlib.h>

#include <cstdarg>
#include <cstdio>

namespace duet {
namespace {

/// This thread's locale is "C" while one lives.
class CLocale {
 public:
  CLocale() : before_(uselocale(own())) {}
  ~CLocale() { uselocale(before_); }
  CLocale(const CLocale&) = delete;
  CLocale& operator=(const CLocale&) = delete;

 private:
  static locale_t own() {
    static const locale_t own = newlocale(LC_ALL_MASK, "C", nullptr);
    return own;
  }
  const locale_t before_;
};

}  // namespace

std::string printed(const char* format, ...) {
  const CLocale locale;
  va_list values, again;
  va_start(values, format);
  va_copy(again, values);
  std::string text(static_cast<size_t>(std::vsnprintf(nullptr, 0, format, values)), '\0');
  std::vsnprintf(text.data(), text.size() + 1, format, again);
  va_end(again);
  va_end(values);
  return text;
}

double read_number(const char* text, char** end) {
  const CLocale locale;
  return std::strtod(text, end);
}

}  // namespace duet
