// The choice of implementations where one of them cannot run every pass.
#include "net/resolve.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "device/device.h"
#include "layers/conv2d_pool_relu/conv2d_pool_relu.h"
#include "layers/dropout/dropout.h"
#include "layers/linear/linear.h"
#include "net/choose.h"
#include "support/double_base.h"
#include "support/layer_case.h"
#include "support/network.h"
#include "support/text.h"

namespace duet {
namespace {

std::optional<std::string> without_backward_data(const LinearProblem&, Pass pass) {
  if (pass == Pass::kBackwardData) return "computes no dx";
  return {};
}

// In the list of linear while the test runs: cpu_reference, but for backward_data.
class FirstLayer : public testing::Test {
 protected:
  static TestNetwork make(const std::string& fc1, const std::string& fc2) {
    return make_network(
        "backend: cpu_reference\n"
        "data: {dataset: synthetic_images, batch: 4}\n"
        "layers:\n"
        "  - {type: flatten}\n"
        "  - {name: fc1, type: linear, out_features: 6, backend: " +
            fc1 +
            "}\n"
            "  - {name: fc2, type: linear, out_features: 10, backend: " +
            fc2 +
            "}\n"
            "  - {name: loss, type: softmax_cross_entropy}\n",
        {{4, 1, 8, 8}});
  }

  const InList<LinearProblem> partial_{
      linear_impls(), {{"cpu_partial", without_backward_data, linear_cpu_reference().make}}};
};

TEST_F(FirstLayer, NeedsNoBackwardData) {
  const TestNetwork network = make("cpu_partial", "cpu_reference");
  ASSERT_EQ(network.layers.size(), 4u);
  const auto& passes = network.layers[1].passes;
  ASSERT_EQ(passes.size(), 2u);
  EXPECT_EQ(passes[0].pass, Pass::kForward);
  EXPECT_EQ(passes[1].pass, Pass::kBackwardFilter);
  for (const PassChoice& choice : passes) EXPECT_EQ(choice.id, "cpu_partial");

  Context context(Device::kCpu);
  Weights weights(network.layers, 1, Device::kCpu);
  Net net(network.layers, weights, context);
  const uint64_t step = 0;
  net.forward(&step);
  net.backward(&step);
}

TEST_F(FirstLayer, IsTheOnlyOneThatNeedsNone) {
  EXPECT_TRUE(has(error_of<UnsupportedError>([] { make("cpu_reference", "cpu_partial"); }),
                  "layer fc2 (linear): 'cpu_partial' cannot run backward_data: computes no dx"));
}

TEST_F(FirstLayer, KeepsItsBackwardDataWhereThereIsOne) {
  const TestNetwork network = make("cpu_reference", "cpu_reference");
  EXPECT_EQ(network.layers.at(1).passes.size(), 3u);
}

TEST(Resolve, AFamilyMeansTheEntryThatIsPreferredForTheSizes) {
  const InList<LinearProblem> listed(
      linear_impls(), {{.id = "cpu_wide",
                        .unsupported = without_backward_data,
                        .make = linear_cpu_reference().make,
                        .preferred = [](const LinearProblem& problem, Pass, size_t limit) {
                          return problem.out >= 10 && limit > 0;
                        }}});
  const TestNetwork network = make_network(
      "backend: cpu\n"
      "data: {dataset: synthetic_images, batch: 4}\n"
      "layers:\n"
      "  - {type: flatten}\n"
      "  - {name: fc1, type: linear, out_features: 6}\n"
      "  - {name: fc2, type: linear, out_features: 10}\n"
      "  - {name: loss, type: softmax_cross_entropy}\n",
      {{4, 1, 8, 8}});
  const std::string first(linear_impls().front().id);
  for (const PassChoice& choice : network.layers.at(1).passes) EXPECT_EQ(choice.id, first);
  for (const PassChoice& choice : network.layers.at(2).passes) {
    EXPECT_EQ(choice.id, choice.pass == Pass::kBackwardData ? first : "cpu_wide");
  }
}

// So many layers read the layer `read`, the last of `before`.
std::string with_readers(int count, const std::string& before, const std::string& read) {
  std::string text =
      "backend: cpu_reference\ndata: {dataset: synthetic_images, batch: 2}\nlayers:\n"
      "  - {name: flat, type: flatten}\n" +
      before;
  std::string names;
  for (int i = 0; i < count; ++i) {
    const std::string name = "r" + std::to_string(i);
    text += "  - {name: " + name + ", type: relu, inputs: " + read + "}\n";
    names += (i > 0 ? ", " : "") + name;
  }
  return text + "  - {name: sum, type: add, inputs: [" + names +
         "]}\n  - {type: linear, out_features: 10}\n  - {type: softmax_cross_entropy}\n";
}

TEST(Resolve, AnOutputHasAtMost64Readers) {
  const std::string fc = "  - {name: fc, type: linear, out_features: 10}\n";
  const auto refusal = [&](int count, const std::string& before, const std::string& read) {
    return error_of<ConfigError>([&] {
      make_network(with_readers(count, before, read), {{2, 1, 4, 4}});
    });
  };
  EXPECT_EQ(refusal(64, fc, "fc"), "");
  EXPECT_EQ(
      refusal(65, fc, "fc"),
      "test.yaml:5:5: layer fc (linear): its output is read 65 times (by r0, r1, r2, ...); at "
      "most 64 are possible: name it in 'inputs' of fewer layers");
  EXPECT_TRUE(has(refusal(200, fc, "fc"), "layer fc (linear): its output is read 200 times"));
  // The last layer of a block, which sums the gradients of its readers itself.
  const std::string block =
      fc + "  - {name: s, type: add, inputs: [fc, fc]}\n  - {name: sr, type: relu}\n";
  EXPECT_EQ(refusal(64, block, "sr"), "");
  EXPECT_TRUE(has(refusal(65, block, "sr"), "layer sr (relu): its output is read 65 times"));
  // Through a reorder layer that nobody wrote.
  const std::string reordered =
      "  - {name: conv, type: conv2d, out_channels: 2, kernel: 1, inputs: images}\n";
  std::string yaml = with_readers(65, reordered, "conv, layout: nhwc");
  yaml = changed(yaml, {{"  - {type: linear", "  - {type: flatten}\n  - {type: linear"},
                        {"  - {name: flat, type: flatten}\n", ""}});
  EXPECT_TRUE(has(error_of<ConfigError>([&] {
                    make_network(yaml, {{2, 1, 4, 4}});
                  }),
                  "layer conv (conv2d): its output is read 65 times"));
  // A value that depends on no parameter has no gradient.
  EXPECT_EQ(refusal(65, "", "flat"), "");
}

TEST(Resolve, OneValueAChannelCannotBeTrained) {
  const auto make = [](int64_t batch) {
    make_network(
        "backend: cpu_reference\n"
        "data: {dataset: synthetic_images, batch: 1}\n"
        "layers:\n"
        "  - {type: flatten}\n"
        "  - {name: norm1, type: batch_norm1d}\n"
        "  - {type: softmax_cross_entropy}\n",
        {{batch, 1, 4, 4}});
  };
  EXPECT_TRUE(has(error_of([&] { make(1); }), "layer norm1 (batch_norm1d): has 1 value a channel"));
  make(2);
}

// cuDNN cannot draw the masks of Duet, so that dropout has nothing of the family.
TEST(Choose, AFamilyThatAListDoesNotHaveTakesTheSharedEntry) {
  ImplEntry<DropoutProblem> shared = dropout_impls().front();
  shared.id = "custom_double_shared";
  shared.shared = true;
  const InList<DropoutProblem> listed(dropout_impls(), {shared});
  const auto layer = make_layer("dropout", {.name = "drop", .x = {{{4, 8}}}});
  NetSpec spec;
  spec.backend.name = "cudnn";
  LayerSpec layer_spec{.name = "drop"};
  const Choice whole = choose(spec, layer_spec, *layer, true);
  ASSERT_EQ(whole.passes.size(), 2u);
  for (const PassChoice& choice : whole.passes) {
    EXPECT_EQ(choice.id, built_with_cuda() ? "custom_recompute" : shared.id);
    EXPECT_TRUE(choice.shared);
  }
  const auto problem = [&] {
    const Choice refused = choose(spec, layer_spec, *layer, true);
    EXPECT_TRUE(refused.passes.empty());
    return refused.problems.empty() ? "" : refused.problems[0].text;
  };
  layer_spec.backend = BackendChoice{.name = "cudnn"};
  EXPECT_TRUE(has(problem(), "there is no 'cudnn' implementation of dropout", "these can: "));
  // An entry that refuses the problem is replaced by nothing.
  layer_spec.backend.reset();
  ImplEntry<DropoutProblem> refusing = dropout_impls().front();
  refusing.id = "cudnn_double";
  refusing.unsupported = [](const DropoutProblem&, Pass) {
    return std::optional<std::string>("drops nothing");
  };
  const InList<DropoutProblem> refused(dropout_impls(), {refusing});
  EXPECT_TRUE(
      has(problem(), "no 'cudnn' implementation can run forward", "cudnn_double: drops nothing"));
}

// A block whose passes share state.
TEST(ChooseOf, BlocksChooseForEachPassWhatSharesForwardsState) {
  if (!built_with_cuda()) GTEST_SKIP() << "needs a build with CUDA";
  const TestNetwork network = make_network(
      "backend: cpu_reference\n"
      "math: tf32\n"
      "data: {dataset: synthetic_images, batch: 1024}\n"
      "layers:\n"
      "  - {type: conv2d_pool_relu, out_channels: 128, kernel: 3, pool_kernel: 2}\n"
      "  - {type: flatten}\n"
      "  - {type: linear, out_features: 10}\n"
      "  - {type: softmax_cross_entropy}\n",
      {{1024, 64, 13, 13}});
  const Layer& layer = *network.layers[0].layer;
  ASSERT_FALSE(layer.chooses_per_pass());
  const auto chosen = [&](Family family, Pass pass) {
    return choose_of(NetSpec{}, layer, family, pass);
  };
  // As if custom_wgmma were not worth its dw here, whatever is measured of it.
  auto& listed = conv2d_pool_relu_impls();
  const auto wgmma = std::find_if(listed.begin(), listed.end(),
                                  [](const auto& entry) { return entry.id == "custom_wgmma"; });
  ASSERT_NE(wgmma, listed.end());
  const auto measured =
      std::exchange(wgmma->preferred, [](const Conv2dPoolReluProblem&, Pass pass, size_t) {
        return pass != Pass::kBackwardFilter;
      });
  EXPECT_EQ(chosen(Family::kCustom, Pass::kForward), "custom_wgmma");
  EXPECT_EQ(chosen(Family::kCustom, Pass::kBackwardFilter), "custom_winograd");
  EXPECT_EQ(chosen(Family::kCustom, Pass::kBackwardData), "custom_wgmma");
  wgmma->preferred = measured;
  for (Pass pass : layer.passes()) {
    EXPECT_EQ(chosen(Family::kCudnn, pass), chosen(Family::kCudnn, Pass::kForward));
  }
}

TEST(ChooseOf, PointwiseFiltersAreMultipliedWhereTheyLie) {
  if (!built_with_cuda()) GTEST_SKIP() << "needs a build with CUDA";
  const auto chosen = [](Math math, const std::string& kernel, Layout layout, int batch = 8) {
    LayerCase c = {.keys = {{"out_channels", "64"}, {"kernel", kernel}},
                   .x = {{{batch, 192, 14, 14}, DType::kFloat32, layout}}};
    c.options.math = math;
    const auto layer = make_layer("conv2d", math == Math::kBF16 ? in_bf16(c) : c);
    return choose_of(NetSpec{}, *layer, Family::kCustom, Pass::kForward);
  };
  EXPECT_EQ(chosen(Math::kBF16, "1", Layout::kNCHW), "custom_mma");
  EXPECT_EQ(chosen(Math::kTF32, "1", Layout::kNCHW), "custom_mma");
  EXPECT_EQ(chosen(Math::kFP32, "1", Layout::kNCHW), "custom_mma_3xtf32");
  EXPECT_EQ(chosen(Math::kBF16, "1", Layout::kNHWC), "custom_wgmma");
  EXPECT_EQ(chosen(Math::kTF32, "1", Layout::kNCHW, 1024), "custom_wgmma");
  EXPECT_EQ(chosen(Math::kTF32, "2", Layout::kNCHW, 512), "custom_wgmma_halo");
}

TEST(ChooseOf, FewRowsTakeNoTiles) {
  if (!built_with_cuda()) GTEST_SKIP() << "needs a build with CUDA";
  for (const Math math : {Math::kTF32, Math::kBF16}) {
    const auto chosen = [&](int rows, Pass pass) {
      LayerCase c = {.keys = {{"out_features", "1000"}}, .x = {{{rows, 4096}}}};
      c.options.math = math;
      const auto layer = make_layer("linear", math == Math::kBF16 ? in_bf16(c) : c);
      return choose_of(NetSpec{}, *layer, Family::kCustom, pass);
    };
    for (const Pass pass : {Pass::kForward, Pass::kBackwardData, Pass::kBackwardFilter}) {
      EXPECT_EQ(chosen(8, pass), "custom_mma");
      EXPECT_EQ(chosen(128, pass), "custom_wgmma");
    }
  }
}

TEST(ChooseOf, LittleIsMultipliedByKernelsThatCutSums) {
  if (!built_with_cuda()) GTEST_SKIP() << "needs a build with CUDA";
  const auto chosen = [](int batch, int channels, int size, Math math, Pass pass) {
    LayerCase c = {.keys = {{"out_channels", "512"}, {"kernel", "3"}, {"padding", "1"}},
                   .x = {{{batch, channels, size, size}}}};
    c.options.math = math;
    const auto layer = make_layer("conv2d", math == Math::kBF16 ? in_bf16(c) : c);
    return choose_of(NetSpec{}, *layer, Family::kCustom, pass);
  };
  EXPECT_EQ(chosen(8, 192, 7, Math::kTF32, Pass::kBackwardData), "custom_wgmma");
  EXPECT_EQ(chosen(64, 192, 14, Math::kTF32, Pass::kBackwardData), "custom_wgmma_halo");
  EXPECT_EQ(chosen(8, 64, 7, Math::kTF32, Pass::kBackwardFilter), "custom_wgmma");
  EXPECT_EQ(chosen(8, 96, 14, Math::kTF32, Pass::kBackwardFilter), "custom_wgmma_halo");
  EXPECT_EQ(chosen(128, 512, 2, Math::kBF16, Pass::kBackwardFilter), "custom_wgmma");
  EXPECT_EQ(chosen(8, 512, 14, Math::kBF16, Pass::kBackwardFilter), "custom_wgmma_halo");
}

TEST(ChooseOf, FewChannelsAreMultipliedByWgmmaWhereTheyAreManyImages) {
  if (!built_with_cuda()) GTEST_SKIP() << "needs a build with CUDA";
  const auto chosen = [](int batch, int channels, const std::string& filters, Pass pass) {
    LayerCase c = {.keys = {{"out_channels", filters}, {"kernel", "3"}, {"padding", "1"}},
                   .x = {{{batch, channels, 32, 32}}}};
    c.options.math = Math::kBF16;
    return choose_of(NetSpec{}, *make_layer("conv2d", in_bf16(c)), Family::kCustom, pass);
  };
  for (const Pass pass : {Pass::kForward, Pass::kBackwardData, Pass::kBackwardFilter}) {
    EXPECT_EQ(chosen(128, 32, "64", pass), "custom_wgmma_halo");
    EXPECT_EQ(chosen(2, 32, "64", pass), "custom_mma");
    EXPECT_EQ(chosen(128, 16, "64", pass), "custom_mma");
  }
}

TEST(ChooseOf, PlainWinogradInPartsIsChosenForFewChannelsInManyTiles) {
  if (!built_with_cuda()) GTEST_SKIP() << "needs a build with CUDA";
  const auto chosen = [](int images, int size, const std::string& filters, Pass pass) {
    const LayerCase c = {.keys = {{"out_channels", filters}, {"kernel", "3"}, {"padding", "1"}},
                         .x = {{{images, 64, size, size}}}};
    return choose_of(NetSpec{}, *make_layer("conv2d", c), Family::kCustom, pass);
  };
  for (const Pass pass : {Pass::kForward, Pass::kBackwardData, Pass::kBackwardFilter})
    EXPECT_EQ(chosen(64, 56, "64", pass), "custom_winograd_3xtf32");
  EXPECT_EQ(chosen(64, 13, "128", Pass::kBackwardFilter), "custom_winograd_3xtf32");
  EXPECT_NE(chosen(64, 13, "128", Pass::kForward), "custom_winograd_3xtf32");
}

TEST(ChooseOf, ABlockOfOneChannelIsMultipliedInPartsWhereWindowsAreMany) {
  if (!built_with_cuda()) GTEST_SKIP() << "needs a build with CUDA";
  const auto chosen = [](int images, Pass pass) {
    const LayerCase c = {.keys = {{"out_channels", "64"}, {"kernel", "3"}, {"pool_kernel", "2"}},
                         .x = {{{images, 1, 28, 28}}}};
    return choose_of(NetSpec{}, *make_layer("conv2d_pool_relu", c), Family::kCustom, pass);
  };
  EXPECT_EQ(chosen(1024, Pass::kForward), "custom_direct_3xtf32");
  EXPECT_EQ(chosen(64, Pass::kForward), "custom_direct");
  EXPECT_EQ(chosen(64, Pass::kBackwardFilter), "custom_direct_3xtf32");
  EXPECT_EQ(chosen(8, Pass::kBackwardFilter), "custom_direct");
  EXPECT_EQ(chosen(1024, Pass::kBackwardData), "custom_direct");
}

TEST(ChooseOf, ClassesOfProblemsInFp32HaveTheirKernels) {
  if (!built_with_cuda()) GTEST_SKIP() << "needs a build with CUDA";
  using Keys = std::vector<std::pair<std::string, std::string>>;
  const auto chosen = [](const Keys& keys, const Shape& x, Pass pass) {
    const LayerCase c = {.keys = keys, .x = {{x}}};
    return choose_of(NetSpec{}, *make_layer("conv2d", c), Family::kCustom, pass);
  };
  const auto square = [](const std::string& filters, const std::string& size,
                         const std::string& padding) {
    return Keys{{"out_channels", filters}, {"kernel", size}, {"padding", padding}};
  };
  // dw by Winograd's tiles, and where products are many all passes, by matrices of them in memory.
  EXPECT_EQ(chosen(square("320", "3", "1"), {8, 160, 14, 14}, Pass::kBackwardFilter),
            "custom_winograd_3xtf32");
  for (const Pass pass : {Pass::kForward, Pass::kBackwardData, Pass::kBackwardFilter})
    EXPECT_EQ(chosen(square("512", "3", "1"), {8, 512, 28, 28}, pass), "custom_winograd_3xtf32");
  // dx that float32 units would compute of few channels a product.
  EXPECT_EQ(chosen(square("96", "5", "2"), {8, 32, 28, 28}, Pass::kBackwardData),
            "custom_wgmma_3xtf32");
  EXPECT_EQ(chosen(square("64", "3", "1"), {8, 3, 56, 56}, Pass::kBackwardData), "custom_direct");
  // Behind a global pooling.
  for (const Pass pass : {Pass::kForward, Pass::kBackwardData})
    EXPECT_EQ(chosen(square("240", "1", "0"), {8, 10, 1, 1}, pass), "custom_mma_3xtf32");
}

TEST(ChooseOf, ProductsInPartsAreChosenAndCanBeForbidden) {
  if (!built_with_cuda()) GTEST_SKIP() << "needs a build with CUDA";
  const TestNetwork network = make_network(
      "backend: cpu_reference\n"
      "data: {dataset: synthetic_images, batch: 2048}\n"
      "layers:\n"
      "  - {type: flatten}\n"
      "  - {type: linear, out_features: 1024}\n"
      "  - {type: softmax_cross_entropy}\n",
      {{2048, 1, 32, 32}});
  const Layer& layer = *network.layers[1].layer;
  NetSpec spec;
  const auto chosen = [&] { return choose_of(spec, layer, Family::kCustom, Pass::kForward); };
  EXPECT_EQ(chosen(), "custom_wgmma_3xtf32");
  spec.fp32_in_parts = false;
  EXPECT_EQ(chosen(), "custom_large_tile");
  spec.fp32_in_parts = true;
  spec.workspace_limit_mib = 0;  // which forward takes none of
  EXPECT_EQ(chosen(), "custom_wgmma_3xtf32");
}

}  // namespace
}  // namespace duet
