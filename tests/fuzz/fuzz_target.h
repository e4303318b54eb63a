// One source, two uses. In a build with DUET_FUZZ each NAME_fuzz.cpp is a program of libFuzzer,
// fuzz_NAME. In duet_tests it is a test, Fuzz.NAME, which runs the inputs kept in corpus/NAME/.
//
//   DUET_FUZZ_TARGET(configuration) {  // of the file configuration_fuzz.cpp
//     try { parse(input); } catch (const Error&) {}  // refusals are right; crashes are not
//   }
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#ifdef DUET_LIBFUZZER

#define DUET_FUZZ_TARGET(name)                                                \
  static void fuzz_##name(std::string_view input);                            \
  extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {   \
    fuzz_##name(std::string_view(reinterpret_cast<const char*>(data), size)); \
    return 0;                                                                 \
  }                                                                           \
  static void fuzz_##name(std::string_view input)

#else

#include <gtest/gtest.h>

namespace duet {
/// Runs `target` over every file of tests/fuzz/corpus/<name>/; each is named if it fails.
void run_corpus(const char* name, void (*target)(std::string_view input));
}  // namespace duet

#define DUET_FUZZ_TARGET(name)                               \
  static void fuzz_##name(std::string_view input);           \
  TEST(Fuzz, name) { duet::run_corpus(#name, fuzz_##name); } \
  static void fuzz_##name(std::string_view input)

#endif
