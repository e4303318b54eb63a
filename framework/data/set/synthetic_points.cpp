// Points in the plane, made without files: what a perceptron can separate, what it cannot (xor), and
// what needs a wider network (spirals). Coordinates are multiples of 2^-16, so that the last bit of a
// library's sine does not show: the same points on every machine.
#include <cmath>

#include "data/batch/data_memory.h"
#include "data/set/dataset_types.h"
#include "device/philox.h"

namespace duet {
namespace {

enum class Kind { kSeparable, kXor, kSpirals };

// Stream kStreamSynthetic is of synthetic_images, which draws under other "seeds" than these.
enum PointDraw : uint64_t { kTrainPoints = 101, kValidationPoints = 102 };

struct PointSettings {
  Kind kind = Kind::kSeparable;
  int64_t classes = 2, train_count = 0, validation_count = 0;
  double noise = 0.0, margin = 0.0;
};

struct Point {
  double x, y;
};

// Uniform in [-1, 1).
double uniform(uint32_t word) { return std::ldexp(static_cast<double>(word), -31) - 1.0; }

float on_grid(double value) { return static_cast<float>(std::round(65536.0 * value) / 65536.0); }

// Two half planes with a gap of twice the margin along the line x + y/2 = 0.1.
Point separable(const PointSettings& s, int64_t label, const Philox4& words) {
  const double along = uniform(words.v[0]), away = s.margin + 0.5 * (1.0 + uniform(words.v[1]));
  const double sign = label == 0 ? -1.0 : 1.0, norm = std::sqrt(1.25);
  const double nx = 1.0 / norm, ny = 0.5 / norm;
  return {0.1 * nx / norm - along * ny + sign * away * nx,
          0.1 * ny / norm + along * nx + sign * away * ny};
}

// The corners of a square, opposite ones of one class.
Point corners(const PointSettings&, int64_t label, const Philox4& words) {
  const double x = words.v[0] & 1 ? 1.0 : -1.0;
  return {x, label == 0 ? x : -x};
}

// An arm a class, one and a half turns from near the middle outwards.
Point spiral(const PointSettings& s, int64_t label, const Philox4& words) {
  constexpr double kTurns = 1.5, kFullTurn = 6.283185307179586;
  const double t = 0.5 * (1.0 + uniform(words.v[0]));  // along the arm
  const double angle =
      kFullTurn * (kTurns * t + static_cast<double>(label) / static_cast<double>(s.classes));
  const double radius = 0.1 + 0.9 * t;
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

Split make_split(const PointSettings& s, PointDraw what, int64_t count) {
  Split split{count, {}, {}, {}};
  for (int64_t n = 0; n < count; ++n) {
    const Philox4 words = philox_block(what, static_cast<uint64_t>(n), kStreamSynthetic, 0);
    const int64_t label = n % s.classes;
    const auto place = s.kind == Kind::kSeparable ? separable
                       : s.kind == Kind::kXor     ? corners
                                                  : spiral;
    const Point point = place(s, label, words);
    split.numbers.push_back(on_grid(point.x + s.noise * uniform(words.v[2])));
    split.numbers.push_back(on_grid(point.y + s.noise * uniform(words.v[3])));
    split.labels.push_back(static_cast<int32_t>(label));
  }
  return split;
}

DatasetLoader read_synthetic_points(ConfigReader& reader) {
  PointSettings s;
  const std::string kind = reader.choice("kind", {"separable", "xor", "spirals"});
  s.kind = kind == "xor" ? Kind::kXor : kind == "spirals" ? Kind::kSpirals : Kind::kSeparable;
  if (s.kind == Kind::kSpirals) {
    s.classes = reader.integer("classes", 2, 2, 100);
  } else {
    reader.reject("classes", kind + " has two classes");
  }
  if (s.kind == Kind::kSeparable) {
    s.margin = reader.number("margin", 0.1, 0.0, 100.0);
    reader.reject("noise", "'margin' keeps the classes apart");
  } else {
    s.noise = reader.number("noise", s.kind == Kind::kXor ? 0.5 : 0.05, 0.0, 100.0);
  }
  s.train_count = reader.integer("train_count", 2000);
  s.validation_count = reader.integer("validation_count", 500);
  DatasetInfo info{"synthetic_points", 2, 1, 1, s.classes, {}, {}, numbered_classes(s.classes)};
  info.numbers = true;
  return {info, [info, s](const std::filesystem::path&) {
            require_memory(info.name,
                           static_cast<uint64_t>(s.train_count + s.validation_count) *
                               (2 * sizeof(float) + sizeof(int32_t)),
                           "choose a smaller train_count or validation_count");
            Dataset data{info};
            data.source = "generated";
            data.train = make_split(s, kTrainPoints, s.train_count);
            data.validation = make_split(s, kValidationPoints, s.validation_count);
            return data;
          }};
}

}  // namespace

const DatasetType& synthetic_points_type() {
  static const DatasetType type = {
      .name = "synthetic_points",
      .summary = "generated points in the plane: separable, xor or spirals; needs no files",
      .read = read_synthetic_points};
  return type;
}

}  // namespace duet
