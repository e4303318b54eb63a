// Passes that share staged tensors give the bits that each gives by itself, whichever implementations they are by.
#include "layers/staged_tensors.h"

#include <gtest/gtest.h>

#include <set>

#include "layers/layer_cases.h"
#include "measure/guarded_buffer.h"
#include "support/case_rig.h"
#include "support/gpu_test.h"

namespace duet {
namespace {

class StagedTensorsOnGpu : public HopperTest {};

const std::vector<std::string> kIds = {"custom_wgmma", "custom_wgmma_halo"};

/// A tensor of so many bytes, poisoned; falsy of none.
class Memory {
 public:
  explicit Memory(size_t bytes) : buffer_(Device::kGpu, bytes), bytes_(bytes) { buffer_.poison(); }
  Tensor tensor() const {
    if (bytes_ == 0) return {};
    return {{{static_cast<int64_t>(bytes_)}, DType::kUInt8}, buffer_.data()};
  }
  std::string damage() const { return buffer_.damage().value_or(""); }

 private:
  GuardedBuffer buffer_;
  size_t bytes_;
};

struct Passes {
  const Layer& layer;
  const LayerCase& c;
  LayerData data = make_data(c, layer);

  StagedBytes bytes(const std::string& id, Pass pass) const {
    CaseRig rig(layer, c, id, data, {pass});
    return dynamic_cast<SharesStaged&>(rig.implementation()).staged_bytes(pass);
  }
  /// Whether it gives the bits with `staged` that it gives alone.
  bool same(const std::string& id, Pass pass, const StagedTensors& staged) const {
    CaseRig rig(layer, c, id, data, {pass});
    rig.run(pass);
    const std::vector<Buffer> expected = rig.make_snapshot(pass);
    rig.queue_snapshot(pass, expected);
    rig.context().synchronize();
    rig.reset();
    const size_t workspace_bytes = rig.implementation().workspace_bytes(pass);
    const Buffer workspace(Device::kGpu, workspace_bytes);
    fill_bytes(workspace.data(), Device::kGpu, 0xFF, workspace_bytes);
    const Run run{rig.context(), workspace.data(), workspace_bytes, rig.step(), true};
    dynamic_cast<SharesStaged&>(rig.implementation())
        .run_sharing(pass, run, rig.tensors(), staged, {});
    rig.context().synchronize();
    return rig.holds(pass, expected);
  }
  bool can(const std::string& id, Pass pass) const { return !layer.unsupported(id, pass); }
};

/// Calls visit(passes) for conv2d's cases, in bf16 or tf32, until one says that it is enough.
template <class Visit>
void for_cases(Math math, Visit visit) {
  for (const CasesOfType& row : layer_cases()) {
    if (row.type != "conv2d") continue;
    for (const LayerCase& of_fp32 : row.cases) {
      LayerCase c = math == Math::kBF16 ? in_bf16(of_fp32) : of_fp32;
      c.options.math = math;
      const auto layer = make_layer(row.type, c);
      if (visit(Passes{*layer, c})) return;
    }
  }
}

/// Passes by kIds that have shared a tensor.
std::set<std::string> expect_same_bits(Math math) {
  std::set<std::string> found;
  for_cases(math, [&](const Passes& passes) {
    const std::string where = "case " + passes.c.name + ", " + passes.layer.problem_text();
    for (const std::string& first : kIds) {
      if (!passes.can(first, Pass::kForward)) continue;
      const StagedBytes left = passes.bytes(first, Pass::kForward);
      EXPECT_EQ(left.dy, 0u);
      const Memory x(left.x), w(left.w);
      EXPECT_TRUE(passes.same(first, Pass::kForward, {.x = x.tensor(), .dy = {}, .w = w.tensor()}))
          << where << ": forward by " << first;
      for (const std::string& filter : kIds) {
        if (!passes.can(filter, Pass::kBackwardFilter)) continue;
        const StagedBytes taken = passes.bytes(filter, Pass::kBackwardFilter);
        EXPECT_TRUE(taken.x == 0 || taken.x == left.x) << where;
        const Tensor images = taken.x > 0 ? x.tensor() : Tensor{};
        const Memory dy(taken.dy);
        EXPECT_TRUE(
            passes.same(filter, Pass::kBackwardFilter, {.x = images, .dy = dy.tensor(), .w = {}}))
            << where << ": backward_filter by " << filter << " of x by " << first;
        for (const std::string& last : kIds) {
          if (passes.c.forward_only || !passes.can(last, Pass::kBackwardData)) continue;
          const StagedBytes bytes = passes.bytes(last, Pass::kBackwardData);
          EXPECT_TRUE(taken.dy == 0 || bytes.dy == taken.dy) << where;
          EXPECT_TRUE(bytes.w == 0 || bytes.w == left.w) << where;
          const Tensor weights = bytes.w > 0 ? w.tensor() : Tensor{};
          EXPECT_TRUE(
              passes.same(last, Pass::kBackwardData, {.x = {}, .dy = dy.tensor(), .w = weights}))
              << where << ": backward_data by " << last << " of w by " << first << ", dy by "
              << filter;
          for (const Tensor& tensor : {images, dy.tensor(), weights}) {
            if (tensor) found.insert(first + " " + filter + " " + last);
          }
        }
        EXPECT_EQ(dy.damage(), "") << where;
      }
      EXPECT_EQ(x.damage() + w.damage(), "") << where;
      if (::testing::Test::HasFailure()) return true;
    }
    return false;
  });
  return found;
}

TEST_F(StagedTensorsOnGpu, GiveTheSameBits) {
  EXPECT_EQ(expect_same_bits(Math::kBF16).size(), kIds.size() * kIds.size() * kIds.size());
}

// There custom_wgmma_halo's backward_filter takes x and dy as they are.
TEST_F(StagedTensorsOnGpu, GiveTheSameBitsInTf32) {
  EXPECT_EQ(expect_same_bits(Math::kTF32).size(), kIds.size() * kIds.size());
}

// Of zeros there dw is zero.
TEST_F(StagedTensorsOnGpu, AreTaken) {
  std::set<std::string> found;
  for_cases(Math::kBF16, [&](const Passes& passes) {
    for (const std::string& id : kIds) {
      if (!passes.can(id, Pass::kBackwardFilter)) continue;
      const StagedBytes bytes = passes.bytes(id, Pass::kBackwardFilter);
      if (bytes.x == 0 || !found.insert(id).second) continue;
      const Memory x(bytes.x);
      fill_bytes(x.tensor().memory, Device::kGpu, 0, bytes.x);
      EXPECT_FALSE(passes.same(id, Pass::kBackwardFilter, {.x = x.tensor(), .dy = {}, .w = {}}));
    }
    return found.size() == kIds.size();
  });
  EXPECT_EQ(found.size(), kIds.size());
}

}  // namespace
}  // namespace duet
