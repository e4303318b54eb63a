// What tests do with texts.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "core/error.h"

namespace duet {

/// What the E that `action` throws says; empty if nothing is thrown.
template <class E = Error, class Action>
std::string error_of(const Action& action) {
  try {
    action();
  } catch (const E& error) {
    return error.what();
  }
  return "";
}

/// True if `text` has each of the parts; else what it lacks.
testing::AssertionResult has(const std::string& text, const std::vector<std::string>& parts);
template <class... Parts>
testing::AssertionResult has(const std::string& text, const Parts&... parts) {
  return has(text, std::vector<std::string>{std::string(parts)...});
}

/// `text` with one of each first part replaced by the second. A part that is not there is a failure
/// of the test.
std::string changed(std::string text,
                    const std::vector<std::pair<std::string, std::string>>& changes);

std::vector<std::string> lines_of(const std::string& text);

}  // namespace duet
