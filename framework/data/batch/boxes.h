// Boxes with classes: as a data set holds them, and where augmentation moves them with the pixels of
// their image. Whole numbers, but for the areas that are compared, which are products of doubles: the
// same bits on the CPU and the GPU.
#pragma once

#include <cstdint>

#include "data/batch/augment_pixels.h"

namespace duet {

/// Edges are in units of 1 / kBoxUnit of a pixel, from the left top corner of the image.
inline constexpr int32_t kBoxUnit = 256;

struct Box {
  int32_t left, top, right, bottom;
  int32_t label;  // -1: there is no box
};
inline constexpr uint32_t kBoxWords = 5;

DUET_HOST_DEVICE inline int64_t clamp_edge(int64_t edge, int32_t pixels) {
  const int64_t end = int64_t{pixels} * kBoxUnit;
  return edge < 0 ? 0 : edge > end ? end : edge;
}

/// Edges that may lie anywhere.
struct BoxEdges {
  int64_t left, top, right, bottom;

  DUET_HOST_DEVICE double area() const {
    if (right <= left || bottom <= top) return 0.0;
    return static_cast<double>(right - left) * static_cast<double>(bottom - top);
  }
  /// What of it lies in an image of that size.
  DUET_HOST_DEVICE BoxEdges in_image(int32_t height, int32_t width) const {
    return {clamp_edge(left, width), clamp_edge(top, height), clamp_edge(right, width),
            clamp_edge(bottom, height)};
  }
};

/// Takes `rest`, which lies in an image, of a box whose area was `whole`. Returns false, and there is
/// no box, where that is less than a tenth.
DUET_HOST_DEVICE inline bool keep_rest(const BoxEdges& rest, double whole, int32_t label,
                                       Box& box) {
  box = {static_cast<int32_t>(rest.left), static_cast<int32_t>(rest.top),
         static_cast<int32_t>(rest.right), static_cast<int32_t>(rest.bottom), label};
  const double area = rest.area();
  return area > 0.0 && 10.0 * area >= whole;
}

/// Cuts a box to an image of that size. Returns false as keep_rest().
DUET_HOST_DEVICE inline bool cut_box(const BoxEdges& edges, int32_t label, int32_t height,
                                     int32_t width, Box& box) {
  return keep_rest(edges.in_image(height, width), edges.area(), label, box);
}

/// A length of which `from` become `to`, to the nearest unit. REQUIRES: from > 0.
DUET_HOST_DEVICE inline int64_t rescaled(int64_t length, int32_t from, int32_t to) {
  if (from == to) return length;
  return (length * to + (length < 0 ? -from : from) / 2) / from;
}

/// Moves a box as find_place() and resized_pixel() of data/batch/augment_pixels.h move the pixels of an
/// image of that size, and cuts it: to the part that is resized, and where that is shifted to, to
/// the image. Returns false as keep_rest(). What padding repeats of the image (`edge`, `reflect`)
/// belongs to no box.
DUET_HOST_DEVICE inline bool move_box(const AugmentDraw& d, int32_t height, int32_t width,
                                      Box& box) {
  const auto resized = [](int32_t edge, int32_t first, int32_t from, int32_t to) {
    return rescaled(edge - int64_t{first} * kBoxUnit, from, to);
  };
  const BoxEdges whole = {resized(box.left, d.box_left, d.box_width, width),
                          resized(box.top, d.box_top, d.box_height, height),
                          resized(box.right, d.box_left, d.box_width, width),
                          resized(box.bottom, d.box_top, d.box_height, height)};
  const BoxEdges part = whole.in_image(height, width);
  const int64_t right = int64_t{d.right} * kBoxUnit, down = int64_t{d.down} * kBoxUnit;
  BoxEdges edges = {part.left - right, part.top - down, part.right - right, part.bottom - down};
  if (d.flipped) {
    const int64_t end = int64_t{width} * kBoxUnit, left = edges.left;
    edges.left = end - edges.right;
    edges.right = end - left;
  }
  return keep_rest(edges.in_image(height, width), whole.area(), box.label, box);
}

}  // namespace duet
