#include "measure/agreement.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "core/parallel.h"

namespace duet {
namespace {

// Products and sums: RMS-relative limit = kC * eps(math) * sqrt(K) for K terms an output. The
// rounding errors of a sum of K random terms grow as sqrt(K) beside a result that grows as sqrt(K)
// too; a plain loop is at 0.3 to 0.6 of eps * sqrt(K), blocked sums far below it.
constexpr double kC = 2;

// However long a sum: tf32 leaves 1.5e-4 to 3e-4, which does not grow with the sum.
constexpr double kMostInFP32 = 1e-4;

// Of few outputs all may happen to be sums that cancel. That their RMS is a factor f below what is
// to be expected has a probability of about f^-n for n outputs, which this makes 1 in 100.
double few_outputs(int64_t n) { return n < 16 ? std::pow(100, 1 / static_cast<double>(n)) : 1; }

// Implementations whose arithmetic is right and rounds more than a sum of products does.
struct Loosened {
  std::string_view type, id;
  double factor;
  std::string_view reason;
};
constexpr Loosened kLoosened[] = {
    {"conv2d", "cudnn", 4, "its search admits Winograd's algorithms up to this limit"},
    {"conv2d_pool_relu", "cudnn", 4, "its convolution is conv2d's"},
};

// Implementations that round even where every sum and product is a whole number.
struct Inexact {
  std::string_view type, id;
  std::string_view reason;
};
constexpr Inexact kInexact[] = {
    {"conv2d", "cudnn", "the algorithm found fastest may be Winograd's or an FFT"},
};

double eps_of(Math math) { return math == Math::kFP32 ? 0x1p-24 : 0x1p-11; }

std::string format(const char* pattern, double a, double b = 0) {
  char text[128];
  std::snprintf(text, sizeof text, pattern, a, b);
  return text;
}

/// The weight of a layer whose outputs are sums of products, or nullptr.
const ParameterSpec* weight_of(const Layer& layer) {
  for (const ParameterSpec& p : layer.parameters()) {
    if (p.name == "weight" && p.desc.shape.rank() >= 2) return &p;
  }
  return nullptr;
}

}  // namespace

std::string Limit::to_string() const {
  switch (kind) {
    case Kind::kExact:
      return "exact";
    case Kind::kRms:
      return format("RMS-relative %.3g, worst element %.3g", rms, kWorst * rms);
    case Kind::kElementwise:
      return format("atol %.3g + rtol %.3g", atol, rtol);
  }
  return "?";
}

std::string Agreement::to_string() const {
  return format("max error %.6g, RMS-relative %.6g", max_error, rms_relative) +
         format(", %.4g%% of limit, ", 100 * share_of_limit) +
         format("worst: expected %.9g, found %.9g", expected, found);
}

namespace {

// What a part of the elements adds to the comparison.
struct Part {
  double error_square = 0, found_square = 0, product = 0, max_error = 0, worst_share = -1;
  int64_t worst = -1;
};

Part compare_part(const std::vector<double>& expected, const std::vector<double>& found,
                  const Limit& limit, double reference_rms, int64_t first, int64_t last) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Part part;
  for (int64_t i = first; i < last; ++i) {
    const double e = expected[i], f = found[i];
    double error = std::abs(f - e), share;
    if ((std::isnan(e) && std::isnan(f)) || e == f) {
      error = share = 0;
    } else if (!std::isfinite(error)) {
      error = share = kInfinity;
    } else if (limit.kind == Limit::Kind::kElementwise) {
      share = error / (limit.atol + limit.rtol * std::abs(e));
    } else {
      const double allowed =
          limit.kind == Limit::Kind::kRms ? Limit::kWorst * limit.rms * reference_rms : 0;
      share = allowed > 0 ? error / allowed : kInfinity;
    }
    part.error_square += error * error;
    if (std::isfinite(e)) {
      part.found_square += f * f;
      part.product += e * f;
    }
    part.max_error = std::max(part.max_error, error);
    if (share > part.worst_share) {
      part.worst_share = share;
      part.worst = i;
    }
  }
  return part;
}

}  // namespace

Agreement compare(const std::vector<double>& expected, const std::vector<double>& found,
                  const Limit& limit) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double reference_square = 0;
  double n = 0;  // values that a root mean square can be taken of
  for (double e : expected) {
    if (!std::isfinite(e)) continue;
    reference_square += e * e;
    ++n;
  }
  n = std::max(n, 1.0);
  const double reference_rms = std::sqrt(reference_square / n);

  constexpr int64_t kPart = 1 << 15, kOperations = 20;
  const auto count = static_cast<int64_t>(expected.size());
  std::vector<Part> parts((expected.size() + kPart - 1) / kPart);
  parallel_for(static_cast<int64_t>(parts.size()), count * kOperations, [&](int64_t i) {
    parts[i] = compare_part(expected, found, limit, reference_rms, i * kPart,
                            std::min(count, (i + 1) * kPart));
  });
  Part all;
  for (const Part& part : parts) {
    all.error_square += part.error_square;
    all.found_square += part.found_square;
    all.product += part.product;
    all.max_error = std::max(all.max_error, part.max_error);
    if (part.worst_share > all.worst_share) {
      all.worst_share = part.worst_share;
      all.worst = part.worst;
    }
  }

  Agreement a = {.max_error = all.max_error, .worst = all.worst};
  if (a.worst >= 0) {
    a.expected = expected[a.worst];
    a.found = found[a.worst];
  }
  // Clamped: rounding may leave 1 + 1e-16.
  if (reference_square > 0 || all.found_square > 0) {
    const double lengths = std::sqrt(reference_square) * std::sqrt(all.found_square);
    a.cosine = lengths > 0 && std::isfinite(all.product / lengths)
                   ? std::clamp(all.product / lengths, -1.0, 1.0)
                   : 0;
  }
  const double error_rms = std::sqrt(all.error_square / n);
  if (error_rms > 0) a.rms_relative = reference_rms > 0 ? error_rms / reference_rms : kInfinity;
  a.share_of_limit = std::max(all.worst_share, 0.0);
  if (limit.kind == Limit::Kind::kRms && a.rms_relative > 0) {
    a.share_of_limit = std::max(a.share_of_limit, a.rms_relative / limit.rms);
  }
  if (limit.kind == Limit::Kind::kElementwise && reference_rms > 0) {
    // atol alone would pass zeros for outputs that are all small.
    a.share_of_limit = std::max(a.share_of_limit, a.rms_relative / 1e-3);
  }
  a.agrees = a.share_of_limit <= 1;
  return a;
}

Limit limit_of(const Layer& layer, std::string_view id, Pass pass, const TensorDesc& output,
               bool parameter, Math math) {
  if (output.dtype != DType::kFloat32) return Limit::exact();
  double factor = 1;
  for (const Loosened& row : kLoosened) {
    if (row.type == layer.type() && row.id == id) factor = row.factor;
  }
  const ParameterSpec* weight = weight_of(layer);
  double terms = 0;
  if (parameter && pass != Pass::kForward) {  // a sum over the batch
    const TensorDesc& y = layer.outputs()[0];
    terms = static_cast<double>(y.elements()) /
            static_cast<double>(weight ? weight->desc.shape[0] : output.elements());
    if (!weight) math = Math::kFP32;
  } else if (weight) {
    const Shape& w = weight->desc.shape;  // out, in / groups, r, s
    const double in = static_cast<double>(layer.inputs()[0].shape[1]);
    terms = static_cast<double>(w.elements()) /
            (pass == Pass::kForward ? static_cast<double>(w[0]) : std::max(in, 1.0));
    if (pass != Pass::kForward && w.rank() == 2) terms = static_cast<double>(w[0]);
  }
  if (terms == 0) return Limit::elementwise(factor);
  constexpr double kFewest = 16;  // below that, one sum that happens to cancel is all there is
  double rms = factor * kC * eps_of(math) * std::sqrt(std::max(terms, kFewest));
  if (math == Math::kFP32) rms = std::min(rms, kMostInFP32);
  return Limit::of_rms(rms * few_outputs(output.elements()));
}

bool can_be_exact(std::string_view type, std::string_view id) {
  for (const Inexact& row : kInexact) {
    if (row.type == type && row.id == id) return false;
  }
  return true;
}

std::string index_text(const TensorDesc& desc, int64_t offset) {
  const Shape& s = desc.shape;
  if (s.rank() == 4) {
    const bool nchw = desc.layout == Layout::kNCHW;
    const int64_t sizes[3] = {nchw ? s[1] : s[2], nchw ? s[2] : s[3], nchw ? s[3] : s[1]};
    int64_t at[4], rest = offset;
    for (int i = 2; i >= 0; --i) {
      at[i + 1] = rest % sizes[i];
      rest /= sizes[i];
    }
    at[0] = rest;
    return "[n=" + std::to_string(at[0]) + " c=" + std::to_string(at[nchw ? 1 : 3]) +
           " h=" + std::to_string(at[nchw ? 2 : 1]) + " w=" + std::to_string(at[nchw ? 3 : 2]) +
           "]";
  }
  std::string text = "]";
  for (int i = s.rank() - 1; i >= 0; --i) {
    text = std::to_string(offset % s[i]) + text;
    offset /= s[i];
    if (i > 0) text = "," + text;
  }
  return "[" + text;
}

}  // namespace duet
