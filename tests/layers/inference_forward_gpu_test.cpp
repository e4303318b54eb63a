// Forward with its parameters at rest gives the bits of forward, for every implementation that has it.
#include "layers/inference_forward.h"

#include <gtest/gtest.h>

#include <set>

#include "layers/layer_cases.h"
#include "support/case_rig.h"
#include "support/gpu_test.h"

namespace duet {
namespace {

/// Whether there was something to compare.
bool compare(const Layer& layer, const LayerCase& c, std::string_view id) {
  CaseRig rig(layer, c, id, make_data(c, layer), {Pass::kForward});
  auto* const inference = dynamic_cast<InferenceForward*>(&rig.implementation());
  if (!inference) return false;
  rig.run(Pass::kForward);
  const std::vector<Buffer> expected = rig.make_snapshot(Pass::kForward);
  rig.queue_snapshot(Pass::kForward, expected);
  rig.context().synchronize();
  rig.reset();
  const auto poisoned = [](size_t bytes) {
    Buffer memory(Device::kGpu, bytes);
    fill_bytes(memory.data(), Device::kGpu, 0xFF, bytes);
    return memory;
  };
  const size_t bytes = rig.implementation().workspace_bytes(Pass::kForward);
  const Buffer workspace = poisoned(bytes), prepared = poisoned(inference->prepared_bytes());
  const Run run{rig.context(), workspace.data(), bytes, rig.step(), c.situation().training};
  inference->prepare_weights(run, rig.tensors(), prepared.data());
  fill_bytes(workspace.data(), Device::kGpu, 0xFF, bytes);  // what is prepared lies elsewhere
  inference->infer(run, rig.tensors(), prepared.data());
  rig.context().synchronize();
  EXPECT_TRUE(rig.holds(Pass::kForward, expected))
      << layer.type() << " " << id << ", case " << c.name << ", " << layer.problem_text();
  return true;
}

class InferenceForwardOnGpu : public GpuTest {};

TEST_F(InferenceForwardOnGpu, GivesTheBitsOfForward) {
  std::set<std::string> found;
  const auto compare_all = [&](std::string_view type, const LayerCase& c, bool libraries) {
    const auto layer = make_layer(type, c);
    for (const ImplInfo& info : layer->implementations()) {
      if (device_of(family_of(info.id)) != Device::kGpu) continue;
      if (family_of(info.id) == Family::kCudnn && !libraries) continue;
      if (layer->unsupported(info.id, Pass::kForward)) continue;
      if (compare(*layer, c, info.id)) found.insert(std::string(type) + " " + std::string(info.id));
    }
  };
  for (const CasesOfType& row : layer_cases()) {
    if (!row.type.starts_with("conv2d") && !row.type.starts_with("linear")) continue;
    for (size_t i = 0; i < row.cases.size(); ++i) {
      const bool libraries = i < 4;  // which search for long
      compare_all(row.type, row.cases[i], libraries);
      compare_all(row.type, in_bf16(row.cases[i]), libraries);
    }
  }
  for (const char* id : {"linear custom_wgmma", "linear custom_register_tiled",
                         "linear cudnn_cublas", "linear_relu custom_wgmma", "conv2d custom_direct",
                         "conv2d cudnn", "conv2d_pool_relu custom_split_k"}) {
    EXPECT_TRUE(found.contains(id)) << id;
  }
}

}  // namespace
}  // namespace duet
