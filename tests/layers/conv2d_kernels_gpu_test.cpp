// Cases for the hand-written convolutions alone: too large for the reference to meet again on the
// CPU, or decided by bits that a library's transforms round away (ties, NaNs).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "support/gpu_test.h"
#include "support/layer_driver.h"

namespace duet {
namespace {

class ConvolutionKernels : public GpuTest {
 protected:
  /// Every pass of `c`, in both layouts, in fp32 by each of `ids` that supports it, in tf32 on tensor
  /// cores and in bf16 there and by custom_direct; they must support the forward pass in NCHW.
  void check(std::string_view type, LayerCase c, const std::vector<std::string_view>& ids) {
    check_math(type, c, ids);
    std::vector<std::string_view> by_tensor_cores = {"custom_mma"};
    if (std::count(ids.begin(), ids.end(), "custom_direct"))
      by_tensor_cores.push_back("custom_direct");
    c.options.math = Math::kTF32;
    check_math(type, c, by_tensor_cores);
    if (c.data == Data::kNonFinite) return;  // bf16 would decide windows, and nothing settles them
    c.options.math = Math::kBF16;
    c.exact = false;
    check_math(type, c, by_tensor_cores);
  }
  void check_math(std::string_view type, LayerCase c, const std::vector<std::string_view>& ids) {
    for (Layout layout : {Layout::kNCHW, Layout::kNHWC}) {
      c.x[0].layout = layout;
      const auto layer = make_layer(type, c);
      const CheckData check_data = make_check_data(type, c);
      for (std::string_view id : ids) {
        for (Pass pass : layer->passes()) {
          const auto reason = layer->unsupported(id, pass);
          if (layout == Layout::kNCHW && pass == Pass::kForward) {
            EXPECT_FALSE(reason) << id << " refuses " << c.name << ": " << *reason;
          }
          if (!reason) check_pass(*layer, c.name, id, pass, check_data);
        }
      }
    }
  }

  /// That `id` has for this pass what says `part` of itself.
  void expect_detail(const LayerCase& c, std::string_view id, Pass pass, std::string_view part) {
    const auto layer = make_layer("conv2d", c);
    const std::string detail = layer->make(id, test_context(Device::kGpu))->detail(pass);
    EXPECT_NE(detail.find(part), std::string::npos)
        << id << ", " << c.name << ", " << to_string(pass) << ": " << detail;
  }

  /// The block on whole numbers from -3 to 3: windows often hold their maximum twice, or nothing
  /// above 0, and no kernel may round. (Of a million windows of other numbers some hold two that
  /// are nearer to each other than float32's rounding, and the reference in double chooses its
  /// own.)
  void check_block(const std::string& name, int64_t filters, const std::string& kernel,
                   const std::string& padding, const TensorDesc& x,
                   const std::vector<std::string_view>& ids) {
    check("conv2d_pool_relu",
          {.name = name,
           .keys = {{"out_channels", std::to_string(filters)},
                    {"kernel", kernel},
                    {"padding", padding},
                    {"pool_kernel", "2"}},
           .x = {x},
           .data = Data::kIntegers,
           .exact = true},
          ids);
  }
};

TensorDesc image(int64_t n, int64_t c, int64_t h, int64_t w) { return {{n, c, h, w}}; }

const std::vector<std::string_view> kBlocks = {"custom_direct", "custom_winograd",
                                               "custom_winograd_3xtf32", "custom_fused"};
const std::vector<std::string_view> kOneChannel = {"custom_direct", "custom_direct_3xtf32"};
const std::vector<std::string_view> kNoDirect = {"custom_winograd", "custom_winograd_3xtf32",
                                                 "custom_fused"};

// With so many outputs (or inputs, for backward_data) the larger tiles are chosen.
TEST_F(ConvolutionKernels, LargeTiles) {
  const std::vector<std::string_view> ids = {"custom_implicit_gemm", "custom_im2col"};
  check("conv2d",
        {.name = "k264",
         .keys = {{"out_channels", "264"}, {"kernel", "[1, 2]"}},
         .x = {image(2, 4, 76, 77)}},
        ids);
  check("conv2d",
        {.name = "c264",
         .keys = {{"out_channels", "4"}, {"kernel", "[2, 1]"}},
         .x = {image(2, 264, 77, 76)}},
        ids);
  check("conv2d",
        {.name = "k60",
         .keys = {{"out_channels", "60"}, {"kernel", "1"}},
         .x = {image(3, 3, 107, 106)}},
        ids);
  check("conv2d",
        {.name = "c60",
         .keys = {{"out_channels", "3"}, {"kernel", "1"}},
         .x = {image(3, 60, 107, 106)}},
        ids);
}

// 1x1 filters with so many positions that the sum of a tile is not cut, and dw in several parts.
TEST_F(ConvolutionKernels, PointwiseTiles) {
  constexpr int kProblems[][3] = {{64, 264, 28}, {264, 64, 28}, {96, 132, 21}};
  for (const auto& [channels, filters, size] : kProblems) {
    check("conv2d",
          {.name = "pointwise_c" + std::to_string(channels),
           .keys = {{"out_channels", std::to_string(filters)}, {"kernel", "1"}},
           .x = {image(40, channels, size, size)}},
          {"custom_implicit_gemm"});
  }
}

// 1x1 filters whose weights a block keeps: planes that are fetched by eight, four and single values, channels and filters
// that are no whole tiles and slices, teams with tiles of two turns, and tiles of 128 rows.
TEST_F(ConvolutionKernels, PointwiseWeightsKept) {
  constexpr int kProblems[][4] = {
      {3, 132, 100, 28}, {40, 264, 72, 14}, {120, 264, 100, 7}, {12, 248, 248, 28}};
  for (const auto& [n, channels, filters, size] : kProblems) {
    const LayerCase c = {.name = "kept_n" + std::to_string(n),
                         .keys = {{"out_channels", std::to_string(filters)}, {"kernel", "1"}},
                         .x = {image(n, channels, size, size)}};
    for (const Pass pass : {Pass::kForward, Pass::kBackwardData})
      expect_detail(c, "custom_mma_3xtf32", pass, "weights kept");
    check("conv2d", c, {"custom_mma_3xtf32"});
  }
}

// 1x1 filters on few images of one pixel: more than eight images, and more than 16, channels and filters that are no whole
// tiles.
TEST_F(ConvolutionKernels, PointwisePixels) {
  constexpr int kProblems[][3] = {{8, 10, 240},  {13, 97, 3},      {1, 1, 1},    {64, 40, 70},
                                  {8, 1152, 48}, {16, 1004, 2052}, {20, 3002, 6}};
  for (const auto& [n, channels, filters] : kProblems) {
    check("conv2d",
          {.name = "pixels_n" + std::to_string(n),
           .keys = {{"out_channels", std::to_string(filters)}, {"kernel", "1"}},
           .x = {image(n, channels, 1, 1)}},
          {"custom_mma_3xtf32"});
  }
}

// dx of few channels: images of several rectangles, rows that are no whole runs, no padding and all that taps reach.
TEST_F(ConvolutionKernels, InputsOfFewChannels) {
  const auto check_inputs = [&](int64_t filters, const std::string& kernel,
                                const std::string& padding, const TensorDesc& x) {
    check("conv2d",
          {.name = "few_k" + std::to_string(filters),
           .keys = {{"out_channels", std::to_string(filters)},
                    {"kernel", kernel},
                    {"padding", padding}},
           .x = {x}},
          {"custom_direct"});
  };
  check_inputs(5, "3", "1", image(2, 3, 70, 152));
  check_inputs(9, "5", "[2, 4]", image(3, 1, 33, 41));
  check_inputs(3, "3", "0", image(2, 4, 9, 300));
  check_inputs(4, "3", "2", image(1, 2, 5, 7));
}

// dx of depthwise filters with stride 2: even and odd padding, several filters a channel, rows that are no whole runs.
TEST_F(ConvolutionKernels, DepthwiseInputsOfStride2) {
  for (const int size : {3, 5, 7}) {
    for (const std::string padding : {"[1, 2]", "[0, 1]"}) {
      LayerCase c = {.name = "stride_2_of_" + std::to_string(size) + padding,
                     .keys = {{"out_channels", "10"},
                              {"kernel", std::to_string(size)},
                              {"stride", "2"},
                              {"padding", padding},
                              {"groups", "5"}},
                     .x = {image(2, 5, 13, padding == "[0, 1]" ? 20 : 19)}};
      check_math("conv2d", c, {"custom_depthwise"});
      c.options.math = Math::kBF16;
      check_math("conv2d", c, {"custom_depthwise"});
    }
  }
}

// Depthwise filters whose windows are loaded by fours, and those that are padded otherwise; in dw filters that share a
// block, the last with fewer of them, and one that several blocks share.
TEST_F(ConvolutionKernels, DepthwiseWindows) {
  const auto check_windows = [&](int size, int stride, int padding, const TensorDesc& x) {
    const std::string channels = std::to_string(x.shape[1]);
    LayerCase c = {.name = "windows_of_" + std::to_string(size) + "_by_" + std::to_string(stride),
                   .keys = {{"out_channels", channels},
                            {"kernel", std::to_string(size)},
                            {"stride", std::to_string(stride)},
                            {"padding", std::to_string(padding)},
                            {"groups", channels}},
                   .x = {x}};
    check_math("conv2d", c, {"custom_depthwise"});
    c.options.math = Math::kBF16;
    check_math("conv2d", c, {"custom_depthwise"});
  };
  for (const int size : {3, 5, 7}) {
    for (const int stride : {1, 2}) {
      check_windows(size, stride, size / 2, image(3, 7, 9, 12));
      check_windows(size, stride, size / 2, image(2, 3, 21, 28));
      check_windows(size, stride, 1, image(2, 3, 7, 7));
    }
  }
  check_windows(5, 1, 2, image(8, 9, 7, 7));
  check_windows(3, 1, 1, image(4, 2, 60, 64));
}

TEST_F(ConvolutionKernels, LargeTilesOfTheBlock) {
  check_block("k264", 264, "[1, 2]", "0", image(2, 4, 77, 77), {"custom_fused"});
  check_block("c264", 4, "[2, 1]", "0", image(2, 264, 77, 76), {"custom_fused"});
  check_block("k60", 60, "1", "0", image(3, 3, 107, 106), {"custom_fused"});
}

/// What has custom_direct's products on tensor cores.
std::string_view direct_product_id(Math math) {
  return math == Math::kFP32 ? "custom_direct_3xtf32" : "custom_direct";
}

// dw of few channels as a product that a block keeps: filters and taps that are no whole tiles, one warp and eight
// along positions, rows of outputs whose last chunk is not whole, bands that end with an image, more bands than blocks. And dx
// with strides: of filters that are no whole quad, of positions before and behind the outputs. And y.
TEST_F(ConvolutionKernels, ProductsOfFewChannels) {
  const auto check_products = [&](const std::string& name, int64_t filters, const TensorDesc& x,
                                  std::vector<std::pair<std::string, std::string>> keys) {
    keys.emplace_back("out_channels", std::to_string(filters));
    for (const Math math : {Math::kFP32, Math::kTF32, Math::kBF16}) {
      LayerCase c{.name = name, .keys = keys, .x = {x}};
      c.options.math = math;
      const auto layer = make_layer("conv2d", c);
      const CheckData check_data = make_check_data("conv2d", c);
      for (const Pass pass : {Pass::kForward, Pass::kBackwardFilter, Pass::kBackwardData}) {
        const std::string_view id = direct_product_id(math);
        const auto reason = layer->unsupported(id, pass);
        if (pass == Pass::kBackwardFilter) {
          ASSERT_FALSE(reason) << name << ": " << *reason;
        }
        if (!reason) check_pass(*layer, name, id, pass, check_data);
      }
    }
  };
  check_products("c3", 32, image(20, 3, 64, 64),
                 {{"kernel", "3"}, {"padding", "1"}, {"bias", "false"}});
  check_products("c3_many_bands", 5, image(130, 3, 64, 64), {{"kernel", "3"}, {"padding", "1"}});
  check_products("c1_k13", 13, image(3, 1, 9, 9), {{"kernel", "[3, 4]"}, {"padding", "1"}});
  check_products("c4_k70", 70, image(5, 4, 11, 25), {{"kernel", "[3, 2]"}});
  check_products("c1_k5", 100, image(60, 1, 28, 28), {{"kernel", "5"}});
  check_products("stride_2", 64, image(3, 3, 47, 112),
                 {{"kernel", "7"}, {"padding", "3"}, {"stride", "2"}});
  check_products("stride_2_k3", 22, image(10, 4, 33, 63),
                 {{"kernel", "3"}, {"padding", "1"}, {"stride", "2"}});
  check_products("stride_3", 40, image(2, 3, 20, 119),
                 {{"kernel", "[2, 5]"}, {"padding", "[1, 2]"}, {"stride", "[1, 3]"}});
  check_products("stride_4", 5, image(3, 1, 50, 35),
                 {{"kernel", "[11, 4]"}, {"padding", "[5, 0]"}, {"stride", "4"}});
  check_products("dilation_2", 33, image(3, 2, 13, 44),
                 {{"kernel", "[5, 3]"}, {"padding", "[0, 4]"}, {"dilation", "2"}});
}

// Rows of an instruction that lack a tap multiply by zero, and zero times infinity is no number: dx is as the taps
// that exist make it all the same.
TEST_F(ConvolutionKernels, InfinitiesOfDyReachOnlyWhatReadsThem) {
  for (const Math math : {Math::kFP32, Math::kTF32, Math::kBF16}) {
    LayerCase c{.name = "stride_2",
                .keys = {{"out_channels", "8"}, {"kernel", "7"}, {"padding", "3"}, {"stride", "2"}},
                .x = {image(2, 3, 30, 32)}};
    c.options.math = math;
    const auto layer = make_layer("conv2d", c);
    LayerData data = random_data(*layer, 1);
    const TensorDesc& y = layer->outputs()[0];
    data.dy[0].at(offset_of(y, 1, 5, 6, 7)) = std::numeric_limits<double>::infinity();
    data.dy[0].at(offset_of(y, 0, 2, 0, 15)) = std::numeric_limits<double>::quiet_NaN();
    const Reference reference =
        run_reference(*layer, data, {}, {Pass::kBackwardData}, nullptr, Device::kCpu);
    const std::vector<double>& expected = reference.of(Pass::kBackwardData)[0].values;
    LayerRig rig(*layer, direct_product_id(math), {Pass::kBackwardData}, test_context(Device::kGpu),
                 {});
    rig.load(data);
    rig.run(Pass::kBackwardData);
    const std::vector<double> found = rig.outputs(Pass::kBackwardData)[0].values;
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(std::isfinite(found[i]), std::isfinite(expected[i])) << to_string(math) << " " << i;
      if (std::isfinite(expected[i])) {
        ASSERT_NEAR(found[i], expected[i], 0.02) << i;
      }
    }
  }
}

// With about as many tiles as an H200 takes at once: blocks of 32 and of 36 tiles, of whole images
// and of patches; and the fewest tiles that backward_filter takes.
TEST_F(ConvolutionKernels, WinogradBlocks) {
  const auto check_winograd = [&](const std::string& name, int64_t filters,
                                  const std::string& padding, const TensorDesc& x) {
    check(
        "conv2d",
        {.name = name,
         .keys = {{"out_channels", std::to_string(filters)}, {"kernel", "3"}, {"padding", padding}},
         .x = {x}},
        {"custom_winograd", "custom_winograd_3xtf32"});
  };
  check_winograd("images_32", 64, "0", image(90, 64, 12, 12));
  check_winograd("images_36", 100, "0", image(64, 64, 13, 13));
  check_winograd("patches_32", 64, "1", image(11, 66, 28, 28));
  check_winograd("patches_36", 100, "1", image(12, 66, 27, 28));
}

// Winograd's products as matrices in memory: last tiles and steps of a sum that are not whole, channels and filters that are no
// whole tiles and no whole 16 bytes, even and odd rows of results, one and several splits of a sum, several slices of the
// tiles, no bias, no padding and much.
TEST_F(ConvolutionKernels, WinogradMatrices) {
  Context& context = test_context(Device::kGpu);
  const size_t limit = context.workspace_limit();
  const auto check_matrices = [&](const std::string& name, int64_t filters, const TensorDesc& x,
                                  std::vector<std::pair<std::string, std::string>> keys) {
    keys.emplace_back("out_channels", std::to_string(filters));
    keys.emplace_back("kernel", "3");
    const LayerCase c{.name = name, .keys = keys, .x = {x}};
    const auto layer = make_layer("conv2d", c);
    const CheckData check_data = make_check_data("conv2d", c);
    for (const Pass pass : layer->passes()) {
      expect_detail(c, "custom_winograd_3xtf32", pass, "36 products");
      check_pass(*layer, name, "custom_winograd_3xtf32", pass, check_data);
    }
    return c;
  };
  check_matrices("whole", 256, image(8, 256, 28, 28), {{"padding", "1"}});
  check_matrices("parts", 199, image(9, 265, 30, 23), {{"padding", "[1, 0]"}});
  check_matrices("much_padding", 300, image(5, 130, 33, 35), {{"padding", "[2, 3]"}});
  const LayerCase splits =
      check_matrices("splits", 248, image(8, 124, 57, 56), {{"bias", "false"}});
  expect_detail(splits, "custom_winograd_3xtf32", Pass::kBackwardFilter, " splits");
  context.set_workspace_limit(size_t{48} << 20);
  const LayerCase slices =
      check_matrices("slices", 256, image(16, 192, 30, 30), {{"padding", "1"}});
  for (const Pass pass : {Pass::kForward, Pass::kBackwardData, Pass::kBackwardFilter})
    expect_detail(slices, "custom_winograd_3xtf32", pass, " slices");
  context.set_workspace_limit(limit);
}

// Splits of the sum over windows that span images, and several chunks a split; blocks of Winograd
// in clusters, and with the many images without.
TEST_F(ConvolutionKernels, LongSums) {
  check("conv2d",
        {.name = "c1_k70",
         .keys = {{"out_channels", "70"}, {"kernel", "3"}},
         .x = {image(100, 1, 27, 28)}},
        {"custom_direct", "custom_implicit_gemm", "custom_im2col", "custom_depthwise"});
  check_block("c1_k70", 70, "3", "0", image(100, 1, 28, 28), kBlocks);
  check_block("c1_many_windows", 64, "3", "0", image(400, 1, 28, 28), kOneChannel);
  check_block("c1_few_images", 64, "3", "0", image(64, 1, 28, 28), kOneChannel);
  check_block("c1_padding", 64, "3", "1", image(400, 1, 28, 28), kOneChannel);
  check_block("c1_k128", 128, "3", "0", image(400, 1, 28, 28), kOneChannel);
  check_block("c1_wide", 64, "3", "0", image(220, 1, 8, 200), kOneChannel);
  check_block("c1_few_windows", 40, "3", "1", image(2, 1, 30, 29), kOneChannel);
  check_block("c1_k70_many_windows", 70, "3", "1", image(330, 1, 30, 29), kOneChannel);
  check_block("c64_k128", 128, "3", "0", image(5, 64, 13, 13), kNoDirect);
  check_block("c66_k130", 130, "3", "0", image(30, 66, 7, 9), kNoDirect);
  check_block("c128_k256", 256, "3", "1", image(12, 128, 6, 6), kNoDirect);
  check_block("many_images", 100, "3", "0", image(70, 64, 13, 13), kNoDirect);
}

// Boxes of positions that do not divide images, channels and filters that are no whole 64, several
// tiles along both, and sums in splits.
TEST_F(ConvolutionKernels, BoxesOfTheCopyEngine) {
  const auto check_wgmma = [&](const std::string& name, int64_t filters, const TensorDesc& x,
                               std::vector<std::pair<std::string, std::string>> keys) {
    keys.emplace_back("out_channels", std::to_string(filters));
    for (const Math math : {Math::kBF16, Math::kTF32}) {
      LayerCase c{.name = name, .keys = keys, .x = {x}};
      c.options.math = math;
      check_math("conv2d", c, {"custom_wgmma"});
      c.keys.emplace_back("pool_kernel", "2");
      c.data = Data::kIntegers;
      check_math("conv2d_pool_relu", c, {"custom_wgmma"});
    }
  };
  check_wgmma("c40_k72", 72, image(3, 40, 9, 10), {{"kernel", "3"}, {"padding", "1"}});
  check_wgmma("c33_k35", 35, image(2, 33, 7, 6), {{"kernel", "3"}});
  check_wgmma("stride_2", 64, image(5, 64, 15, 17),
              {{"kernel", "3"}, {"padding", "1"}, {"stride", "2"}});
  check_wgmma("dilation_2", 40, image(2, 72, 13, 12),
              {{"kernel", "5"}, {"padding", "2"}, {"dilation", "2"}});
  check_wgmma("k1", 200, image(20, 96, 7, 7), {{"kernel", "1"}});
  check_wgmma("many_tiles", 328, image(70, 136, 11, 11), {{"kernel", "[3, 1]"}});
  check_wgmma("one_image", 136, image(1, 64, 30, 131), {{"kernel", "3"}, {"padding", "1"}});
  check_wgmma("no_bias", 64, image(9, 64, 8, 8),
              {{"kernel", "3"}, {"padding", "1"}, {"bias", "false"}});
  check_wgmma("odd", 70, image(20, 72, 13, 12), {{"kernel", "3"}});
  check_wgmma("windows", 128, image(18, 64, 13, 13), {{"kernel", "3"}});
  check_wgmma("windows_of_parts", 125, image(23, 40, 9, 26), {{"kernel", "3"}, {"padding", "1"}});
  check_wgmma("twelve_columns", 256, image(8, 56, 5, 14), {{"kernel", "3"}});
  // More taps than a block adds parts of dw up for at once.
  check_wgmma("many_taps", 40, image(2, 36, 12, 16), {{"kernel", "9"}, {"padding", "4"}});
  check_wgmma("far_padding", 48, image(3, 40, 6, 5), {{"kernel", "2"}, {"padding", "3"}});
}

// dx of a stride of 2: phases with several boxes each and of unequal sizes, without taps, and in more splits than some have
// steps; a single phase, without a tap and with some.
TEST_F(ConvolutionKernels, PhasesOfTheStride) {
  const auto check_phases = [&](const std::string& name, int64_t filters, const TensorDesc& x,
                                std::vector<std::pair<std::string, std::string>> keys,
                                const std::string& detail) {
    keys.insert(keys.end(), {{"out_channels", std::to_string(filters)}, {"stride", "2"}});
    for (const Math math : {Math::kBF16, Math::kTF32, Math::kFP32}) {
      LayerCase c{.name = name, .keys = keys, .x = {x}};
      c.options.math = math;
      const auto id = math == Math::kFP32 ? "custom_wgmma_3xtf32" : "custom_wgmma";
      expect_detail(c, id, Pass::kBackwardData, detail);
      for (const Layout layout : {Layout::kNCHW, Layout::kNHWC}) {
        c.x[0].layout = layout;
        check_pass(*make_layer("conv2d", c), name, id, Pass::kBackwardData,
                   make_check_data("conv2d", c));
      }
    }
  };
  check_phases("boxes", 40, image(9, 72, 27, 38), {{"kernel", "3"}, {"padding", "1"}},
               ", 4 of 4 phases");
  check_phases("k5", 72, image(7, 136, 13, 11), {{"kernel", "[5, 2]"}, {"padding", "2"}},
               ", 4 of 4 phases");
  check_phases("k1", 136, image(20, 264, 9, 8), {{"kernel", "1"}, {"bias", "false"}},
               ", 1 of 4 phases");
  check_phases("splits", 512, image(4, 72, 8, 7), {{"kernel", "3"}, {"padding", "1"}}, " splits");
  check_phases("splits_without_taps", 1024, image(3, 40, 5, 4), {{"kernel", "[1, 3]"}}, " splits");
  check_phases("one_pixel", 40, image(5, 48, 1, 1), {{"kernel", "3"}, {"padding", "1"}}, "wgmma");
  check_phases("one_pixel_no_tap", 40, image(5, 48, 1, 1), {{"kernel", "1"}, {"padding", "1"}},
               "wgmma");
}

// Tiles that begin and end within a row and an image, all of its tiles' sizes, as much padding as the taps
// reach, two and more blocks of channels.
TEST_F(ConvolutionKernels, TilesWithTheirHalo) {
  const auto check_halo = [&](const std::string& name, int64_t filters, const TensorDesc& x,
                              std::vector<std::pair<std::string, std::string>> keys) {
    keys.emplace_back("out_channels", std::to_string(filters));
    LayerCase c{.name = name, .keys = keys, .x = {x}};
    for (Math math : {Math::kBF16, Math::kTF32}) {
      c.options.math = math;
      check_math("conv2d", c, {"custom_wgmma_halo"});
    }
  };
  check_halo("c40_k72", 72, image(3, 40, 9, 10), {{"kernel", "3"}, {"padding", "1"}});
  check_halo("c33_k35", 35, image(2, 33, 7, 6), {{"kernel", "3"}});
  check_halo("full", 64, image(11, 200, 5, 8), {{"kernel", "[3, 5]"}, {"padding", "[2, 4]"}});
  check_halo("dilation_2", 40, image(2, 72, 13, 12),
             {{"kernel", "5"}, {"padding", "2"}, {"dilation", "2"}});
  check_halo("many_tiles", 328, image(70, 136, 11, 11), {{"kernel", "[3, 1]"}});
  check_halo("one_image", 136, image(1, 64, 30, 131), {{"kernel", "3"}, {"padding", "1"}});
  check_halo("wide", 64, image(1, 64, 4, 224), {{"kernel", "3"}, {"padding", "1"}});
  check_halo("c64_k64", 64, image(40, 64, 13, 13), {{"kernel", "3"}, {"padding", "2"}});
  check_halo("parts_of_rows", 130, image(10, 70, 6, 40), {{"kernel", "3"}, {"padding", "1"}});
  // Of so many pairs of rows that weights are kept.
  check_halo("kept_weights", 64, image(72, 64, 30, 28), {{"kernel", "3"}, {"padding", "1"}});
  check_halo("kept_weights_odd", 60, image(71, 40, 31, 27), {{"kernel", "3"}});
  check_halo("kept_weights_of_two_panels", 120, image(136, 64, 31, 12),
             {{"kernel", "3"}, {"padding", "1"}});
  check_halo("c32_k64", 64, image(40, 32, 32, 32), {{"kernel", "3"}, {"padding", "1"}});
  check_halo("c32_k32", 32, image(72, 32, 31, 32), {{"kernel", "3"}, {"padding", "1"}});
  check_halo("c30_k29", 29, image(70, 30, 33, 30), {{"kernel", "3"}});
  check_halo("c18_k100", 100, image(71, 18, 33, 24), {{"kernel", "3"}, {"padding", "2"}});
  check_halo("c32_few", 20, image(3, 32, 9, 7), {{"kernel", "3"}, {"padding", "1"}});
  check_halo("one_block", 300, image(2, 300, 4, 4), {{"kernel", "2"}});
}

// Of so many images that both backward passes lay them side by side: the last of them, channels, filters and columns in parts, tiles that
// end within a strip of rows, all paddings.
TEST_F(ConvolutionKernels, ImagesSideBySide) {
  const auto check_images = [&](const std::string& name, int64_t filters, const TensorDesc& x,
                                const char* padding) {
    LayerCase c{.name = name,
                .keys = {{"out_channels", std::to_string(filters)},
                         {"kernel", "3"},
                         {"padding", padding},
                         {"pool_kernel", "2"}},
                .x = {x}};
    c.options.math = Math::kTF32;
    for (const Data data : {Data::kNormal, Data::kIntegers}) {
      c.data = data;
      check_math("conv2d_pool_relu", c, {"custom_wgmma"});
    }
  };
  check_images("c56_k120", 120, image(373, 56, 13, 13), "0");
  check_images("c24_k60", 60, image(370, 24, 14, 14), "1");
  check_images("c120_k60", 60, image(381, 120, 12, 12), "2");
  check_images("c20_k250", 250, image(376, 20, 10, 11), "1");
  check_images("parts_of_rows", 125, image(70, 40, 9, 28), "1");
}

// Numbers with more digits than a tf32 has, of which each product takes three.
TEST_F(ConvolutionKernels, OneChannelInParts) {
  check_math("conv2d_pool_relu",
             {.name = "c1_rests",
              .keys = {{"out_channels", "64"}, {"kernel", "3"}, {"pool_kernel", "2"}},
              .x = {image(5, 1, 28, 28)}},
             {"custom_direct_3xtf32"});
}

TEST_F(ConvolutionKernels, TiesAndDeadWindows) {
  check_block("c1_in_parts", 13, "3", "0", image(3, 1, 10, 9), kOneChannel);
  check_block("c1", 13, "3", "0", image(3, 1, 10, 9), kBlocks);
  check_block("c1_parts_of_images", 70, "3", "1", image(2, 1, 47, 30), kBlocks);
  check_block("c3", 20, "3", "1", image(2, 3, 9, 8), kBlocks);
  check_block("c4", 9, "3", "2", image(2, 4, 6, 7), kBlocks);
  check_block("c1_k5", 9, "5", "2", image(2, 1, 12, 11), {"custom_direct", "custom_fused"});
  check_block("c12", 70, "3", "1", image(3, 12, 10, 9), kNoDirect);
  check_block("c64", 33, "3", "0", image(3, 64, 13, 13), kNoDirect);
  check_block("more_than_32_windows", 12, "3", "1", image(2, 8, 20, 18), kNoDirect);
  check_block("k1", 7, "1", "1", image(3, 2, 5, 4), {"custom_fused"});
}

// A NaN is the largest of its window and passes relu; Winograd's transforms would spread it.
TEST_F(ConvolutionKernels, NansAndInfinities) {
  for (const char* kernel : {"1", "3", "5"}) {
    const bool direct = kernel[0] != '1';
    LayerCase c = {.name = "non_finite",
                   .keys = {{"out_channels", "11"}, {"kernel", kernel}, {"padding", "1"}},
                   .x = {image(3, 1, 13, 12)},
                   .data = Data::kNonFinite};
    std::vector<std::string_view> ids = {"custom_implicit_gemm",
                                         "custom_implicit_gemm_double_buffered",
                                         "custom_implicit_gemm_register_tiled",
                                         "custom_implicit_gemm_tiled",
                                         "custom_im2col",
                                         "custom_depthwise"};
    if (direct) ids.push_back("custom_direct");
    check("conv2d", c, ids);
    c.keys.emplace_back("pool_kernel", "2");
    check("conv2d_pool_relu", c,
          direct ? std::vector<std::string_view>{"custom_direct", "custom_fused"}
                 : std::vector<std::string_view>{"custom_fused"});
  }
}

}  // namespace
}  // namespace duet
