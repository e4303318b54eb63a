// Whether memory holds what it should, looked at where it lies. All of it waits for the work queued
// on the context; all memory is on the context's device and starts at a multiple of 4 bytes.
#pragma once

#include "device/context.h"

namespace duet {

bool same_bytes(const void* a, const void* b, size_t bytes, Context& context);
/// True if every byte is `byte`.
bool all_bytes(const void* memory, std::byte byte, size_t bytes, Context& context);

}  // namespace duet
