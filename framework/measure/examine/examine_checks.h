// Parts of an examination that run the implementation in ways of their own.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "measure/examine/examine.h"

namespace duet {

/// What is examined, as check() got it.
struct ExamineSubject {
  const Layer& layer;
  std::string_view id;
  Pass pass;
  const CheckData& check_data;
  const CheckSets& sets;
  Context& context;
  const std::vector<std::unique_ptr<Layer>>& neighbours;  // supported_neighbours()
};

/// Small problems beside that of `layer`: a batch of one, a larger batch and larger images, among
/// them every option of the layer (Layer::change_option) and its channels changed once.
std::vector<std::unique_ptr<Layer>> neighbours(const Layer& layer);
/// Such that implementation `id` supports all passes that lead to `pass`: options that it supports
/// in none of them are left as they are.
std::vector<std::unique_ptr<Layer>> supported_neighbours(const Layer& layer, std::string_view id,
                                                         Pass pass);

/// Runs the pass on the neighbours.
std::optional<Fault> find_shape_bound(const ExamineSubject& subject);

/// Runs the pass on numbers that random data never hold (hard_data()), on a small neighbour.
std::optional<Fault> find_data_bound(const ExamineSubject& subject);

/// Runs `rig` in turns with a second instance on other data and with instances of other sizes, and
/// overwrites the workspaces between its passes; those instances lie at protected pages on the CPU.
/// REQUIRES: `rig` is of the subject, which was right
/// so far; its data are loaded anew.
std::optional<Fault> find_shared_state(const ExamineSubject& subject, LayerRig& rig);

/// Runs `rig` with one and with four threads of OpenMP, where the process has these, and many times
/// with more than there are cores. REQUIRES: as find_shared_state().
std::optional<Fault> find_thread_bound(const ExamineSubject& subject, LayerRig& rig);

/// What instances take beside what they ask for, and whether they give it back.
std::optional<Fault> find_memory_taken(const ExamineSubject& subject);

struct RepeatedCalls {
  std::optional<Fault> fault;
  int64_t replayed = 0;  // on the same data
};

/// Thousands of calls, as far as they take little time: on the same data, whose outputs must be the
/// same bits, and on data that change before each call, which must not take longer. REQUIRES: as
/// find_shared_state().
RepeatedCalls examine_repeats(const ExamineSubject& subject, LayerRig& rig);

}  // namespace duet
