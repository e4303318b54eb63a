#include "measure/examine/fault.h"

#include <algorithm>
#include <iterator>

namespace duet {
namespace {

struct Row {
  FaultKind kind;
  std::string_view name;
};
using enum FaultKind;
constexpr Row kRows[] = {
    {kWrong, "wrong"},
    {kZeros, "zeros"},
    {kUnwritten, "unwritten"},
    {kHalfWritten, "half written"},
    {kNotFinite, "not finite"},
    {kLowPrecision, "low precision"},
    {kPreviousOutput, "previous output"},
    {kCached, "cached"},
    {kFirstTimeOnly, "first time only"},
    {kUnrepeatable, "not deterministic"},
    {kReturnsEarly, "returns early"},
    {kUsesUpState, "uses up state"},
    {kNotInGraph, "not in a graph"},
    {kChangesInput, "changes its input"},
    {kSharedState, "shares state"},
    {kKeepsWorkspace, "keeps its workspace"},
    {kSometimesWrong, "sometimes wrong"},
    {kRemembers, "remembers"},
    {kThreadBound, "some threads only"},
    {kTakesMemory, "takes memory"},
    {kDataBound, "some data only"},
    {kOverrun, "writes outside"},
    {kWorkspaceOverrun, "workspace overrun"},
    {kShapeBound, "one shape only"},
    {kWrongWhenTimed, "wrong when timed"},
    {kWrongInNetwork, "wrong in the network"},
    {kImpossiblyFast, "impossibly fast"},
    {kChangesProcess, "changes the process"},
    {kFailed, "failed"},
};
static_assert(std::size(kRows) == static_cast<size_t>(kFailed) + 1);

}  // namespace

std::string_view to_string(FaultKind kind) {
  return std::find_if(std::begin(kRows), std::end(kRows),
                      [&](const Row& row) { return row.kind == kind; })
      ->name;
}

}  // namespace duet
