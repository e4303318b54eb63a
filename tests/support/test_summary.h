// What `./duet test` adds up: how many tests of a program passed, failed and were skipped, and why.
#pragma once

#include <string_view>

namespace duet {

/// With what a test's reason begins if the implementation does not support the test's problem: no
/// machine would run it. All such tests count under this one reason.
inline constexpr std::string_view kUnsupported = "unsupported: ";

/// If the environment names a file in DUET_TEST_SUMMARY, has GoogleTest write it when all tests have
/// ended: lines "passed N", "failed N" and, for each reason, "skipped N REASON". A program that ends
/// before that writes nothing. Call after InitGoogleTest().
void write_test_summary();

}  // namespace duet
