// When two results agree: limits, and the comparison with the reference.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "layers/layer.h"
#include "layers/rounding.h"

namespace duet {

/// What an implementation's error may be. NaN agrees with NaN and an infinity with itself, with
/// nothing else. Where `storage` is allowed, the mean of the signed errors is limited too: values are
/// to be rounded to nearest, not cut off.
struct Limit {
  enum class Kind {
    kExact,        // every element equal
    kRms,          // RMS of the error <= rms * RMS of the sizes, and no element's error beyond
                   // kWorstElement * rms * its own size
    kElementwise,  // |error| <= atol + rtol * |reference|, and RMS of the error <= 1e-3 of the
                   // reference
  };
  Kind kind = Kind::kExact;
  double rms = 0;
  double rtol = 0;
  double atol = 0;
  /// Allowed on top, of each element's |reference| and of the RMS of the reference
  /// (storage_rounding); not for kExact.
  double storage = 0;

  static Limit exact() { return {}; }
  static Limit of_rms(double rms) { return {.kind = Kind::kRms, .rms = rms}; }
  /// torch.testing.assert_close's defaults for float32.
  static Limit elementwise() { return {.kind = Kind::kElementwise, .rtol = 1.3e-6, .atol = 1e-5}; }
  std::string to_string() const;
};

struct Agreement {
  bool agrees = false;
  double max_error = 0;
  double rms_relative = 0;         // RMS error / RMS reference
  double cosine = 1;               // of the angle between the two as vectors; 0 if not finite
  double shortfall = 0;            // by how much of them values are nearer to zero, on average
  bool cut_off = false;            // that alone is beyond its limit
  double share_of_limit = 0;       // 1 is the limit; infinite if something is not a number
  int64_t worst = -1;              // index in memory of the worst element
  double expected = 0, found = 0;  // there

  std::string to_string() const;
};

/// `sizes` are a reference's (NamedValues::sizes); without them each is the RMS of `expected`.
/// REQUIRES: as many of each.
Agreement compare(const std::vector<double>& expected, const std::vector<double>& found,
                  const Limit& limit, const std::vector<double>& sizes = {});

/// The limit for one output of a pass of `layer`, the same for every implementation. `parameter` is
/// true for dw. Sums of products have rounding_limit(), and outputs stored in bfloat16
/// storage_rounding() on top.
Limit limit_of(const Layer& layer, Pass pass, const TensorDesc& output, bool parameter, Math math);

/// False for the few implementations that may round a pass where the data call for exact results.
bool can_be_exact(const Layer& layer, std::string_view id, Pass pass);

/// "[n=0 c=2 h=1 w=5]" of the element at `offset` in memory.
std::string index_text(const TensorDesc& desc, int64_t offset);

}  // namespace duet
