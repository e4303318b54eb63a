// Every layer against PyTorch in double (tests/pytorch/make_layers.py): the reference in double, and
// each implementation of this machine within what its rounding may be. The losses and metrics
// are in row_loss_test.cpp and pair_test.cpp.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "layers/layers.h"
#include "measure/check/check_set.h"
#include "support/case_rig.h"
#include "test_paths.h"

namespace duet {
namespace {

using nlohmann::json;

constexpr double kDigits = 1e-10;  // the fixture has 11

json read(const std::string& name) {
  return json::parse(std::ifstream(DUET_SOURCE_DIR "/tests/pytorch/" + name));
}

// 32 bits of a number, as in fixture.py.
uint32_t hashed(uint32_t x) {
  x = (x ^ x >> 16) * 0x7FEB352Du;
  x = (x ^ x >> 15) * 0x846CA68Bu;
  return x ^ x >> 16;
}

// Values that are in the order of N C H W, as `desc` stores them.
std::vector<double> stored(const std::vector<double>& values, const TensorDesc& desc) {
  TensorDesc logical = desc;
  logical.layout = Layout::kNCHW;
  return relayout(values, logical, desc);
}

// The tensors of make_layers.py.
class Counter {
 public:
  std::vector<double> values(const TensorDesc& desc, double scale = 1, double shift = 0) {
    std::vector<double> made;
    for (int64_t i = 0; i < desc.elements(); ++i) {
      made.push_back(shift + scale * ((hashed(next_++) >> 9) * 0x1p-22 - 1));
    }
    return stored(made, desc);
  }

 private:
  uint32_t next_ = 0;
};

LayerCase case_of(const json& expected, Layout layout) {
  LayerCase c{.training = expected["training"]};
  for (const auto& [key, value] : expected["keys"].items()) {
    c.keys.emplace_back(key, value.is_string() ? value.get<std::string>() : value.dump());
  }
  for (const json& sizes : expected["x"]) {
    const auto s = sizes.get<std::vector<int64_t>>();
    if (s.size() == 4) c.x.push_back({{s[0], s[1], s[2], s[3]}, DType::kFloat32, layout});
    if (s.size() == 2) c.x.push_back({{s[0], s[1]}});
  }
  return c;
}

LayerData data_of(const json& expected, const Layer& layer) {
  Counter counter;
  LayerData data;
  for (const TensorDesc& x : layer.inputs()) {
    data.x.push_back(counter.values(x, expected["scale"]));
  }
  for (const ParameterSpec& w : layer.parameters()) {
    const bool variance = w.name == "running_var";
    data.w.push_back(counter.values(w.desc, variance ? 0.5 : 1, variance ? 1.5 : 0));
  }
  for (const TensorDesc& y : layer.outputs()) data.dy.push_back(counter.values(y));
  return data;
}

// One case in one layout.
struct Fixture {
  Fixture(const json& from, Layout layout)
      : c(case_of(from, layout)),
        layer(make_layer(from["type"].get<std::string>(), c)),
        outputs(from["outputs"]) {
    data = data_of(from, *layer);
    reference = run_reference(*layer, data, c.situation(), layer->passes(), nullptr, Device::kCpu);
    what = from["type"].get<std::string>() + " " + layer->problem_text();
  }

  // What PyTorch has in the place of the reference's values.
  std::vector<NamedValues> expected(Pass pass) const {
    std::vector<NamedValues> all = reference.of(pass);
    for (NamedValues& each : all) {
      each.values = stored(outputs.at(each.name).get<std::vector<double>>(), each.desc);
    }
    return all;
  }

  LayerCase c;
  std::unique_ptr<Layer> layer;
  const json& outputs;
  LayerData data;
  Reference reference;
  std::string what;
};

class PyTorch : public testing::TestWithParam<Layout> {
 protected:
  void for_each_case(const std::function<void(const Fixture&)>& visit) const {
    const json all = read("layers.json");
    for (const json& each : all["cases"]) {
      if (GetParam() == Layout::kNHWC && each["x"][0].size() != 4) continue;
      const Fixture fixture(each, GetParam());
      SCOPED_TRACE(fixture.what);
      visit(fixture);
    }
  }
};

TEST_P(PyTorch, ReferenceHasTheSameInDouble) {
  for_each_case([](const Fixture& fixture) {
    for (const auto& [pass, found] : fixture.reference.outputs) {
      const std::vector<NamedValues> expected = fixture.expected(pass);
      for (size_t i = 0; i < found.size(); ++i) {
        SCOPED_TRACE(found[i].name);
        ASSERT_EQ(found[i].values.size(), expected[i].values.size());
        for (size_t j = 0; j < found[i].values.size(); ++j) {
          const double value = expected[i].values[j];
          EXPECT_NEAR(found[i].values[j], value, kDigits * (1 + std::abs(value))) << j;
        }
      }
    }
  });
}

TEST_P(PyTorch, ImplementationsRoundNoMoreThanTheyMay) {
  int compared = 0;
  for_each_case([&](const Fixture& fixture) {
    const Layer& layer = *fixture.layer;
    for (const ImplInfo& info : layer.implementations()) {
      if (device_of(family_of(info.id)) == Device::kGpu && !gpu_available()) continue;
      std::vector<Pass> passes = layer.passes();
      std::erase_if(passes, [&](Pass pass) { return layer.unsupported(info.id, pass); });
      if (passes.empty() || passes[0] != Pass::kForward) continue;
      CaseRig rig(layer, fixture.c, info.id, fixture.data, passes);
      for (Pass pass : passes) {
        try {
          rig.run(pass);
        } catch (const UnsupportedError&) {  // of cuDNN's batch norm
          EXPECT_TRUE(!fixture.c.training && pass != Pass::kForward) << info.id;
          continue;
        }
        const std::vector<NamedValues> expected = fixture.expected(pass);
        const std::vector<NamedValues> found = rig.outputs(pass);
        ASSERT_EQ(found.size(), expected.size());
        for (size_t i = 0; i < found.size(); ++i) {
          const TensorResult result = hold_to(expected[i], found[i], layer, pass);
          EXPECT_TRUE(result.agreement.agrees)
              << info.id << " " << result.name << " " << result.agreement.to_string();
          ++compared;
        }
      }
    }
  });
  EXPECT_GT(compared, 100);
}

INSTANTIATE_TEST_SUITE_P(, PyTorch, testing::Values(Layout::kNCHW, Layout::kNHWC),
                         [](const auto& info) { return std::string(to_string(info.param)); });

TEST(PyTorchFixtures, HoldEveryLayerType) {
  std::set<std::string> covered;
  for (const char* name : {"layers.json", "losses.json", "pairs.json"}) {
    const json all = read(name);
    for (const json& each : all["cases"]) covered.insert(each["type"].get<std::string>());
  }
  for (const LayerType* type : layer_types()) {
    if (type->name == "flatten") continue;  // moves nothing
    if (type->name == "ssim") continue;     // PyTorch has none; ssim_test.cpp has scikit-image's
    EXPECT_TRUE(covered.count(std::string(type->name))) << type->name;
  }
}

}  // namespace
}  // namespace duet
