// The records of a batch (core/field.h): fields beside images and labels, gathered by one kernel, and
// boxes by another that moves them as their images. Labels would be a record of one class, but mixup
// mixes them as it does images, and of a training on images and labels alone one kernel gathers both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "data/batch/batches_gather.h"
#include "data/set/dataset.h"
#include "device/context.h"
#include "device/device.h"

namespace duet {

class BatchRecords {
 public:
  /// `image_bytes` is the size of a sample's image, `augment` what moves it. Throws std::logic_error
  /// if the records of the split are not those of the data set.
  BatchRecords(const DatasetInfo& info, const Split& split, size_t image_bytes,
               const Augment& augment);

  /// The size of a streamed row, which holds an image and the records behind it.
  size_t row_bytes() const { return row_bytes_; }
  /// All of them to the device, for who does not stream.
  void upload(Device device, const Split& split);
  /// Those of a sample to their places in a streamed row.
  void copy(const Split& split, uint32_t sample, std::byte* row) const;

  /// Device memory.
  size_t memory_bytes() const;
  bool has(std::string_view name) const;
  /// Queues the gather of those records that `to` names, as Batches::gather() says. `stream` is what
  /// copy() filled, or nullptr after upload().
  void gather(Context& context, const uint64_t* step, const SampleOrder& order,
              const BatchStream* stream, const FieldTensors& to) const;

 private:
  struct Record {
    RecordField field;
    uint32_t words;       // of a sample
    size_t offset;        // in a streamed row
    Buffer samples = {};  // of all samples, after upload()
  };

  void gather_boxes(Context& context, RecordsProblem problem, const Record& record,
                    const FieldTensors& to) const;

  std::vector<Record> records_;
  size_t row_bytes_;
  Augment augment_;
  int32_t height_, width_;  // of an image
};

}  // namespace duet
