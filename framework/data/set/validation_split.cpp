#include "data/set/validation_split.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "core/error.h"
#include "data/batch/order.h"

namespace duet {
namespace {

// How many of `total` come from each class of counts[i] samples: proportional, rounded down, and
// what is left over to those that lost most by that.
std::vector<int64_t> shares(const std::vector<int64_t>& counts, int64_t total) {
  const int64_t all = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  std::vector<int64_t> taken, rests, order(counts.size());
  for (const int64_t count : counts) {
    taken.push_back(count * total / all);
    rests.push_back(count * total % all);
  }
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return rests[a] > rests[b]; });
  int64_t left = total - std::accumulate(taken.begin(), taken.end(), int64_t{0});
  for (size_t i = 0; left > 0; ++i, --left) ++taken[order[i]];
  return taken;
}

}  // namespace

ValidationSplit read_validation_split(ConfigReader& reader) {
  ValidationSplit split;
  ConfigReader map = reader.map("validation_split");
  if (map.has("count")) {
    split.count = map.integer("count");
    map.reject("fraction", "'count' says how many are held out");
  } else {
    split.fraction = map.number("fraction", split.fraction, 0.0, 1.0);
    if (split.fraction <= 0.0 || split.fraction >= 1.0) {
      map.error("fraction", "expected a number between 0 and 1");
    }
  }
  split.seed = static_cast<uint64_t>(map.integer("seed", 1, 0));
  split.stratified = map.flag("stratified", split.stratified);
  map.finish();
  return split;
}

void hold_out(Dataset& data, const ValidationSplit& split) {
  const int64_t all = data.train.count;
  const int64_t total = split.count.value_or(
      std::max<int64_t>(1, std::llround(split.fraction * static_cast<double>(all))));
  if (total >= all) {
    throw DataError(data.source + ": holds " + std::to_string(all) +
                    " training samples, and data.validation_split would take " +
                    std::to_string(total) + " of them; leave some for the training");
  }
  // One group of all samples, or one a class.
  const bool by_class = split.stratified && data.classes > 0;
  std::vector<std::vector<int64_t>> groups(by_class ? static_cast<size_t>(data.classes)
                                                    : size_t{1});
  for (int64_t i = 0; i < all; ++i) {
    groups[by_class ? static_cast<size_t>(data.train.labels[i]) : 0].push_back(i);
  }
  std::vector<int64_t> counts;
  for (const auto& group : groups) counts.push_back(static_cast<int64_t>(group.size()));
  const std::vector<int64_t> taken = shares(counts, total);
  std::vector<bool> is_held_out(static_cast<size_t>(all));
  for (size_t g = 0; g < groups.size(); ++g) {
    const auto size = static_cast<uint32_t>(groups[g].size());
    for (uint32_t i = 0; i < taken[g]; ++i) {
      is_held_out[groups[g][shuffled(i, size, split.seed, g)]] = true;
    }
  }
  std::vector<int64_t> rest, held_out;
  for (int64_t i = 0; i < all; ++i) (is_held_out[i] ? held_out : rest).push_back(i);
  data.validation = selected(data.train, held_out);
  data.train = selected(data.train, rest);
}

}  // namespace duet
