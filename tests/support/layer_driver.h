// The driver of the layer tests: one test for each implementation, pass and case.
#pragma once

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "measure/examine/examine.h"
#include "support/case_rig.h"

namespace duet {

/// A case's data and what the reference makes of it, for CheckLevel::kAgreement.
CheckData make_check_data(std::string_view type, const LayerCase& c);

/// Registers "<type>.<pass>/<id>/<case>" for the implementations that run on `device`, again as
/// "<case>_bf16" for those that store bfloat16, and, for the CPU, the checks of cpu_reference
/// itself: "<type>.gradient/..." and "<type>.layouts/...".
void register_layer_tests(Device device);

// The tests' bodies; they report to GoogleTest.

/// check() of implementation `id` at CheckLevel::kAgreement.
void check_pass(const Layer& layer, const std::string& case_name, std::string_view id, Pass pass,
                const CheckData& check_data);
/// Differentiates cpu_reference numerically in double and compares its backward passes.
void check_gradient(std::string_view type, const LayerCase& c);
/// cpu_reference gives the same numbers in NCHW and NHWC.
void check_layouts(std::string_view type, const LayerCase& c);

}  // namespace duet
