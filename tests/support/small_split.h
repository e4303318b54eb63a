// Samples for the tests of batches: every byte follows from its place, every label is its sample's
// number.
#pragma once

#include <bit>

#include "data/set/dataset.h"
#include "device/device.h"

namespace duet {

inline DatasetInfo make_info(int64_t channels, int64_t height, int64_t width) {
  DatasetInfo info{"test", channels, height, width, 10, {}, {}};
  for (int64_t c = 0; c < channels; ++c) {
    info.mean.push_back(0.2860 + 0.1 * static_cast<double>(c));
    info.stddev.push_back(0.3530 - 0.05 * static_cast<double>(c));
  }
  return info;
}

inline Split make_split(const DatasetInfo& info, int64_t count) {
  Split split{count, {}, {}};
  for (int64_t i = 0; i < count * info.channels * info.height * info.width; ++i) {
    split.images.push_back(static_cast<uint8_t>(i * 37 + i / 256));
  }
  for (int64_t i = 0; i < count; ++i) split.labels.push_back(static_cast<int32_t>(i));
  return split;
}

/// Gives the samples records of several forms, whose words follow from their places.
inline void add_records(DatasetInfo& info, Split& split) {
  info.records = {{"targets", FieldKind::kNumbers, {3}},
                  {"tokens", FieldKind::kClasses, {150}, 50},
                  {"boxes", FieldKind::kNumbers, {4, 5}},
                  {"box_count", FieldKind::kClasses, {}, 5}};
  for (const RecordField& field : info.records) {
    std::vector<uint32_t>& words = split.records.emplace_back();
    for (int64_t i = 0; i < split.count * field.shape.elements(); ++i) {
      words.push_back(field.kind == FieldKind::kNumbers
                          ? std::bit_cast<uint32_t>(0.37f * static_cast<float>(i) - 5.0f)
                          : static_cast<uint32_t>(i % field.classes));
    }
  }
}

/// Memory on a device for every field of a batch, in the order of fields_of().
struct FieldBuffers {
  FieldBuffers(const DatasetInfo& info, int64_t batch, Device device, DType dtype) {
    for (BatchField field : fields_of(info, batch)) {
      if (field.desc.dtype == DType::kFloat32) field.desc.dtype = dtype;
      names.push_back(field.name);
      memory.emplace_back(device, field.desc.bytes());
      tensors[field.name] = {field.desc, memory.back().data()};
    }
  }
  void fill(int byte) {
    for (const Buffer& each : memory) fill_bytes(each.data(), each.device(), byte, each.bytes());
  }
  /// What a field holds, as words of 4 bytes (two bfloat16 in one).
  std::vector<uint32_t> words(const std::string& name) const {
    const Tensor& tensor = tensors.at(name);
    std::vector<uint32_t> words((tensor.bytes() + 3) / 4);
    copy_bytes(words.data(), Device::kCpu, tensor.memory, memory.front().device(), tensor.bytes());
    return words;
  }

  std::vector<std::string> names;
  std::vector<Buffer> memory;
  FieldTensors tensors;
};

}  // namespace duet
