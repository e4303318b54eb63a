// Passes with their ports (core/ports.h), in memory whose surroundings are watched.
#pragma once

#include <optional>
#include <string>

#include "measure/check/guarded_buffer.h"
#include "support/case_rig.h"

namespace duet {

/// Poisoned memory of a port on the GPU; its tensor is falsy if it has no bytes.
class PortMemory {
 public:
  explicit PortMemory(const TensorDesc& desc) : desc_(desc), buffer_(Device::kGpu, desc.bytes()) {
    buffer_.poison();
  }
  Tensor tensor() const {
    if (desc_.bytes() == 0) return {};
    return {desc_, buffer_.data()};
  }
  /// Of the memory around it; empty if there is none.
  std::string damage() const { return buffer_.damage().value_or(""); }

 private:
  const TensorDesc desc_;
  GuardedBuffer buffer_;
};

/// How `pass` uses the port, if it does.
inline std::optional<PortUse> use_of(CaseRig& rig, Pass pass, Port port, bool inference = false) {
  for (const PortUse& use : rig.op().ports(pass, inference)) {
    if (use.port == port) return use;
  }
  return {};
}

/// Runs `pass` with these ports and a poisoned workspace; waits for the device.
inline void run_with(CaseRig& rig, Pass pass, const Ports& ports, bool inference = false) {
  const size_t bytes = rig.op().workspace_bytes(pass);
  const Buffer workspace(Device::kGpu, bytes);
  fill_bytes(workspace.data(), Device::kGpu, 0xFF, bytes);
  const Run run{.context = rig.context(),
                .workspace = workspace.data(),
                .workspace_bytes = bytes,
                .step = rig.step(),
                .training = !inference,
                .inference = inference,
                .ports = ports};
  rig.op().run(pass, run, rig.tensors());
  rig.context().synchronize();
}

/// Makes Ports::prepared_w of the rig's parameters.
inline void prepare_with(CaseRig& rig, const Ports& ports) {
  const Run run{.context = rig.context(), .step = rig.step(), .ports = ports};
  rig.op().prepare_weights(run, rig.tensors());
}

}  // namespace duet
