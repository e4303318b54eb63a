// What an examination must find, on either device.
#pragma once

#include "core/tensor.h"
#include "device/device.h"

namespace duet {

/// Every double is caught in every pass, under its name, by measure_pass(), and gets no time.
void check_doubles_are_caught(Device device);
/// Who leaks, or takes much memory of its own, is found; who takes little is not.
void check_memory_is_watched(Device device);
/// What is documented to get by does: a leak of 2 KiB a pass, an error in one of 100,000 calls.
void check_what_gets_by(Device device);
/// Memory of its own that is assumed to be zero is not.
void check_fresh_memory_is_filled(Device device);
/// Writes 4 KiB to 256 KiB away from an output are found.
void check_far_writes_are_caught(Device device);
/// No implementation of the layer types' own lists has a fault on their cases.
void check_sound_ones_pass(Device device, bool bf16 = false);

}  // namespace duet
