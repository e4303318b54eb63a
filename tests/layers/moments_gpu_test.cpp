// Moments that forward leaves are those of its y, and normalisation of given moments is that of its own,
// for every implementation that has either port.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "core/channel_moments.h"
#include "layers/batch_norm/batch_norm.h"
#include "layers/batch_norm_relu_pool/batch_norm_relu_pool.h"
#include "layers/conv2d/conv2d.h"
#include "layers/layer_cases.h"
#include "support/case_rig.h"
#include "support/double_base.h"
#include "support/gpu_test.h"
#include "support/layer_driver.h"
#include "support/ports.h"

namespace duet {
namespace {

/// Calls visit(channel, value) in memory order, channel by channel alike in any layout.
template <class Visit>
void for_each_value(const TensorDesc& desc, const std::vector<double>& values, Visit visit) {
  const int64_t channels = desc.shape[1];
  const int64_t inner =
      desc.shape.rank() == 4 && desc.layout == Layout::kNCHW ? desc.shape[2] * desc.shape[3] : 1;
  for (int64_t i = 0; i < static_cast<int64_t>(values.size()); ++i) {
    visit(i / inner % channels, values[static_cast<size_t>(i)]);
  }
}

struct Sums {
  double count = 0, mean = 0, squares = 0, size = 0;  // size: the mean of what is largest
};
/// Of every channel, in double.
std::vector<Sums> moments_of(const TensorDesc& desc, const std::vector<double>& values) {
  std::vector<Sums> all(static_cast<size_t>(desc.shape[1]));
  const auto of = [&](int64_t channel) -> Sums& { return all[static_cast<size_t>(channel)]; };
  for_each_value(desc, values, [&](int64_t channel, double value) {
    of(channel).count += 1;
    of(channel).mean += value;
    of(channel).size += std::abs(value);
  });
  for (Sums& sums : all) sums.mean /= sums.count, sums.size /= sums.count;
  for_each_value(desc, values, [&](int64_t channel, double value) {
    const double difference = value - of(channel).mean;
    of(channel).squares += difference * difference;
  });
  return all;
}

Sums joined(const Sums& a, const Sums& b) {
  Sums both{.count = a.count + b.count};
  if (both.count == 0) return both;
  const double difference = b.mean - a.mean;
  both.mean = a.mean + difference * b.count / both.count;
  both.squares = a.squares + b.squares + difference * difference * a.count * b.count / both.count;
  return both;
}

class MomentsOnGpu : public GpuTest {};

/// Whether there was something to examine.
bool examine(const Layer& layer, const LayerCase& c, std::string_view id) {
  CaseRig rig(layer, c, id, make_data(c, layer), {Pass::kForward});
  const auto use = use_of(rig, Pass::kForward, &Ports::y_moments);
  if (!use) return false;
  const std::string where = std::string(id) + ", case " + c.name + ", " + layer.problem_text();
  rig.run(Pass::kForward);
  const std::vector<Buffer> expected = rig.make_snapshot(Pass::kForward);
  rig.queue_snapshot(Pass::kForward, expected);
  rig.context().synchronize();
  rig.reset();

  const TensorDesc& y = layer.outputs()[0];
  const int64_t channels = y.shape[1];
  const size_t bytes = use->desc.bytes();
  std::vector<float> found(bytes / sizeof(float)), again(found.size());
  for (std::vector<float>* each : {&found, &again}) {
    const PortMemory memory(use->desc);
    run_with(rig, Pass::kForward, {.y_moments = memory.tensor()});
    EXPECT_TRUE(rig.holds(Pass::kForward, expected)) << where << ": another y";
    EXPECT_EQ(memory.damage(), "") << where;
    copy_bytes(each->data(), Device::kCpu, memory.tensor().memory, Device::kGpu, bytes);
  }
  EXPECT_EQ(std::memcmp(found.data(), again.data(), bytes), 0) << where << ": not the same bits";

  const ChannelMoments at = ChannelMoments::at({use->desc, found.data()});
  const std::vector<Sums> of_y = moments_of(y, rig.outputs(Pass::kForward)[0].values);
  for (int64_t channel = 0; channel < channels; ++channel) {
    Sums all;
    for (int part = 0; part < at.parts; ++part) {
      const float* const sums = at.sums + 2 * (channel * at.parts + part);
      all = joined(all, {at.counts[part], sums[0], sums[1]});
    }
    const Sums& truth = of_y[static_cast<size_t>(channel)];
    if (!std::isfinite(truth.squares)) continue;
    EXPECT_EQ(all.count, truth.count) << where;
    EXPECT_NEAR(all.mean, truth.mean, 1e-6 * truth.size + 1e-30)
        << where << ": channel " << channel;
    // What the rounding of a mean adds to a square.
    const double rounded = std::pow(1e-6 * truth.size, 2) * truth.count;
    EXPECT_NEAR(all.squares, truth.squares, 1e-5 * truth.squares + rounded + 1e-30)
        << where << ": channel " << channel;
    if (testing::Test::HasFailure()) break;
  }
  return true;
}

TEST_F(MomentsOnGpu, AreThoseOfY) {
  std::set<std::string> found;
  for (const CasesOfType& row : layer_cases()) {
    if (row.type != "conv2d") continue;
    for (const LayerCase& c : row.cases) {
      for (const Math math : {Math::kFP32, Math::kTF32, Math::kBF16}) {
        LayerCase of_math = math == Math::kBF16 ? in_bf16(c) : c;
        of_math.options.math = math;
        const auto layer = make_layer(row.type, of_math);
        for (const ImplInfo& info : layer->implementations()) {
          if (family_of(info.id) != Family::kCustom) continue;
          if (layer->unsupported(info.id, Pass::kForward)) continue;
          if (examine(*layer, of_math, info.id)) {
            found.insert(std::string(info.id) + " " + std::string(to_string(of_math.options.math)) +
                         " " + std::string(to_string(layer->inputs()[0].layout)));
          }
          if (HasFailure()) return;
        }
      }
    }
  }
  for (const char* of :
       {"custom_wgmma bf16 nchw", "custom_wgmma bf16 nhwc", "custom_wgmma tf32 nchw",
        "custom_wgmma_3xtf32 fp32 nhwc", "custom_wgmma_halo bf16 nchw",
        "custom_wgmma_halo bf16 nhwc", "custom_wgmma_halo tf32 nchw", "custom_direct bf16 nchw",
        "custom_direct tf32 nchw", "custom_direct_3xtf32 fp32 nchw"}) {
    EXPECT_TRUE(found.contains(of)) << of;
  }
}

/// Normalises by moments of x that it finds itself, in so many parts, some of no values.
constexpr int64_t kParts = 37;

class OfGivenMoments : public DoubleBase {
 public:
  OfGivenMoments(std::unique_ptr<Implementation> sound, const TensorDesc& x)
      : DoubleBase(std::move(sound)),
        desc_(ChannelMoments::desc(x.shape[1], kParts)),
        memory_(Device::kGpu, desc_.bytes()) {}

  void run(Pass pass, const Run& run, const LayerTensors& t) override {
    if (pass != Pass::kForward || !run.training) return sound_->run(pass, run, t);
    const Tensor& x = t.x[0];
    const int64_t channels = x.desc.shape[1], count = x.elements() / channels;
    std::vector<std::vector<double>> of_channel(static_cast<size_t>(channels));
    for_each_value(x.desc, values_of(x, Device::kGpu), [&](int64_t channel, double value) {
      of_channel[static_cast<size_t>(channel)].push_back(value);
    });
    std::vector<float> floats(memory_.bytes() / sizeof(float));
    const ChannelMoments host = ChannelMoments::at({desc_, floats.data()});
    for (int64_t part = 0; part < kParts; ++part) {
      const int64_t begin = part * count / kParts, end = (part + 1) * count / kParts;
      host.counts[part] = static_cast<float>(end - begin);
      for (int64_t channel = 0; channel < channels && begin < end; ++channel) {
        const auto first = of_channel[static_cast<size_t>(channel)].begin();
        const Sums sums = moments_of({{end - begin, 1}}, {first + begin, first + end})[0];
        host.sums[2 * (channel * kParts + part)] = static_cast<float>(sums.mean);
        host.sums[2 * (channel * kParts + part) + 1] = static_cast<float>(sums.squares);
      }
    }
    copy_bytes(memory_.data(), Device::kGpu, floats.data(), Device::kCpu, memory_.bytes());
    Run of_given = run;
    of_given.ports.x_moments = {desc_, memory_.data()};
    const auto uses = sound_->ports(Pass::kForward, false);
    ASSERT_EQ(uses.size(), 1u);
    ASSERT_EQ(uses[0].port, &Ports::x_moments);
    sound_->run(pass, of_given, t);
  }

 private:
  const TensorDesc desc_;
  Buffer memory_;
};

TensorDesc input_of(const BatchNormProblem& problem) { return problem.x; }
TensorDesc input_of(const BatchNormReluPoolProblem& problem) { return problem.norm.x; }

/// The entry of `list` by that id, normalising by moments that it is given.
template <class P, std::vector<ImplEntry<P>>& (*list)(), bool cluster>
ImplEntry<P> entry_of_given() {
  static const ImplEntry<P> sound = *std::find_if(list().begin(), list().end(), [](auto& entry) {
    return entry.id == (cluster ? "custom_cluster" : "custom_welford");
  });
  ImplEntry<P> entry = sound;
  entry.id = double_id(Device::kGpu, cluster ? "cluster_of_given" : "welford_of_given");
  entry.make = [](const P& problem, Context& context) -> std::unique_ptr<Implementation> {
    return std::make_unique<OfGivenMoments>(sound.make(problem, context), input_of(problem));
  };
  return entry;
}

template <class P, std::vector<ImplEntry<P>>& (*list)()>
void examine_given(const std::vector<std::string_view>& types) {
  const InList<P> in_list(list(),
                          {entry_of_given<P, list, false>(), entry_of_given<P, list, true>()});
  for (const CasesOfType& row : layer_cases()) {
    if (std::find(types.begin(), types.end(), row.type) == types.end()) continue;
    for (const LayerCase& c : row.cases) {
      if (!c.training) continue;
      for (const bool bf16 : {false, true}) {
        if (bf16 && c.options.math != Math::kFP32) continue;
        LayerCase of_math = bf16 ? in_bf16(c) : c;
        of_math.forward_only = true;
        const CheckData data = make_check_data(row.type, of_math);
        const auto layer = make_layer(row.type, of_math);
        for (const char* name : {"welford_of_given", "cluster_of_given"}) {
          const std::string id = double_id(Device::kGpu, name);
          if (layer->unsupported(id, Pass::kForward)) continue;
          check_pass(*layer, of_math.name, id, Pass::kForward, data);
        }
      }
    }
  }
}

TEST_F(MomentsOnGpu, AreTakenByBatchNorm) {
  examine_given<BatchNormProblem, batch_norm_impls>({"batch_norm2d", "batch_norm1d"});
}
TEST_F(MomentsOnGpu, AreTakenByBatchNormWithRelu) {
  examine_given<BatchNormProblem, batch_norm_relu_impls>(
      {"batch_norm2d_relu", "batch_norm1d_relu"});
}
TEST_F(MomentsOnGpu, AreTakenByBatchNormWithReluAndPooling) {
  examine_given<BatchNormReluPoolProblem, batch_norm_relu_pool_impls>({"batch_norm2d_relu_pool"});
}

}  // namespace
}  // namespace duet
