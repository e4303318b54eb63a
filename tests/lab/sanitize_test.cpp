#include "lab/sanitize.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "core/error.h"
#include "support/layer_case.h"
#include "support/temporary_folder.h"
#include "support/text.h"

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
  void prints(const std::string& memcheck, const std::string& others) {
    folder_.write("memcheck.txt", memcheck);
    folder_.write("others.txt", others);
    folder_.write("compute-sanitizer",
                  "#!/bin/sh\n"
                  "echo \"$@\" >> \"${0%/*}/calls.txt\"\n"
                  "case \"$2\" in memcheck) cat \"${0%/*}/memcheck.txt\" ;; *) cat "
                  "\"${0%/*}/others.txt\" ;; esac\n");
    fs::permissions(folder_ / "compute-sanitizer", fs::perms::owner_all);
  }
  std::string calls() const { return folder_.read("calls.txt"); }

  const TemporaryFolder folder_;
  const std::unique_ptr<Layer> layer_ =
      make_layer("linear", {.name = "", .keys = {{"out_features", "3"}}, .x = {{{4, 5}}}});
  const std::vector<ImplCall> calls_ = {{layer_.get(), Pass::kForward, "custom_naive"}};
};

TEST_F(FakeSanitizer, IsFoundOnPath) {
  const std::string path = "/nowhere:" + folder_.path().string();
  if (!fs::exists("/usr/local/cuda/bin/compute-sanitizer")) {
    EXPECT_TRUE(
        has(error_of<UnsupportedError>([&] { find_sanitizer(path); }), "part of the CUDA toolkit"));
  }
  prints(kClean, kClean);
  EXPECT_EQ(find_sanitizer(path), folder_.path().string() + "/compute-sanitizer");
}

TEST_F(FakeSanitizer, RunsEveryToolOnEveryCall) {
  prints(kClean, kClean);
  std::ostringstream out;
  EXPECT_TRUE(sanitize(calls_, find_sanitizer(folder_.path().string()), "/bin/bench", out));
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
  EXPECT_FALSE(sanitize(calls_, find_sanitizer(folder_.path().string()), "/bin/bench", out));
  EXPECT_TRUE(has(out.str(), "memcheck 2 errors racecheck ok",
                  "  memcheck: Invalid __global__ write of size 4 bytes at add(float *)"));
}

TEST_F(FakeSanitizer, IsNoCleanResultWhereAToolFails) {
  prints("cannot open the GPU\n", kClean);
  std::ostringstream out;
  EXPECT_TRUE(has(error_of<RunError>([&] {
                    sanitize(calls_, find_sanitizer(folder_.path().string()), "/bin/bench", out);
                  }),
                  "cannot open the GPU"))
      << out.str();
}

}  // namespace
}  // namespace duet
