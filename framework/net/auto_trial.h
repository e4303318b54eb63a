// The trials of `backend: auto` (auto.h).
#pragma once

#include <memory>
#include <set>
#include <vector>

#include "measure/examine/examine.h"
#include "net/resolve.h"

namespace duet {

/// One layer, on which implementations are checked and timed. Implementations are timed on the
/// problem as it is. They are checked on as many of its images as the reference, which is slow, can
/// do in a second or so; that is all of them for small problems.
class AutoTrial {
 public:
  /// For run() over any of `passes`. REQUIRES: layer and context outlive this.
  AutoTrial(const Layer& layer, const std::vector<Pass>& passes, const LayerSituation& situation,
            Context& context);

  /// Finds the fastest candidate that is right (measure/examine/examine.h) on each of `passes`, timed over
  /// all of them. Fills in `microseconds` of all that were timed, `fault` of those that are wrong,
  /// and `far_slower` of those that were not worth an exact time. Candidates that are slower than
  /// the fastest that is right are not checked. REQUIRES: they run on the context's device and
  /// support the passes.
  void run(const std::vector<Pass>& passes, std::vector<AutoCandidate>& candidates);

 private:
  using Passes = std::vector<Pass>;

  const Layer& checked_layer() const { return smaller_ ? *smaller_ : layer_; }
  /// True if the fastest that is right was found, and none that is wrong was timed beside it.
  bool find_fastest(const Passes& passes, std::vector<AutoCandidate>& candidates);
  bool is_right(const Passes& passes, AutoCandidate& candidate);
  double rough_microseconds(const Passes& passes, AutoCandidate& candidate);
  void time(const Passes& passes, const std::vector<AutoCandidate*>& candidates);

  const Layer& layer_;
  Context& context_;
  const std::unique_ptr<Layer> smaller_;  // if the check is on fewer images
  const CheckData data_;                  // of the layer, without a reference
  const CheckData check_data_;            // of checked_layer()
  std::set<const AutoCandidate*> right_;  // in this run()
};

}  // namespace duet
