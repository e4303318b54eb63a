#include "data/batch/batch_records.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "core/arena.h"
#include "core/parallel.h"

namespace duet {
namespace {

constexpr size_t kWord = sizeof(uint32_t);
constexpr uint32_t kNotStaged = std::bit_cast<uint32_t>(std::numeric_limits<float>::quiet_NaN());
static_assert(kBoxWords == kBoxNumbers && sizeof(Box) == kBoxWords * kWord);

void gather_on_cpu(const RecordsProblem& p) {
  const uint64_t step = *p.step;
  int64_t words = 0;
  for (uint32_t r = 0; r < p.count; ++r) words += p.records[r].words;
  parallel_for(p.order.batch, p.order.batch * words, [&](int64_t i) {
    const auto row = static_cast<uint32_t>(i);
    const uint32_t sample = sample_of(p.order, step, row).sample;
    for (uint32_t r = 0; r < p.count; ++r) {
      const GatherRecord& record = p.records[r];
      const RecordRow from = record_row(p, record, step, row, sample);
      for (uint32_t word = 0; word < record.words; ++word) write_word(record, row, word, from);
    }
  });
}

void gather_on_cpu(const BoxesProblem& p) {
  const uint64_t step = *p.record.step;
  parallel_for(
      p.record.order.batch, p.record.order.batch * p.record.records[0].words, [&](int64_t n) {
        const auto row = static_cast<uint32_t>(n);
        const SampleOfEpoch place = sample_of(p.record.order, step, row);
        const RecordRow from = record_row(p.record, p.record.records[0], step, row, place.sample);
        const AugmentDraw draw = boxes_draw(p, place);
        uint32_t count = 0;
        Box box;
        for (uint32_t i = 0; i < most_boxes(p); ++i) {
          if (find_box(p, draw, from, i, box)) write_box(p, row, count++, box);
        }
        write_count(p, row, from, count);
        for (; count < most_boxes(p); ++count) write_no_box(p, row, count, from);
      });
}

// What `to` has for that field, which must have that form; nullptr if nobody reads it.
const Tensor* find_tensor(const FieldTensors& to, std::string_view name, const TensorDesc& desc) {
  const auto found = to.find(name);
  if (found == to.end()) return nullptr;
  if (found->second.desc == desc) return &found->second;
  throw std::logic_error("Batches::gather: expected " + std::string(name) + " of " +
                         desc.to_string() + ", got " + found->second.desc.to_string());
}

}  // namespace

BatchRecords::BatchRecords(const DatasetInfo& info, const Split& split, size_t image_bytes,
                           const Augment& augment)
    : row_bytes_(image_bytes),
      augment_(augment),
      height_(static_cast<int32_t>(info.height)),
      width_(static_cast<int32_t>(info.width)) {
  bool fits =
      info.records.size() == split.records.size() && info.records.size() <= RecordsProblem::kMost;
  if (!info.records.empty()) row_bytes_ = (image_bytes + kWord - 1) / kWord * kWord;
  for (size_t i = 0; fits && i < info.records.size(); ++i) {
    const int64_t words = info.records[i].shape.elements();
    fits = words >= 1 && words <= std::numeric_limits<int32_t>::max() &&
           split.records[i].size() == static_cast<size_t>(split.count * words);
    records_.push_back({info.records[i], static_cast<uint32_t>(words), row_bytes_});
    row_bytes_ += static_cast<size_t>(words) * kWord;
  }
  if (!fits) throw std::logic_error("Batches: the records of split and data set do not fit");
}

void BatchRecords::upload(Device device, const Split& split) {
  for (size_t i = 0; i < records_.size(); ++i) {
    Buffer& samples = records_[i].samples = Buffer(device, split.records[i].size() * kWord);
    copy_bytes(samples.data(), device, split.records[i].data(), Device::kCpu, samples.bytes());
  }
}

void BatchRecords::copy(const Split& split, uint32_t sample, std::byte* row) const {
  for (size_t i = 0; i < records_.size(); ++i) {
    const size_t words = records_[i].words;
    std::memcpy(row + records_[i].offset, split.records[i].data() + sample * words, words * kWord);
  }
}

size_t BatchRecords::memory_bytes() const {
  size_t bytes = 0;
  for (const Record& record : records_) bytes += record.samples.bytes();
  return bytes;
}

bool BatchRecords::has(std::string_view name) const {
  return std::any_of(records_.begin(), records_.end(), [&](const Record& record) {
    const bool counts = record.field.kind == FieldKind::kBoxes && name == kBoxCountsField;
    return counts || record.field.name == name;
  });
}

void BatchRecords::gather(Context& context, const uint64_t* step, const SampleOrder& order,
                          const BatchStream* stream, const FieldTensors& to) const {
  RecordsProblem problem = {.step = step, .row_bytes = row_bytes_, .order = order};
  if (stream) {
    problem.slots = reinterpret_cast<const uint8_t*>(stream->slots());
    problem.slot_bytes = stream->slot_bytes();
  }
  for (const Record& record : records_) {
    if (record.field.kind == FieldKind::kBoxes) {
      gather_boxes(context, problem, record, to);
      continue;
    }
    const auto found = to.find(record.field.name);
    if (found == to.end()) continue;
    TensorDesc expected = record.field.of_batch(order.batch).desc;
    const bool numbers = record.field.kind == FieldKind::kNumbers;
    const bool rounded = numbers && found->second.desc.dtype == DType::kBFloat16;
    if (rounded) expected.dtype = DType::kBFloat16;
    problem.records[problem.count++] = {
        .samples = stream ? nullptr : static_cast<const uint32_t*>(record.samples.data()),
        .offset = record.offset,
        .to = find_tensor(to, record.field.name, expected)->memory,
        .to_bfloat16 = rounded,
        .words = record.words,
        .past_end = numbers ? 0u : ~0u,
        .not_staged = numbers ? kNotStaged : ~0u};
  }
  if (problem.count == 0) return;
  if (context.device() == Device::kCpu) return gather_on_cpu(problem);
#if DUET_WITH_CUDA
  gather_records_on_gpu(problem, context.stream());
#endif
}

void BatchRecords::gather_boxes(Context& context, RecordsProblem problem, const Record& record,
                                const FieldTensors& to) const {
  const int64_t rows = problem.order.batch;
  const Tensor* const boxes = find_tensor(to, record.field.name, record.field.of_batch(rows).desc);
  const Tensor* const counts = find_tensor(to, kBoxCountsField, rows_desc(rows));
  if (!boxes && !counts) return;
  problem.count = 1;
  problem.records[0] = {.samples = static_cast<const uint32_t*>(record.samples.data()),
                        .offset = record.offset,
                        .to = boxes ? boxes->memory : nullptr,
                        .words = record.words,
                        .past_end = 0,
                        .not_staged = kNotStaged};
  const BoxesProblem moved = {.record = problem,
                              .counts = counts ? counts->data<int32_t>() : nullptr,
                              .augment = augment_,
                              .height = height_,
                              .width = width_};
  if (context.device() == Device::kCpu) return gather_on_cpu(moved);
#if DUET_WITH_CUDA
  gather_boxes_on_gpu(moved, context.stream());
#endif
}

}  // namespace duet
