// The measurements of `compare`, one after the other.
#pragma once

#include <exception>
#include <string>

#include "compare/compare.h"
#include "compare/results/results.h"

namespace duet {

/// Whether `section` is measured and shown.
bool wants(const CompareOptions& options, const std::string& section);

/// Measures; what is finished when something stops it is returned, and the reason is in `stopped`.
/// If nothing is finished, this throws the reason. REQUIRES: the options were checked.
Results measure_comparison(const CompareOptions& options, std::exception_ptr* stopped);

}  // namespace duet
