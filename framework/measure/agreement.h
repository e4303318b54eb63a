// When two results agree: limits, and the comparison with the reference.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "layers/layer.h"

namespace duet {

/// What an implementation's error may be. NaN agrees with NaN and an infinity with itself, with
/// nothing else.
struct Limit {
  enum class Kind {
    kExact,  // every element equal
    kRms,    // RMS of the error <= rms * RMS of the reference; no element beyond kWorst times that
    kElementwise,  // |error| <= atol + rtol * |reference|, and RMS of the error <= 1e-3 of the
                   // reference
  };
  /// No element's error may exceed this many times the RMS limit: eight standard deviations.
  static constexpr double kWorst = 8;

  Kind kind = Kind::kExact;
  double rms = 0;
  double rtol = 0;
  double atol = 0;

  static Limit exact() { return {}; }
  static Limit of_rms(double rms) { return {.kind = Kind::kRms, .rms = rms}; }
  /// torch.testing.assert_close's defaults for float32, times `factor`.
  static Limit elementwise(double factor = 1) {
    return {.kind = Kind::kElementwise, .rtol = 1.3e-6 * factor, .atol = 1e-5 * factor};
  }
  std::string to_string() const;
};

struct Agreement {
  bool agrees = false;
  double max_error = 0;
  double rms_relative = 0;         // RMS error / RMS reference
  double cosine = 1;               // of the angle between the two as vectors; 0 if not finite
  double share_of_limit = 0;       // 1 is the limit; infinite if something is not a number
  int64_t worst = -1;              // index in memory of the worst element
  double expected = 0, found = 0;  // there

  std::string to_string() const;
};

/// REQUIRES: equal sizes.
Agreement compare(const std::vector<double>& expected, const std::vector<double>& found,
                  const Limit& limit);

/// The limit for one output of a pass of `layer`. `id` matters where the table loosens one
/// implementation with a reason. `parameter` is true for dw.
Limit limit_of(const Layer& layer, std::string_view id, Pass pass, const TensorDesc& output,
               bool parameter, Math math);

/// False for the few implementations that may round where a case calls for exact results.
bool can_be_exact(std::string_view type, std::string_view id);

/// "[n=0 c=2 h=1 w=5]" of the element at `offset` in memory.
std::string index_text(const TensorDesc& desc, int64_t offset);

}  // namespace duet
