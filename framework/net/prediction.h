// The part of a network that makes its prediction.
#pragma once

#include "net/spec.h"

namespace duet {

/// The layers that lead to what the network makes (result_reader()), which the last of them then
/// makes; no losses. None if that is a field. REQUIRES: read_net_spec() found no mistakes.
NetSpec prediction_of(const NetSpec& spec);

}  // namespace duet
