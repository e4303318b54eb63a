// Passes write the same bits with and without their ports: staged tensors, whichever implementations
// leave and take them, and prepared weights.
#include <gtest/gtest.h>

#include <set>

#include "layers/layer_cases.h"
#include "support/case_rig.h"
#include "support/gpu_test.h"
#include "support/ports.h"

namespace duet {
namespace {

class StagedPortsOnGpu : public HopperTest {};

const std::vector<std::string> kIds = {"custom_wgmma", "custom_wgmma_halo"};

/// Bytes of the staged tensors that a pass uses; 0 of others.
struct StagedBytes {
  size_t x = 0, dy = 0, w = 0;
};

struct Passes {
  const Layer& layer;
  const LayerCase& c;
  LayerData data = make_data(c, layer);

  StagedBytes bytes(const std::string& id, Pass pass) const {
    CaseRig rig(layer, c, id, data, {pass});
    const auto of = [&](Port port) {
      const auto use = use_of(rig, pass, port);
      return use ? use->desc.bytes() : 0;
    };
    return {of(&Ports::staged_x), of(&Ports::staged_dy), of(&Ports::staged_w)};
  }
  /// Whether it gives the bits with `ports` that it gives alone.
  bool same(const std::string& id, Pass pass, const Ports& ports) const {
    CaseRig rig(layer, c, id, data, {pass});
    rig.run(pass);
    const std::vector<Buffer> expected = rig.make_snapshot(pass);
    rig.queue_snapshot(pass, expected);
    rig.context().synchronize();
    rig.reset();
    run_with(rig, pass, ports);
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
      const PortMemory x(opaque(left.x)), w(opaque(left.w));
      EXPECT_TRUE(
          passes.same(first, Pass::kForward, {.staged_x = x.tensor(), .staged_w = w.tensor()}))
          << where << ": forward by " << first;
      for (const std::string& filter : kIds) {
        if (!passes.can(filter, Pass::kBackwardFilter)) continue;
        const StagedBytes taken = passes.bytes(filter, Pass::kBackwardFilter);
        EXPECT_TRUE(taken.x == 0 || taken.x == left.x) << where;
        const Tensor images = taken.x > 0 ? x.tensor() : Tensor{};
        const PortMemory dy(opaque(taken.dy));
        EXPECT_TRUE(passes.same(filter, Pass::kBackwardFilter,
                                {.staged_x = images, .staged_dy = dy.tensor()}))
            << where << ": backward_filter by " << filter << " of x by " << first;
        for (const std::string& last : kIds) {
          if (passes.c.forward_only || !passes.can(last, Pass::kBackwardData)) continue;
          const StagedBytes bytes = passes.bytes(last, Pass::kBackwardData);
          EXPECT_TRUE(taken.dy == 0 || bytes.dy == taken.dy) << where;
          EXPECT_TRUE(bytes.w == 0 || bytes.w == left.w) << where;
          const Tensor weights = bytes.w > 0 ? w.tensor() : Tensor{};
          EXPECT_TRUE(passes.same(last, Pass::kBackwardData,
                                  {.staged_dy = dy.tensor(), .staged_w = weights}))
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

TEST_F(StagedPortsOnGpu, GiveTheSameBits) {
  EXPECT_EQ(expect_same_bits(Math::kBF16).size(), kIds.size() * kIds.size() * kIds.size());
}

// There custom_wgmma_halo's backward_filter takes x and dy as they are.
TEST_F(StagedPortsOnGpu, GiveTheSameBitsInTf32) {
  EXPECT_EQ(expect_same_bits(Math::kTF32).size(), kIds.size() * kIds.size());
}

// Of zeros there dw is zero.
TEST_F(StagedPortsOnGpu, AreTaken) {
  std::set<std::string> found;
  for_cases(Math::kBF16, [&](const Passes& passes) {
    for (const std::string& id : kIds) {
      if (!passes.can(id, Pass::kBackwardFilter)) continue;
      const StagedBytes bytes = passes.bytes(id, Pass::kBackwardFilter);
      if (bytes.x == 0 || !found.insert(id).second) continue;
      const PortMemory x(opaque(bytes.x));
      fill_bytes(x.tensor().memory, Device::kGpu, 0, bytes.x);
      EXPECT_FALSE(passes.same(id, Pass::kBackwardFilter, {.staged_x = x.tensor()}));
    }
    return found.size() == kIds.size();
  });
  EXPECT_EQ(found.size(), kIds.size());
}

/// Whether it takes prepared weights.
bool compare(const Layer& layer, const LayerCase& c, std::string_view id) {
  CaseRig rig(layer, c, id, make_data(c, layer), {Pass::kForward});
  rig.run(Pass::kForward);
  const std::vector<Buffer> expected = rig.make_snapshot(Pass::kForward);
  rig.queue_snapshot(Pass::kForward, expected);
  rig.context().synchronize();
  rig.reset();
  const auto use = use_of(rig, Pass::kForward, &Ports::prepared_w, true);
  const PortMemory prepared(use ? use->desc : opaque(0));
  const Ports ports = {.prepared_w = prepared.tensor()};
  if (use) prepare_with(rig, ports);
  run_with(rig, Pass::kForward, ports, true);
  EXPECT_TRUE(rig.holds(Pass::kForward, expected))
      << layer.type() << " " << id << ", case " << c.name << ", " << layer.problem_text();
  EXPECT_EQ(prepared.damage(), "") << layer.type() << " " << id;
  return use.has_value();
}

class PreparedWeightsOnGpu : public GpuTest {};

// In inference, with prepared weights where there are any.
TEST_F(PreparedWeightsOnGpu, GiveTheBitsOfForward) {
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
  for (const char* id : {"linear custom_wgmma", "linear custom_mma", "linear cudnn_cublas",
                         "linear_relu custom_wgmma", "conv2d cudnn"}) {
    EXPECT_TRUE(found.contains(id)) << id;
  }
}

// As where a network takes forward and gradients from different implementations.
TEST_F(PreparedWeightsOnGpu, PassesPreparedAloneAreAskedForTheirPorts) {
  for (const CasesOfType& row : layer_cases()) {
    if (!row.type.starts_with("conv2d") && !row.type.starts_with("linear")) continue;
    const LayerCase& c = row.cases.front();
    for (const LayerCase& each : {c, in_bf16(c)}) {
      const auto layer = make_layer(row.type, each);
      for (const ImplInfo& info : layer->implementations()) {
        if (device_of(family_of(info.id)) != Device::kGpu) continue;
        for (Pass pass : layer->passes()) {
          if (layer->unsupported(info.id, pass)) continue;
          SCOPED_TRACE(std::string(row.type) + " " + std::string(info.id) + " " +
                       std::string(to_string(pass)));
          Context context(Device::kGpu);
          BoundOp op(*layer, info.id, context);
          op.prepare(pass);
          for (bool inference : {false, true}) EXPECT_NO_THROW(op.ports(pass, inference));
        }
      }
    }
  }
}

}  // namespace
}  // namespace duet
