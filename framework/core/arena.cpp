#include "core/arena.h"

#include <algorithm>
#include <numeric>

namespace duet {

Packing pack(const std::vector<Lifetime>& ranges) {
  std::vector<size_t> order(ranges.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return ranges[a].bytes > ranges[b].bytes; });
  Packing packing{.offsets = std::vector<size_t>(ranges.size())};
  std::vector<size_t> placed;  // by offset
  for (size_t number : order) {
    const Lifetime& range = ranges[number];
    size_t offset = 0;
    for (size_t other : placed) {
      if (!range.overlaps(ranges[other])) continue;
      if (packing.offsets[other] >= offset + range.bytes) break;  // it fits before that
      offset = std::max(offset, packing.offsets[other] + align_up(ranges[other].bytes));
    }
    packing.offsets[number] = offset;
    packing.bytes = std::max(packing.bytes, offset + align_up(range.bytes));
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), offset,
                         [&](size_t at, size_t other) { return at < packing.offsets[other]; }),
        number);
  }
  return packing;
}

}  // namespace duet
