// What entries without wgmma need to know of winograd_matrices.cuh.
#pragma once

#include <memory>

#include "layers/conv2d/conv2d.h"

namespace duet {

/// A convolution by F(4x4, 3x3) and matrices in memory. REQUIRES: winograd_unsupported() has no reason, and of a pass that it
/// runs, that winograd_matrices_microseconds() is finite.
std::unique_ptr<Conv2dImpl> winograd_matrices(const Conv2dProblem& d, size_t workspace_limit);

/// An estimate; infinite where this GPU, the build or the limit has no place for it.
double winograd_matrices_microseconds(const Conv2dProblem& d, Pass pass, size_t workspace_limit);

/// Whether that is less than one of custom_wgmma_3xtf32.
bool winograd_matrices_preferred_to_wgmma(const Conv2dProblem& d, Pass pass,
                                          size_t workspace_limit);

}  // namespace duet
