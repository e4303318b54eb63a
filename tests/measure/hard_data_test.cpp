#include "measure/examine/hard_data.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/storage.h"
#include "layers/activation/activation.h"
#include "layers/softmax_cross_entropy/softmax_cross_entropy.h"
#include "measure/examine/examine.h"
#include "support/case_rig.h"
#include "support/double_base.h"

namespace duet {
namespace {

/// A sound implementation that `slip` spoils: before a run it may change x, behind it y.
class Slip : public DoubleBase {
 public:
  using Change = void (*)(const Tensor& tensor, const Tensor& x);
  Slip(std::unique_ptr<Implementation> sound, Change change_x, Change change_y)
      : DoubleBase(std::move(sound)), change_x_(change_x), change_y_(change_y) {}
  void run(Pass pass, const Run& run, const LayerTensors& t) override {
    LayerTensors changed = t;
    for (auto* tensor : {&changed.x[0], &changed.y[0]}) {
      if (!change_x_ || (tensor == &changed.y[0] && pass == Pass::kForward)) continue;
      Buffer& copy = copies_[tensor == &changed.y[0]];
      copy = Buffer(Device::kCpu, tensor->bytes());
      run.context.queue_copy(copy.data(), tensor->memory, tensor->bytes());
      tensor->memory = copy.data();
      change_x_(*tensor, t.x[0]);
    }
    sound_->run(pass, run, changed);
    if (change_y_ && pass == Pass::kForward) change_y_(t.y[0], t.x[0]);
  }

 private:
  const Change change_x_, change_y_;
  Buffer copies_[2];
};

void small_is_zero(const Tensor& tensor, const Tensor&) {
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    float& value = tensor.data<float>()[i];
    if (std::abs(value) < 1e-6f) value = 0;
  }
}

// What max(x, 0) makes of it where it is written x > 0 ? x : 0.
void nan_is_zero(const Tensor& y, const Tensor&) {
  for (int64_t i = 0; i < y.elements(); ++i) {
    float& value = y.data<float>()[i];
    if (std::isnan(value)) value = 0;
  }
}

// As where exp(x) is taken without subtracting the largest of a row.
void exp_overflows(const Tensor& y, const Tensor& x) {
  for (int64_t i = 0; i < x.elements(); ++i) {
    if (x.data<float>()[i] > 88.7f) y.data<float>()[0] = std::nanf("");
  }
}

template <class P, Slip::Change change_x, Slip::Change change_y>
void check_slip(std::vector<ImplEntry<P>>& list, const char* type, const LayerCase& c, Pass pass) {
  static auto& made_from = list;
  const InList<P> listed(
      list, {{"cpu_double_slip", supports_all,
              [](const P& problem, Context& context) -> std::unique_ptr<Implementation> {
                return std::make_unique<Slip>(made_from.front().make(problem, context), change_x,
                                              change_y);
              }}});
  const auto layer = make_layer(type, c);
  const CheckData check_data = make_check_data(*layer, random_data(*layer, 1), {}, {pass});
  const Examination found =
      check(*layer, "cpu_double_slip", pass, check_data, test_context(Device::kCpu));
  ASSERT_FALSE(found.passed());
  EXPECT_EQ(to_string(found.faults[0].kind), "some data only") << found.faults[0].text;
}

TEST(HardData, FindsAReluWhoseGradientHasAThreshold) {
  check_slip<ActivationProblem, small_is_zero, nullptr>(relu_impls(), "relu", {.x = {{{16, 20}}}},
                                                        Pass::kBackward);
}

TEST(HardData, FindsAReluThatDropsNaN) {
  check_slip<ActivationProblem, nullptr, nan_is_zero>(relu_impls(), "relu", {.x = {{{16, 20}}}},
                                                      Pass::kForward);
}

TEST(HardData, FindsASoftmaxThatOverflows) {
  check_slip<SoftmaxCrossEntropyProblem, nullptr, exp_overflows>(
      softmax_cross_entropy_impls(), "softmax_cross_entropy",
      {.x = {{{16, 10}}, {{16}, DType::kInt32}}}, Pass::kForward);
}

// So that a run in bfloat16 and its reference in double start from the same numbers.
TEST(HardData, IsWhatTheLayerStoresExactly) {
  const LayerCase conv{.keys = {{"out_channels", "4"}, {"kernel", "3"}}, .x = {{{2, 3, 8, 8}}}};
  const auto layer = make_layer("conv2d", in_bf16(conv));
  for (const LayerData& data : {hard_data(*layer, false, 3), random_data(*layer, 3)}) {
    const auto expect_exact = [](const std::vector<double>& values, DType dtype) {
      for (double v : values) {
        if (std::isnan(v)) continue;
        ASSERT_EQ(v, rounded_to(dtype, v));
      }
    };
    expect_exact(data.x[0], DType::kBFloat16);
    expect_exact(data.dy[0], DType::kBFloat16);
    expect_exact(data.w[0], DType::kFloat32);
    EXPECT_NE(data.w[0][0], rounded_to(DType::kBFloat16, data.w[0][0]));
  }
}

TEST(HardData, ShrinksEverySecondChannel) {
  const auto layer = make_layer(
      "conv2d", {.keys = {{"out_channels", "4"}, {"kernel", "3"}}, .x = {{{2, 3, 8, 8}}}});
  const LayerData data = hard_data(*layer, true, 3);
  double largest[4] = {};
  for (size_t i = 0; i < data.w[0].size(); ++i) {
    largest[i / 27] = std::max(largest[i / 27], std::abs(data.w[0][i]));
  }
  for (int k : {0, 2}) EXPECT_GT(largest[k], 0.05);
  for (int k : {1, 3}) EXPECT_LT(largest[k], 1e-6);
  for (double x : data.x[0]) EXPECT_TRUE(std::isfinite(x));
}

}  // namespace
}  // namespace duet
