// configs/resnet18.yaml and vgg16.yaml against PyTorch's networks of torchvision's names
// (tests/pytorch/make_networks.py), on every device.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "net/expand.h"
#include "net/yaml.h"
#include "support/temporary_folder.h"
#include "test_paths.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/safetensors.h"
#include "train/evaluate/predictor.h"
#include "train/setup.h"

namespace duet {
namespace {

using nlohmann::json;
using Sizes = std::vector<int64_t>;

json fixture() {
  std::ifstream file(DUET_SOURCE_DIR "/tests/pytorch/networks.json");
  return json::parse(file);
}

// 32 bits of a number, as in make_networks.py.
uint32_t hashed(uint32_t x) {
  x = (x ^ x >> 16) * 0x7FEB352Du;
  x = (x ^ x >> 15) * 0x846CA68Bu;
  return x ^ x >> 16;
}

std::vector<float> values(const std::string& name, const Sizes& shape, uint32_t first) {
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  std::vector<float> made;
  for (int64_t i = 0; i < count; ++i) {
    double u = hashed(first + static_cast<uint32_t>(i)) * 0x1p-32;
    if (shape.size() > 1) {
      u = (2.0 * u - 1.0) * std::sqrt(6.0 / static_cast<double>(count / shape[0]));
    } else if (name.ends_with("running_var") || name.ends_with("weight")) {
      u = 0.5 + u;
    } else {
      u = 0.4 * u - 0.2;
    }
    made.push_back(static_cast<float>(u));
  }
  return made;
}

// A file of weights alone.
void write_weights(const std::filesystem::path& path, const json& parameters) {
  std::vector<std::vector<float>> memory;
  std::vector<safetensors::Entry> entries;
  uint32_t first = 0;
  for (const json& parameter : parameters) {
    const auto shape = parameter[2].get<Sizes>();
    memory.push_back(values(parameter[0], shape, first));
    entries.push_back({parameter[0], DType::kFloat32, shape, memory.back().data()});
    first += static_cast<uint32_t>(memory.back().size());
  }
  safetensors::write(path, entries);
}

// Squares of one colour.
std::vector<uint8_t> images(const json& of) {
  const uint32_t size = of["size"], patch = of["patch"], squares = size / patch;
  std::vector<uint8_t> bytes;
  for (uint32_t plane = 0; plane < of["images"].get<uint32_t>() * 3; ++plane) {
    for (uint32_t y = 0; y < size; ++y) {
      for (uint32_t x = 0; x < size; ++x) {
        const uint32_t square = (plane * squares + y / patch) * squares + x / patch;
        bytes.push_back(static_cast<uint8_t>(hashed(square) >> 24));
      }
    }
  }
  return bytes;
}

std::string config_of(const std::string& name) {
  return DUET_SOURCE_DIR "/configs/" + name + ".yaml";
}

// The network with `narrower` times fewer channels, features and classes.
duet::Setup narrow_setup(const json& of, const std::string& name, const std::string& backend) {
  ConfigNode config = read_yaml_file(config_of(name));
  ConfigErrors errors(name);
  expand_composites(config, errors);
  const auto divide = [&](ConfigNode& map, const char* key) {
    if (ConfigNode* value = map.find(key)) {
      value->scalar = std::to_string(std::stoll(value->scalar) / of["narrower"].get<int64_t>());
    }
  };
  divide(config.at_or_add("data"), "classes");
  for (ConfigNode& layer : config.at_or_add("layers").items) {
    divide(layer, "out_channels");
    divide(layer, "out_features");
  }
  return read_setup(std::move(config), {.config = name,
                                        .backend = backend,
                                        .assignments = {"data.batch=" + of["images"].dump()},
                                        .training = false});
}

std::vector<std::string> backends() {
  if (gpu_available()) return {"custom", "cudnn", "cpu"};
  return {"cpu"};
}

TEST(Networks, ParametersAreTorchvisions) {
  const json all = fixture();
  for (const json& expected : all["cases"]) {
    const duet::Setup setup = read_setup({.config = config_of(expected["name"]), .backend = "cpu"});
    std::map<std::string, Sizes> found;
    for (const ResolvedLayer& layer : setup.layers) {
      for (const ParameterSpec& spec : layer.layer->parameters()) {
        Sizes& shape = found[layer.parameter_prefix + "." + spec.name];
        for (int i = 0; i < spec.desc.shape.rank(); ++i) shape.push_back(spec.desc.shape[i]);
      }
    }
    std::map<std::string, Sizes> named;
    for (const json& each : expected["parameters"]) named[each[0]] = each[1].get<Sizes>();
    EXPECT_EQ(found, named) << expected["name"];
  }
}

TEST(Networks, OutputsArePyTorchs) {
  const json all = fixture();
  const TemporaryFolder folder;
  for (const json& expected : all["cases"]) {
    const std::string name = expected["name"];
    write_weights(folder / name, expected["parameters"]);
    const auto logits = expected["logits"].get<std::vector<double>>();
    double squares = 0.0;
    for (double value : logits) squares += value * value;
    const double size = std::sqrt(squares / static_cast<double>(logits.size()));
    for (const std::string& backend : backends()) {
      const duet::Setup setup = narrow_setup(all, name, backend);
      Context context(device_of(setup.spec));
      Weights weights(setup.layers, 1, context.device());
      load_parameters(folder / name, weights, {});
      const std::vector<float> found =
          Predictor(setup.layers, weights, context).logits(setup.dataset.info, images(all));
      ASSERT_EQ(found.size(), logits.size());
      for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_NEAR(found[i], logits[i], 2e-5 * size) << name << " " << backend << " output " << i;
      }
    }
  }
}

}  // namespace
}  // namespace duet
