// Duet's own kernels that run between the library's calls, written as loops on the host.
// A program needs them, because the calls that follow read what they write.
#pragma once

#include <set>
#include <string>

#include "recorded_layer.h"

namespace duet {

/// The functions in C++ that stand for `kernels`: convert, im2col, col2im, into_planes,
/// from_planes, pick, unpick, dropout. They use put() and from_gpu() of the program.
std::string host_functions(const std::set<std::string>& kernels, const RecordedLayer& recorded);

}  // namespace duet
