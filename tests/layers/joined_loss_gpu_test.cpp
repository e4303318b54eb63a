// A loss whose forward leaves dx too gives the bits of its two passes, for every implementation that can.
#include <gtest/gtest.h>

#include <set>

#include "layers/layer_cases.h"
#include "layers/loss.h"
#include "support/case_rig.h"
#include "support/gpu_test.h"

namespace duet {
namespace {

/// Whether there was something to compare.
bool compare_losses(const Layer& layer, const LayerCase& c, std::string_view id) {
  CaseRig rig(layer, c, id, make_data(c, layer), {Pass::kForward, Pass::kBackward});
  auto* const joined = dynamic_cast<JoinedLoss*>(&rig.implementation());
  if (!joined || !joined->joins_passes()) return false;
  std::vector<std::pair<Pass, std::vector<Buffer>>> expected;
  for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
    rig.run(pass);
    expected.emplace_back(pass, rig.make_snapshot(pass));
    rig.queue_snapshot(pass, expected.back().second);
  }
  rig.context().synchronize();
  rig.reset();
  const size_t bytes = rig.implementation().workspace_bytes(Pass::kForward);
  const Buffer workspace(Device::kGpu, bytes);
  joined->forward_and_backward({rig.context(), workspace.data(), bytes, rig.step(), true},
                               rig.tensors());
  rig.context().synchronize();
  for (const auto& [pass, snapshot] : expected) {
    EXPECT_TRUE(rig.holds(pass, snapshot))
        << layer.type() << " " << id << ", case " << c.name << ", " << to_string(pass);
  }
  return true;
}

class JoinedLossOnGpu : public GpuTest {};

TEST_F(JoinedLossOnGpu, GivesTheBitsOfBothPasses) {
  std::set<std::string> found;
  const auto compare_all = [&](std::string_view type, const LayerCase& c) {
    const auto layer = make_layer(type, c);
    for (const ImplInfo& info : layer->implementations()) {
      if (device_of(family_of(info.id)) != Device::kGpu) continue;
      if (layer->unsupported(info.id, Pass::kForward)) continue;
      if (compare_losses(*layer, c, info.id)) found.insert(std::string(type) + " " + std::string(info.id));
    }
  };
  for (const CasesOfType& row : layer_cases()) {
    if (!make_layer(row.type, row.cases[0])->takes_labels()) continue;
    for (const LayerCase& c : row.cases) {
      compare_all(row.type, c);
      compare_all(row.type, in_bf16(c));
    }
  }
  EXPECT_TRUE(found.contains("softmax_cross_entropy custom_warp"));
}

}  // namespace
}  // namespace duet
