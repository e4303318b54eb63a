// The part of a program of `trainer explain` that the trainer uses, too: the numbers that inputs
// hold, the elements of an output that are compared, the file of values, and the comparison. The
// text of this file stands in every program, so it is C++17 and needs no library.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <vector>

/// Random numbers within `spread` of `centre`. They have 21 bits, more than TF32 and bfloat16 keep,
/// so that lower precision shows. The C++ standard defines what std::mt19937 draws.
inline std::vector<float> drawn(size_t count, unsigned seed, float centre = 0, float spread = 1) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    value = centre + spread * float(int(random() >> 11) - (1 << 20)) / (1 << 20);
  }
  return values;
}
/// The labels of a batch, every class in turn. A mixed row has a second class, and the share of the
/// first in 65536ths.
inline std::vector<float> class_labels(size_t rows, size_t classes, bool mixed) {
  std::vector<float> values;
  for (size_t i = 0; i < rows; ++i) {
    values.push_back(float(i % classes));
    if (!mixed) continue;
    values.push_back(float((2 * i + 1) % classes));
    values.push_back(float(i * 9973 % 65537));
  }
  return values;
}
/// `values` with 0 at the given places.
inline std::vector<float> zeroed(std::vector<float> values, const std::vector<double>& places) {
  for (const double place : places) values[size_t(place)] = 0;
  return values;
}

/// The elements of a tensor that are compared. `sizes` are in the order of its memory. A small
/// tensor is compared whole. Of a large one these are the first, the last, and others whose index
/// along each axis is the first, the last or any.
inline std::vector<size_t> compared(const std::vector<size_t>& sizes) {
  constexpr size_t most = 4096;
  size_t count = 1;
  for (const size_t size : sizes) count *= size;
  std::mt19937 random(0);
  std::vector<size_t> elements(std::min(count, most));
  for (size_t k = 0; k < elements.size(); ++k) {
    size_t element = 0;
    for (const size_t size : sizes) {
      const size_t choice = k < 2 ? k : random() % 16;
      const size_t index = choice == 0 ? 0 : choice == 1 ? size - 1 : random() % size;
      element = element * size + index;
    }
    elements[k] = count <= most ? k : element;
  }
  return elements;
}

/// The file of values: numbers in double (little-endian), in the order in which they are taken.
class Values {
 public:
  /// Ends the program with 1 if there is no such file of exactly `count` numbers.
  Values(const std::string& path, size_t count) : numbers_(count) {
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    const long long size = file ? static_cast<long long>(file.tellg()) : -1;
    const long long needed = static_cast<long long>(count * sizeof(double));
    if (size == needed) {
      file.seekg(0);
      file.read(reinterpret_cast<char*>(numbers_.data()), needed);
    }
    if (size == needed && file) return;
    if (size < 0) {
      std::printf(
          "%s cannot be read; it was written with this program, and its path may be given\n",
          path.c_str());
    } else {
      std::printf("%s has %lld bytes, and this program needs %lld: it belongs to another program\n",
                  path.c_str(), size, needed);
    }
    std::exit(1);
  }
  std::vector<double> take(size_t count) {
    const auto first = numbers_.begin() + static_cast<std::ptrdiff_t>(taken_);
    taken_ += count;
    return {first, first + static_cast<std::ptrdiff_t>(count)};
  }

 private:
  std::vector<double> numbers_;
  size_t taken_ = 0;
};

/// Prints and returns whether an output is right: every element was written (memory begins as NaN),
/// each element that is compared differs from the expected value by no more than the file allows,
/// and so does the root mean square of these differences.
inline bool compare(const char* name, const std::vector<double>& found,
                    const std::vector<size_t>& sizes, Values& values) {
  const std::vector<size_t> elements = compared(sizes);
  const double allowed_rms = values.take(1)[0];
  const std::vector<double> expected = values.take(elements.size());
  const std::vector<double> allowed = values.take(elements.size());
  for (size_t i = 0; i < found.size(); ++i) {
    if (!std::isnan(found[i])) continue;
    std::printf("%s: WRONG: value %zu of %zu is not a number\n", name, i, found.size());
    return false;
  }
  double squares = 0, share = 0;
  for (size_t k = 0; k < elements.size(); ++k) {
    const double value = found[elements[k]], error = std::fabs(value - expected[k]);
    if (!(error <= allowed[k])) {
      std::printf("%s: WRONG: value %zu is %.9g, expected %.9g, within %.2g\n", name, elements[k],
                  value, expected[k], allowed[k]);
      return false;
    }
    squares += error * error;
    if (allowed[k] > 0) share = std::max(share, error / allowed[k]);
  }
  const double rms = std::sqrt(squares / double(std::max(elements.size(), size_t(1))));
  if (!(rms <= allowed_rms)) {
    std::printf("%s: WRONG: the errors' root mean square is %.2g, allowed are %.2g\n", name, rms,
                allowed_rms);
    return false;
  }
  std::printf(
      "%s: right, %zu of %zu values compared; the largest error is %.2g of what it may be\n", name,
      elements.size(), found.size(), share);
  return true;
}
