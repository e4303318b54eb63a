#include "net/drawing.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/network.h"
#include "support/text.h"
#include "test_paths.h"
#include "train/setup.h"

namespace duet {
namespace {

using Box = GraphLayout::Box;
using Point = GraphLayout::Point;

constexpr double kWidth = GraphLayout::kBoxWidth, kHeight = GraphLayout::kBoxHeight;

// Whether the piece from a to b, which is horizontal or vertical, meets the box.
bool meets(const Point& a, const Point& b, const Box& box) {
  return std::min(a.x, b.x) < box.corner.x + kWidth && std::max(a.x, b.x) > box.corner.x &&
         std::min(a.y, b.y) < box.corner.y + kHeight && std::max(a.y, b.y) > box.corner.y;
}

void check_layout(const std::vector<ResolvedLayer>& layers) {
  const GraphLayout layout = lay_out(layers);
  ASSERT_EQ(layout.boxes.size(), layers.size() + 1);
  for (const Box& box : layout.boxes) {
    EXPECT_LE(box.corner.x + kWidth, layout.width);
    EXPECT_LE(box.corner.y + kHeight, layout.height);
    for (const Box& other : layout.boxes) {
      EXPECT_TRUE(&other == &box || other.row != box.row || other.column != box.column);
    }
  }
  size_t inputs = 0;
  for (const ResolvedLayer& layer : layers) {
    inputs += layer.inputs.size() - (layer.layer->takes_labels() ? 1 : 0);  // which are not drawn
  }
  EXPECT_EQ(layout.lines.size(), inputs);
  for (const auto& line : layout.lines) {
    EXPECT_LT(layout.boxes[line.from].row, layout.boxes[line.to].row);
    for (size_t i = 1; i < line.points.size(); ++i) {
      const Point &a = line.points[i - 1], &b = line.points[i];
      EXPECT_TRUE(a.x == b.x || a.y == b.y);
      EXPECT_LE(a.x, layout.width);
      for (const Box& box : layout.boxes) EXPECT_FALSE(meets(a, b, box)) << box.layer;
    }
  }
}

TEST(Drawing, NoLineTouchesAThirdBox) {
  for (const char* file : {"lenet5_fashion", "resnet_mnist", "cifar10_cnn", "mlp_xor"}) {
    SCOPED_TRACE(file);
    SetupOptions options;
    options.config = std::string(DUET_SOURCE_DIR) + "/configs/" + file + ".yaml";
    options.backend = "cpu";
    check_layout(read_setup(options).layers);
  }
}

TestNetwork branches() {
  return make_network(
      "name: a<b\n"
      "backend: cpu_reference\n"
      "data: {dataset: synthetic_images, batch: 4}\n"
      "layers:\n"
      "  - {name: a, type: conv2d, out_channels: 3, kernel: 1}\n"
      "  - {name: b, type: relu, inputs: a}\n"
      "  - {name: c, type: relu, inputs: a}\n"
      "  - {name: d, type: sigmoid, inputs: c}\n"
      "  - {name: sum, type: add, inputs: [b, d, a]}\n"
      "  - {name: join, type: concat, inputs: [sum, images]}\n"
      "  - {type: flatten}\n"
      "  - {name: fc, type: linear, out_features: 10}\n"
      "  - {name: loss, type: softmax_cross_entropy}\n",
      {{4, 1, 8, 8}});
}

TEST(Drawing, BranchesStandSideBySide) {
  const TestNetwork network = branches();
  check_layout(network.layers);
  const GraphLayout layout = lay_out(network.layers);
  const auto box = [&](const std::string& name) {
    for (size_t i = 0; i < network.layers.size(); ++i) {
      if (network.layers[i].name == name) return layout.boxes[i + 1];
    }
    throw std::logic_error(name);
  };
  EXPECT_EQ(box("b").row, box("c").row);
  EXPECT_EQ(box("b").column, 0);
  EXPECT_EQ(box("c").column, 1);
  EXPECT_EQ(box("d").column, 1);
  EXPECT_EQ(box("sum").row, box("d").row + 1);
}

TEST(Drawing, SvgNamesEveryLayer) {
  const TestNetwork network = branches();
  const std::string svg = network_svg("a<b", network.layers);
  EXPECT_TRUE(svg.starts_with("<svg xmlns="));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_EQ(svg.find("a<b"), std::string::npos);
  EXPECT_TRUE(has(svg, "a&lt;b", "images", "conv2d → 4x3x8x8", "cpu_reference; 6 parameters",
                  "class=\"cpu\"", ">sum<"));
}

}  // namespace
}  // namespace duet
