// What stands before a file's own text when it is compiled, and for the CPU behind it, and what they leave
// in the compiled code: rows of tables, as variables whose names begin with "duet_" (on a GPU in constant
// memory).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "user_kernels/kernel_file.h"
#include "user_kernels/kernel_interface.h"

namespace duet {

/// The rows, as compilers for both devices lay them out. `line` is the macro's in the user's file.
struct LaunchRow {  // DUET_LAUNCH, DUET_LAUNCH_OVERLAPPED: duet_launch_LINE
  char pass[24];
  int64_t grid[3], block[3], shared;
  int32_t line;
  int32_t extras;  // what follows the tensors, a digit each to base 8, the last argument's lowest
  int32_t overlaps;
};
struct PassRow {  // on the CPU, of every pass of the layer: duet_pass_PASS
  char pass[24];
  int32_t there;   // whether the file has a function of that name
  int32_t extras;  // as above
};
struct BytesRow {  // DUET_WORKSPACE and, without a pass, DUET_STATE: duet_bytes_LINE
  char pass[24];
  int64_t bytes;
};
struct RequiresRow {  // DUET_REQUIRES_IN: duet_requires_LINE
  char pass[24];
  int32_t line, holds;
  char reason[200];
};
struct TuneRow {  // DUET_TUNE: duet_tune_NAME
  char name[64];
  int64_t values[16];  // the default first
  int64_t count;
};
enum class KernelExtra { kWorkspace = 1, kState = 2, kStep = 3, kTraining = 4 };

/// On the CPU a pass is called by a function of its own, whose symbol is this and the pass:
///   extern "C" void duet_call_forward(void* const* tensors, const HostExtras* extras)
inline constexpr const char* kCallPrefix = "duet_call_";
struct HostExtras {
  void *workspace, *state;
  const uint64_t* step;
  bool training;
};

/// What messages of static_assert begin with: a refusal, and a kernel with other arguments.
inline constexpr const char* kRefusalMark = "duet refuses: ";
inline constexpr const char* kSignatureMark = "duet signature: ";

struct TunedValue {
  std::string name;
  int64_t value;
};

/// The text to compile: constants, macros and the user's file, whose lines keep their numbers; for the
/// CPU also what calls its functions.
std::string source_text(const KernelFile& file, const Layer& layer,
                        const KernelInterface& interface, const std::vector<TunedValue>& tuned);
/// The user's file alone, whose lines a compiler's messages name.
std::string numbered_source(const KernelFile& file);

}  // namespace duet
