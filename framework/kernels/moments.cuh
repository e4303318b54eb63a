// Mean and variance in one walk over the values.
#pragma once

namespace duet {

/// Of some values: how many, their mean, and the sum of the squares of what differs from it.
struct Moments {
  float count, mean, squares;
};

// region join
/// T. Chan, G. Golub, R. LeVeque: Updating Formulae and a Pairwise Algorithm for Computing Sample
/// Variances, 1979. Two of no values make one of none.
__device__ __forceinline__ Moments joined(const Moments& a, const Moments& b) {
  const float count = a.count + b.count, difference = b.mean - a.mean;
  const float share = count > 0.0f ? b.count / count : 0.0f;
  return {count, a.mean + difference * share,
          a.squares + b.squares + difference * (a.count * share) * difference};
}
// end join

}  // namespace duet
