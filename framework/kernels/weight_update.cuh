// What a kernel does with a gradient that it has whole: the optimizer's rule, on the spot (optim/weight_update.h).
#pragma once

#include "optim/advance.h"
#include "optim/updated_quad.cuh"
#include "optim/weight_update.h"

namespace duet {

/// Calls visit(rule).
template <class Visit>
__device__ __forceinline__ void with_rule(const AnyRule& any, Visit visit) {
  switch (any.kind) {
    case AnyRule::Kind::kSgd:
      return visit(any.sgd);
    case AnyRule::Kind::kAdam:
      return visit(any.adam);
  }
}

/// By threads of a block that call sync() together: updates the four values from 4 * place(i) of the parameter on, by
/// gradient(i), for i = first, first + step and so on below end; those of which the place is negative are left out. kAtOnce of
/// them are under way at once. What gradient() reads may have been written by others of these threads before.
/// One thread a block computes the rule's factors while all wait for their first values.
template <int kAtOnce, class Place, class Gradient, class Sync>
__device__ __forceinline__ void update_quads(const WeightUpdate& update, int first, int step,
                                             int end, Place place, Gradient gradient, Sync sync) {
  __shared__ alignas(8) char factors_of_block[32];
  with_rule(update.rule, [&]<class Rule>(const Rule& rule) {
    using Factors = typename Rule::Factors;
    static_assert(sizeof(Factors) <= sizeof factors_of_block);
    auto& shared_factors = reinterpret_cast<Factors&>(factors_of_block);
    float4* const w = reinterpret_cast<float4*>(update.w);
    float4* const a = reinterpret_cast<float4*>(update.states[0]);
    float4* const b = reinterpret_cast<float4*>(update.states[1]);
    const int states = rule.states();
    int at[kAtOnce];
    UpdatedQuad quad[kAtOnce] = {};
    const auto load = [&](int i) {
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        const int number = i + j * step;
        at[j] = number < end ? place(number) : -1;
        if (at[j] < 0) continue;
        quad[j].w = w[at[j]];
        if (states > 0) quad[j].a = a[at[j]];
        if (states > 1) quad[j].b = b[at[j]];
      }
    };
    load(first);
    const StepState& state = *update.state;
    const bool is_wanted = updates(state, *update.loss);
    if (threadIdx.x == 0) shared_factors = rule.factors(state.learning_rate, state.step + 1);
    sync();
    if (!is_wanted) return;
    const Factors factors = shared_factors;
    const float decay = update.decays ? rule.weight_decay : 0.0f;
    for (int i = first; i < end; i += kAtOnce * step) {
      if (i > first) load(i);
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        if (at[j] < 0) continue;
        const float4 g = gradient(i + j * step);
        const UpdatedQuad updated = updated_quad(rule, factors, decay, g, quad[j]);
        w[at[j]] = updated.w;
        if (states > 0) a[at[j]] = updated.a;
        if (states > 1) b[at[j]] = updated.b;
      }
    }
  });
}

}  // namespace duet
