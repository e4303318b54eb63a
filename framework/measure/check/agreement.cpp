#include "measure/check/agreement.h"

#include <algorithm>

#include "core/number_text.h"
#include "measure/check/comparison_sums.h"
#include "measure/check/layer_data.h"

namespace duet {
namespace {

// Implementations that round even where every sum and product is a whole number.
struct Inexact {
  std::string_view type, id;
  bool
      always;  // else in backward_data, and in backward_filter in bf16, where a library may round the
               // sums that make dw
  std::string_view reason;
};
constexpr Inexact kInexact[] = {
    {"conv2d", "cudnn", false, "the algorithm found fastest may be Winograd's or an FFT"},
    {"conv2d", "cudnn_cufft", true, "the roots of unity are no whole numbers"},
};

}  // namespace

std::string Limit::to_string() const {
  const std::string stored = storage > 0 ? printed(", stored to %.3g", storage) : "";
  switch (kind) {
    case Kind::kExact:
      return "exact";
    case Kind::kRms:
      return printed("RMS %.3g of the size, an element %.3g of its own", rms, kWorstElement * rms) +
             stored;
    case Kind::kElementwise:
      return printed("atol %.3g + rtol %.3g", atol, rtol) + stored;
  }
  return "?";
}

std::string Agreement::to_string() const {
  return printed("max error %.6g, RMS-relative %.6g", max_error, rms_relative) +
         printed(", %.4g%% of limit, ", 100 * share_of_limit) +
         printed("worst: expected %.9g, found %.9g", expected, found);
}

Agreement compare(const std::vector<double>& expected, const std::vector<double>& found,
                  const Limit& limit, const std::vector<double>& sizes) {
  const double* size = sizes.empty() ? nullptr : sizes.data();
  const auto count = static_cast<int64_t>(expected.size());
  const ReferenceSums reference = reference_sums(expected.data(), size, count);
  const Tensor tensor = {{{count}, DType::kFloat64}, const_cast<double*>(found.data())};
  return agreement_of(comparison_sums_on_cpu({expected.data(), size, reference}, tensor, limit),
                      reference, limit);
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

bool can_be_exact(const Layer& layer, std::string_view id, Pass pass) {
  const bool bf16_backward = layer.options().math == Math::kBF16 && pass != Pass::kForward;
  const bool may_round = bf16_backward || pass == Pass::kBackwardData;
  return std::none_of(std::begin(kInexact), std::end(kInexact), [&](const Inexact& row) {
    return row.type == layer.type() && row.id == id && (row.always || may_round);
  });
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
