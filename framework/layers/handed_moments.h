// Statistics that a layer does not have to look for: who writes a tensor has all its values in registers once, and
// leaves their moments by channel for who normalises it.
#pragma once

#include "core/channel_moments.h"
#include "layers/implementation.h"

namespace duet {

/// What an Implementation may be besides: one whose forward can leave the moments of its only y, a batch of images, as
/// y is stored.
class LeavesMoments {
 public:
  /// In how many parts; 0 where it cannot in this problem. After prepare(kForward) always the same.
  virtual int moment_parts() const = 0;
  /// Queues forward, and the moments: the same y, bit for bit, as without. REQUIRES: moment_parts() of `moments`.
  virtual void forward_with_moments(const Run& run, const LayerTensors& t,
                                    const ChannelMoments& moments) = 0;

 protected:
  ~LeavesMoments() = default;
};

/// One whose forward in training can do with the moments of its only x, in any number of parts: with all that it
/// keeps and updates as without, but for rounding.
class TakesMoments {
 public:
  /// Whether it gains what leaving them costs, by sizes at which it was measured.
  virtual bool wants_moments() const { return true; }
  virtual void forward_of_moments(const Run& run, const LayerTensors& t,
                                  const ChannelMoments& moments) = 0;

 protected:
  ~TakesMoments() = default;
};

}  // namespace duet
