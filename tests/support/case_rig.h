// A layer rig for a case of the tests.
#pragma once

#include "measure/check/layer_rig.h"
#include "support/layer_case.h"

namespace duet {

/// The context that all cases of a device share (library handles are slow to make).
Context& test_context(Device device);

class CaseRig : public LayerRig {
 public:
  CaseRig(const Layer& layer, const LayerCase& c, std::string_view id, const LayerData& data,
          const std::vector<Pass>& passes)
      : LayerRig(layer, id, passes, test_context(device_of(family_of(id))), c.situation()) {
    load(data);
  }
};

}  // namespace duet
