#include "support/network.h"

#include "net/auto.h"

namespace duet {
namespace {

Dataset small_images(ConfigNode& config) {
  ConfigErrors errors("test.yaml");
  ConfigReader reader(config.at_or_add("data"), "data", errors);
  DatasetLoader loader = find_dataset_type("synthetic_images")->read(reader);
  errors.raise_if_any();
  Dataset data = loader.load({});
  if (const ConfigNode* stream = reader.raw("stream")) data.stream = stream_of(stream->scalar);
  return data;
}

TestNetwork network_of(const std::string& yaml) {
  ConfigNode config = read_yaml(yaml, "test.yaml");
  const Dataset data = small_images(config);
  const int64_t batch = std::stoll(config.find("data")->find("batch")->scalar);
  return make_network(yaml, {{batch, data.channels, data.height, data.width}}, data.classes);
}

}  // namespace

TestTraining::TestTraining(const std::string& yaml)
    : network(network_of(yaml)),
      context(device_of(network.spec)),
      data(small_images(network.config)) {
  ConfigErrors errors("test.yaml");
  ConfigReader reader(network.config.at_or_add("optimizer"), "optimizer", errors);
  auto optimizer = read_optimizer(reader);
  Schedule schedule;
  if (ConfigNode* node = network.config.find("schedule")) {
    ConfigReader schedule_reader(*node, "schedule", errors);
    schedule = read_schedule(schedule_reader, network.spec.train.epochs);
  }
  errors.raise_if_any();
  TuningCache cache{{}};
  choose_automatically(network.layers, context, cache, {});
  training = std::make_unique<Training>(network.spec, network.layers, data, std::move(optimizer),
                                        schedule, context);
  training->prepare();
}

}  // namespace duet
