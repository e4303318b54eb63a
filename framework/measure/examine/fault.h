// What can be wrong with an implementation.
#pragma once

#include <string>
#include <string_view>

namespace duet {

enum class FaultKind {
  kWrong,             // disagrees with the reference, in no way that has a name
  kZeros,             // all zeros where the reference has others
  kUnwritten,         // the output is as it was before
  kHalfWritten,       // part of the output is as it was before
  kNotFinite,         // NaN or infinity where the reference has none
  kLowPrecision,      // the errors of a narrower arithmetic than was asked for
  kPreviousOutput,    // returns what it should have returned the call before
  kCached,            // goes on returning the result of earlier data, or takes it for that of new
  kFirstTimeOnly,     // right once, then wrong
  kUnrepeatable,      // two runs on the same data differ
  kReturnsEarly,      // work goes on when its stream is done, or is not on its stream
  kUsesUpState,       // a second backward pass behind one forward is wrong
  kNotInGraph,        // wrong, or refused, when captured and replayed
  kChangesInput,      // writes to x, w, dy, in a backward pass y, or another pass's gradient
  kSharedState,       // wrong while another instance is at work
  kKeepsWorkspace,    // keeps something in its workspace from one pass to the next
  kSometimesWrong,    // differs in some of many calls on the same data
  kRemembers,         // faster, or right, only as long as its data stay the same
  kThreadBound,       // wrong with other numbers of threads, or where they meet otherwise
  kTakesMemory,       // leaks, or takes much memory beside its workspace and its state
  kDataBound,         // wrong on numbers that are rare: ties, signed zeros, large and small ones
  kOverrun,           // writes beyond a tensor or its state
  kWorkspaceOverrun,  // writes beyond the workspace that it asked for
  kShapeBound,        // wrong on a neighbouring shape that it says it supports
  kWrongWhenTimed,    // the output is wrong after the timed runs
  kWrongInNetwork,    // wrong in the running network, beside other layers
  kImpossiblyFast,    // far faster than this machine can be
  kChangesProcess,    // leaves the rounding mode, a CUDA error, a timer, a busy thread behind
  kFailed,            // threw an error
};
/// "wrong", "zeros", "unwritten", "half written", ...
std::string_view to_string(FaultKind kind);

struct Fault {
  FaultKind kind;
  std::string text;          // a sentence for people: what was found, where, by how much
  std::string picture = {};  // where the wrong elements lie (wrong_elements.h), or empty
};

}  // namespace duet
