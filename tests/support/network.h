// Small networks for the tests of what stands above the layers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/config.h"
#include "net/net.h"
#include "net/resolve.h"
#include "net/spec.h"
#include "net/yaml.h"
#include "train/setup.h"
#include "train/step/training.h"

namespace duet {

/// A network read from YAML text, with the mistakes found in it.
struct TestNetwork {
  ConfigNode config;
  NetSpec spec;
  std::vector<ResolvedLayer> layers;
};

/// Resolves `yaml` for images of `input`'s sizes (batch from `input`), with gradients of those fields;
/// throws what the errors say.
inline TestNetwork make_network(const std::string& yaml, const TensorDesc& input,
                                int64_t classes = 10,
                                const std::vector<std::string>& gradients_of = {}) {
  TestNetwork network;
  network.config = read_yaml(yaml, "test.yaml");
  ConfigErrors errors("test.yaml");
  network.spec = read_net_spec(network.config, errors);
  if (errors.empty())
    network.layers =
        resolve(network.spec, labelled_images(input, classes), errors, true, gradients_of);
  errors.raise_if_any();
  return network;
}

/// A training of `yaml` on synthetic images, with everything it needs alive.
struct TestTraining {
  TestNetwork network;
  Context context;
  Dataset data;
  std::unique_ptr<Training> training;

  explicit TestTraining(const std::string& yaml);

 private:
  explicit TestTraining(Setup setup);
};

}  // namespace duet
