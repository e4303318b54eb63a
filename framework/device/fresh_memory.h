// Memory as it is when it is new: not zero, as it happens to be in a fresh process.
#pragma once

namespace duet {

/// While one lives, what is allocated is filled first: on the host by the C library with 0x7F (huge
/// as a float), in a GPU's Buffers with 0xFF (NaN). One at a time.
class FilledFreshMemory {
 public:
  FilledFreshMemory();
  ~FilledFreshMemory();
  FilledFreshMemory(const FilledFreshMemory&) = delete;
  FilledFreshMemory& operator=(const FilledFreshMemory&) = delete;
};

}  // namespace duet
