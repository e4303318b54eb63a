#include "support/layer_driver.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>

#include "layers/layer_cases.h"
#include "layers/layers.h"
#include "measure/check/agreement.h"
#include "support/test_summary.h"

namespace duet {

Context& test_context(Device device) {
  static std::unique_ptr<Context> contexts[2];
  auto& context = contexts[device == Device::kGpu];
  if (!context) context = std::make_unique<Context>(device);
  return *context;
}

namespace {

constexpr std::string_view kReference = "cpu_reference";

std::vector<Pass> passes_of(const Layer& layer, const LayerCase& c) {
  return c.forward_only ? std::vector<Pass>{Pass::kForward} : layer.passes();
}

/// Of the case that was asked for last: the tests of one case follow each other.
const CheckData& check_data_of(std::string_view type, const LayerCase& c) {
  static const LayerCase* last = nullptr;
  static CheckData check_data;
  if (last != &c) {
    check_data = make_check_data(type, c);
    last = &c;
  }
  return check_data;
}

class LayerTest : public testing::Test {
 public:
  LayerTest(Device device, std::function<void()> body) : device_(device), body_(std::move(body)) {}
  void SetUp() override {
    if (device_ == Device::kGpu && !gpu_available()) GTEST_SKIP() << gpu_missing_reason();
  }
  void TestBody() override { body_(); }

 private:
  Device device_;
  std::function<void()> body_;
};

void add_test(std::string_view type, const std::string& name, Device device,
              std::function<void()> body) {
  testing::RegisterTest(
      std::string(type).c_str(), name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
      [device, body = std::move(body)]() -> testing::Test* { return new LayerTest(device, body); });
}

void register_case(std::string_view type, const LayerCase& c, Device device) {
  std::unique_ptr<Layer> layer;
  try {
    layer = make_layer(type, c);
  } catch (const std::exception& e) {
    const std::string what = e.what();
    add_test(type, "bind/" + c.name, Device::kCpu, [what] { FAIL() << what; });
    return;
  }
  if (layer->passes().empty()) return;
  const bool bf16 = c.options.math == Math::kBF16;
  for (const ImplInfo& info : layer->implementations()) {
    if (device_of(family_of(info.id)) != device) continue;
    if (bf16 && layer->unsupported(info.id, Pass::kForward)) continue;
    for (Pass pass : passes_of(*layer, c)) {
      const auto& only = c.forward_only_by;
      if (pass != Pass::kForward && std::find(only.begin(), only.end(), info.id) != only.end()) {
        continue;
      }
      add_test(type, std::string(to_string(pass)) + "/" + std::string(info.id) + "/" + c.name,
               device, [=, &c] {
                 check_pass(*make_layer(type, c), c.name, info.id, pass, check_data_of(type, c));
               });
    }
  }
  if (device != Device::kCpu) return;
  if (c.gradient_check && !c.forward_only) {
    add_test(type, "gradient/cpu_reference/" + c.name, device,
             [=, &c] { check_gradient(type, c); });
  }
  if (layer->inputs()[0].shape.rank() == 4 && !bf16) {
    add_test(type, "layouts/cpu_reference/" + c.name, device, [=, &c] { check_layouts(type, c); });
  }
}

}  // namespace

CheckData make_check_data(std::string_view type, const LayerCase& c) {
  const auto layer = make_layer(type, c);
  CheckData check_data{.situation = c.situation(), .data = make_data(c, *layer), .exact = c.exact};
  check_data.expected = run_reference(*layer, check_data.data, c.situation(), passes_of(*layer, c));
  return check_data;
}

void check_pass(const Layer& layer, const std::string& case_name, std::string_view id, Pass pass,
                const CheckData& check_data) {
  const std::string where = std::string(layer.type()) + " " + std::string(id) + " " +
                            std::string(to_string(pass)) + ", case " + case_name + ", " +
                            layer.problem_text();
  if (const auto reason = layer.unsupported(id, pass)) {
    ASSERT_FALSE(reason->empty()) << where << ": refused without a reason";
    GTEST_SKIP() << kUnsupported << *reason;
  }
  const Examination found = check(layer, id, pass, check_data,
                                  test_context(device_of(family_of(id))), CheckLevel::kAgreement);
  double share = 0;
  for (const TensorResult& tensor : found.tensors) {
    share = std::max(share, tensor.agreement.share_of_limit);
  }
  testing::Test::RecordProperty("percent_of_limit", std::to_string(100 * share));
  for (const Fault& fault : found.faults) {
    ADD_FAILURE() << where << "\n  " << to_string(fault.kind) << ": it " << fault.text;
  }
}

void check_gradient(std::string_view type, const LayerCase& original) {
  LayerCase c = original;
  c.data = Data::kDistinct;  // no kink within reach of the step
  c.scale = 1;
  for (Data& data : c.data_of) data = data == Data::kUnit ? Data::kUnit : Data::kDistinct;
  const auto layer = make_layer(type, c, DType::kFloat64);
  LayerData data = make_data(c, *layer);
  CaseRig runner(*layer, c, kReference, data, layer->passes());

  // loss = sum of dy * y, whose gradients are what the backward passes give.
  const auto loss = [&] {
    runner.load(data);
    runner.run(Pass::kForward);
    const auto y = runner.outputs(Pass::kForward);
    double sum = 0;
    for (size_t i = 0; i < data.dy.size(); ++i) {
      for (size_t j = 0; j < data.dy[i].size(); ++j) sum += data.dy[i][j] * y[i].values[j];
    }
    return sum;
  };
  const auto differentiate = [&](std::vector<double>& values, const NamedValues& gradient) {
    constexpr double kStep = 1e-5;
    constexpr size_t kMost = 60;  // elements, spread over the tensor
    ASSERT_EQ(values.size(), gradient.values.size());
    const size_t stride = std::max<size_t>(1, values.size() / kMost);
    for (size_t i = 0; i < values.size(); i += stride) {
      const double value = values[i];
      values[i] = value + kStep;
      const double above = loss();
      values[i] = value - kStep;
      const double below = loss();
      values[i] = value;
      const double numeric = (above - below) / (2 * kStep);
      ASSERT_NEAR(gradient.values[i], numeric, 1e-6 + 1e-5 * std::abs(numeric))
          << type << " cpu_reference, case " << c.name << ", " << layer->problem_text() << "\n  "
          << gradient.name << " at " << index_text(gradient.desc, static_cast<int64_t>(i));
    }
  };

  runner.run(Pass::kForward);
  std::vector<NamedValues> dx, dw;
  for (Pass pass : layer->passes()) {
    if (pass == Pass::kForward) continue;
    runner.run(pass);
    for (NamedValues& output : runner.outputs(pass)) {
      (output.parameter ? dw : dx).push_back(std::move(output));
    }
  }
  const auto inputs = runner.differentiable_inputs();
  for (size_t i = 0; i < inputs.size(); ++i) differentiate(data.x[inputs[i]], dx[i]);
  size_t next = 0;
  for (size_t i = 0; i < data.w.size(); ++i) {
    if (layer->parameters()[i].trained()) differentiate(data.w[i], dw[next++]);
  }
}

void check_layouts(std::string_view type, const LayerCase& c) {
  LayerCase other = c;
  for (TensorDesc& x : other.x) {
    x.layout = x.layout == Layout::kNCHW ? Layout::kNHWC : Layout::kNCHW;
  }
  const auto layer = make_layer(type, c);
  const auto turned = make_layer(type, other, DType::kFloat64);
  const CheckData& check_data = check_data_of(type, c);
  const auto passes = passes_of(*layer, c);
  CaseRig runner(*turned, other, kReference, relayout(check_data.data, *layer, *turned), passes);
  for (Pass pass : passes) {
    runner.run(pass);
    const auto& expected = check_data.expected.of(pass);
    const auto found = runner.outputs(pass);
    for (size_t i = 0; i < found.size(); ++i) {
      // Sums may run in another order.
      const Agreement agreement =
          compare(expected[i].values, relayout(found[i].values, found[i].desc, expected[i].desc),
                  Limit{.kind = Limit::Kind::kElementwise, .rtol = 1e-10, .atol = 1e-10});
      EXPECT_TRUE(agreement.agrees)
          << type << " cpu_reference " << to_string(pass) << " differs between layouts, case "
          << c.name << ", " << layer->problem_text() << "\n  " << found[i].name << ": "
          << agreement.to_string();
    }
  }
}

void register_layer_tests(Device device) {
  static std::deque<LayerCase> bf16_cases;  // the tests refer to them
  for (const CasesOfType& row : layer_cases()) {
    if (!find_layer_type(row.type)) continue;
    for (const LayerCase& c : row.cases) {
      register_case(row.type, c, device);
      if (c.options.math == Math::kFP32) {
        register_case(row.type, bf16_cases.emplace_back(in_bf16(c)), device);
      }
    }
  }
}

}  // namespace duet
