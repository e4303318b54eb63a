// Kernels of files on a GPU: against the reference, in networks and their graphs; and wrong ones, which
// are caught.
#include "user_kernels/user_kernels.h"

#include <gtest/gtest.h>

#include "device/gpu.h"
#include "device/nvrtc.h"
#include "layers/layer_cases.h"
#include "support/gpu_test.h"
#include "support/layer_driver.h"
#include "support/network.h"
#include "support/temporary_folder.h"
#include "support/training_cases.h"
#include "user_kernels/starter.h"

namespace duet {
namespace {

class UserKernelsOnGpu : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (!IsSkipped() && !Nvrtc::find()) GTEST_SKIP() << Nvrtc::missing_reason();
  }
  void TearDown() override { unload_kernels(); }

  void load(const std::string& type, const std::string& text) const {
    folder_.write(type + "_custom_mine.cu", text);
    load_kernels({folder_ / (type + "_custom_mine.cu")});
  }
  void load_starters() const {
    for (const std::string& type : starter_types()) load(type, starter_text(type, "mine"));
  }

  const TemporaryFolder folder_;
};

std::string texts(const Examination& examination) {
  std::string text;
  for (const Fault& fault : examination.faults) text += fault.text + "\n";
  return text;
}

// Every case that a starter supports, as the built-in implementations are checked.
TEST_F(UserKernelsOnGpu, StartersAgreeWithTheReference) {
  load_starters();
  int checked = 0;
  for (const auto& [type, cases] : layer_cases()) {
    const auto types = starter_types();
    if (std::find(types.begin(), types.end(), type) == types.end()) continue;
    for (const LayerCase& c : cases) {
      const auto layer = make_layer(type, c);
      const CheckData data = make_check_data(type, c);
      for (const Pass pass : layer->passes()) {
        if (c.forward_only && pass != Pass::kForward) continue;
        if (layer->unsupported("custom_mine", pass)) continue;
        const Examination found = check(*layer, "custom_mine", pass, data,
                                        test_context(Device::kGpu), CheckLevel::kAgreement);
        EXPECT_TRUE(found.passed()) << type << " " << c.name << " " << to_string(pass) << "\n"
                                    << texts(found);
        ++checked;
      }
    }
  }
  EXPECT_GT(checked, 100);
}

TEST_F(UserKernelsOnGpu, StartersPassTheWholeExamination) {
  load_starters();
  const std::pair<const char*, LayerCase> cases[] = {
      {"conv2d",
       {.name = "lab",
        .keys = {{"out_channels", "12"}, {"kernel", "3"}, {"padding", "1"}},
        .x = {{{16, 8, 8, 7}}}}},
      {"linear", {.name = "lab", .keys = {{"out_features", "64"}}, .x = {{{16, 300}}}}},
      {"relu", {.name = "lab", .x = {{{16, 300}}}}},
      {"relu", {.name = "lab", .x = {{{16, 300}}}, .options = {.math = Math::kBF16}}},
      {"softmax", {.name = "lab", .x = {{{16, 300}}}}},
      {"max_pool2d", {.name = "lab", .keys = {{"kernel", "2"}}, .x = {{{16, 8, 8, 8}}}}}};
  for (const auto& [type, c] : cases) {
    const auto layer = make_layer(type, c);
    const CheckData data = make_check_data(*layer, random_data(*layer, 1), {}, layer->passes());
    for (const Pass pass : layer->passes()) {
      ASSERT_EQ(layer->unsupported("custom_mine", pass), std::nullopt) << type;
      const Examination found =
          check(*layer, "custom_mine", pass, data, test_context(Device::kGpu));
      EXPECT_TRUE(found.passed()) << type << " " << to_string(pass) << "\n" << texts(found);
    }
  }
}

// Several launches, a workspace, a state and what else a kernel may take. In forward, `late` reads what
// `early` writes long after it has let others start.
constexpr const char* kTwoLaunches = R"(
DUET_WORKSPACE(forward, 4 * ELEMENTS);
DUET_STATE(ELEMENTS);
__global__ void early(const float* x, float* y, Workspace workspace, State state) {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
  const long long begin = clock64();
  while (clock64() - begin < 200000) {}
  const int i = blockIdx.x * 64 + threadIdx.x;
  if (i >= ELEMENTS) return;
  workspace.as<float>()[i] = x[i] > 0 || x[i] != x[i] ? x[i] : 0.0f;
  state.as<bool>()[i] = !(x[i] <= 0);
}
__global__ void late(const float* x, float* y, Workspace workspace) {
  const int i = blockIdx.x * 64 + threadIdx.x;
  if (i < ELEMENTS) y[i] = workspace.as<float>()[i];
}
__global__ void backward(const float* x, const float* y, const float* dy, float* dx, Training training,
                         Step step, State state) {
  const int i = blockIdx.x * 64 + threadIdx.x;
  if (i < ELEMENTS) dx[i] = state.as<bool>()[i] && (training || step + 1 > 0) ? dy[i] : 0.0f;
}
DUET_LAUNCH(forward, early, ceil_div(ELEMENTS, 64), 64);
DUET_LAUNCH(forward, late, ceil_div(ELEMENTS, 64), 64);
DUET_LAUNCH(backward, backward, ceil_div(ELEMENTS, 64), 64);
)";

void expect_two_launches(bool right, const std::string& why) {
  const auto layer = make_layer("relu", {.x = {{{16, 300}}}});
  const CheckData data = make_check_data(*layer, random_data(*layer, 1), {}, layer->passes());
  for (const Pass pass : layer->passes()) {
    ASSERT_EQ(layer->unsupported("custom_mine", pass), std::nullopt);
    const Examination found = check(*layer, "custom_mine", pass, data, test_context(Device::kGpu));
    EXPECT_EQ(found.passed(), right || pass != Pass::kForward)
        << why << ", " << to_string(pass) << "\n"
        << texts(found);
  }
}

TEST_F(UserKernelsOnGpu, LaunchesFollowEachOtherAndKeepTheirMemory) {
  load("relu", kTwoLaunches);
  expect_two_launches(true, "one after the other");
}

std::string overlapped(std::string text) {
  const std::string launch = "DUET_LAUNCH(forward, late";
  return text.replace(text.find(launch), launch.size(), "DUET_LAUNCH_OVERLAPPED(forward, late");
}

TEST_F(UserKernelsOnGpu, AnOverlappedLaunchWaitsByItself) {
  std::string text = overlapped(kTwoLaunches);
  text.insert(text.find("  if (i < ELEMENTS) y[i] = work"), "  wait_for_primary();\n");
  load("relu", text);
  expect_two_launches(true, "overlapped, waiting");
}

// Under compute-sanitizer nothing overlaps, and this fails.
TEST_F(UserKernelsOnGpu, AnOverlappedLaunchThatDoesNotWaitIsCaught) {
  if (gpu::compute_capability() < 90)
    GTEST_SKIP() << "needs a GPU of compute capability 9.0 or higher";
  load("relu", overlapped(kTwoLaunches));
  expect_two_launches(false, "overlapped, without waiting");
}

TEST_F(UserKernelsOnGpu, TakesAllTheSharedMemoryThatABlockHas) {
  load("relu", R"(
constexpr int BYTES = 96 << 10;
__global__ void forward(const float* x, float* y) {
  extern __shared__ float row[];
  for (int i = threadIdx.x; i < BYTES / 4; i += 256) row[i] = i < ELEMENTS ? x[i] : 0.0f;
  __syncthreads();
  for (int i = threadIdx.x; i < ELEMENTS; i += 256) y[i] = row[i] > 0 || row[i] != row[i] ? row[i] : 0;
}
DUET_LAUNCH(forward, forward, 1, 256, BYTES);
)");
  const auto layer = make_layer("relu", {.x = {{{16, 300}}}});
  const CheckData data = make_check_data(*layer, random_data(*layer, 1), {}, {Pass::kForward});
  const Examination found =
      check(*layer, "custom_mine", Pass::kForward, data, test_context(Device::kGpu));
  EXPECT_TRUE(found.passed()) << texts(found);
}

TEST_F(UserKernelsOnGpu, DoublesAreCaught) {
  const std::string head =
      "__global__ void forward(const float* x, float* y, Workspace workspace) {\n"
      "  const int i = blockIdx.x * 64 + threadIdx.x;\n"
      "  const float relu = i < ELEMENTS && x[i] > 0 ? x[i] : 0.0f;\n";
  const std::string tail =
      "\n}\nDUET_WORKSPACE(forward, 4 * ELEMENTS);\n"
      "DUET_LAUNCH(forward, forward, ceil_div(ELEMENTS, 64), 64);\n";
  const std::pair<const char*, std::string> doubles[] = {
      {"zeros", "if (i < ELEMENTS) y[i] = 0.0f;"},
      {"copies", "if (i < ELEMENTS) y[i] = x[i];"},
      {"leaves the tail out", "if (i < ELEMENTS / 64 * 64 - 64) y[i] = relu;"},
      {"nothing", "if (i < 0) y[i] = relu;"},
      {"low precision",
       "if (i < ELEMENTS) y[i] = __uint_as_float(__float_as_uint(relu) & 0xffff0000);"},
      {"one element", "if (i < ELEMENTS) y[i] = i == 777 ? relu * 1.001f + 1e-3f : relu;"},
      {"changes x", "if (i < ELEMENTS) y[i] = relu; if (i == 5) const_cast<float*>(x)[i] = 1.0f;"},
      {"beyond y", "if (i < ELEMENTS) y[i] = relu; if (i == 0) y[ELEMENTS + 3] = 1.0f;"},
      {"beyond the workspace",
       "if (i < ELEMENTS) y[i] = relu; if (i == 0) workspace.as<float>()[ELEMENTS + 1] = 1.0f;"},
      {"races", "if (i < ELEMENTS) y[i] = clock64() % 3 == 0 ? relu * 1.0000002f : relu;"},
  };
  const auto layer = make_layer("relu", {.x = {{{16, 300}}}});
  const CheckData data = make_check_data(*layer, random_data(*layer, 1), {}, {Pass::kForward});
  for (const auto& [name, body] : doubles) {
    load("relu", head + "  " + body + tail);
    ASSERT_EQ(layer->unsupported("custom_mine", Pass::kForward), std::nullopt) << name;
    const Examination found =
        check(*layer, "custom_mine", Pass::kForward, data, test_context(Device::kGpu));
    EXPECT_FALSE(found.passed()) << name << " was not caught";
  }
}

TEST_F(UserKernelsOnGpu, TrainsInTheStepsGraph) {
  load_starters();
  TestTraining graph(small_training("custom_mine"));
  TestTraining eager("graph: false\n" + small_training("custom_mine"));
  TestTraining cudnn(small_training("cudnn"));
  int mine = 0;
  for (const ResolvedLayer& layer : graph.network.layers) {
    for (const PassChoice& choice : layer.passes) mine += choice.id == "custom_mine";
  }
  EXPECT_EQ(mine, 3 * 3 + 4 * 2) << "two convolutions, a linear layer; relu and pooling twice";
  for (int i = 0; i < 12; ++i) {
    graph.training->step();
    eager.training->step();
    cudnn.training->step();
  }
  EXPECT_EQ(snapshot(graph), snapshot(eager));
  EXPECT_NEAR(graph.training->evaluation().run().loss, cudnn.training->evaluation().run().loss,
              1e-2);
}

TEST_F(UserKernelsOnGpu, APassIsMixedWithOthers) {
  folder_.write("conv2d_custom_mine.cu", starter_text("conv2d", "mine"));
  const std::string path = (folder_ / "conv2d_custom_mine.cu").string();
  std::string yaml = small_training("cudnn");
  const std::string conv = "type: conv2d, out_channels: 8, kernel: 3";
  yaml.replace(yaml.find(conv), conv.size(),
               conv + ", backend: {forward: " + path + ", backward_data: custom_naive}");
  TestTraining mixed(yaml), cudnn(small_training("cudnn"));
  for (int i = 0; i < 12; ++i) {
    mixed.training->step();
    cudnn.training->step();
  }
  EXPECT_NEAR(mixed.training->evaluation().run().loss, cudnn.training->evaluation().run().loss,
              1e-2);
}

}  // namespace
}  // namespace duet
