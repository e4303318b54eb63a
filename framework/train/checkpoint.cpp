#include "train/checkpoint.h"

#include <cstdio>
#include <cstdlib>
#include <map>

#include "core/error.h"
#include "train/safetensors.h"

namespace duet {
namespace {

constexpr const char* kFormat = "duet checkpoint 1";

// Doubles as hexadecimal floats, so that they come back with the same bits.
std::string exact(double value) {
  char text[64];
  std::snprintf(text, sizeof text, "%a", value);
  return text;
}

std::string state_name(const std::string& state, const Parameter& parameter) {
  return "optimizer." + state + "." + parameter.name;
}

// Every buffer a training saves: (prefix-maker, memory) of the parameters and of each optimizer
// state.
struct Saved {
  std::string name;
  const Parameter* parameter;
  Tensor memory;
};

std::vector<Saved> saved_tensors(Training& training, bool with_optimizer) {
  std::vector<Saved> list;
  for (const Parameter& parameter : training.net().parameters()) {
    list.push_back({parameter.name, &parameter, training.net().flat_parameters()});
  }
  if (!with_optimizer) return list;
  const std::vector<std::string> states = training.optimizer().state_names();
  for (size_t i = 0; i < states.size(); ++i) {
    for (const Parameter& parameter : training.net().parameters()) {
      list.push_back({state_name(states[i], parameter), &parameter, training.optimizer_state(i)});
    }
  }
  return list;
}

std::vector<int64_t> dims_of(const Shape& shape) {
  std::vector<int64_t> dims;
  for (int i = 0; i < shape.rank(); ++i) dims.push_back(shape[i]);
  return dims;
}

std::string dims_text(const std::vector<int64_t>& dims) {
  std::string text;
  for (int64_t d : dims) text += (text.empty() ? "" : "x") + std::to_string(d);
  return text.empty() ? "scalar" : text;
}

// All values of `list` in the file, checked before any is used.
std::vector<std::vector<float>> values_of(const std::filesystem::path& path,
                                          const safetensors::File& file,
                                          const std::vector<Saved>& list) {
  std::vector<std::vector<float>> values;
  for (const Saved& saved : list) {
    const safetensors::Entry* entry = file.find(saved.name);
    if (!entry) {
      throw DataError(path.string() + ": is a checkpoint of another network: it has no '" +
                      saved.name + "'");
    }
    const std::vector<int64_t> dims = dims_of(saved.parameter->spec.desc.shape);
    if (entry->shape != dims || entry->dtype != DType::kFloat32) {
      throw DataError(path.string() + ": is a checkpoint of another network: '" + saved.name +
                      "' is " + dims_text(entry->shape) + " there, but " + dims_text(dims) +
                      " float32 here");
    }
    const auto* data = static_cast<const float*>(entry->data);
    values.emplace_back(data, data + saved.parameter->spec.desc.elements());
  }
  return values;
}

void check_same(const std::filesystem::path& path, const std::string& what,
                const std::string& there, const std::string& here) {
  if (there == here) return;
  throw ConfigError(path.string() + ": was trained with " + what + " " + there +
                    ", but this run has " + here +
                    "; resume with the same, or start anew without --resume");
}

}  // namespace

void save_checkpoint(const std::filesystem::path& path, Training& training,
                     const CheckpointInfo& info) {
  const StepState state = training.state();
  const std::vector<Saved> list = saved_tensors(training, true);
  std::vector<std::vector<float>> values;
  std::vector<safetensors::Entry> entries;
  for (const Saved& saved : list) {
    values.push_back(training.net().read(*saved.parameter, saved.memory));
    entries.push_back({saved.name, DType::kFloat32, dims_of(saved.parameter->spec.desc.shape),
                       values.back().data()});
  }
  const std::map<std::string, std::string> metadata = {{"format", kFormat},
                                                       {"network", info.network},
                                                       {"dataset", info.dataset},
                                                       {"optimizer", info.optimizer},
                                                       {"seed", std::to_string(info.seed)},
                                                       {"batch", std::to_string(info.batch)},
                                                       {"best_accuracy", exact(info.best_accuracy)},
                                                       {"step", std::to_string(state.step)},
                                                       {"loss_sum", exact(state.loss_sum)},
                                                       {"hits", std::to_string(state.hits)},
                                                       {"counted", std::to_string(state.counted)},
                                                       {"last_loss", exact(state.last_loss)}};
  safetensors::write(path, entries, metadata);
}

CheckpointInfo load_checkpoint(const std::filesystem::path& path, Training& training,
                               const CheckpointInfo& expected) {
  const safetensors::File file = safetensors::read(path);
  const auto meta = [&](const std::string& key) -> const std::string& {
    const auto found = file.metadata().find(key);
    if (found == file.metadata().end()) {
      throw DataError(path.string() + ": cannot be resumed from: its metadata has no '" + key +
                      "'; it holds parameters only, or was not written by Duet");
    }
    return found->second;
  };
  if (meta("format") != kFormat) {
    throw DataError(path.string() + ": unknown checkpoint format '" + meta("format") +
                    "'; expected '" + kFormat + "'");
  }
  const std::vector<Saved> parameters = saved_tensors(training, false);
  values_of(path, file, parameters);  // another network is the first thing to tell
  check_same(path, "optimizer", meta("optimizer"), expected.optimizer);
  check_same(path, "data set", meta("dataset"), expected.dataset);
  check_same(path, "seed", meta("seed"), std::to_string(expected.seed));
  check_same(path, "batch", meta("batch"), std::to_string(expected.batch));
  const std::vector<Saved> list = saved_tensors(training, true);
  const std::vector<std::vector<float>> values = values_of(path, file, list);
  for (size_t i = 0; i < list.size(); ++i) {
    training.net().write(*list[i].parameter, list[i].memory, values[i]);
  }
  StepState state = training.state();
  state.step = std::strtoull(meta("step").c_str(), nullptr, 10);
  state.loss_sum = std::strtod(meta("loss_sum").c_str(), nullptr);
  state.hits = std::strtoll(meta("hits").c_str(), nullptr, 10);
  state.counted = std::strtoll(meta("counted").c_str(), nullptr, 10);
  state.last_loss = std::strtof(meta("last_loss").c_str(), nullptr);
  training.set_state(state);
  CheckpointInfo info = expected;
  info.best_accuracy = std::strtod(meta("best_accuracy").c_str(), nullptr);
  return info;
}

void load_parameters(const std::filesystem::path& path, Training& training) {
  const safetensors::File file = safetensors::read(path);
  const std::vector<Saved> list = saved_tensors(training, false);
  const std::vector<std::vector<float>> values = values_of(path, file, list);
  for (size_t i = 0; i < list.size(); ++i) {
    training.net().write(*list[i].parameter, list[i].memory, values[i]);
  }
}

}  // namespace duet
