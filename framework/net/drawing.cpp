#include "net/drawing.h"

#include <algorithm>
#include <set>

#include "core/number_text.h"
#include "core/xml_text.h"
#include "net/table.h"

namespace duet {
namespace {

using Box = GraphLayout::Box;
using Line = GraphLayout::Line;
using Point = GraphLayout::Point;

constexpr double kWidth = GraphLayout::kBoxWidth, kHeight = GraphLayout::kBoxHeight;
constexpr double kMargin = 16, kTitle = 34, kRowGap = 30, kColumnGap = 40;
constexpr double kLaneGap = 12;  // between lines that run side by side
constexpr double kBend = 10;     // from a box to the horizontal piece of a line
constexpr size_t kMostLetters = 38;

double x_of(int column) { return kMargin + column * (kWidth + kColumnGap); }
double y_of(int row) { return kMargin + kTitle + row * (kHeight + kRowGap); }

class Placement {
 public:
  explicit Placement(const std::vector<ResolvedLayer>& layers) {
    for (const ResolvedLayer& layer : layers) {
      for (const InputSource& input : named_inputs(layer)) {
        if (input.layer != kField || field_number(input) < fields().size()) continue;
        place(kField, 0, static_cast<int>(fields().size()));
        layout_.fields.push_back(input.field);
      }
    }
    for (size_t i = 0; i < layers.size(); ++i) {
      int row = 0, column = -1;
      for (const InputSource& input : named_inputs(layers[i])) {
        const Box& source = layout_.boxes[box_of(input)];
        row = std::max(row, source.row + 1);
        if (column < 0) column = source.column;
      }
      column = std::max(column, 0);
      while (taken_.contains({row, column})) ++column;
      place(static_cast<int>(i), row, column);
    }
    for (size_t i = 0; i < layers.size(); ++i) {
      for (const InputSource& input : named_inputs(layers[i])) {
        connect(box_of(input), i + fields().size());
      }
    }
    for (const Box& box : layout_.boxes) reach({box.corner.x + kWidth, box.corner.y + kHeight});
    layout_.width += kMargin;
    layout_.height += kMargin;
  }

  GraphLayout take() { return std::move(layout_); }

 private:
  struct Lane {
    int first, last;  // rows
    double x;
  };

  const std::vector<std::string>& fields() const { return layout_.fields; }
  size_t field_number(const InputSource& input) const {
    return static_cast<size_t>(std::find(fields().begin(), fields().end(), input.field) -
                               fields().begin());
  }
  size_t box_of(const InputSource& input) const {
    if (input.layer == kField) return field_number(input);
    return fields().size() + static_cast<size_t>(input.layer);
  }

  void place(int layer, int row, int column) {
    taken_.insert({row, column});
    layout_.boxes.push_back({layer, row, column, {x_of(column), y_of(row)}});
  }

  void reach(const Point& point) {
    layout_.width = std::max(layout_.width, point.x);
    layout_.height = std::max(layout_.height, point.y);
  }

  // Whether no box stands in the column between the two rows.
  bool is_free(int column, int first, int last) const {
    for (int row = first + 1; row < last; ++row) {
      if (taken_.contains({row, column})) return false;
    }
    return true;
  }

  // Right of all boxes in these rows, and apart from other lanes.
  double lane(int first, int last) {
    int column = 0;
    for (const auto& [row, place] : taken_) {
      if (row >= first && row <= last) column = std::max(column, place);
    }
    double x = x_of(column) + kWidth + kLaneGap;
    const auto meets = [&](const Lane& other) {
      return other.x == x && other.first < last && first < other.last;
    };
    while (std::any_of(lanes_.begin(), lanes_.end(), meets)) x += kLaneGap;
    lanes_.push_back({first, last, x});
    return x;
  }

  void connect(size_t from, size_t to) {
    const Box &a = layout_.boxes[from], &b = layout_.boxes[to];
    const Point start = {a.corner.x + kWidth / 2, a.corner.y + kHeight};
    const Point end = {b.corner.x + kWidth / 2, b.corner.y};
    double x = start.x;  // of the piece that runs down
    if (!is_free(a.column, a.row, b.row)) {
      x = is_free(b.column, a.row, b.row) ? end.x : lane(a.row, b.row);
    }
    std::vector<Point> points = {start,
                                 {start.x, start.y + kBend},
                                 {x, start.y + kBend},
                                 {x, end.y - kBend},
                                 {end.x, end.y - kBend},
                                 end};
    for (const Point& point : points) reach(point);
    layout_.lines.push_back({from, to, std::move(points)});
  }

  GraphLayout layout_;
  std::set<std::pair<int, int>> taken_;  // rows and columns of boxes
  std::vector<Lane> lanes_;
};

std::string number(double value) { return printed("%g", value); }

std::string attribute(const char* name, double value) {
  return std::string(" ") + name + "=\"" + number(value) + "\"";
}

// Of all passes that run, each once.
std::vector<std::string> implementations_of(const ResolvedLayer& layer) {
  std::vector<std::string> ids;
  for (const PassChoice& choice : layer.passes) {
    if (!runs(layer, choice.pass)) continue;
    if (std::find(ids.begin(), ids.end(), choice.id) == ids.end()) ids.push_back(choice.id);
  }
  return ids;
}

// Where there is nothing to run, or nothing chosen yet, the colour of no family.
std::string family_class(const std::vector<std::string>& ids) {
  if (ids.empty() || ids[0] == kAuto) return "none";
  return std::string(to_string(family_of(ids[0])));
}

std::string text_line(const Box& box, double y, const char* style, const std::string& text) {
  return "<text class=\"" + std::string(style) + "\"" + attribute("x", box.corner.x + 14) +
         attribute("y", box.corner.y + y) + ">" + xml_text(shortened(text, kMostLetters)) +
         "</text>";
}

std::string box_svg(const Box& box, const std::string& family,
                    const std::vector<std::string>& texts) {
  const auto rectangle = [&](const std::string& style, double width) {
    return "<rect class=\"" + style + "\"" + attribute("x", box.corner.x) +
           attribute("y", box.corner.y) + attribute("width", width) + attribute("height", kHeight) +
           " rx=\"4\"/>";
  };
  std::string svg = "<g><title>" + xml_text(join(texts, "\n")) + "</title>" +
                    rectangle("box", kWidth) + rectangle(family, 6);
  double y = 18;
  for (size_t i = 0; i < texts.size(); ++i, y += 16) {
    svg += text_line(box, y, i == 0 ? "name" : "about", texts[i]);
  }
  return svg + "</g>\n";
}

std::string line_svg(const Line& line) {
  std::string points;
  for (const Point& point : line.points) {
    points += (points.empty() ? "" : " ") + number(point.x) + "," + number(point.y);
  }
  return "<polyline points=\"" + points + "\" marker-end=\"url(#arrow)\"/>\n";
}

constexpr const char* kStyle = R"(<style>
text { font-family: system-ui, sans-serif; fill: #1b1f24 }
.title { font-size: 17px; font-weight: 600 } .name { font-size: 13px; font-weight: 600 }
.about { font-size: 11px; fill: #59616b }
.box { fill: #f5f6f8; stroke: #d6dae0 } .none { fill: #8a929c }
.cpu { fill: #00835f } .custom { fill: #0072b2 } .cudnn { fill: #d55e00 }
polyline { fill: none; stroke: #59616b; stroke-width: 1.5; stroke-linejoin: round }
</style>
<defs><marker id="arrow" viewBox="0 0 6 6" refX="5" refY="3" markerWidth="6" markerHeight="6" orient="auto"><path d="M0,0 L6,3 L0,6 z" fill="#59616b"/></marker></defs>
)";

}  // namespace

namespace {

// REQUIRES: a layer reads it.
const Shape& shape_of_field(const std::vector<ResolvedLayer>& layers, const std::string& field) {
  for (const ResolvedLayer& layer : layers) {
    for (size_t i = 0; i < layer.inputs.size(); ++i) {
      if (layer.inputs[i].layer == kField && layer.inputs[i].field == field) {
        return layer.layer->inputs()[i].shape;
      }
    }
  }
  throw std::logic_error("no layer reads " + field);
}

}  // namespace

GraphLayout lay_out(const std::vector<ResolvedLayer>& layers) { return Placement(layers).take(); }

std::string network_svg(const std::string& title, const std::vector<ResolvedLayer>& layers) {
  const GraphLayout layout = lay_out(layers);
  std::string svg =
      "<svg xmlns=\"http://www.w3.org/2000/svg\"" + attribute("width", layout.width) +
      attribute("height", layout.height) + " viewBox=\"0 0 " + number(layout.width) + " " +
      number(layout.height) + "\">\n<title>" + xml_text(title) + "</title>\n" + kStyle +
      "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n" + "<text class=\"title\"" +
      attribute("x", kMargin) + attribute("y", kMargin + 16) + ">" +
      xml_text(title + ": " + format_count(parameter_count(layers)) + " parameters") + "</text>\n";
  for (const Line& line : layout.lines) svg += line_svg(line);
  for (size_t i = 0; i < layout.boxes.size(); ++i) {
    const Box& box = layout.boxes[i];
    if (box.layer == kField) {
      svg += box_svg(box, "none",
                     {layout.fields[i], shape_of_field(layers, layout.fields[i]).to_string()});
      continue;
    }
    const ResolvedLayer& layer = layers[static_cast<size_t>(box.layer)];
    const std::vector<std::string> ids = implementations_of(layer);
    std::string made_by = ids.empty() ? "shares memory" : join(ids);
    if (const int64_t count = parameter_count({layer})) {
      made_by += "; " + format_count(count) + " parameters";
    }
    svg += box_svg(
        box, family_class(ids),
        {layer.name,
         std::string(layer.layer->type()) + " → " + layer.layer->outputs()[0].shape.to_string(),
         made_by});
  }
  return svg + "</svg>\n";
}

}  // namespace duet
