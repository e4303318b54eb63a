// TensorBoard's event files: TFRecords of Event messages (tensorflow/core/util/event.proto,
// tensorflow/core/framework/summary.proto), as far as scalars, histograms and pictures need them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/descriptor.h"
#include "data/format/image.h"

namespace duet {

class EventFile {
 public:
  /// Makes events.out.tfevents.<time>.<host>.<process id> in `folder`, whose name comes after those of all such files there:
  /// TensorBoard reads them in that order. Throws RunError, as all functions do where the file cannot be written.
  explicit EventFile(const std::filesystem::path& folder);

  const std::filesystem::path& path() const { return path_; }

  /// A run goes on from `step`: TensorBoard drops what files before this say of it and of later steps.
  void start(int64_t step);
  /// One event with all of them. What is not finite is written too.
  void scalars(int64_t step, const std::vector<std::pair<std::string, double>>& values);
  /// kBuckets of one width from the least to the largest value; what is not finite is left out.
  void histogram(int64_t step, const std::string& tag, const std::vector<float>& values);
  void image(int64_t step, const std::string& tag, const Image& image);

  static constexpr int kBuckets = 30;

 private:
  /// `field` is that of Event which holds `message`.
  void write(int64_t step, int field, const std::string& message);
  void append(const std::string& event);

  std::filesystem::path path_;
  Descriptor file_;
};

/// CRC-32C (Castagnoli), as in iSCSI.
uint32_t crc32c(std::string_view bytes);
/// A record as it stands in a file: length, its checksum, the bytes, their checksum.
std::string tf_record(std::string_view bytes);

}  // namespace duet
