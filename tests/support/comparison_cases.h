// Outputs beside a reference's, of all kinds that a comparison may meet.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "measure/check/agreement.h"

namespace duet {

struct ComparisonCase {
  std::string name;
  DType dtype = DType::kFloat32;
  Limit limit;
  std::vector<double> expected, found;  // `found` is what `dtype` holds
  std::vector<double> sizes = {};
};
inline void PrintTo(const ComparisonCase& c, std::ostream* out) { *out << c.name; }

/// Random values, NaN, infinities, equal errors in several places; of one element, of odd counts
/// and of several parts; under every limit and of every type.
std::vector<ComparisonCase> comparison_cases();

}  // namespace duet
