#include "train/step/program.h"

#include "device/range.h"

namespace duet {
namespace {

std::function<void()> in_range(const std::string& name, std::function<void()> queue) {
  return [name, queue = std::move(queue)] {
    const Range range(name);
    queue();
  };
}

}  // namespace

size_t Operation::workspace_bytes() const {
  return call ? call->step->op->workspace_bytes(call->step->pass) : 0;
}

void queue(const Program& program) {
  for (const Operation& operation : program) operation.queue();
}

Operation gather_operation(std::function<void()> queue) {
  return {Operation::Kind::kGather, "batch", "gather", "",
          in_range("batch gather", std::move(queue))};
}

Operation layer_operation(const Net::Call& call, std::function<void()> queue) {
  // The network marks the range of each of its calls.
  return {Operation::Kind::kLayer, call.node->name,  std::string(to_string(call.step->pass)),
          call.step->id,           std::move(queue), &call};
}

Operation update_operation(const std::string& optimizer, std::function<void()> queue) {
  return {Operation::Kind::kUpdate, "update", "", optimizer,
          in_range("update " + optimizer, std::move(queue))};
}

Operation advance_operation(std::function<void()> queue) {
  return {Operation::Kind::kAdvance, "advance", "", "", in_range("advance", std::move(queue))};
}

}  // namespace duet
