#include "compare/sanitize.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/error.h"
#include "support/layer_case.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

constexpr const char* kClean = R"(========= COMPUTE-SANITIZER
linear n=4,in=5,out=3 forward custom_naive: ran once
========= ERROR SUMMARY: 0 errors
)";

constexpr const char* kInvalidWrite = R"(========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at add(float *)+0x90
=========     by thread (0,0,0) in block (0,0,0)
=========     Address 0x7f0000000200 is out of bounds
=========
========= Invalid __global__ write of size 4 bytes
=========     at other(float *)+0x20
=========
========= ERROR SUMMARY: 2 errors
)";

TEST(SanitizerReport, CountsErrorsAndKeepsTheFirst) {
  const SanitizerReport clean = read_sanitizer_report(kClean);
  EXPECT_TRUE(clean.finished);
  EXPECT_EQ(clean.errors, 0);
  EXPECT_EQ(clean.first, "");
  const SanitizerReport found = read_sanitizer_report(kInvalidWrite);
  EXPECT_TRUE(found.finished);
  EXPECT_EQ(found.errors, 2);
  EXPECT_EQ(found.first, "Invalid __global__ write of size 4 bytes at add(float *)+0x90");
}

TEST(SanitizerReport, ReadsRaces) {
  const SanitizerReport race = read_sanitizer_report(
      "========= COMPUTE-SANITIZER\n"
      "========= Error: Race reported between Write access at sum(float *)+0x1e0\n"
      "=========     and Read access at sum(float *)+0x1f0 [32 hazards]\n"
      "=========\n"
      "========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)\n");
  EXPECT_TRUE(race.finished);
  EXPECT_EQ(race.errors, 1);
  EXPECT_EQ(race.first.find("Error: Race reported between Write access"), 0u);
  const SanitizerReport warning = read_sanitizer_report(
      "========= Warning: Race reported between Read access at sum(float *)+0x1e0\n"
      "========= RACECHECK SUMMARY: 1 hazard displayed (0 errors, 1 warning)\n");
  EXPECT_TRUE(warning.finished);
  EXPECT_EQ(warning.errors, 0);
}

TEST(SanitizerReport, KnowsWhatDidNotFinish) {
  EXPECT_FALSE(read_sanitizer_report("").finished);
  EXPECT_FALSE(read_sanitizer_report("========= COMPUTE-SANITIZER\nerror: no GPU\n").finished);
}

/// A folder with a compute-sanitizer that prints what the test wants of each tool.
class FakeSanitizer : public testing::Test {
 protected:
  FakeSanitizer() {
    folder_ = fs::temp_directory_path() / ("duet fake sanitizer " + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  ~FakeSanitizer() override { fs::remove_all(folder_); }

  void prints(const std::string& memcheck, const std::string& others) {
    std::ofstream(folder_ / "memcheck.txt") << memcheck;
    std::ofstream(folder_ / "others.txt") << others;
    const fs::path program = folder_ / "compute-sanitizer";
    std::ofstream(program) << "#!/bin/sh\n"
                              "echo \"$@\" >> \"${0%/*}/calls.txt\"\n"
                              "case \"$2\" in memcheck) cat \"${0%/*}/memcheck.txt\" ;; *) cat "
                              "\"${0%/*}/others.txt\" ;; esac\n";
    fs::permissions(program, fs::perms::owner_all);
  }
  std::string calls() const {
    std::ostringstream text;
    text << std::ifstream(folder_ / "calls.txt").rdbuf();
    return text.str();
  }

  fs::path folder_;
  const std::unique_ptr<Layer> layer_ =
      make_layer("linear", {.name = "", .keys = {{"out_features", "3"}}, .x = {{{4, 5}}}});
  const std::vector<ImplCall> calls_ = {{layer_.get(), Pass::kForward, "custom_naive"}};
};

TEST_F(FakeSanitizer, IsFoundOnPath) {
  const std::string path = "/nowhere:" + folder_.string();
  if (!fs::exists("/usr/local/cuda/bin/compute-sanitizer")) {
    try {
      find_sanitizer(path);
      FAIL() << "found one";
    } catch (const UnsupportedError& e) {
      EXPECT_NE(std::string(e.what()).find("part of the CUDA toolkit"), std::string::npos);
    }
  }
  prints(kClean, kClean);
  EXPECT_EQ(find_sanitizer(path), folder_.string() + "/compute-sanitizer");
}

TEST_F(FakeSanitizer, RunsEveryToolOnEveryCall) {
  prints(kClean, kClean);
  std::ostringstream out;
  EXPECT_TRUE(sanitize(calls_, find_sanitizer(folder_.string()), "/bin/bench", out));
  EXPECT_EQ(out.str(),
            "linear n=4,in=5,out=3 forward custom_naive: memcheck ok racecheck ok initcheck ok "
            "synccheck ok\n");
  EXPECT_EQ(calls().substr(0, calls().find('\n')),
            "--tool memcheck /bin/bench linear --shape n=4,in=5,out=3 --pass forward --impl "
            "custom_naive --once --quiet");
}

TEST_F(FakeSanitizer, TellsTheFirstErrorOfATool) {
  prints(kInvalidWrite, kClean);
  std::ostringstream out;
  EXPECT_FALSE(sanitize(calls_, find_sanitizer(folder_.string()), "/bin/bench", out));
  EXPECT_NE(out.str().find("memcheck 2 errors racecheck ok"), std::string::npos) << out.str();
  EXPECT_NE(out.str().find("  memcheck: Invalid __global__ write of size 4 bytes at add(float *)"),
            std::string::npos)
      << out.str();
}

TEST_F(FakeSanitizer, IsNoCleanResultWhereAToolFails) {
  prints("cannot open the GPU\n", kClean);
  std::ostringstream out;
  try {
    sanitize(calls_, find_sanitizer(folder_.string()), "/bin/bench", out);
    FAIL() << out.str();
  } catch (const RunError& e) {
    EXPECT_NE(std::string(e.what()).find("cannot open the GPU"), std::string::npos);
  }
}

}  // namespace
}  // namespace duet
