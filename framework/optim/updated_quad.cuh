// How kernels apply a rule: to four values at a time, by divisions and roots that have no branches.
#pragma once

#include "optim/rules.h"

namespace duet {

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

template <class Rule>
__device__ __forceinline__ UpdatedQuad updated_quad(const Rule& rule,
                                                    const typename Rule::Factors& factors,
                                                    float decay, const float4& g,
                                                    const UpdatedQuad& quad) {
  BranchlessArithmetic branchless;
  UpdatedQuad updated = quad;
  apply_to_quad(rule, factors, decay, g, updated, branchless);
  return branchless.in_range ? updated : plainly_updated(rule, factors, decay, g, quad);
}

}  // namespace duet
