// Empties a GPU's L2 cache of everything that is useful.
#pragma once

#include "device/context.h"

namespace duet {

class CacheFlush {
 public:
  /// REQUIRES: a GPU context that outlives this.
  explicit CacheFlush(Context& context);
  /// Queues a read of memory twice as large as the cache. Reading, because written lines would have
  /// to go back to memory while the next kernel runs.
  void queue();

 private:
  [[maybe_unused]] Context& context_;
  Buffer memory_;
};

/// Bytes of the L2 cache of the current GPU. REQUIRES: a GPU.
size_t l2_bytes();

}  // namespace duet
