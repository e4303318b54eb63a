// Memory that an implementation takes beside its workspace and its state.
#include <algorithm>

#include "measure/examine/examine_checks.h"
#include "measure/examine/memory_use.h"

namespace duet {
namespace {

// What a heap and a GPU's allocator keep for themselves.
int64_t noise(Device device) { return device == Device::kGpu ? 3 << 20 : 16 << 10; }

/// Descriptors, tables and a copy of the weights in another order are within it.
int64_t most_beside(const Layer& layer, Device device) {
  size_t bytes = 0;
  for (const auto* tensors : {&layer.inputs(), &layer.outputs()}) {
    for (const TensorDesc& tensor : *tensors) bytes += tensor.bytes();
  }
  for (const ParameterSpec& p : layer.parameters()) bytes += 2 * p.desc.bytes();
  return std::max(static_cast<int64_t>(bytes), int64_t{device == Device::kGpu ? 64 : 4} << 20);
}

struct Use {
  int64_t prepared = 0;  // by being made and prepared
  int64_t run = 0;       // in its first calls
  int64_t leaked = 0;    // when it is gone
};

Use use_of_instance(const ExamineSubject& subject) {
  const Device device = subject.context.device();
  const auto passes = passes_through(subject.layer, subject.id, subject.pass);
  const int64_t before = memory_in_use(device);
  Use use;
  {
    BoundOp op(subject.layer, subject.id, subject.context);
    op.prepare(passes);
    use.prepared = memory_in_use(device) - before;
  }
  {
    LayerRig rig(subject.layer, subject.id, passes, subject.context, subject.check_data.situation);
    rig.load(subject.sets.first.data());
    const int64_t loaded = memory_in_use(device);
    queue_through(rig, subject.sets.first);
    subject.context.synchronize();
    use.run = memory_in_use(device) - loaded;
  }
  use.leaked = memory_in_use(device) - before;
  return use;
}

std::string mib(int64_t bytes) { return std::to_string((bytes + (1 << 19)) >> 20) + " MiB"; }

std::optional<Fault> fault_of(const Use& use, const ExamineSubject& subject) {
  const Device device = subject.context.device();
  if (use.leaked > noise(device)) {
    return Fault{FaultKind::kTakesMemory, "leaks: every instance leaves " +
                                              std::to_string(use.leaked >> 10) +
                                              " KiB behind when it is gone"};
  }
  const int64_t beside = std::max(use.prepared, int64_t{0}) + std::max(use.run, int64_t{0});
  if (beside > most_beside(subject.layer, device)) {
    return Fault{FaultKind::kTakesMemory,
                 "takes " + mib(use.prepared) + " when it is prepared and " + mib(use.run) +
                     " more in its first call, beside the workspace and the state that it asks "
                     "for; scratch memory belongs into the workspace, which is counted and shared"};
  }
  return {};
}

}  // namespace

std::optional<Fault> find_memory_taken(const ExamineSubject& subject) {
  // The least of two: other threads and, on a GPU, other processes take memory too. Before somebody
  // is accused, of six.
  constexpr int kFewest = 2, kMost = 6;
  Use least = use_of_instance(subject);
  std::optional<Fault> fault;
  for (int uses = 1; uses < kFewest || (uses < kMost && fault); ++uses) {
    const Use use = use_of_instance(subject);
    least = {std::min(least.prepared, use.prepared), std::min(least.run, use.run),
             std::min(least.leaked, use.leaked)};
    fault = fault_of(least, subject);
  }
  return fault;
}

}  // namespace duet
