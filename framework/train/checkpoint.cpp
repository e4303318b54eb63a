#include "train/checkpoint.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>

#include "core/error.h"
#include "train/safetensors.h"

namespace duet {
namespace {

constexpr const char* kFormat = "duet checkpoint 1";
constexpr uint64_t kMostTensors = 8;  // of a parameter: itself, and what an optimizer keeps of it

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

// That all of `list` is in the file.
void check_tensors(const std::filesystem::path& path, const safetensors::File& file,
                   const std::vector<Saved>& list) {
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
  }
}

// That the file is of this network, before its data are read: any amount of them may be there. A
// parameter that the network does not have is as wrong as one that is missing.
void check_parameters(const std::filesystem::path& path, const safetensors::File& file,
                      const std::vector<Saved>& list) {
  check_tensors(path, file, list);
  std::set<std::string> known;
  uint64_t most = 0, found = 0;  // bytes
  for (const Saved& saved : list) {
    known.insert(saved.name);
    most += kMostTensors * saved.parameter->spec.desc.bytes();
  }
  for (const safetensors::Entry& entry : file.entries()) found += entry.bytes();
  for (const safetensors::Entry& entry : file.entries()) {
    if (entry.name.starts_with("optimizer.") || known.count(entry.name)) continue;
    throw DataError(path.string() + ": is a checkpoint of another network: it has '" + entry.name +
                    "', which this network has not");
  }
  if (found > most) {
    throw DataError(path.string() + ": holds " + std::to_string(found) +
                    " bytes of tensors, more than any optimizer keeps for this network");
  }
}

// The values of `list`. REQUIRES: check_tensors() passed.
std::vector<std::vector<float>> values_of(const safetensors::File& file,
                                          const std::vector<Saved>& list) {
  std::vector<std::vector<float>> values;
  for (const Saved& saved : list) {
    const auto* data = static_cast<const float*>(file.find(saved.name)->data);
    values.emplace_back(data, data + saved.parameter->spec.desc.elements());
  }
  return values;
}

// A whole number or a floating-point number of the metadata, all of its text.
template <class T>
T number_of(const std::filesystem::path& path, const std::string& key, const std::string& text) {
  T value{};
  bool whole = false;
  if constexpr (std::is_integral_v<T>) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    whole = error == std::errc() && end == text.data() + text.size();
  } else {
    char* end = nullptr;
    value = static_cast<T>(std::strtod(text.c_str(), &end));  // also reads hexadecimal
    whole = !text.empty() && end == text.c_str() + text.size();
  }
  if (whole) return value;
  throw DataError(path.string() + ": is damaged: its metadata says '" + key + "' is '" + text +
                  "', expected a number");
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
                                                       {"images", std::to_string(info.images)},
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
  // Another network is the first thing to tell.
  const safetensors::File file = safetensors::read(path, [&](const safetensors::File& described) {
    check_parameters(path, described, saved_tensors(training, false));
  });
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
  check_same(path, "optimizer", meta("optimizer"), expected.optimizer);
  check_same(path, "data set", meta("dataset"), expected.dataset);
  check_same(path, "seed", meta("seed"), std::to_string(expected.seed));
  check_same(path, "batch", meta("batch"), std::to_string(expected.batch));
  check_same(path, "a number of training images of", meta("images"),
             std::to_string(expected.images));
  const std::vector<Saved> list = saved_tensors(training, true);
  check_tensors(path, file, list);
  const std::vector<std::vector<float>> values = values_of(file, list);
  StepState state = training.state();
  state.step = number_of<uint64_t>(path, "step", meta("step"));
  state.loss_sum = number_of<double>(path, "loss_sum", meta("loss_sum"));
  state.hits = number_of<int64_t>(path, "hits", meta("hits"));
  state.counted = number_of<int64_t>(path, "counted", meta("counted"));
  state.last_loss = number_of<float>(path, "last_loss", meta("last_loss"));
  CheckpointInfo info = expected;
  info.best_accuracy = number_of<double>(path, "best_accuracy", meta("best_accuracy"));
  // Nothing can fail any more.
  for (size_t i = 0; i < list.size(); ++i) {
    training.net().write(*list[i].parameter, list[i].memory, values[i]);
  }
  training.set_state(state);
  return info;
}

void load_parameters(const std::filesystem::path& path, Training& training) {
  const std::vector<Saved> list = saved_tensors(training, false);
  const safetensors::File file = safetensors::read(
      path, [&](const safetensors::File& described) { check_parameters(path, described, list); });
  const std::vector<std::vector<float>> values = values_of(file, list);
  for (size_t i = 0; i < list.size(); ++i) {
    training.net().write(*list[i].parameter, list[i].memory, values[i]);
  }
}

}  // namespace duet
