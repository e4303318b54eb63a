#include "data/exif.h"

#include <cstdint>

namespace duet {
namespace {

constexpr uint16_t kOrientation = 0x0112, kShort = 3;

// TIFF data: numbers in the order that its first two bytes name; 0 beyond the end.
class Tiff {
 public:
  explicit Tiff(std::string_view bytes) : bytes_(bytes), little_(bytes.starts_with("II")) {}

  uint32_t number(uint64_t offset, int bytes) const {
    uint32_t value = 0;
    for (int i = 0; i < bytes; ++i) {
      const uint64_t at = offset + static_cast<uint64_t>(little_ ? bytes - 1 - i : i);
      value = value << 8 | (at < bytes_.size() ? static_cast<uint8_t>(bytes_[at]) : 0);
    }
    return value;
  }

 private:
  std::string_view bytes_;
  bool little_;
};

}  // namespace

int exif_orientation(std::string_view segment) {
  const Tiff tiff(segment.substr(kExifStart.size()));
  if (tiff.number(2, 2) != 42) return 1;
  const uint64_t directory = tiff.number(4, 4);
  const uint32_t entries = tiff.number(directory, 2);
  for (uint32_t i = 0; i < entries; ++i) {
    const uint64_t entry = directory + 2 + 12 * uint64_t{i};
    if (tiff.number(entry, 2) != kOrientation) continue;
    const uint32_t value = tiff.number(entry + 8, 2);
    return tiff.number(entry + 2, 2) == kShort && value >= 1 && value <= 8 ? static_cast<int>(value)
                                                                           : 1;
  }
  return 1;
}

}  // namespace duet
