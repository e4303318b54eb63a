// Files of kernels for the CPU: compiled by the host's compiler, loaded, and held to the reference as all else.
#include <gtest/gtest.h>

#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <functional>

#include "core/error.h"
#include "layers/layer_cases.h"
#include "support/layer_driver.h"
#include "support/temporary_folder.h"
#include "support/text.h"
#include "user_kernels/shared_library.h"
#include "user_kernels/starter.h"
#include "user_kernels/user_kernels.h"

namespace duet {
namespace {

class CpuKernels : public testing::Test {
 protected:
  void SetUp() override { setenv("XDG_CACHE_HOME", folder_.path().c_str(), 1); }
  void TearDown() override {
    unload_kernels();
    unsetenv("XDG_CACHE_HOME");
  }
  CompiledKernels relu(const std::string& text) const {
    folder_.write("relu_cpu_mine.cpp", text);
    return compile_kernels(read_kernel_file(folder_ / "relu_cpu_mine.cpp"),
                           *make_layer("relu", {.x = {{{7, 13}}}}));
  }

  const TemporaryFolder folder_;
};

TEST_F(CpuKernels, StartersAgreeWithTheReference) {
  for (const std::string& type : starter_types()) {
    folder_.write(kernel_file_name(type, Device::kCpu, "mine"),
                  starter_text(type, "mine", Device::kCpu));
  }
  load_kernels({folder_.path()});
  int checked = 0;
  for (const CasesOfType& cases : layer_cases()) {
    const std::vector<std::string> types = starter_types();
    if (std::find(types.begin(), types.end(), cases.type) == types.end()) continue;
    int of_type = 0;
    for (const LayerCase& c : cases.cases) {
      const auto layer = make_layer(cases.type, c);
      if (layer->unsupported("cpu_mine", Pass::kForward)) continue;
      const CheckData data = make_check_data(cases.type, c);
      for (const Pass pass : layer->passes()) {
        if (c.forward_only && pass != Pass::kForward) continue;
        const Examination found = check(*layer, "cpu_mine", pass, data, test_context(Device::kCpu),
                                        CheckLevel::kAgreement);
        EXPECT_TRUE(found.passed()) << cases.type << " " << c.name << " " << to_string(pass);
        ++checked;
      }
      if (++of_type == 3) break;  // each is a compilation
    }
    EXPECT_GT(of_type, 0) << cases.type;
  }
  EXPECT_GE(checked, 25);
}

TEST_F(CpuKernels, RefusesInTheFilesOwnLines) {
  const CompiledKernels wrong = relu("void forward(const float* x, int y) {}\n");
  EXPECT_TRUE(has(wrong.refusal, "relu_cpu_mine.cpp(1): forward takes (const float* x, float* y)"));
  EXPECT_TRUE(wrong.mistake);
  const CompiledKernels syntax =
      relu("void forward(const float* x, float* y) {\n  y[0] = x[0]\n}\n");
  EXPECT_TRUE(has(syntax.refusal, "does not compile", "relu_cpu_mine.cpp:2:")) << syntax.refusal;
  const CompiledKernels nothing = relu("void foreward(const float* x, float* y) {}\n");
  EXPECT_TRUE(has(nothing.refusal, "no function called as a pass of relu")) << nothing.refusal;
  const CompiledKernels refused = relu(
      "DUET_REQUIRES(ELEMENTS == 1, \"there is more than one element\");\n"
      "void forward(const float* x, float* y) { y[0] = x[0]; }\n");
  EXPECT_EQ(refused.refusal, "there is more than one element");
  EXPECT_FALSE(refused.mistake);
}

TEST_F(CpuKernels, APassThatIsNotWrittenIsRefused) {
  const CompiledKernels made = relu("void forward(const float* x, float* y) { y[0] = x[0]; }\n");
  EXPECT_EQ(made.refusal, "");
  EXPECT_FALSE(made.unsupported(Pass::kForward));
  EXPECT_TRUE(made.unsupported(Pass::kBackward));
  EXPECT_TRUE(relu("void forward(const float* x, float* y) { y[0] = x[0]; }\n").cached);
}

TEST_F(CpuKernels, WhatCannotBeWrittenIsToldWithTheReason) {
  const char* before = std::getenv("TMPDIR");
  const std::string kept = before ? before : "";
  setenv("TMPDIR", "/proc/self", 1);  // nothing can be made there
  EXPECT_TRUE(has(
      error_of<RunError>([&] { relu("void forward(const float* x, float* y) { *y = *x; }\n"); }),
      "cannot make the folder /proc/self/duet-kernels-", ": No such file or directory"));
  setenv("XDG_CACHE_HOME", "/proc/self", 1);
  EXPECT_EQ(error_of<RunError>([] { open_library("no code"); }),
            "compiled kernels cannot be loaded: cannot make a file in /proc/self: No such file or "
            "directory");
  before ? setenv("TMPDIR", kept.c_str(), 1) : unsetenv("TMPDIR");
  // As on a full disk.
  setenv("XDG_CACHE_HOME", folder_.path().c_str(), 1);
  const auto full = [&](const std::function<void()>& write) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{10, 10};
    setrlimit(RLIMIT_FSIZE, &limit);
    const std::string told = error_of<RunError>(write);
    const bool has_reason = told.find("cannot write ") != std::string::npos &&
                            told.find(": File too large") != std::string::npos;
    _exit(has_reason ? 0 : 1);
  };
  EXPECT_EXIT(full([] { open_library("a library of more than ten bytes"); }),
              testing::ExitedWithCode(0), "");
  const KernelFile file = read_kernel_file(folder_ / "relu_cpu_mine.cpp");
  const auto layer = make_layer("relu", {.x = {{{7, 13}}}});
  EXPECT_EXIT(full([&] { compile_kernels(file, *layer); }), testing::ExitedWithCode(0), "");
}

TEST_F(CpuKernels, LargeVariablesAreRefused) {
  const auto with = [&](const std::string& bytes) {
    return relu("static float kept[" + bytes +
                " / 4];\n"
                "void forward(const float* x, float* y) {\n"
                "  for (int i = 0; i < ELEMENTS; ++i) kept[i] = x[i];\n"
                "  for (int i = 0; i < ELEMENTS; ++i) y[i] = kept[ELEMENTS - 1 - i];\n"
                "}\n");
  };
  EXPECT_EQ(with("(1 << 20)").refusal, "");
  const CompiledKernels large = with("(32 << 20)");
  EXPECT_TRUE(has(large.refusal, "takes 32 MiB for variables of its own", "DUET_WORKSPACE"))
      << large.refusal;
}

TEST_F(CpuKernels, ACompilerIsAskedForWhereThereIsNone) {
  const char* before = std::getenv("CXX");
  const std::string kept = before ? before : "";
  setenv("CXX", "/nowhere/c++", 1);
  EXPECT_TRUE(has(error_of<UnsupportedError>(
                      [&] { relu("void forward(const float* x, float* y) { y[0] = x[0]; }\n"); }),
                  "CXX is '/nowhere/c++'", "it is to name a C++ compiler"));
  before ? setenv("CXX", kept.c_str(), 1) : unsetenv("CXX");
}

}  // namespace
}  // namespace duet
