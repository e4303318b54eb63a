#include "data/format/exif.h"

#include <cstdint>

namespace duet {
namespace {

constexpr uint64_t kOrientation = 0x0112;
constexpr uint64_t kInPlace = 4;  // so many bytes of an entry's values stand in it, more elsewhere

// Bytes of a whole number of TIFF's type `type`; 0 of all that is none, bytes among it.
uint64_t bytes_of_number(uint64_t type) {
  switch (type) {
    case 6:  // signed byte
      return 1;
    case 3:  // short
    case 8:  // signed short
      return 2;
    case 4:   // long
    case 9:   // signed long
    case 13:  // a directory's place
      return 4;
    case 16:  // a long of 8 bytes
      return 8;
    default:
      return 0;
  }
}

// TIFF data: numbers in the order that its first two bytes name; 0 beyond the end.
class Tiff {
 public:
  explicit Tiff(std::string_view bytes) : bytes_(bytes), little_(bytes.starts_with("II")) {}

  bool is_right() const { return (little_ || bytes_.starts_with("MM")) && number(2, 2) == 42; }
  uint64_t number(uint64_t offset, uint64_t bytes) const {
    uint64_t value = 0;
    for (uint64_t i = 0; i < bytes; ++i) {
      const uint64_t at = offset + (little_ ? bytes - 1 - i : i);
      value = value << 8 | (at < bytes_.size() ? static_cast<uint8_t>(bytes_[at]) : 0);
    }
    return value;
  }
  /// The first value of the directory's entry at `entry`; 0 if that is no whole number.
  uint64_t first_value(uint64_t entry) const {
    const uint64_t bytes = bytes_of_number(number(entry + 2, 2)), count = number(entry + 4, 4);
    if (bytes == 0 || count == 0) return 0;
    const uint64_t place = entry + 8;
    return number(bytes * count <= kInPlace ? place : number(place, 4), bytes);
  }

 private:
  std::string_view bytes_;
  bool little_;
};

}  // namespace

int exif_orientation(std::string_view data) {
  while (data.starts_with(kExifStart)) data.remove_prefix(kExifStart.size());  // some have it twice
  const Tiff tiff(data);
  if (!tiff.is_right()) return 1;
  const uint64_t directory = tiff.number(4, 4);
  const uint64_t entries = tiff.number(directory, 2);
  for (uint64_t i = 0; i < entries; ++i) {
    const uint64_t entry = directory + 2 + 12 * i;
    if (tiff.number(entry, 2) != kOrientation) continue;
    const uint64_t value = tiff.first_value(entry);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

}  // namespace duet
