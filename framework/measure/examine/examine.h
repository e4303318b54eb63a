// Whether an implementation is correct: agreement with the reference, and checks for the ways in
// which a kernel that looks right is not.
//
// The reference is cpu_reference in double on the same numbers. An implementation must agree with
// it on two sets of data in the same buffers, also where these still hold its results of other
// data, repeatedly and to the same bits, replayed from a graph, on shapes and with options beside
// those asked for, on hard data, with other numbers of threads, and with other instances at work
// between its passes; it must be done when its stream is, and leave its inputs, other passes'
// gradients, the memory around its buffers, what lies behind its workspace and the process alone;
// thousands of calls must give the same bits, and must not be faster where the data stay the same
// than where they change. No time is worth printing before that.
#pragma once

#include <string_view>
#include <vector>

#include "measure/check/check_set.h"
#include "measure/examine/fault.h"

namespace duet {

struct Examination {
  std::vector<TensorResult> tensors;  // on the first data
  int64_t replayed = 0;  // calls on the same data whose outputs were compared bit by bit
  std::vector<Fault> faults;
  bool spoils_process = false;  // leaves behind what nobody can undo
  bool passed() const { return faults.empty(); }
};

/// How much check() does.
enum class CheckLevel {
  kAgreement,   // agreement with the reference, the same bits twice, no damage, and gradients of
                // inputs that nobody wants: on the first data alone
  kEverything,  // all that is told above
};

/// Runs `pass`. A class of faults that would follow from an earlier one is not looked for. Throws
/// InterruptedError soon after an interrupt. REQUIRES: `check_data` is of this layer and has
/// `pass`; `id` supports the pass.
Examination check(const Layer& layer, std::string_view id, Pass pass, const CheckData& check_data,
                  Context& context, CheckLevel level = CheckLevel::kEverything);

}  // namespace duet
