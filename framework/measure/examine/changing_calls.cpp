#include "measure/examine/changing_calls.h"

#include <algorithm>

#include "core/number_text.h"
#include "device/stopwatch.h"
#include "measure/time/statistics.h"
#include "measure/time/timing.h"

namespace duet {
namespace {

constexpr int64_t kMostChanges = 8;  // in a block; an even number
constexpr size_t kFewestSamples = 16, kMostSamples = 4096;
// A bit changes nothing for branches and caches, so that small calls are held to it as well: what
// they may take more is what reading a clock may.
constexpr Margin kBehindChange = {2, 0.2e-6};

}  // namespace

bool is_longer(const std::vector<double>& changing, const std::vector<double>& other, Margin m) {
  if (changing.empty() || other.empty()) return false;
  return summarise(changing).p20 > m.factor * summarise(other).median + m.seconds;
}

ChangingCalls::ChangingCalls(const std::vector<std::unique_ptr<LayerRig>>& rigs, Pass pass)
    : rigs_(rigs), pass_(pass) {}

std::vector<unsigned char*> ChangingCalls::any_values(const LayerRig& rig) {
  std::vector<unsigned char*> values;
  for (const Tensor& tensor : rig.read_by(pass_)) {
    if (!is_float(tensor.desc.dtype)) continue;
    const size_t element = random_() % static_cast<size_t>(tensor.elements());
    values.push_back(static_cast<unsigned char*>(tensor.memory) +
                     element * size_of(tensor.desc.dtype));
  }
  return values;
}

double ChangingCalls::seconds(const std::function<void()>& queue, size_t first, int64_t calls) {
  Context& context = rigs_.front()->context();
  const auto turns = static_cast<int64_t>(rigs_.size());
  const int64_t changes = std::min(kMostChanges, calls / turns / 2 / 2 * 2);
  if (changes < 2) return seconds_of(context, queue, calls);
  const int64_t between = calls / changes / turns * turns;  // always from the same rig on
  LayerRig& rig = *rigs_[first % rigs_.size()];
  double all = 0;
  std::vector<unsigned char*> values;
  for (int64_t change = 0; change < changes; ++change) {
    const int64_t now = change + 1 < changes ? between : calls - between * (changes - 1);
    if (change % 2 == 0) values = any_values(rig);
    for (unsigned char* value : values) *value ^= 1;
    const double start = now_seconds();
    queue();
    const double behind_change = now_seconds() - start;
    all += behind_change + seconds_of(context, queue, now - 2);
    const double last = now_seconds();
    queue();
    const double same = now_seconds() - last;
    all += same;
    if (changed_.size() == kMostSamples) continue;
    changed_.push_back(behind_change);
    same_.push_back(same);
  }
  return all;
}

std::optional<Fault> ChangingCalls::fault() const {
  if (changed_.size() < kFewestSamples || !is_longer(changed_, same_, kBehindChange)) return {};
  const std::string text = printed("%.4g us, and %.4g us behind a change of one bit",
                                   1e6 * summarise(same_).median, 1e6 * summarise(changed_).median);
  return Fault{FaultKind::kRemembers,
               "remembers earlier results: while it was timed a call took " + text +
                   " of its data; in a training all of them change, so that no time is given"};
}

}  // namespace duet
