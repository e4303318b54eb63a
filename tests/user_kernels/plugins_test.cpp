// Plugins: compiled with Duet's headers, opened, checked as all else; and those that are refused. The plugin for
// a GPU is compiled here, and runs in plugins_gpu_test.cpp.
#include "user_kernels/plugins.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "core/error.h"
#include "layers/layer_cases.h"
#include "support/layer_driver.h"
#include "support/page_kernel.h"
#include "support/temporary_folder.h"
#include "support/text.h"
#include "user_kernels/user_kernels.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

// A class of a name that Duet itself has, which must not be taken for it.
const std::string kTwice = R"text(#include "layers/linear/linear.h"
#include "user_kernels/plugin.h"
#include "factor.h"

namespace duet {
class LinearCpuReference : public LinearImpl {
 public:
  using LinearImpl::LinearImpl;
  void forward(const Run&, const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& y) override {
    for (int n = 0; n < problem_.n; ++n) {
      for (int o = 0; o < problem_.out; ++o) {
        double sum = b ? b.data<float>()[o] : 0.0;
        for (int i = 0; i < problem_.in; ++i) {
          sum += double{x.data<float>()[n * problem_.in + i]} * w.data<float>()[o * problem_.in + i];
        }
        y.data<float>()[n * problem_.out + o] = float(kFactor * sum);
      }
    }
  }
};
std::optional<std::string> forward_only(const LinearProblem&, Pass pass) {
  if (pass == Pass::kForward) return {};
  return "has forward alone";
}
}  // namespace duet

DUET_PLUGIN(duet::impl_entry<duet::LinearCpuReference>("cpu_mine", duet::forward_only));
)text";

class Plugins : public testing::Test {
 protected:
  void SetUp() override { setenv("XDG_CACHE_HOME", folder_.path().c_str(), 1); }
  void TearDown() override {
    unload_kernels();
    unsetenv("XDG_CACHE_HOME");
    unsetenv("DUET_INCLUDE");
  }
  // Why the CPU's plugin does not run forward of a linear layer, or "".
  std::string refusal(const std::string& text, const std::string& factor = "1") const {
    folder_.write("linear_cpu_mine.cpp", text);
    folder_.write("factor.h", "constexpr double kFactor = " + factor + ";\n");
    load_kernels({folder_.path()});
    return make_layer("linear", kLinear)->unsupported("cpu_mine", Pass::kForward).value_or("");
  }

  const LayerCase kLinear = {.keys = {{"out_features", "5"}}, .x = {{{3, 7}}}};
  const TemporaryFolder folder_;
};

TEST_F(Plugins, RunAsBuiltInOnesDo) {
  ASSERT_EQ(refusal(kTwice), "");
  const auto layer = make_layer("linear", kLinear);
  EXPECT_EQ(layer->unsupported("cpu_mine", Pass::kBackwardData), "has forward alone");
  const CheckData data = make_check_data("linear", kLinear);
  const auto checked = [&] {
    return check(*layer, "cpu_mine", Pass::kForward, data, test_context(Device::kCpu),
                 CheckLevel::kAgreement)
        .passed();
  };
  EXPECT_TRUE(checked());
  EXPECT_EQ(layer->make("cpu_mine", test_context(Device::kCpu))->detail(Pass::kForward),
            "source " + find_kernels("linear", "cpu_mine")->file().hash);
  EXPECT_TRUE(find_kernels("linear", "cpu_mine")->compiled(*layer).plugin);
  // What it includes belongs to it.
  ASSERT_EQ(refusal(kTwice, "1.01"), "");
  EXPECT_FALSE(checked());
}

TEST_F(Plugins, ProblemsOfEachTypeAreHeldToItsRow) {
  ASSERT_EQ(refusal(kTwice), "");
  LayerCase half = kLinear;
  half.options.math = Math::kBF16;
  EXPECT_TRUE(has(make_layer("linear", half)->unsupported("cpu_mine", Pass::kForward).value_or(""),
                  "bf16", "float32"));
}

TEST_F(Plugins, AreRefusedForMistakes) {
  EXPECT_TRUE(has(refusal(changed(kTwice, {{"double sum", "doble sum"}})), "does not compile",
                  "linear_cpu_mine.cpp:12:"));
  EXPECT_TRUE(is_mistaken(*make_layer("linear", kLinear), "cpu_mine"));
  EXPECT_TRUE(has(refusal(changed(kTwice, {{"\"cpu_mine\"", "\"cpu_yours\""}})),
                  "linear_cpu_mine.cpp: its DUET_PLUGIN names 'cpu_yours'", "cpu_mine"));
  EXPECT_TRUE(has(refusal(changed(kTwice, {{"class Lin", "void nowhere();\nclass Lin"},
                                           {"double sum", "nowhere();\n        double sum"}})),
                  "linear_cpu_mine.cpp: compiled kernels cannot be loaded", "nowhere"));
  EXPECT_TRUE(has(refusal("#if 0\nDUET_PLUGIN(0);\n#endif\n"), "is not compiled"));
  EXPECT_TRUE(is_mistaken(*make_layer("linear", kLinear), "cpu_mine"));
  folder_.write("relu_cpu_mine.cpp", kTwice);
  load_kernels({folder_ / "relu_cpu_mine.cpp"});
  EXPECT_TRUE(
      has(make_layer("relu", {.x = {{{7}}}})->unsupported("cpu_mine", Pass::kForward).value_or(""),
          "a row of another layer's list than relu's"));
}

TEST_F(Plugins, AreNotCompiledForAnotherDuet) {
  const fs::path copy = folder_ / "include";
  fs::copy(DUET_SOURCE_DIR "/framework", copy, fs::copy_options::recursive);
  setenv("DUET_INCLUDE", copy.c_str(), 1);
  EXPECT_EQ(refusal(kTwice), "");
  folder_.write("include/layers/linear/linear.h",
                read_input_file(copy / "layers/linear/linear.h", 1 << 20) + "\n");
  EXPECT_TRUE(has(refusal(kTwice, "2"), copy.string(), "are of another Duet", "build Duet again"));
  setenv("DUET_INCLUDE", "/nowhere", 1);
  EXPECT_TRUE(has(refusal(kTwice, "3"), "/nowhere has none", "set DUET_INCLUDE"));
}

#if DUET_WITH_CUDA
TEST_F(Plugins, ThePluginOfThePageCompiles) {
  folder_.write("relu_custom_tma.cu", kernel_of_page("relu_custom_tma.cu"));
  load_kernels({folder_.path()});
  const auto even = make_layer("relu", {.x = {{{4, 64}}}}),
             odd = make_layer("relu", {.x = {{{7}}}});
  EXPECT_EQ(even->unsupported("custom_tma", Pass::kForward), std::nullopt);
  EXPECT_EQ(odd->unsupported("custom_tma", Pass::kForward),
            "the elements are not a multiple of 32");
  EXPECT_FALSE(is_mistaken(*odd, "custom_tma"));
}
#endif

}  // namespace
}  // namespace duet
