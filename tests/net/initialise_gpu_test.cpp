// Initial values that a GPU computes are those of the CPU, to the bit.
#include <gtest/gtest.h>

#include <cstring>

#include "net/initialise.h"
#include "net/weights.h"
#include "support/gpu_test.h"
#include "support/network.h"

namespace duet {
namespace {

using InitialiseGpu = GpuTest;

/// Parameters of odd and of even sizes, and one of more elements than a grid of small blocks.
std::vector<ResolvedLayer> layers_of(const std::string& init, const std::string& layout) {
  return make_network("backend: cpu\nlayout: " + layout +
                          "\ndata: {dataset: synthetic_images, batch: 2}\n"
                          "layers:\n"
                          "  - {type: conv2d, out_channels: 7, kernel: 3, init: " +
                          init +
                          "}\n"
                          "  - {type: batch_norm2d}\n"
                          "  - {type: conv2d, out_channels: 5, kernel: [1, 2], init: " +
                          init +
                          "}\n"
                          "  - {type: flatten}\n"
                          "  - {type: linear, out_features: 13001, init: " +
                          init +
                          "}\n"
                          "  - {type: linear, out_features: 10, bias: false, init: " +
                          init +
                          "}\n"
                          "  - {type: softmax_cross_entropy}\n",
                      {{2, 3, 8, 9}})
      .layers;
}

TEST_F(InitialiseGpu, BitsAreThoseOfTheCpu) {
  for (const std::string init :
       {"default", "xavier_uniform", "xavier_normal", "he_uniform", "he_normal", "zeros"}) {
    for (const std::string layout : {"nchw", "nhwc"}) {
      const auto layers = layers_of(init, layout);
      Weights cpu(layers, 7, Device::kCpu), gpu(layers, 7, Device::kGpu);
      for (const uint64_t seed : {uint64_t{7}, uint64_t{0x9876543210fedcba}}) {
        if (seed != 7) {
          cpu.initialise(seed);
          gpu.initialise(seed);
        }
        for (size_t i = 0; i < cpu.parameters().size(); ++i) {
          const Parameter& parameter = cpu.parameters()[i];
          const auto expected = cpu.read(parameter), found = gpu.read(gpu.parameters()[i]);
          ASSERT_EQ(expected.size(), found.size());
          for (size_t j = 0; j < expected.size(); ++j) {
            ASSERT_EQ(std::memcmp(&expected[j], &found[j], sizeof(float)), 0)
                << init << " " << layout << " " << parameter.name << " " << j << ": " << expected[j]
                << ", on the GPU " << found[j];
          }
        }
      }
    }
  }
}

TEST_F(InitialiseGpu, FillsParametersInDouble) {
  Context context(Device::kGpu);
  const Buffer memory(Device::kGpu, 5 * sizeof(double));
  const InitialValues how = {InitialValues::Kind::kNormal, 0.25, 3, 4};
  queue_initial_values(context, how, {{{5}, DType::kFloat64}, memory.data()});
  context.synchronize();
  double found[5];
  copy_bytes(found, Device::kCpu, memory.data(), Device::kGpu, sizeof found);
  for (int i = 0; i < 5; ++i) {
    float values[4];
    initial_block(how, static_cast<uint32_t>(i / 4), values);
    EXPECT_EQ(found[i], double{values[i % 4]}) << i;
  }
}

}  // namespace
}  // namespace duet
