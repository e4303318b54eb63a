// What a kernel does with a gradient that it has whole: the optimizer's rule, on the spot (optim/weight_update.h).
#pragma once

#include "optim/advance.h"
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

/// The same quotients and roots without a branch each, by the steps of nvcc's own, so that those of several values are under way at
/// once: a kernel of few warps waits for one after the other. Of 0 and values far from the ends of float's range; after others
/// `in_range` is false and the results mean nothing.
struct BranchlessArithmetic {
  bool in_range = true;

  /// b > 0
  __device__ __forceinline__ float quotient(float a, float b) {
    in_range &= is_between(b, 0x1p-60f, 0x1p20f) && (a == 0.0f || is_between(a, 0x1p-96f, 0x1p60f));
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(b));
    r = __fmaf_rn(r, __fmaf_rn(-b, r, 1.0f), r);
    float q = a * r;
    q = __fmaf_rn(r, __fmaf_rn(-b, q, a), q);
    q = __fmaf_rn(r, __fmaf_rn(-b, q, a), q);
    return a == 0.0f ? a : q;
  }
  __device__ __forceinline__ float root(float x) {
    in_range &= x == 0.0f || (x > 0.0f && is_between(x, 0x1p-100f, 0x1p100f));
    float r;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    const float y = x * r;
    return x == 0.0f ? x : __fmaf_rn(__fmaf_rn(-y, y, x), 0.5f * r, y);
  }

 private:
  __device__ __forceinline__ static bool is_between(float x, float least, float most) {
    return fabsf(x) >= least && fabsf(x) <= most;
  }
};

/// Four values with what their rule keeps of them.
struct UpdatedQuad {
  float4 w, a, b;
};

template <class Rule, class By>
__device__ __forceinline__ void apply_to_quad(const Rule& rule,
                                              const typename Rule::Factors& factors, float decay,
                                              const float4& g, UpdatedQuad& quad, By&& by) {
  const auto apply = [&](float gradient, float& w, float& a, float& b) {
    float states[2] = {a, b};
    rule.apply(factors, decay, gradient, w, states, by);
    a = states[0];
    b = states[1];
  };
  apply(g.x, quad.w.x, quad.a.x, quad.b.x);
  apply(g.y, quad.w.y, quad.a.y, quad.b.y);
  apply(g.z, quad.w.z, quad.a.z, quad.b.z);
  apply(g.w, quad.w.w, quad.a.w, quad.b.w);
}

/// What is out of range somewhere. No part of the kernels it is for, whose registers it would take.
template <class Rule>
__device__ __noinline__ UpdatedQuad plainly_updated(Rule rule, typename Rule::Factors factors,
                                                    float decay, float4 g, UpdatedQuad quad) {
  apply_to_quad(rule, factors, decay, g, quad, Arithmetic());
  return quad;
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
        BranchlessArithmetic branchless;
        UpdatedQuad updated = quad[j];
        apply_to_quad(rule, factors, decay, g, updated, branchless);
        if (!branchless.in_range) updated = plainly_updated(rule, factors, decay, g, quad[j]);
        w[at[j]] = updated.w;
        if (states > 0) a[at[j]] = updated.a;
        if (states > 1) b[at[j]] = updated.b;
      }
    }
  });
}

}  // namespace duet
