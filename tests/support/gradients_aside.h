// Gradients of parameters that are computed beside other passes (device/side_stream.h).
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "device/side_stream.h"
#include "measure/check/guarded_buffer.h"
#include "support/network.h"

namespace duet {

/// backward_filter, held back until all else has been queued, finds what it reads as it was. REQUIRES: `t` has no graph.
inline void check_gradients_aside(TestTraining& t, const std::string& what) {
  Net& net = t.training->net();
  Buffer step(Device::kGpu, sizeof(uint64_t));
  fill_bytes(step.data(), Device::kGpu, 0, step.bytes());
  const auto gradients = [&](SideStream* aside) {
    const auto* number = static_cast<const uint64_t*>(step.data());
    net.forward(number);
    net.run_aside(aside);
    if (aside) aside->context().queue_delay(0.02);
    net.backward(number);
    if (aside) net.join_aside();
    net.run_aside(nullptr);
    const Tensor all = net.gradients();
    return download(all.memory, Device::kGpu, all.bytes());
  };
  SideStream aside(t.context);
  const auto expected = gradients(nullptr);
  EXPECT_EQ(gradients(&aside), expected) << what;
}

}  // namespace duet
