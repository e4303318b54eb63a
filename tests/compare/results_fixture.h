// Results as compare writes them, made up for tests: every number follows from a formula, and no
// machine ever measured any of them.
#pragma once

#include <nlohmann/json.hpp>

namespace duet {

/// Two or more arms ("arm 1 of 3" runs at the speed of the first divided by its place), seven
/// layers at batch 64 and 1024, training from five seeds, and throughput at six batch sizes.
nlohmann::json results_fixture(size_t arms = 2);

/// The same where the second arm's forward pass of the second layer writes zeros: it has faults and
/// no time, and the summary names it.
nlohmann::json mismatch_fixture();

/// Text that would break pages, tables and scripts if it were taken for anything but text.
extern const char* const kNastyText;

/// The same with that text in every name.
nlohmann::json nasty_fixture();

}  // namespace duet
