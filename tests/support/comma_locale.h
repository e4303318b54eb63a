// A locale that writes 0.5 as "0,5" and 1000 as "1.000", in C and in C++, whatever this system has.
#pragma once

#include <locale>
#include <string>

#include "support/temporary_folder.h"

namespace duet {

/// The process's locale while it lives. REQUIRES: no other thread.
class CommaLocale {
 public:
  CommaLocale();
  ~CommaLocale();
  CommaLocale(const CommaLocale&) = delete;
  CommaLocale& operator=(const CommaLocale&) = delete;

  /// Whether the C library took it; one that is not glibc's has other files of locales.
  bool is_complete() const { return complete_; }

 private:
  const TemporaryFolder folder_;
  const std::string before_;
  const std::locale cpp_before_;
  bool complete_ = false;
};

}  // namespace duet
