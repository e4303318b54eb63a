// Files of kernels up to their code: NVRTC needs no GPU for that.
#include "user_kernels/compiled_kernels.h"

#include <gtest/gtest.h>

#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "core/error.h"
#include "core/input_file.h"
#include "core/interrupt.h"
#include "device/device.h"
#include "device/nvrtc.h"
#include "layers/layer_cases.h"
#include "support/layer_case.h"
#include "support/page_kernel.h"
#include "support/temporary_folder.h"
#include "support/text.h"
#include "test_paths.h"
#include "user_kernels/starter.h"
#include "user_kernels/user_kernels.h"

namespace duet {
namespace {

constexpr const char* kCopy = R"(
DUET_TUNE(BLOCK, 128, 64, 256);
__global__ void forward(const float* __restrict__ x, float* y) {
  const int i = blockIdx.x * BLOCK + threadIdx.x;
  if (i < ELEMENTS) y[i] = x[i];
}
DUET_LAUNCH(forward, forward, ceil_div(ELEMENTS, BLOCK), BLOCK);
)";

class CompiledKernelsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!Nvrtc::find()) GTEST_SKIP() << Nvrtc::missing_reason();
    setenv("XDG_CACHE_HOME", folder_.path().c_str(), 1);
  }
  void TearDown() override { unsetenv("XDG_CACHE_HOME"); }

  KernelFile file(const std::string& name, const std::string& text) const {
    folder_.write(name, text);
    return read_kernel_file(folder_ / name);
  }
  CompiledKernels relu(const std::string& text, const LayerCase& c = {.x = {{{7, 13}}}}) const {
    return compile_kernels(file("relu_custom_mine.cu", text), *make_layer("relu", c));
  }
  // In front of the one file that this test left in the cache.
  std::filesystem::path cached() const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "duet/kernels")) {
      return entry.path();
    }
    return {};
  }

  const TemporaryFolder folder_;
};

// The process's first compilation is what changes handlers: another process is the first.
TEST_F(CompiledKernelsTest, SignalsHaveTheirHandlersAfterIt) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto changes_handlers = [] {
    const InterruptGuard guard;
    const auto handlers = [] {
      std::vector<std::pair<void (*)(int), int>> all;
      for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
        struct sigaction action {};
        sigaction(signal, nullptr, &action);
        all.emplace_back(action.sa_handler, action.sa_flags & (SA_SIGINFO | SA_RESTART));
      }
      return all;
    };
    const auto before = handlers();
    Nvrtc::find()->compile("__global__ void f() {}", {}, {"-arch=sm_90"});
    std::_Exit(handlers() == before ? 0 : 1);
  };
  EXPECT_EXIT(changes_handlers(), testing::ExitedWithCode(0), "");
}

TEST_F(CompiledKernelsTest, TellsWhatItLaunchesAndNeeds) {
  const CompiledKernels made = relu(std::string(kCopy) + R"(
DUET_STATE(ELEMENTS);
DUET_WORKSPACE(backward, 2 * ELEMENTS);
template <int A, int B>
__global__ void transform(const float* x, const float* y, const float* dy, float* dx, Training training,
                          Workspace workspace) {
  extern __shared__ float row[];
  row[threadIdx.x] = x[threadIdx.x] + A + B;
  __syncthreads();
  if (training) *workspace.as<float>() = row[0];
}
namespace inner {
__global__ void multiply(const float* x, const float* y, const float* dy, float* dx, State state,
                         Step step) {
  let_secondary_start();
  wait_for_primary();
  dx[threadIdx.x] = *state.as<unsigned char>() + step;
}
}
DUET_LAUNCH(backward, (transform<2, 3>), dim(3, 2), dim(32, 2, 1), 1024);
DUET_LAUNCH_OVERLAPPED(backward, inner::multiply, 1, 32);
)");
  ASSERT_EQ(made.refusal, "");
  EXPECT_FALSE(made.unsupported(Pass::kForward));
  EXPECT_FALSE(made.unsupported(Pass::kBackward));
  ASSERT_EQ(made.launches.size(), 3u);
  const KernelLaunch &copy = made.launches[0], &first = made.launches[1], &last = made.launches[2];
  EXPECT_EQ(copy.pass, Pass::kForward);
  EXPECT_EQ(copy.kernel, "_Z7forwardPKfPf");
  EXPECT_EQ(copy.grid, (std::array<uint32_t, 3>{1, 1, 1}));
  EXPECT_EQ(copy.block, (std::array<uint32_t, 3>{128, 1, 1}));
  EXPECT_GT(copy.registers, 0);
  EXPECT_EQ(first.grid, (std::array<uint32_t, 3>{3, 2, 1}));
  EXPECT_EQ(first.block, (std::array<uint32_t, 3>{32, 2, 1}));
  EXPECT_EQ(first.shared, 1024u);
  EXPECT_FALSE(first.overlaps);
  EXPECT_TRUE(has(first.kernel, "transform"));
  EXPECT_EQ(first.extras, (std::vector{KernelExtra::kTraining, KernelExtra::kWorkspace}));
  EXPECT_TRUE(last.overlaps);
  EXPECT_TRUE(has(last.kernel, "multiply"));
  EXPECT_EQ(last.extras, (std::vector{KernelExtra::kState, KernelExtra::kStep}));
  EXPECT_EQ(made.state, 91u);
  EXPECT_EQ(made.workspace.at(Pass::kBackward), 182u);
  ASSERT_EQ(made.tunes.size(), 1u);
  EXPECT_EQ(made.tunes[0].count, 3);
  EXPECT_EQ(made.tunes[0].values[2], 256);
}

TEST_F(CompiledKernelsTest, HasTheNamesOfTheStandardHeaders) {
  const char* const body = R"(
__global__ void forward(const float* x, float* y) {
  constexpr float most = INFINITY;
  float m = -most, least = FLT_MAX;
  for (uint32_t i = 0; i < ELEMENTS; ++i) m = fmaxf(m, fminf(x[i], least));
  int64_t count = INT_MAX;
  y[0] = isnan(m) ? NAN : m + FLT_EPSILON * count + std::max(1, 2);
}
DUET_LAUNCH(forward, forward, 1, 32);
)";
  std::string text = body;
  EXPECT_TRUE(has(relu(text).refusal, "std"));  // <algorithm> is not there
  text.replace(text.find("std::max"), 8, "max");
  EXPECT_EQ(relu(text).refusal, "");
  for (const char* headers :
       {"#include <cmath>\n#include <cfloat>\n#include <stdint.h>\n",
        "#include <cuda/std/cstdint>\n#include <cuda/std/limits>\n",
        "#include <cub/block/block_reduce.cuh>\n", "#include <mma.h>\n#include <limits.h>\n"}) {
    EXPECT_EQ(relu(headers + text).refusal, "") << headers;
  }
}

TEST_F(CompiledKernelsTest, ATunedValueTakesThePlaceOfTheDefault) {
  const KernelFile mine = file("relu_custom_mine.cu", kCopy);
  const auto layer = make_layer("relu", {.x = {{{7, 13}}}});
  EXPECT_EQ(compile_kernels(mine, *layer, {{"BLOCK", 64}}).launches.at(0).block[0], 64u);
}

TEST_F(CompiledKernelsTest, ValuesAreKeptForTheirSourceProblemAndGpu) {
  const KernelFile mine = file("relu_custom_mine.cu", kCopy);
  const auto layer = make_layer("relu", {.x = {{{7, 13}}}});
  const auto other = make_layer("relu", {.x = {{{8, 13}}}});
  keep_tuned(mine, *layer, "", {{"BLOCK", 64}});
  const UserKernels kernels(mine);
  if (!gpu_available()) {
    EXPECT_EQ(kernels.compiled(*layer).launches.at(0).block[0], 64u);
  }
  EXPECT_EQ(kernels.compiled(*other).launches.at(0).block[0], 128u);
  EXPECT_EQ(tuned_text(kept_tuned(mine, *layer, "")), "BLOCK=64");
  EXPECT_TRUE(kept_tuned(mine, *layer, "another GPU").empty());
  EXPECT_TRUE(kept_tuned(file("relu_custom_mine.cu", "// other\n"), *layer, "").empty());
  const UserKernels variant(mine, {{"BLOCK", 256}});
  EXPECT_EQ(variant.id(), "custom_mine[BLOCK=256]");
  EXPECT_EQ(variant.compiled(*layer).launches.at(0).block[0], 256u);
}

TEST_F(CompiledKernelsTest, AHeaderMayTuneInTheSameLine) {
  folder_.write("tile.h", "\nDUET_TUNE(TILE, 4, 8);\n");
  const CompiledKernels made = relu(
      "#include \"tile.h\"\nDUET_TUNE(BLOCK, 32, 64);\n"
      "__global__ void f(const float* x, float* y) { y[0] = x[0] * TILE; }\n"
      "DUET_LAUNCH(forward, f, 1, BLOCK);\n");
  EXPECT_EQ(made.refusal, "");
  EXPECT_EQ(made.tunes.size(), 2u);
}

TEST_F(CompiledKernelsTest, OnlyTheBeginningOfManyErrorsIsTold) {
  std::string text;
  for (int i = 0; i < 100; ++i)
    text += "int x" + std::to_string(i) + " = y" + std::to_string(i) + ";\n";
  const std::string refusal = relu(text).refusal;
  EXPECT_TRUE(has(refusal, "x0", " more lines)"));
  EXPECT_LT(std::count(refusal.begin(), refusal.end(), '\n'), 50);
}

TEST_F(CompiledKernelsTest, AFolderMayHoldFilesOfOthers) {
  folder_.write("notes_custom_of_mine.cu", "no kernel");
  folder_.write("relu_custom_mine.cu", kCopy);
  const auto files = kernel_files_in(folder_.path());
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(files[0].filename(), "relu_custom_mine.cu");
}

TEST_F(CompiledKernelsTest, APassWithoutALaunchIsRefused) {
  const CompiledKernels made = relu(kCopy);
  EXPECT_FALSE(made.unsupported(Pass::kForward));
  EXPECT_EQ(made.unsupported(Pass::kBackward), "its file has no DUET_LAUNCH of backward");
}

TEST_F(CompiledKernelsTest, RefusesWhatItsFileDoes) {
  const CompiledKernels all = relu("DUET_REQUIRES(N == 8, \"N is not 8\");\n" + std::string(kCopy));
  EXPECT_EQ(all.unsupported(Pass::kForward), "N is not 8");
  EXPECT_FALSE(all.mistake);
  const CompiledKernels one =
      relu("DUET_REQUIRES_IN(forward, N == 8, \"N is not 8\");\n" + std::string(kCopy));
  EXPECT_EQ(one.unsupported(Pass::kForward), "N is not 8");
  EXPECT_EQ(one.unsupported(Pass::kBackward), "its file has no DUET_LAUNCH of backward");
}

TEST_F(CompiledKernelsTest, ErrorsHaveTheUsersLines) {
  const CompiledKernels made = relu(
      "\n\n__global__ void forward(const float* x, float* y) {\n"
      "  y[0] = z[0];\n}\n");
  EXPECT_TRUE(made.mistake);
  EXPECT_TRUE(has(made.refusal, "does not compile", "relu_custom_mine.cu(4): error",
                  "identifier \"z\" is undefined"));
}

TEST_F(CompiledKernelsTest, AKernelWithOtherArgumentsIsRefused) {
  const CompiledKernels made = relu(
      "__global__ void mine(float* x, float* y) {}\n"
      "DUET_LAUNCH(forward, mine, 1, 32);\n");
  EXPECT_TRUE(made.mistake);
  EXPECT_TRUE(has(made.refusal, "relu_custom_mine.cu(2): forward takes (const float* x, float* y)"))
      << made.refusal;
  const CompiledKernels other = relu(
      "__global__ void mine(const float* x, float* y) {}\n"
      "DUET_LAUNCH(backward_data, mine, 1, 32);\n");
  EXPECT_TRUE(has(other.refusal,
                  "relu_custom_mine.cu(2): relu has no pass backward_data; it has "
                  "forward, backward"))
      << other.refusal;
  const CompiledKernels misspelt = relu(
      "__global__ void mine(const float* x, float* y) {}\n"
      "DUET_LAUNCH(forwards, mine, 1, 32);\n");
  EXPECT_EQ(misspelt.refusal.substr(misspelt.refusal.rfind('/') + 1),
            "relu_custom_mine.cu(2): relu has no pass forwards; it has forward, backward");
  const CompiledKernels unknown = relu(
      "__global__ void mine(const float* x, float* y, State state) { y[0] = *state.as(); }\n"
      "DUET_LAUNCH(forward, mine, 1, 32);\n");
  EXPECT_TRUE(has(unknown.refusal, "(2): the kernel takes a State", "DUET_STATE(bytes)"));
}

TEST_F(CompiledKernelsTest, AFloatKernelIsRefusedInBf16AndOneOfTIsNot) {
  const LayerCase half = {.x = {{{7, 13}}}, .options = {.math = Math::kBF16}};
  EXPECT_EQ(relu(kCopy, half).refusal, "stores float32 only, and 'math' is bf16");
  if (Nvrtc::find()->includes().empty()) GTEST_SKIP() << "needs CUDA's headers beside NVRTC";
  EXPECT_EQ(relu(starter_text("relu", "mine"), half).refusal, "");
}

TEST_F(CompiledKernelsTest, ALaunchBeyondWhatAGpuHasIsRefused) {
  const auto launched = [&](const std::string& how, const std::string& body = "") {
    return relu("__global__ void mine(const float* x, float* y) {" + body +
                "}\nDUET_LAUNCH(forward, "
                "mine, " +
                how + ");\n")
        .refusal;
  };
  EXPECT_TRUE(has(launched("dim(1, 65536), 32"),
                  "relu_custom_mine.cu(2): ", "a grid of 1 x 65536 x 1 blocks"));
  EXPECT_TRUE(has(launched("0, 32"), "a grid of 0 x 1 x 1 blocks"));
  EXPECT_TRUE(has(launched("1, 2048"), "blocks of 2048 x 1 x 1 threads", "1024 in all"));
  EXPECT_TRUE(has(launched("1, dim(64, 64)"), "blocks of 64 x 64 x 1 threads"));
  EXPECT_TRUE(has(launched("1, 32, 300 << 10"), "takes 307200 bytes of shared memory", "232448"));
  EXPECT_TRUE(has(launched("1, 32, 220 << 10",
                           "__shared__ float a[8192]; a[threadIdx.x] = x[threadIdx.x]; "
                           "__syncthreads(); y[threadIdx.x] = a[31 - threadIdx.x];"),
                  "beside the 32768 that the kernel declares"));
  EXPECT_TRUE(has(launched("1, 32",
                           "__shared__ float a[20000]; a[threadIdx.x] = x[threadIdx.x]; "
                           "__syncthreads(); y[threadIdx.x] = a[31 - threadIdx.x];"),
                  "declares 80000 bytes of shared memory", "49152"));
  // 200 sums that are all alive.
  EXPECT_TRUE(
      has(launched("1, 1024",
                   "float s[200];\n#pragma unroll\nfor (int i = 0; i < 200; ++i) s[i] = x[i];"
                   "\nfor (int k = 0; k < ELEMENTS; ++k) {\n#pragma unroll\n"
                   "for (int i = 0; i < 200; ++i) s[i] = s[i] * x[k + i] + s[(i + 1) % 200];"
                   "}\n#pragma unroll\nfor (int i = 0; i < 200; ++i) y[i] = s[i];"),
          "registers in each of 1024 threads", "__launch_bounds__(1024)"));
  EXPECT_TRUE(has(relu("__device__ int f() { return 1; }\n").refusal, "no DUET_LAUNCH"));
}

TEST_F(CompiledKernelsTest, IncludesFilesBesideItAndIsAnotherFileWithOthers) {
  folder_.write("block.h", "#pragma once\n#include \"more.h\"\n");
  folder_.write("more.h", "constexpr int kBlock = 32;\n");
  const std::string text =
      "#include \"block.h\"\n__global__ void mine(const float* x, float* y) {}\n"
      "DUET_LAUNCH(forward, mine, 1, kBlock);\n";
  const KernelFile before = file("relu_custom_mine.cu", text);
  const auto layer = make_layer("relu", {.x = {{{7, 13}}}});
  EXPECT_EQ(compile_kernels(before, *layer).launches.at(0).block[0], 32u);
  folder_.write("more.h", "constexpr int kBlock = 64;\n");
  const KernelFile after = read_kernel_file(before.path);
  EXPECT_NE(before.hash, after.hash);
  EXPECT_EQ(compile_kernels(after, *layer).launches.at(0).block[0], 64u);
  // What was read stays what it was.
  EXPECT_EQ(compile_kernels(before, *layer).launches.at(0).block[0], 32u);
}

TEST_F(CompiledKernelsTest, CodeIsKeptAndADamagedFileOfItIsMadeAnew) {
  const CompiledKernels first = relu(kCopy);
  EXPECT_FALSE(first.cached);
  EXPECT_TRUE(relu(kCopy).cached);
  EXPECT_EQ(relu(kCopy).code, first.code);
  EXPECT_FALSE(relu(kCopy, {.x = {{{8, 13}}}}).cached) << "another size is other code";
  std::filesystem::remove_all(folder_ / "duet");
  const auto damaged = [&](const std::string& what, auto change) {
    relu(kCopy);
    std::string all = folder_.read(std::filesystem::relative(cached(), folder_.path()));
    ASSERT_GT(all.size(), 1000u);
    change(all);
    std::ofstream(cached(), std::ios::binary) << all;
    const CompiledKernels again = relu(kCopy);
    EXPECT_FALSE(again.cached) << what;
    EXPECT_EQ(again.code.size(), first.code.size()) << what;  // it names when its file was saved
    EXPECT_TRUE(relu(kCopy).cached) << what;
  };
  damaged("a bit", [](std::string& all) { all[all.size() / 2] ^= 1; });
  damaged("half", [](std::string& all) { all.resize(all.size() / 2); });
  damaged("empty", [](std::string& all) { all.clear(); });
  damaged("of another", [](std::string& all) { all = "duet kernels 1\n" + all; });
}

TEST_F(CompiledKernelsTest, IsCompiledAndKeptByManyAtOnce) {
  const KernelFile mine = file("relu_custom_mine.cu", kCopy);
  std::vector<std::string> refusals(4, "not compiled");
  {
    std::vector<std::jthread> threads;
    for (std::string& refusal : refusals) {
      threads.emplace_back([&] {
        for (int64_t n = 1; n <= 3; ++n) {
          refusal = compile_kernels(mine, *make_layer("relu", {.x = {{{n, 13}}}})).refusal;
        }
      });
    }
  }
  EXPECT_EQ(refusals, std::vector<std::string>(4));
  for (int64_t n = 1; n <= 3; ++n) {
    EXPECT_TRUE(compile_kernels(mine, *make_layer("relu", {.x = {{{n, 13}}}})).cached);
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "duet/kernels")) {
    EXPECT_EQ(entry.path().extension(), "") << "a temporary file was left";
  }
}

TEST_F(CompiledKernelsTest, SeveralProblemsAreCompiledAhead) {
  const UserKernels kernels(file("relu_custom_mine.cu", kCopy));
  const auto a = make_layer("relu", {.x = {{{5, 13}}}}), b = make_layer("relu", {.x = {{{6, 13}}}});
  kernels.compile_ahead({a.get(), b.get(), a.get()});
  EXPECT_TRUE(compile_kernels(kernels.file(), *b).cached);
  EXPECT_EQ(kernels.compiled(*a).launches.size(), 1u);
  EXPECT_EQ(kernels.compiled(*b).refusal, "");
  const UserKernels wrong(file("relu_custom_wrong.cu", "oops\n"));
  wrong.compile_ahead({a.get()});
  EXPECT_TRUE(has(wrong.compiled(*a).refusal, "does not compile"));
}

TEST_F(CompiledKernelsTest, AMistakeIsKeptToo) {
  const std::string wrong = "__global__ void forward(const float* x, float* y) { oops }\n";
  EXPECT_FALSE(relu(wrong).cached);
  const CompiledKernels again = relu(wrong);
  EXPECT_TRUE(again.cached);
  EXPECT_TRUE(has(again.refusal, "oops"));
}

TEST_F(CompiledKernelsTest, StartersCompileForEveryCase) {
  for (const auto& [type, cases] : layer_cases()) {
    const auto types = starter_types();
    if (std::find(types.begin(), types.end(), type) == types.end()) continue;
    const std::string name = std::string(type) + "_custom_mine.cu";
    const KernelFile mine = file(name, starter_text(std::string(type), "mine"));
    size_t number = 0, fits = 0;
    for (const LayerCase& c : cases) {
      if (number++ % 4 != 0) continue;
      const CompiledKernels made = compile_kernels(mine, *make_layer(type, c));
      EXPECT_FALSE(made.mistake) << type << " " << c.name << ": " << made.refusal;
      if (made.refusal.empty()) {
        ++fits;
        for (const Pass pass : make_layer(type, c)->passes()) {
          EXPECT_FALSE(made.unsupported(pass)) << type << " " << to_string(pass);
        }
      }
    }
    EXPECT_GT(fits, 0u) << type;
  }
}

// The kernel that the page shows, for the problem that it names.
TEST_F(CompiledKernelsTest, TheKernelOfThePageCompiles) {
  const KernelFile mine = file("conv2d_custom_mine.cu", kernel_of_page("conv2d_custom_mine.cu"));
  const LayerCase c = {.keys = {{"out_channels", "128"}, {"kernel", "3"}},
                       .x = {{{64, 64, 13, 13}}}};
  const CompiledKernels made = compile_kernels(mine, *make_layer("conv2d", c));
  EXPECT_EQ(made.unsupported(Pass::kForward), std::nullopt);
  EXPECT_EQ(made.unsupported(Pass::kBackwardData), "its file has no DUET_LAUNCH of backward_data");
  ASSERT_EQ(made.launches.size(), 1u);
  EXPECT_EQ(made.launches[0].grid, (std::array<uint32_t, 3>{1, 16, 64}));
  EXPECT_EQ(made.launches[0].static_shared, 64u * 8 * 9 * 4);
}

// Every layer type but those that draw masks gives kernels its sizes and tensors.
TEST_F(CompiledKernelsTest, EveryLayerHasConstantsAndSignatures) {
  for (const auto& [type, cases] : layer_cases()) {
    const auto layer = make_layer(type, cases.front());
    if (layer->passes().empty()) continue;
    const auto reason = no_kernel_interface(*layer);
    EXPECT_EQ(reason.has_value(), type.find("dropout") != std::string_view::npos) << type;
    if (reason) continue;
    std::string text;
    for (const auto& [pass, tensors] : kernel_interface(*layer).passes) {
      const std::string kernel = "pass_" + std::string(to_string(pass));
      text += "__global__ void " + kernel + "(" + arguments_text(tensors, "T") +
              ") {}\nDUET_LAUNCH(" + std::string(to_string(pass)) + ", " + kernel + ", 1, 32);\n";
    }
    const KernelFile mine = file(std::string(type) + "_custom_mine.cu", text);
    EXPECT_EQ(compile_kernels(mine, *layer).refusal, "") << type << "\n" << text;
  }
}

TEST(KernelInterface, HasCudnnsLettersAndNames) {
  const auto layer = make_layer("conv2d", {.keys = {{"out_channels", "8"},
                                                    {"kernel", "[3, 5]"},
                                                    {"stride", "[2, 1]"},
                                                    {"padding", "1"},
                                                    {"bias", "false"}},
                                           .x = {{{4, 2, 9, 11}}}});
  std::string text;
  const KernelInterface made = kernel_interface(*layer);
  for (const auto& [type, name, value] : made.constants)
    text += type + " " + name + " " + value + "\n";
  EXPECT_TRUE(has(text, "int N 4\n", "int C 2\n", "int H 9\n", "int W 11\n", "int K 8\n",
                  "int R 3\n", "int S 5\n", "int P 5\n", "int Q 9\n", "int STRIDE_H 2\n",
                  "int STRIDE_W 1\n", "int PAD_H 1\n", "bool BIAS false\n", "bool NHWC false\n",
                  "bool TF32 false\n"));
  EXPECT_EQ(arguments_text(made.passes.at(Pass::kForward), "float"),
            "const float* x, const float* w, const float* b, float* y");
  EXPECT_EQ(arguments_text(made.passes.at(Pass::kBackwardData), "float"),
            "const float* dy, const float* w, float* dx");
  EXPECT_EQ(arguments_text(made.passes.at(Pass::kBackwardFilter), "float"),
            "const float* x, const float* dy, float* dw, float* db");
  EXPECT_FALSE(made.passes.at(Pass::kForward)[2].index) << "there is no bias";
}

}  // namespace
}  // namespace duet
