// Optimizers against PyTorch's trajectories (tests/pytorch/make_optimizers.py), on every device;
// what is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "device/device.h"
#include "net/yaml.h"
#include "optim/optimizer.h"
#include "support/text.h"
#include "test_paths.h"

namespace duet {
namespace {

using nlohmann::json;

std::unique_ptr<Optimizer> read(const std::string& yaml) {
  ConfigNode config = read_yaml(yaml, "optimizer.yaml");
  ConfigErrors errors("optimizer.yaml");
  ConfigReader reader(config, "optimizer", errors);
  auto optimizer = read_optimizer(reader);
  errors.raise_if_any();
  return optimizer;
}

// The parameters of the fixture, each at a multiple of 256 bytes.
class Trajectory {
 public:
  Trajectory(const Optimizer& optimizer, const json& shapes, Device device) : context_(device) {
    int64_t end = 0;
    for (const json& sizes : shapes) {
      const auto s = sizes.get<std::vector<int64_t>>();
      Shape shape{s[0]};
      if (s.size() == 2) shape = {s[0], s[1]};
      if (s.size() == 4) shape = {s[0], s[1], s[2], s[3]};
      tensors_.parameters.push_back({end, shape});
      end += (shape.elements() + 63) / 64 * 64;
    }
    w_.resize(static_cast<size_t>(end));
    for_each([&](int64_t i, size_t at) { w_[at] = static_cast<float>(std::sin(1.0 + i)); });
    const auto take = [&] {
      memory_.emplace_back(device, w_.size() * sizeof(float));
      fill_bytes(memory_.back().data(), device, 0, memory_.back().bytes());
      return Tensor{{{end}}, memory_.back().data()};
    };
    tensors_.w = take();
    tensors_.dw = take();
    for (size_t i = 0; i < optimizer.state_names().size(); ++i) tensors_.state.push_back(take());
    tensors_.ema = take();
    put(tensors_.w, w_);
    update_ = optimizer.bind(context_, tensors_);
    state_.learning_rate = static_cast<float>(optimizer.learning_rate());
  }

  /// After a loss that is not finite.
  void restart() { state_.halted = 0; }
  void step(float loss = 1.0f) {
    w_ = get(tensors_.w);
    std::vector<float> dw(w_.size());
    const double t = static_cast<double>(state_.step);
    for_each([&](int64_t i, size_t at) {
      dw[at] = static_cast<float>(0.3 * w_[at] + std::sin(1.7 * static_cast<double>(i) + 0.9 * t));
    });
    put(tensors_.dw, dw);
    const Device device = context_.device();
    const int32_t hits[] = {3, 4};
    const Buffer state(device, sizeof state_), loss_memory(device, sizeof loss),
        hits_memory(device, sizeof hits);
    copy_bytes(state.data(), device, &state_, Device::kCpu, sizeof state_);
    copy_bytes(loss_memory.data(), device, &loss, Device::kCpu, sizeof loss);
    copy_bytes(hits_memory.data(), device, hits, Device::kCpu, sizeof hits);
    auto* const of_step = static_cast<StepState*>(state.data());
    const StepEnd end{static_cast<const float*>(loss_memory.data()),
                      {.learning_rate = state_.learning_rate},
                      2,
                      {{static_cast<const float*>(loss_memory.data()),
                        static_cast<const int32_t*>(hits_memory.data())},
                       {.hits = static_cast<const int32_t*>(hits_memory.data())}}};
    update_->queue(of_step, end);
    StepState expected = state_;
    advance_state(expected, {&loss, end.schedule, 2, {{&loss, hits}, {.hits = hits}}});
    copy_bytes(&state_, Device::kCpu, state.data(), device, sizeof state_);
    EXPECT_EQ(state_.step, expected.step);
    EXPECT_EQ(state_.halted, expected.halted);
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(state_.totals[i].sum, expected.totals[i].sum);
      EXPECT_EQ(state_.totals[i].weight, expected.totals[i].weight);
    }
    EXPECT_EQ(state_.learning_rate, expected.learning_rate);
  }

  void expect(const json& expected, const Tensor& tensor, const std::string& what) {
    const auto values = expected.get<std::vector<double>>();
    const std::vector<float> found = get(tensor);
    for_each([&](int64_t i, size_t at) {
      EXPECT_NEAR(found[at], values[static_cast<size_t>(i)], 1e-5) << what << " element " << i;
    });
  }

  const OptimizerTensors& tensors() const { return tensors_; }
  std::vector<float> get(const Tensor& tensor) {
    std::vector<float> values(w_.size());
    copy_bytes(values.data(), Device::kCpu, tensor.memory, context_.device(), tensor.bytes());
    return values;
  }

 private:
  void put(const Tensor& tensor, const std::vector<float>& values) {
    copy_bytes(tensor.memory, context_.device(), values.data(), Device::kCpu, tensor.bytes());
  }
  template <class Visit>
  void for_each(const Visit& visit) const {
    int64_t i = 0;
    for (const ParameterPlace& place : tensors_.parameters) {
      for (int64_t j = 0; j < place.shape.elements(); ++j) {
        visit(i++, static_cast<size_t>(place.offset + j));
      }
    }
  }

  Context context_;
  std::vector<Buffer> memory_;
  std::vector<float> w_;
  OptimizerTensors tensors_;
  std::unique_ptr<Update> update_;
  StepState state_;
};

/// The parameters, their average and the states.
std::vector<std::vector<float>> all_of(Trajectory& trajectory) {
  const OptimizerTensors& tensors = trajectory.tensors();
  std::vector<std::vector<float>> values = {trajectory.get(tensors.w), trajectory.get(tensors.ema)};
  for (const Tensor& state : tensors.state) values.push_back(trajectory.get(state));
  return values;
}

std::vector<Device> devices() {
  if (gpu_available()) return {Device::kCpu, Device::kGpu};
  return {Device::kCpu};
}

TEST(Optimizers, FollowPyTorchsTrajectories) {
  const json fixture =
      json::parse(std::ifstream(std::string(DUET_SOURCE_DIR) + "/tests/pytorch/optimizers.json"));
  for (const json& expected : fixture["cases"]) {
    const std::string yaml = expected["optimizer"].dump();
    const auto optimizer = read(yaml);
    for (Device device : devices()) {
      const std::string what = yaml + (device == Device::kGpu ? " on the GPU" : " on the CPU");
      Trajectory trajectory(*optimizer, fixture["shapes"], device);
      for (int i = 0; i < fixture["steps"]; ++i) trajectory.step();
      trajectory.expect(expected["w"], trajectory.tensors().w, what);
      if (expected.contains("ema")) {
        trajectory.expect(expected["ema"], trajectory.tensors().ema, what + ", average");
      }
    }
  }
}

// More than a GPU's blocks take at once.
TEST(Optimizers, UpdateManyParametersAlikeOnBothDevices) {
  if (devices().size() < 2) GTEST_SKIP() << gpu_missing_reason();
  const json shapes = json::parse("[[7], [1200, 1000], [3, 5]]");
  for (const char* yaml : {"{type: sgd, momentum: 0.9}",
                           "{type: adamw, weight_decay: 0.1, decay_biases: false, ema: 0.5}"}) {
    const auto optimizer = read(yaml);
    Trajectory cpu(*optimizer, shapes, Device::kCpu), gpu(*optimizer, shapes, Device::kGpu);
    for (int i = 0; i < 2; ++i) cpu.step(), gpu.step();
    const auto expected = all_of(cpu), found = all_of(gpu);
    for (size_t tensor = 0; tensor < expected.size(); ++tensor) {
      for (size_t i = 0; i < expected[tensor].size(); ++i) {
        ASSERT_NEAR(found[tensor][i], expected[tensor][i], 1e-5)
            << yaml << " tensor " << tensor << " element " << i;
      }
    }
  }
}

TEST(Optimizers, DoNothingIfTheLossIsNotFinite) {
  const json shapes = json::parse("[[5, 3], [7]]");
  for (const OptimizerType* type : optimizer_types()) {
    const auto optimizer =
        read("{type: " + std::string(type->name) + ", clip_norm: 1, ema: 0.5, weight_decay: 0.1}");
    for (Device device : devices()) {
      Trajectory trajectory(*optimizer, shapes, device);
      trajectory.step();
      const auto before = all_of(trajectory);
      trajectory.step(NAN);
      trajectory.step();  // as what a graph has behind it
      trajectory.restart();
      trajectory.step(INFINITY);
      EXPECT_EQ(all_of(trajectory), before) << type->name;
      trajectory.restart();
      trajectory.step();
      EXPECT_NE(all_of(trajectory), before) << type->name;
    }
  }
}

TEST(Optimizers, RefuseWrongKeys) {
  const auto refused = [](const std::string& yaml, const std::string& words) {
    try {
      read(yaml);
      ADD_FAILURE() << yaml << " is taken";
    } catch (const ConfigError& error) {
      EXPECT_TRUE(has(error.what(), words)) << error.what();
    }
  };
  for (const char* value : {"0", "-1", "nan", "inf", "yes"}) {
    refused("{type: sgd, clip_norm: " + std::string(value) + "}", "clip_norm");
  }
  for (const char* value : {"0", "1", "-0.5", "nan"}) {
    refused("{type: adam, ema: " + std::string(value) + "}", "ema");
  }
  refused("{type: adamw, decay_biases: maybe}", "decay_biases");
  refused("{type: rmsprop, alpha: 1}", "alpha");
  refused("{type: rmsprop, beta1: 0.9}", "beta1");
  refused("{type: adamw, weight_decay: -1}", "weight_decay");
  for (const char* type : {"rmsprop", "adam", "adamw", "muon"}) {
    refused("{type: " + std::string(type) + ", epsilon: 0}", "epsilon");
  }
  refused("{type: muon, learning_rate: 0}", "learning_rate");
  refused("{type: muon, learning_rate: 1e-42}", "learning_rate");
  refused("{type: muon, learning_rate: 1e-37, adamw_learning_rate: 100}", "adamw_learning_rate");
  for (const char* type : {"sgd", "rmsprop", "adam", "adamw", "muon"}) {
    refused("{type: " + std::string(type) + ", weight_decay: 1e300}", "weight_decay");
  }
  refused("{type: muon, momentum: 1}", "momentum");
  refused("{type: muon, adjust_lr_fn: spectral}", "adjust_lr_fn");
  refused("{type: adamm}", "did you mean 'adam");
}

}  // namespace
}  // namespace duet
