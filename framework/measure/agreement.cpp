#include "measure/agreement.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "core/parallel.h"
#include "measure/layer_data.h"

namespace duet {
namespace {

// Implementations that round even where every sum and product is a whole number.
struct Inexact {
  std::string_view type, id;
  std::string_view reason;
};
constexpr Inexact kInexact[] = {
    {"conv2d", "cudnn", "the algorithm found fastest may be Winograd's or an FFT"},
};

std::string format(const char* pattern, double a, double b = 0) {
  char text[128];
  std::snprintf(text, sizeof text, pattern, a, b);
  return text;
}

}  // namespace

std::string Limit::to_string() const {
  const std::string stored = storage > 0 ? format(", stored to %.3g", storage) : "";
  switch (kind) {
    case Kind::kExact:
      return "exact";
    case Kind::kRms:
      return format("RMS %.3g of the size, an element %.3g of its own", rms, kWorstElement * rms) +
             stored;
    case Kind::kElementwise:
      return format("atol %.3g + rtol %.3g", atol, rtol) + stored;
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

/// Of every element, or one for all; and their RMS.
struct Sizes {
  const std::vector<double>& each;
  double rms;

  double at(int64_t i) const { return each.empty() ? rms : each[i]; }
};

Part compare_part(const std::vector<double>& expected, const std::vector<double>& found,
                  const Limit& limit, const Sizes& sizes, int64_t first, int64_t last) {
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
      share = error / (limit.atol + (limit.rtol + limit.storage) * std::abs(e));
    } else {
      const double allowed =
          limit.kind == Limit::Kind::kRms
              ? kWorstElement * limit.rms * sizes.at(i) + limit.storage * std::abs(e)
              : 0;
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
                  const Limit& limit, const std::vector<double>& sizes) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double reference_square = 0, size_square = 0;
  double n = 0;  // values that a root mean square can be taken of
  for (size_t i = 0; i < expected.size(); ++i) {
    const double e = expected[i];
    if (!std::isfinite(e)) continue;
    reference_square += e * e;
    if (!sizes.empty()) size_square += sizes[i] * sizes[i];
    ++n;
  }
  n = std::max(n, 1.0);
  const double reference_rms = std::sqrt(reference_square / n);
  const double size_rms = sizes.empty() ? reference_rms : std::sqrt(size_square / n);

  constexpr int64_t kPart = 1 << 15, kOperations = 20;
  const auto count = static_cast<int64_t>(expected.size());
  std::vector<Part> parts((expected.size() + kPart - 1) / kPart);
  parallel_for(static_cast<int64_t>(parts.size()), count * kOperations, [&](int64_t i) {
    parts[i] = compare_part(expected, found, limit, {sizes, size_rms}, i * kPart,
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
    const double allowed = limit.rms * size_rms + limit.storage * reference_rms;
    a.share_of_limit = std::max(a.share_of_limit, allowed > 0 ? error_rms / allowed : kInfinity);
  }
  if (limit.kind == Limit::Kind::kElementwise && reference_rms > 0) {
    // atol alone would pass zeros for outputs that are all small.
    a.share_of_limit = std::max(a.share_of_limit, a.rms_relative / (1e-3 + limit.storage));
  }
  a.agrees = a.share_of_limit <= 1;
  return a;
}

Limit limit_of(const Layer& layer, Pass pass, const TensorDesc& output, bool parameter, Math math) {
  if (output.dtype != DType::kFloat32 && output.dtype != DType::kBFloat16) return Limit::exact();
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
  } else if (layer.cancels()) {
    terms = 1;
    math = Math::kFP32;
  }
  // Both operands of dw are stored in bfloat16 already; what is left is to round dw itself.
  const bool stored_once = math == Math::kBF16 && weight && parameter && pass != Pass::kForward;
  if (stored_once) math = Math::kFP32;
  Limit limit = terms == 0 ? Limit::elementwise() : Limit::of_rms(rounding_limit(math, terms));
  limit.storage = storage_rounding(stored_once ? DType::kBFloat16 : output.dtype);
  return limit;
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
