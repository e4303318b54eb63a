// Timed calls on the CPU whose data change now and then, so that who remembers results gains nothing
// unseen, however many calls on the same data it takes to begin.
#pragma once

#include <functional>
#include <optional>
#include <random>
#include <vector>

#include "measure/check/layer_rig.h"
#include "measure/examine/fault.h"

namespace duet {

/// How much longer a call may take on changing data. Caches and branch prediction like data that
/// stay the same; who remembers is faster by a factor of 8 and more.
struct Margin {
  double factor, seconds;
};
/// True if four fifths of `changing` exceed the median of `other` by the margin.
bool is_longer(const std::vector<double>& changing, const std::vector<double>& other, Margin m);

/// Of one implementation's pass, in rigs that take turns.
class ChangingCalls {
 public:
  /// REQUIRES: the rigs outlive this, `pass` has run in them, and they are on the CPU.
  ChangingCalls(const std::vector<std::unique_ptr<LayerRig>>& rigs, Pass pass);

  /// Seconds that `calls` calls of queue(rig) take, of the rigs in turns from `first` on. Between
  /// them, outside the time, the last bit of one value of each tensor that the pass reads is turned,
  /// and later turned back: by the end every rig has been called with its data as they were. With
  /// few calls nothing changes.
  double seconds(const std::function<void()>& queue, size_t first, int64_t calls);

  /// Whether calls behind a change took longer than calls with none.
  std::optional<Fault> fault() const;

 private:
  /// The lowest bytes of a value of each tensor that the pass reads.
  std::vector<unsigned char*> any_values(const LayerRig& rig);

  const std::vector<std::unique_ptr<LayerRig>>& rigs_;
  const Pass pass_;
  std::mt19937_64 random_{20261128};
  std::vector<double> changed_, same_;
};

}  // namespace duet
