#include "layers/conv2d/cudnn/conv2d_samples.h"

#include <algorithm>
#include <cmath>

#include "core/storage.h"
#include "layers/rounding.h"

namespace duet {
namespace {

constexpr int64_t kMostSamples = 256, kFewestSamples = 8;
constexpr int64_t kMostTerms = 10'000'000;  // in all samples together: some 0.1 s

/// A sum of products and the sum of their squares.
struct Sum {
  double value = 0.0, squares = 0.0;
  void add(double product) {
    value += product;
    squares += product * product;
  }
};

struct Position {
  int64_t i0, i1, i2, i3;  // N C H W, or K C R S
};

/// The inverse of offset_of().
Position position_of(const TensorDesc& desc, int64_t offset) {
  const Shape& s = desc.shape;
  const bool nchw = desc.layout == Layout::kNCHW;
  const int64_t inner = nchw ? s[3] : s[1], middle = nchw ? s[2] : s[3];
  const int64_t outer = nchw ? s[1] : s[2];
  const int64_t a = offset / inner / middle / outer, b = offset / inner / middle % outer;
  const int64_t c = offset / inner % middle, d = offset % inner;
  return nchw ? Position{a, b, c, d} : Position{a, d, b, c};
}

/// The definition of each pass (conv2d.h), one output at a time.
class Definition {
 public:
  Definition(const Conv2dProblem& problem, const Conv2dValues& values)
      : p_(problem), values_(values) {}

  Sum forward(const Position& at) const {
    const auto [n, k, p, q] = at;
    const int64_t first = k / (p_.k / p_.groups) * p_.channels_per_group();
    Sum sum;
    for (int64_t c = 0; c < p_.channels_per_group(); ++c) {
      for (int64_t r = 0; r < p_.r; ++r) {
        for (int64_t s = 0; s < p_.s; ++s) {
          const int64_t h = p * p_.stride_h + r * p_.dilation_h - p_.pad_h;
          const int64_t w = q * p_.stride_w + s * p_.dilation_w - p_.pad_w;
          if (inside(h, p_.h) && inside(w, p_.w))
            sum.add(x(n, first + c, h, w) * weight(k, c, r, s));
        }
      }
    }
    if (p_.bias) sum.add(values_.b[k]);
    return sum;
  }

  Sum backward_data(const Position& at) const {
    const auto [n, channel, h, w] = at;
    const int64_t per_group = p_.k / p_.groups;
    const int64_t first = channel / p_.channels_per_group() * per_group;
    const int64_t c = channel % p_.channels_per_group();
    Sum sum;
    for (int64_t r = 0; r < p_.r; ++r) {
      for (int64_t s = 0; s < p_.s; ++s) {
        const int64_t down = h + p_.pad_h - r * p_.dilation_h;
        const int64_t right = w + p_.pad_w - s * p_.dilation_w;
        if (down % p_.stride_h != 0 || right % p_.stride_w != 0) continue;
        const int64_t p = down / p_.stride_h, q = right / p_.stride_w;
        if (!inside(p, p_.p) || !inside(q, p_.q)) continue;
        for (int64_t k = first; k < first + per_group; ++k)
          sum.add(y(n, k, p, q) * weight(k, c, r, s));
      }
    }
    return sum;
  }

  Sum backward_filter(const Position& at) const {
    const auto [k, c, r, s] = at;
    const int64_t channel = k / (p_.k / p_.groups) * p_.channels_per_group() + c;
    Sum sum;
    for (int64_t n = 0; n < p_.n; ++n) {
      for (int64_t p = 0; p < p_.p; ++p) {
        for (int64_t q = 0; q < p_.q; ++q) {
          const int64_t h = p * p_.stride_h + r * p_.dilation_h - p_.pad_h;
          const int64_t w = q * p_.stride_w + s * p_.dilation_w - p_.pad_w;
          if (inside(h, p_.h) && inside(w, p_.w)) sum.add(x(n, channel, h, w) * y(n, k, p, q));
        }
      }
    }
    return sum;
  }

 private:
  static bool inside(int64_t i, int64_t size) { return 0 <= i && i < size; }

  double x(int64_t n, int64_t c, int64_t h, int64_t w) const {
    return values_.x[offset_of(x_, n, c, h, w)];
  }
  double y(int64_t n, int64_t k, int64_t p, int64_t q) const {
    return values_.y[offset_of(y_, n, k, p, q)];
  }
  double weight(int64_t k, int64_t c, int64_t r, int64_t s) const {
    return values_.w[offset_of(w_, k, c, r, s)];
  }

  const Conv2dProblem& p_;
  const Conv2dValues& values_;
  const TensorDesc x_ = p_.x_desc(), y_ = p_.y_desc(), w_ = p_.w_desc();
};

TensorDesc output_of(const Conv2dProblem& problem, Pass pass) {
  return pass == Pass::kForward        ? problem.y_desc()
         : pass == Pass::kBackwardData ? problem.x_desc()
                                       : problem.w_desc();
}

int64_t terms_of(const Conv2dProblem& p, Pass pass) {
  const int64_t pixels = int64_t{p.r} * p.s;
  return pass == Pass::kForward        ? pixels * p.channels_per_group()
         : pass == Pass::kBackwardData ? pixels * (p.k / p.groups)
                                       : int64_t{p.n} * p.p * p.q;
}

}  // namespace

KnownValues::KnownValues(uint32_t seed, DType dtype) : pattern_(kPeriod) {
  uint32_t state = seed;
  for (float& value : pattern_) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(state >> 8 | 1u) * 0x1p-24f - 0.5f;
    value = static_cast<float>(rounded_to(dtype, value));
  }
}

Conv2dSamples::Conv2dSamples(const Conv2dProblem& problem, Pass pass, const Conv2dValues& values) {
  const TensorDesc output = output_of(problem, pass);
  const int64_t terms = terms_of(problem, pass);
  const int64_t count =
      std::min({kMostSamples, output.elements(), std::max(kFewestSamples, kMostTerms / terms)});
  const Definition definition(problem, values);
  uint64_t state = 1;
  for (int64_t i = 0; i < count; ++i) {
    // One in each of `count` equal parts of the tensor; the last sample is its last element.
    const int64_t begin = output.elements() * i / count;
    const int64_t end = output.elements() * (i + 1) / count;
    state = state * 6364136223846793005u + 1442695040888963407u;
    const auto random = static_cast<int64_t>(state >> 33);
    offsets_.push_back(i + 1 == count ? end - 1 : begin + random % (end - begin));
    const Position at = position_of(output, offsets_.back());
    const Sum sum = pass == Pass::kForward        ? definition.forward(at)
                    : pass == Pass::kBackwardData ? definition.backward_data(at)
                                                  : definition.backward_filter(at);
    expected_.push_back(sum.value);
    size_ += sum.squares + sum.value * sum.value;
  }
  const bool stored_once = problem.math == Math::kBF16 && pass == Pass::kBackwardFilter;
  limit_ = rounding_limit(stored_once ? Math::kFP32 : problem.math, static_cast<double>(terms));
  storage_ = storage_rounding(problem.dtype);
}

double Conv2dSamples::relative_error(const std::vector<float>& found) const {
  double squares = 0.0;
  for (size_t i = 0; i < expected_.size(); ++i) {
    const double error = std::abs(found.at(i) - expected_[i]);
    // Not std::max(0.0, ...), which would make 0 of NaN.
    const double beyond = error - storage_ * std::abs(expected_[i]);
    if (!(beyond <= 0.0)) squares += beyond * beyond;
  }
  return squares == 0.0 ? 0.0 : std::sqrt(squares / size_);
}

}  // namespace duet
