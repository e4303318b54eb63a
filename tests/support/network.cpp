#include "support/network.h"

#include "net/auto.h"

namespace duet {

TestTraining::TestTraining(const std::string& yaml)
    : TestTraining(read_setup(read_yaml(yaml, "test.yaml"), {.config = "test.yaml"})) {}

TestTraining::TestTraining(Setup setup)
    : network{std::move(setup.config), std::move(setup.spec), std::move(setup.layers)},
      context(device_of(network.spec)),
      data(setup.dataset.load({})) {
  TuningCache cache{{}};
  choose_automatically(network.layers, context, cache, {});
  training = std::make_unique<Training>(network.spec, network.layers, data,
                                        std::move(setup.optimizer), setup.schedule, context);
  training->prepare();
}

}  // namespace duet
