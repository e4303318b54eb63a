// What warps compute where images lie eight side by side (wgmma_windows.cuh), and how blocks share it.
#pragma once

#include <algorithm>

#include "kernels/image_blocks.cuh"

namespace duet {

/// Units of `rows` rows of two columns of eight images, in the order [strip of rows][images][pair of columns].
struct BlockUnits {
  int groups, strips, pairs;
  /// Each of `blocks` takes tiles of so many in so many rounds, and `rest` units after them.
  int of_tile, all, blocks, rounds, rest;
  FastDivisor by_pairs, by_boxes, by_groups;

  BlockUnits(int images, int height, int width, int rows, int of_tile_, int most_blocks)
      : groups(ceil_div(images, ImageBlocks::kImages)),
        strips(ceil_div(height, rows)),
        pairs(ceil_div(width, 2)),
        of_tile(of_tile_),
        all(groups * strips * pairs),
        blocks(std::min(all, most_blocks)),
        rounds(all / (blocks * of_tile)),
        rest(ceil_div(all - rounds * blocks * of_tile, blocks)),
        by_pairs(pairs),
        by_boxes(pairs + 1),
        by_groups(groups) {}
  /// Whether the patches of a tile are no more than tiles have room for.
  bool wide() const { return pairs >= 4; }

  /// Calls visit(first unit, units).
  template <class Visit>
  __device__ __forceinline__ void for_tiles(int block, Visit visit) const {
    for (int i = 0; i <= rounds; ++i) {
      const int before = i * blocks * of_tile;
      const int first = before + block * (i < rounds ? of_tile : rest);
      const int count = i < rounds ? of_tile : min(rest, all - first);
      if (count > 0) visit(first, count);
    }
  }
  struct Place {
    int strip, group, pair;
    int run;  // strip and images, as one number
  };
  __device__ __forceinline__ Place place(int unit) const {
    Place at;
    by_pairs.divmod(unit, at.run, at.pair);
    by_groups.divmod(at.run, at.strip, at.group);
    return at;
  }
  /// The boxes of a tile are, of each run, those of its pairs and one more: number `box` of a tile that begins at `first`.
  __device__ __forceinline__ Place box(const Place& first, int box) const {
    Place at;
    int run;
    by_boxes.divmod(first.pair + box, run, at.pair);
    at.run = first.run + run;
    by_groups.divmod(at.run, at.strip, at.group);
    return at;
  }
};

}  // namespace duet
