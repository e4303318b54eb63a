#include "data/format/resample.h"

#include <algorithm>
#include <cmath>

#include "data/format/image_file.h"

namespace duet {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr int kPrecision = 22;  // bits of a weight after the binary point

double box(double x) { return x > -0.5 && x <= 0.5 ? 1.0 : 0.0; }

double triangle(double x) { return std::max(0.0, 1.0 - std::fabs(x)); }

double sinc(double x) { return x == 0.0 ? 1.0 : std::sin(kPi * x) / (kPi * x); }

// Pillow's two constants are floats, and so sum to more than the 1 that the middle has: the last
// bit of a weight can depend on either.
double hamming(double x) {
  if (x == 0.0) return 1.0;
  if (std::fabs(x) >= 1.0) return 0.0;
  return sinc(x) * (double{0.54f} + double{0.46f} * std::cos(kPi * x));
}

double cubic(double x) {
  const double d = std::fabs(x);
  if (d < 1.0) return (1.5 * d - 2.5) * d * d + 1.0;
  return d < 2.0 ? ((2.5 - 0.5 * d) * d - 4.0) * d + 2.0 : 0.0;
}

double lanczos(double x) { return x >= -3.0 && x < 3.0 ? sinc(x) * sinc(x / 3.0) : 0.0; }

struct Filter {
  double (*value)(double);
  double half_width;
};

Filter filter_of(ResampleFilter filter) {
  switch (filter) {
    case ResampleFilter::kBox:
      return {box, 0.5};
    case ResampleFilter::kBilinear:
      return {triangle, 1.0};
    case ResampleFilter::kHamming:
      return {hamming, 1.0};
    case ResampleFilter::kBicubic:
      return {cubic, 2.0};
    case ResampleFilter::kLanczos:
      break;
  }
  return {lanczos, 3.0};
}

// The pixels of the source, along a row or column, that one pixel of the result is a mean of. The
// absolute weights sum to less than 2, so that 32 bits hold a sum over bytes.
struct Window {
  int64_t first = 0;
  std::vector<int32_t> weights;  // in units of 2^-kPrecision, of the pixels from `first` on
};

std::vector<Window> windows_of(int64_t from, int64_t to, const Filter& filter) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double stretch = std::max(scale, 1.0);
  const double half_width = filter.half_width * stretch;
  std::vector<Window> windows;
  windows.reserve(static_cast<size_t>(to));
  std::vector<double> weights;
  for (int64_t i = 0; i < to; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const int64_t first = std::max(int64_t{0}, static_cast<int64_t>(center - half_width + 0.5));
    const int64_t end = std::min(from, static_cast<int64_t>(center + half_width + 0.5));
    weights.clear();
    double sum = 0.0;
    for (int64_t x = first; x < end; ++x) {
      weights.push_back(filter.value((static_cast<double>(x) - center + 0.5) * (1.0 / stretch)));
      sum += weights.back();
    }
    Window& window = windows.emplace_back(Window{first, {}});
    window.weights.reserve(weights.size());
    for (const double weight : weights) {
      const double fixed = weight / sum * (1 << kPrecision);
      window.weights.push_back(static_cast<int32_t>(fixed + (fixed < 0 ? -0.5 : 0.5)));
    }
  }
  return windows;
}

constexpr int32_t kHalf = 1 << (kPrecision - 1);

uint8_t byte_of(int32_t sum) {
  return static_cast<uint8_t>(std::clamp<int32_t>(sum >> kPrecision, 0, 255));
}

Image resize_rows(const Image& image, int64_t width, const Filter& filter) {
  const std::vector<Window> windows = windows_of(image.width, width, filter);
  const int64_t channels = image.channels;
  Image result{image.height, width, channels, {}};
  result.pixels.reserve(static_cast<size_t>(image.height * width * channels));
  for (int64_t y = 0; y < image.height; ++y) {
    const uint8_t* row = image.pixels.data() + y * image.width * channels;
    for (const Window& window : windows) {
      for (int64_t c = 0; c < channels; ++c) {
        const uint8_t* from = row + window.first * channels + c;
        int32_t sum = kHalf;
        for (const int32_t weight : window.weights) {
          sum += *from * weight;
          from += channels;
        }
        result.pixels.push_back(byte_of(sum));
      }
    }
  }
  return result;
}

Image resize_columns(const Image& image, int64_t height, const Filter& filter) {
  const auto bytes = static_cast<size_t>(image.width * image.channels);  // of a row
  Image result{height, image.width, image.channels, {}};
  result.pixels.reserve(static_cast<size_t>(height) * bytes);
  std::vector<int32_t> sums(bytes);
  for (const Window& window : windows_of(image.height, height, filter)) {
    std::fill(sums.begin(), sums.end(), kHalf);
    const uint8_t* row = image.pixels.data() + static_cast<size_t>(window.first) * bytes;
    for (const int32_t weight : window.weights) {
      for (size_t i = 0; i < bytes; ++i) sums[i] += row[i] * weight;
      row += bytes;
    }
    for (const int32_t sum : sums) result.pixels.push_back(byte_of(sum));
  }
  return result;
}

}  // namespace

const std::vector<std::string>& resample_filter_names() {
  static const std::vector<std::string> names = {"box", "bilinear", "hamming", "bicubic",
                                                 "lanczos"};
  return names;
}

ResampleFilter resample_filter_from(std::string_view name) {
  const std::vector<std::string>& names = resample_filter_names();
  return static_cast<ResampleFilter>(std::find(names.begin(), names.end(), name) - names.begin());
}

Image resample(const Image& image, int64_t height, int64_t width, ResampleFilter filter) {
  check_resized(image.height, image.width, height, width);
  const Filter by = filter_of(filter);
  const Image rows = width == image.width ? image : resize_rows(image, width, by);
  return height == rows.height ? rows : resize_columns(rows, height, by);
}

}  // namespace duet
