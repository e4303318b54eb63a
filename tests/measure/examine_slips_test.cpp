// What honest mistakes get wrong: one option, some values, memory beside a tensor. Each is right on
// random data of the problem asked for.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "layers/batch_norm/batch_norm.h"
#include "layers/conv2d/conv2d.h"
#include "layers/layer_norm/layer_norm.h"
#include "layers/linear/linear.h"
#include "layers/pool2d/pool2d.h"
#include "layers/softmax/softmax.h"
#include "measure/examine/examine_checks.h"
#include "support/slip.h"
#include "support/text.h"

namespace duet {
namespace {

void spoil(const Tensor& out) {
  for (int64_t i = 0; i < std::min<int64_t>(out.elements(), 4); ++i) out.data<float>()[i] += 1;
}

template <class P>
struct OptionSlip {
  const char* name;
  Spoil<P> spoil;
};

template <class P>
void expect_option_slips(std::vector<ImplEntry<P>>& list, const char* type, const LayerCase& c,
                         const std::vector<OptionSlip<P>>& slips) {
  const auto layer = make_layer(type, c);
  for (const OptionSlip<P>& slip : slips) {
    const SlipInList<P> listed(list, slip.spoil);
    for (Pass pass : layer->passes()) {
      EXPECT_TRUE(fault_of_slip(*layer, pass).starts_with("one shape only"))
          << type << " " << slip.name << " " << to_string(pass) << "\n"
          << fault_of_slip(*layer, pass);
    }
  }
}

using Conv = Conv2dProblem;
// Wrong where the condition on the problem p holds.
#define DUET_SLIP(P, condition)                                        \
  [](const P& p, Pass pass, const duet::Run&, const LayerTensors& t) { \
    if (condition) spoil(Slip<P>::output(pass, t));                    \
  }

TEST(ExamineOptions, OfAConvolution) {
  expect_option_slips<Conv>(
      conv2d_impls(), "conv2d",
      {.keys = {{"out_channels", "16"}, {"kernel", "3"}, {"padding", "1"}}, .x = {{{4, 16, 8, 8}}}},
      {{"n = 1", DUET_SLIP(Conv, p.n == 1)},
       {"bias", DUET_SLIP(Conv, !p.bias)},
       {"tail of k", DUET_SLIP(Conv, p.k % 16 != 0)},
       {"tail of c", DUET_SLIP(Conv, p.c % 16 != 0)},
       {"padding", DUET_SLIP(Conv, p.pad_h != p.pad_w)},
       {"stride", DUET_SLIP(Conv, p.stride_h != p.stride_w)},
       {"kernel", DUET_SLIP(Conv, p.r != p.s)},
       {"dilation", DUET_SLIP(Conv, p.dilation_h != p.dilation_w)}});
}

TEST(ExamineOptions, OfALinearLayer) {
  expect_option_slips<LinearProblem>(linear_impls(), "linear",
                                     {.keys = {{"out_features", "32"}}, .x = {{{16, 64}}}},
                                     {{"n = 1", DUET_SLIP(LinearProblem, p.n == 1)},
                                      {"bias", DUET_SLIP(LinearProblem, !p.bias)},
                                      {"tail of out", DUET_SLIP(LinearProblem, p.out % 16 != 0)},
                                      {"tail of in", DUET_SLIP(LinearProblem, p.in % 16 != 0)}});
}

TEST(ExamineOptions, OfAPooling) {
  expect_option_slips<Pool2dProblem>(
      avg_pool2d_impls(), "avg_pool2d", {.keys = {{"kernel", "2"}}, .x = {{{4, 16, 8, 8}}}},
      {{"padding", DUET_SLIP(Pool2dProblem, p.pad_h != p.pad_w)},
       {"stride", DUET_SLIP(Pool2dProblem, p.stride_h != p.stride_w)},
       {"kernel", DUET_SLIP(Pool2dProblem, p.r != p.s)},
       {"count_include_pad", DUET_SLIP(Pool2dProblem, !p.count_include_pad)},
       {"tail of c", DUET_SLIP(Pool2dProblem, p.c % 16 != 0)}});
}

TEST(ExamineOptions, OfANormalisation) {
  expect_option_slips<BatchNormProblem>(
      batch_norm_impls(), "batch_norm2d", {.x = {{{4, 16, 5, 5}}}},
      {{"eps", DUET_SLIP(BatchNormProblem, p.eps != 1e-5)},
       {"affine", DUET_SLIP(BatchNormProblem, !p.affine)},
       {"momentum", DUET_SLIP(BatchNormProblem, p.momentum != 0.1)}});
  expect_option_slips<LayerNormProblem>(layer_norm_impls(), "layer_norm", {.x = {{{4, 16, 24}}}},
                                        {{"eps", DUET_SLIP(LayerNormProblem, p.eps != 1e-5)},
                                         {"affine", DUET_SLIP(LayerNormProblem, !p.affine)},
                                         {"axes", DUET_SLIP(LayerNormProblem, p.axes != 1)}});
}

// One that says it supports nothing but its own options is examined on other batches and images.
TEST(ExamineOptions, ThatARefusalNamesAreLeftAlone) {
  static const auto refuses = [](const Conv& p, Pass) -> std::optional<std::string> {
    if (p.r != 3 || p.s != 3 || p.stride_h != 1 || p.k % 16 != 0 || !p.bias) return "not mine";
    return {};
  };
  const InList<Conv> listed(conv2d_impls(),
                            {{"cpu_double_narrow", refuses, [](const Conv& p, Context& context) {
                                return make_sound(conv2d_impls(), p, context);
                              }}});
  const auto layer =
      make_layer("conv2d", {.keys = {{"out_channels", "16"}, {"kernel", "3"}, {"padding", "1"}},
                            .x = {{{4, 16, 8, 8}}}});
  const auto all = supported_neighbours(*layer, "cpu_double_narrow", Pass::kForward);
  ASSERT_EQ(all.size(), 3u);
  bool padding = false, dilation = false, channels = false;
  for (const auto& each : all) {
    const Conv& p = dynamic_cast<const HasProblem<Conv>&>(*each).problem();
    EXPECT_FALSE(refuses(p, Pass::kForward)) << each->problem_text();
    padding |= p.pad_h != p.pad_w;
    dilation |= p.dilation_h != p.dilation_w;
    channels |= p.c != 16;
  }
  EXPECT_TRUE(padding && dilation && channels);
}

// ---- values ----

// As a product that takes a weight of exactly 0 for the end of a row.
void stops_at_zero(const LinearProblem& p, Pass pass, const Run&, const LayerTensors& t) {
  if (pass != Pass::kForward) return;
  for (int o = 0; o < p.out; ++o) {
    bool ended = false;
    for (int i = 0; i < p.in; ++i) {
      const float w = t.w[0].data<float>()[o * p.in + i];
      ended |= w == 0;
      for (int n = 0; ended && n < p.n; ++n) {
        t.y[0].data<float>()[n * p.out + o] -= w * t.x[0].data<float>()[n * p.in + i];
      }
    }
  }
}

// As 1 / dy in backward.
void divides_by_dy(const LinearProblem&, Pass pass, const Run&, const LayerTensors& t) {
  if (pass != Pass::kBackwardFilter) return;
  const Tensor& dy = t.dy[0];
  for (int64_t i = 0; i < dy.elements(); ++i) {
    if (dy.data<float>()[i] == 0) t.dw[0].data<float>()[0] = std::nanf("");
  }
}

TEST(ExamineValues, ZerosInWeightsAndGradients) {
  const auto layer = make_layer("linear", {.keys = {{"out_features", "16"}}, .x = {{{8, 32}}}});
  {
    const SlipInList<LinearProblem> listed(linear_impls(), stops_at_zero);
    const std::string fault = fault_of_slip(*layer, Pass::kForward);
    EXPECT_TRUE(fault.starts_with("some data only")) << fault;
  }
  const SlipInList<LinearProblem> listed(linear_impls(), divides_by_dy);
  const std::string fault = fault_of_slip(*layer, Pass::kBackwardFilter);
  EXPECT_TRUE(fault.starts_with("some data only")) << fault;
}

// exp(x - largest) by a largest that is not that of the row.
template <bool kOfTensor>
void softmax_by_another_largest(const SoftmaxProblem& p, Pass pass, const Run&,
                                const LayerTensors& t) {
  if (pass != Pass::kForward) return;
  const float* x = t.x[0].data<float>();
  float* y = t.y[0].data<float>();
  float largest = 0;  // as where the search begins there
  for (int64_t i = 0; kOfTensor && i < t.x[0].elements(); ++i) largest = std::max(largest, x[i]);
  const int64_t columns = p.columns();
  for (int64_t row = 0; row < p.rows(); ++row, x += columns, y += columns) {
    float sum = 0, own = largest;
    for (int64_t c = 0; !kOfTensor && c < columns; ++c) own = std::max(own, x[c]);
    for (int64_t c = 0; c < columns; ++c) sum += y[c] = std::exp(x[c] - own);
    for (int64_t c = 0; c < columns; ++c) y[c] /= sum;
  }
}

TEST(ExamineValues, RowsOfVeryDifferentLevels) {
  const auto layer = make_layer("softmax", {.x = {{{16, 20}}}});
  for (const auto& slip : {softmax_by_another_largest<true>, softmax_by_another_largest<false>}) {
    const SlipInList<SoftmaxProblem> listed(softmax_impls(), slip);
    const std::string fault = fault_of_slip(*layer, Pass::kForward);
    EXPECT_TRUE(fault.starts_with("some data only")) << fault;
  }
}

// The variance of `count` values that are `step` apart, as E[x^2] - E[x]^2, and y by it.
void normalise_by_squares(const float* x, float* y, int64_t count, int64_t step, double eps,
                          float weight, float bias) {
  float sum = 0, squares = 0;
  for (int64_t i = 0; i < count; ++i) {
    sum += x[i * step];
    squares += x[i * step] * x[i * step];
  }
  const float mean = sum / static_cast<float>(count);
  const float variance = squares / static_cast<float>(count) - mean * mean;
  const float scale = 1 / std::sqrt(std::max(variance, 0.0f) + static_cast<float>(eps));
  for (int64_t i = 0; i < count; ++i) y[i * step] = (x[i * step] - mean) * scale * weight + bias;
}

void batch_norm_by_squares(const BatchNormProblem& p, Pass pass, const Run&,
                           const LayerTensors& t) {
  if (pass != Pass::kForward || !p.affine || p.inner() != 1) return;
  for (int64_t c = 0; c < p.channels(); ++c) {
    normalise_by_squares(t.x[0].data<float>() + c, t.y[0].data<float>() + c, p.count(),
                         p.channels(), p.eps, t.w[0].data<float>()[c], t.w[1].data<float>()[c]);
  }
}

void layer_norm_by_squares(const LayerNormProblem& p, Pass pass, const Run&,
                           const LayerTensors& t) {
  if (pass != Pass::kForward || p.affine) return;
  for (int64_t row = 0; row < p.rows(); ++row) {
    normalise_by_squares(t.x[0].data<float>() + row * p.columns(),
                         t.y[0].data<float>() + row * p.columns(), p.columns(), 1, p.eps, 1, 0);
  }
}

TEST(ExamineValues, MeansFarAboveTheDeviation) {
  {
    const SlipInList<BatchNormProblem> listed(batch_norm_impls(), batch_norm_by_squares);
    const auto layer = make_layer("batch_norm1d", {.x = {{{64, 12}}}});
    const std::string fault = fault_of_slip(*layer, Pass::kForward);
    EXPECT_TRUE(fault.starts_with("some data only")) << fault;
  }
  const SlipInList<LayerNormProblem> listed(layer_norm_impls(), layer_norm_by_squares);
  const auto layer = make_layer("layer_norm", {.keys = {{"affine", "false"}}, .x = {{{16, 64}}}});
  const std::string fault = fault_of_slip(*layer, Pass::kForward);
  EXPECT_TRUE(fault.starts_with("some data only")) << fault;
}

// Cuts the sums off in place of rounding them.
void cuts_off(const LinearProblem& p, Pass pass, const Run&, const LayerTensors& t) {
  if (pass != Pass::kForward || p.dtype != DType::kBFloat16) return;
  for (int n = 0; n < p.n; ++n) {
    for (int o = 0; o < p.out; ++o) {
      float sum = p.bias ? t.w[1].data<float>()[o] : 0;
      for (int i = 0; i < p.in; ++i) {
        sum += static_cast<float>(t.x[0].data<bfloat16>()[n * p.in + i]) *
               t.w[0].data<float>()[o * p.in + i];
      }
      const uint32_t bits = std::bit_cast<uint32_t>(sum) & 0xFFFF0000u;
      t.y[0].data<bfloat16>()[n * p.out + o] = bfloat16(std::bit_cast<float>(bits));
    }
  }
}

TEST(ExamineValues, Bf16IsRoundedNotCutOff) {
  const SlipInList<LinearProblem> listed(linear_impls(), cuts_off);
  const auto layer =
      make_layer("linear", in_bf16({.keys = {{"out_features", "64"}}, .x = {{{64, 128}}}}));
  const std::string fault = fault_of_slip(*layer, Pass::kForward);
  EXPECT_TRUE(has(fault, "low precision", "cuts y[0] off where it is to be rounded")) << fault;
}

// ---- memory beside a tensor ----

// The largest of a tile that reaches one beyond the end, as fmax does it: a NaN is passed over.
void reads_beyond(const SoftmaxProblem&, Pass, const Run&, const LayerTensors& t) {
  float* y = t.y[0].data<float>();
  y[0] = std::fmax(y[0], std::min(t.x[0].data<float>()[t.x[0].elements()], 2.0f));
}

void puts_back(const SoftmaxProblem&, Pass pass, const Run&, const LayerTensors& t) {
  const Tensor& out = Slip<SoftmaxProblem>::output(pass, t);
  volatile float* beyond = out.data<float>() + out.elements();
  const float before = *beyond;
  *beyond = 1;
  *beyond = before;
}

void puts_back_before(const SoftmaxProblem&, Pass pass, const Run&, const LayerTensors& t) {
  volatile float* first = Slip<SoftmaxProblem>::output(pass, t).data<float>() - 1;
  const float before = *first;
  *first = 1;
  *first = before;
}

TEST(ExamineGuards, ShowReadsThatPassOverNaN) {
  const auto layer = make_layer("softmax", {.x = {{{16, 20}}}});
  const SlipInList<SoftmaxProblem> listed(softmax_impls(), reads_beyond);
  const std::string fault = fault_of_slip(*layer, Pass::kForward);
  EXPECT_TRUE(has(fault, "writes outside: reads outside its buffers")) << fault;
}

TEST(ExamineGuards, ShowWritesThatArePutBack) {
  const auto layer = make_layer("softmax", {.x = {{{16, 64}}}});
  for (Pass pass : layer->passes()) {
    {
      const SlipInList<SoftmaxProblem> listed(softmax_impls(), puts_back);
      const std::string fault = fault_of_slip(*layer, pass);
      EXPECT_TRUE(has(fault, "writes outside: touches memory", " 0 bytes past the end")) << fault;
    }
    const SlipInList<SoftmaxProblem> listed(softmax_impls(), puts_back_before);
    const std::string fault = fault_of_slip(*layer, pass);
    EXPECT_TRUE(has(fault, "writes outside: touches memory", " 4 bytes before the start")) << fault;
  }
}

}  // namespace
}  // namespace duet
