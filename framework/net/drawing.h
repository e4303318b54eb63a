// The resolved network as a drawing of its graph.
#pragma once

#include <string>
#include <vector>

#include "net/resolve.h"

namespace duet {

/// Where boxes and lines lie, in pixels from the left upper corner.
struct GraphLayout {
  struct Point {
    double x, y;
  };
  struct Box {
    int layer;  // its number, or kField
    int row, column;
    Point corner;  // the left upper one; all boxes have one size
  };
  /// From a box's lower edge to another's upper edge, in horizontal and vertical pieces. No line
  /// touches a third box.
  struct Line {
    size_t from, to;  // boxes
    std::vector<Point> points;
  };
  static constexpr double kBoxWidth = 250, kBoxHeight = 56;

  std::vector<Box> boxes;  // the fields that are read, but labels, then the layers in their order
  std::vector<std::string> fields;
  std::vector<Line> lines;
  double width = 0, height = 0;
};

/// A row is one step further from the images; branches stand side by side, and what skips rows runs
/// beside them.
GraphLayout lay_out(const std::vector<ResolvedLayer>& layers);

/// An SVG file: each layer with type, output, parameters and implementations, coloured by family.
std::string network_svg(const std::string& title, const std::vector<ResolvedLayer>& layers);

}  // namespace duet
