// What is asked in training of implementations that draw masks of their own (layers/own_masks.h), in
// layers without parameters whose y is x, element by element, times 0 or a scale.
#pragma once

#include "measure/examine/examine.h"

namespace duet {

/// The output of the set's pass as it lies in the rig: each element 0 or the input's times the scale of
/// the reference, as many zeros as it drops (within 6 standard deviations), and in backward the mask
/// of the rig's forward.
TensorResult hold_to_own_mask(const CheckSet& set, LayerRig& rig);

/// That, without damage; the same bits by a second instance of the same seed; another mask at the next
/// call, and at each replay of a graph.
Examination examine_own_masks(const Layer& layer, std::string_view id, Pass pass,
                              const CheckData& check_data, Context& context);

}  // namespace duet
