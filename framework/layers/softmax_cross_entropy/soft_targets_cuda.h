// The targets of softmax_cross_entropy with their class weights on the GPU.
#pragma once

#include "device/device.h"
#include "layers/softmax_cross_entropy/softmax_cross_entropy.h"

namespace duet {

class SoftTargetsOnGpu {
 public:
  explicit SoftTargetsOnGpu(const SoftmaxCrossEntropyProblem& problem)
      : memory_(Device::kGpu, problem.class_weights.size() * sizeof(float)),
        targets_(problem, static_cast<const float*>(memory_.data())) {
    if (problem.class_weights.empty()) return;
    copy_bytes(memory_.data(), Device::kGpu, problem.class_weights.data(), Device::kCpu,
               memory_.bytes());
  }
  const SoftTargets& get() const { return targets_; }

 private:
  Buffer memory_;
  SoftTargets targets_;
};

}  // namespace duet
