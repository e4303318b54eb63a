// Samples for the tests of batches: every byte follows from its place, every label is its sample's
// number.
#pragma once

#include <bit>

#include "data/set/boxed_pictures.h"
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
                  {"numbers", FieldKind::kNumbers, {4, 5}},
                  {"class", FieldKind::kClasses, {}, 5}};
  for (const RecordField& field : info.records) {
    std::vector<uint32_t>& words = split.records.emplace_back();
    for (int64_t i = 0; i < split.count * field.shape.elements(); ++i) {
      words.push_back(field.kind == FieldKind::kNumbers
                          ? std::bit_cast<uint32_t>(0.37f * static_cast<float>(i) - 5.0f)
                          : static_cast<uint32_t>(i % field.classes));
    }
  }
}

/// Gives the samples up to `most` boxes each, of all sizes and at all places of their images.
inline void add_boxes(DatasetInfo& info, Split& split, int64_t most) {
  info.records.push_back({std::string(kBoxesField), FieldKind::kBoxes, {most, kBoxNumbers}, 7});
  std::vector<uint32_t>& words = split.records.emplace_back();
  uint32_t state = 1;
  const auto draw = [&](int64_t first, int64_t last) {
    state = state * 1664525 + 1013904223;
    return static_cast<int32_t>(first + (state >> 8) % (last - first + 1));
  };
  const int64_t right = info.width * kBoxUnit, bottom = info.height * kBoxUnit;
  for (int64_t n = 0; n < split.count; ++n) {
    std::vector<Box> boxes;
    for (int64_t i = 0; i < n * 7 % (most + 1); ++i) {
      Box box{draw(0, right - 1), draw(0, bottom - 1), 0, 0, draw(0, 6)};
      box.right = draw(box.left + 1, right);
      box.bottom = draw(box.top + 1, bottom);
      boxes.push_back(box);
    }
    add_record(boxes, most, words);
  }
}

/// Memory on a device for every field of a batch, in the order of fields_of().
struct FieldBuffers {
  FieldBuffers(const DatasetInfo& info, int64_t batch, Device device, DType dtype) {
    for (BatchField field : fields_of(info, batch)) {
      const bool stored = field.desc.dtype == DType::kFloat32 && field.kind != FieldKind::kBoxes;
      if (stored) field.desc.dtype = dtype;
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
