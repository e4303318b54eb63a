// What the kernels of batch normalisation share: their arguments, and what is done with the values
// once the statistics are there.
#pragma once

#include "device/launch.h"
#include "kernels/moment_parts.cuh"
#include "layers/activation/activation.h"
#include "layers/batch_norm/batch_norm_walk.cuh"

namespace duet::batch_norm {

/// The kernels' view of the arguments; pointers may be null as BatchNormImpl says.
template <class T>
struct Forward {
  const T* x;
  const float *weight, *bias;
  T* y;
  float *running_mean, *running_var;
  float* state;  // the mean of every channel, then every 1 / sqrt(var + eps)

  Forward(const Tensor& x, const BatchNormParameters& w, const Tensor& y, const Tensor& state)
      : x(x.data<T>()),
        weight(w.weight.data<float>()),
        bias(w.bias.data<float>()),
        y(y.data<T>()),
        running_mean(w.running_mean.data<float>()),
        running_var(w.running_var.data<float>()),
        state(state.data<float>()) {}
};
template <class T>
struct Backward {
  const T* x;
  const float *weight, *bias;
  const T* dy;
  const float *running_mean, *running_var, *state;
  T* dx;
  float *dweight, *dbias;
  bool training;

  Backward(bool training, const Tensor& x, const BatchNormParameters& w, const Tensor& dy,
           const Tensor& state, const Tensor& dx, const BatchNormParameters& dw)
      : x(x.data<T>()),
        weight(w.weight.data<float>()),
        bias(w.bias.data<float>()),
        dy(dy.data<T>()),
        running_mean(w.running_mean.data<float>()),
        running_var(w.running_var.data<float>()),
        state(state.data<float>()),
        dx(dx.data<T>()),
        dweight(dw.weight.data<float>()),
        dbias(dw.bias.data<float>()),
        training(training) {}
};

// Device code. Every function below is called by all threads of a block.

/// Sums that backward takes over a channel.
struct Sums {
  float dy, product;  // of dy, and of dy * z
};
__device__ __forceinline__ Sums add(const Sums& a, const Sums& b) {
  return {a.dy + b.dy, a.product + b.product};
}

/// The first of the thread's channels; some or all may be behind the last.
template <class F>
__device__ __forceinline__ int first_channel(const Walk& walk) {
  if constexpr (F::kPlanes) return walk.group();
  const int lane = threadIdx.x % walk.lanes;
  return (walk.group() * walk.lanes + lane) * F::V;
}

/// True for one thread of all that have these channels, if they exist.
template <class F>
__device__ __forceinline__ bool is_first(const Walk& walk) {
  return walk.split() == 0 && threadIdx.x < walk.lanes && first_channel<F>(walk) < walk.channels;
}

/// Calls visit(offset) for every vector of the thread in its split.
template <class F, class Visit>
__device__ __forceinline__ void for_each(const Walk& walk, Visit visit) {
  const int c = first_channel<F>(walk);
  if (c >= walk.channels) return;
  const int step = kThreads / walk.lanes;
  const int begin = walk.split() * walk.units_per_split;
  const int end = min(begin + walk.units_per_split, walk.units);
  int unit = begin + static_cast<int>(threadIdx.x) / walk.lanes;
  if constexpr (F::kPlanes) {
    // Plane and place in it, without a division each time.
    int plane = unit / walk.vectors, at = unit % walk.vectors;
    const int planes = step / walk.vectors, rest = step % walk.vectors;
    for (; unit < end; unit += step) {
      visit((plane * walk.channels + c) * walk.inner + at * F::V);
      plane += planes;
      at += rest;
      if (at >= walk.vectors) {
        at -= walk.vectors;
        ++plane;
      }
    }
  } else {
    for (; unit < end; unit += step) visit(unit * walk.channels + c);
  }
}

/// Vectors that a thread has on their way before it uses the first.
template <class F>
constexpr int kTogether = F::V > 1 ? 8 : 16;

/// Calls visit(offsets) with those of the thread's next vectors in its split, -1 where there is none,
/// until the split's end; for the whole block equally often.
template <int count, class F, class Visit>
__device__ __forceinline__ void for_each_batch(const Walk& walk, Visit visit) {
  const int c = first_channel<F>(walk), step = kThreads / walk.lanes;
  const int begin = walk.split() * walk.units_per_split;
  const int end = min(begin + walk.units_per_split, walk.units);
  for (int base = begin; base < end; base += count * step) {
    int offsets[count];
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const int unit = base + i * step + static_cast<int>(threadIdx.x) / walk.lanes;
      if (unit >= end || c >= walk.channels) {
        offsets[i] = -1;
      } else if constexpr (F::kPlanes) {
        int plane, at;
        walk.by_vectors.divmod(unit, plane, at);
        offsets[i] = (plane * walk.channels + c) * walk.inner + at * F::V;
      } else {
        offsets[i] = unit * walk.channels + c;
      }
    }
    visit(offsets);
  }
}
/// V values of a word, as widened_word(), but two of bfloat16 by an instruction each.
template <class T, int V>
__device__ __forceinline__ Vector<float, V> widened_pairs(WordOf<sizeof(T) * V> word) {
  if constexpr (sizeof(T) == 2 && V % 2 == 0) {
    uint32_t pairs[V / 2];
    memcpy(pairs, &word, sizeof word);
    Vector<float, V> values;
#pragma unroll
    for (int k = 0; k < V; ++k) {
      values.v[k] = __uint_as_float(k % 2 == 0 ? pairs[k / 2] << 16 : pairs[k / 2] & 0xFFFF0000u);
    }
    return values;
  } else {
    return widened_word<T, V>(word);
  }
}

/// So many vectors of form F, as they are stored.
template <class F, int count>
struct Batch {
  Packed<typename F::Value, F::V> vectors[count];

  __device__ __forceinline__ Batch() {}
  __device__ __forceinline__ Batch(const typename F::Value* from, const int (&offsets)[count]) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      if (offsets[i] >= 0) vectors[i] = vectors[i].load(from + offsets[i]);
    }
  }
  __device__ __forceinline__ Vector<float, F::V> operator[](int i) const {
    return widened_pairs<typename F::Value, F::V>(vectors[i].word);
  }
};

/// Of each of a thread's channels.
template <class F>
struct Statistics {
  float mean[F::kChannels], inverse[F::kChannels];  // 1 / sqrt(var + eps)
};

template <class F>
__device__ __forceinline__ Statistics<F> running_statistics(const Walk& walk, const float* mean,
                                                            const float* var) {
  Statistics<F> s = {};
  const int c = first_channel<F>(walk);
#pragma unroll
  for (int k = 0; k < F::kChannels; ++k) {
    if (c >= walk.channels) break;
    s.mean[k] = mean[c + k];
    s.inverse[k] = 1.0f / sqrtf(var[c + k] + walk.eps);
  }
  return s;
}

/// Those that keep() left: past L1, as another block may have written them.
template <class F>
__device__ __forceinline__ Statistics<F> kept_statistics(const Walk& walk, const float* state) {
  Statistics<F> s = {};
  const int c = first_channel<F>(walk);
#pragma unroll
  for (int k = 0; k < F::kChannels; ++k) {
    if (c >= walk.channels) break;
    s.mean[k] = __ldcg(state + c + k);
    s.inverse[k] = __ldcg(state + walk.channels + c + k);
  }
  return s;
}
template <class F>
__device__ __forceinline__ Statistics<F> statistics_of_backward(
    const Walk& walk, const Backward<typename F::Value>& t) {
  if (!t.training) return running_statistics<F>(walk, t.running_mean, t.running_var);
  return kept_statistics<F>(walk, t.state);
}

/// Keeps what forward found of channel c: in the state, for backward, and in the buffers.
template <class T>
__device__ __forceinline__ void keep_state(const Walk& walk, const Forward<T>& t, int c, float mean,
                                           float inverse) {
  t.state[c] = mean;
  t.state[walk.channels + c] = inverse;
}
template <class T>
__device__ __forceinline__ void keep_buffers(const Walk& walk, const Forward<T>& t, int c,
                                             float mean, float var) {
  const float unbiased = walk.count / (walk.count - 1.0f), old = 1.0f - walk.momentum;
  t.running_mean[c] = old * t.running_mean[c] + walk.momentum * mean;
  t.running_var[c] = old * t.running_var[c] + walk.momentum * (var * unbiased);
}
/// Both of all its channels, once.
template <class F>
__device__ __forceinline__ void keep(const Walk& walk, const Forward<typename F::Value>& t,
                                     const Statistics<F>& s, const float (&var)[F::kChannels]) {
  if (!is_first<F>(walk)) return;
  const int c = first_channel<F>(walk);
#pragma unroll
  for (int k = 0; k < F::kChannels; ++k) {
    keep_state(walk, t, c + k, s.mean[k], s.inverse[k]);
    keep_buffers(walk, t, c + k, s.mean[k], var[k]);
  }
}

/// From x to y before any relu, of each of a thread's channels.
template <class F>
struct Affine {
  float mean[F::kChannels], scale[F::kChannels], bias[F::kChannels];

  /// The same bits in forward, and in backward, which asks which of them relu let through.
  __device__ __forceinline__ float operator()(float x, int k) const {
    return fmaf(x - mean[k], scale[k], bias[k]);
  }
};

/// `t` is a Forward or a Backward.
template <class F, class T>
__device__ __forceinline__ Affine<F> affine_of(const Walk& walk, const T& t,
                                               const Statistics<F>& s) {
  Affine<F> affine;
  const int c = first_channel<F>(walk);
#pragma unroll
  for (int k = 0; k < F::kChannels; ++k) {
    const bool given = t.weight != nullptr && c < walk.channels;
    affine.mean[k] = s.mean[k];
    affine.scale[k] = given ? s.inverse[k] * t.weight[c + k] : s.inverse[k];
    affine.bias[k] = given ? t.bias[c + k] : 0.0f;
  }
  return affine;
}

/// y of a vector of x.
template <class F>
__device__ __forceinline__ Vector<float, F::V> normalised(Vector<float, F::V> x,
                                                          const Affine<F>& affine) {
#pragma unroll
  for (int k = 0; k < F::V; ++k) {
    x.v[k] = affine(x.v[k], F::channel_of(k));
    if constexpr (F::kRelu) x.v[k] = ReluFunction().forward(x.v[k]);
  }
  return x;
}

/// Neighbours by one instruction, as store() does it, but of bfloat16 two are rounded at a time.
template <class T, int V>
__device__ __forceinline__ void store_pairs(T* to, const Vector<float, V>& values) {
  if constexpr (V % 2 != 0) {
    store_word(to, values);
  } else {
    Vector<T, V> stored;
#pragma unroll
    for (int k = 0; k < V; k += 2) {
      const StoredPair<T> pair(values.v[k], values.v[k + 1]);
      stored.v[k] = pair.stored(0);
      stored.v[k + 1] = pair.stored(1);
    }
    WordOf<sizeof stored> word;
    memcpy(&word, &stored, sizeof word);
    *reinterpret_cast<WordOf<sizeof stored>*>(to) = word;
  }
}

/// y of the thread's values. find() is called by the whole block when its first values are on their way.
template <class F, class Find>
__device__ __forceinline__ void normalise(const Walk& walk, const Forward<typename F::Value>& t,
                                          Find find) {
  Affine<F> affine;
  bool found = false;
  for_each_batch<kTogether<F>, F>(walk, [&]<int count>(const int(&offsets)[count]) {
    const Batch<F, count> x(t.x, offsets);
    if (!found) {
      affine = affine_of<F>(walk, t, find());
      found = true;
    }
#pragma unroll
    for (int i = 0; i < count; ++i) {
      if (offsets[i] >= 0) store_pairs(t.y + offsets[i], normalised<F>(x[i], affine));
    }
  });
}

/// dy, or 0 where relu let nothing through.
template <class F>
__device__ __forceinline__ float through_relu(float dy, float x, const Affine<F>& affine, int k) {
  if constexpr (!F::kRelu) return dy;
  return affine(x, k) <= 0.0f ? 0.0f : dy;
}

/// Adds a vector to the sums that backward needs.
template <class F>
__device__ __forceinline__ void add_gradients(const Vector<float, F::V>& x,
                                              const Vector<float, F::V>& dy, const Statistics<F>& s,
                                              const Affine<F>& affine, Sums (&sums)[F::kChannels]) {
#pragma unroll
  for (int k = 0; k < F::V; ++k) {
    const int i = F::channel_of(k);
    const float d = through_relu<F>(dy.v[k], x.v[k], affine, i);
    sums[i].dy += d;
    sums[i].product += d * ((x.v[k] - s.mean[i]) * s.inverse[i]);
  }
}

/// The thread's part of the sums that backward needs.
template <class F>
__device__ __forceinline__ void sum_gradients(const Walk& walk,
                                              const Backward<typename F::Value>& t,
                                              const Statistics<F>& s, Sums (&sums)[F::kChannels]) {
#pragma unroll
  for (int k = 0; k < F::kChannels; ++k) sums[k] = {0.0f, 0.0f};
  const Affine<F> affine = affine_of<F>(walk, t, s);
  for_each<F>(walk, [&](int offset) {
    add_gradients<F>(load<F::V>(t.x + offset), load<F::V>(t.dy + offset), s, affine, sums);
  });
}

/// dweight and dbias, once, of the sums over whole channels.
template <class F>
__device__ __forceinline__ void keep_gradients(const Walk& walk,
                                               const Backward<typename F::Value>& t,
                                               const Sums (&sums)[F::kChannels]) {
  if (t.dweight == nullptr || !is_first<F>(walk)) return;
  const int c = first_channel<F>(walk);
#pragma unroll
  for (int k = 0; k < F::kChannels; ++k) {
    t.dweight[c + k] = sums[k].product;
    t.dbias[c + k] = sums[k].dy;
  }
}

/// From x and dy to dx, of the sums over whole channels.
template <class F>
struct InputGradient {
  const Affine<F>& affine;
  float of_deviation[F::kChannels], constant[F::kChannels];

  __device__ __forceinline__ InputGradient(const Walk& walk, bool training, const Statistics<F>& s,
                                           const Affine<F>& affine,
                                           const Sums (&sums)[F::kChannels])
      : affine(affine) {
#pragma unroll
    for (int k = 0; k < F::kChannels; ++k) {
      const float share = -affine.scale[k] / walk.count;
      of_deviation[k] = training ? sums[k].product * s.inverse[k] * share : 0.0f;
      constant[k] = training ? sums[k].dy * share : 0.0f;
    }
  }
  /// Of one value, d behind any relu; i is its place among the thread's channels.
  __device__ __forceinline__ float operator()(float x, float d, int i) const {
    const float rest = fmaf(x - affine.mean[i], of_deviation[i], constant[i]);
    return fmaf(d, affine.scale[i], rest);
  }
  __device__ __forceinline__ Vector<float, F::V> operator()(const Vector<float, F::V>& x,
                                                            Vector<float, F::V> dy) const {
#pragma unroll
    for (int k = 0; k < F::V; ++k) {
      const int i = F::channel_of(k);
      dy.v[k] = (*this)(x.v[k], through_relu<F>(dy.v[k], x.v[k], affine, i), i);
    }
    return dy;
  }
};

/// dweight and dbias, once, and dx of the thread's values, of the sums over whole channels.
template <class F>
__device__ __forceinline__ void write_gradients(const Walk& walk,
                                                const Backward<typename F::Value>& t,
                                                const Statistics<F>& s,
                                                const Sums (&sums)[F::kChannels]) {
  keep_gradients<F>(walk, t, sums);
  if (t.dx == nullptr) return;
  const Affine<F> affine = affine_of<F>(walk, t, s);
  const InputGradient<F> gradient(walk, t.training, s, affine, sums);
  for_each<F>(walk, [&](int offset) {
    store_pairs(t.dx + offset, gradient(load<F::V>(t.x + offset), load<F::V>(t.dy + offset)));
  });
}

/// y in evaluation.
template <class F>
static __global__ void __launch_bounds__(kThreads)
    batch_norm_evaluation_kernel(Walk walk, Forward<typename F::Value> t) {
  wait_for_primary();
  normalise<F>(walk, t, [&] { return running_statistics<F>(walk, t.running_mean, t.running_var); });
}

/// An implementation by these kernels. Self has train<F>(run, Forward) and gradients<F>(run,
/// Backward), which queue its kernels of form F.
template <class Self>
class CustomImpl : public BatchNormImpl {
 public:
  explicit CustomImpl(const BatchNormProblem& problem)
      : BatchNormImpl(problem), split_walk_(walk_of(problem, true)) {}

  size_t state_bytes() const override {
    return static_cast<size_t>(2 * problem_.channels()) * sizeof(float);
  }
  std::string detail(Pass) const override { return form_text(problem_); }

  void forward(const Run& run, const Tensor& x, const BatchNormParameters& w, const Tensor& y,
               const Tensor& state) override {
    with_form(problem_, [&](auto form) {
      using F = decltype(form);
      const Forward<typename F::Value> t(x, w, y, state);
      if (run.training) return self().template train<F>(run, t);
      launch(split_walk_, split_walk_.splits, run.stream(), batch_norm_evaluation_kernel<F>,
             split_walk_, t);
    });
  }
  void backward(const Run& run, const Tensor& x, const BatchNormParameters& w, const Tensor& dy,
                const Tensor& state, const Tensor& dx, const BatchNormParameters& dw) final {
    with_form(problem_, [&](auto form) {
      using F = decltype(form);
      self().template gradients<F>(
          run, Backward<typename F::Value>(run.training, x, w, dy, state, dx, dw));
    });
  }

 protected:
  const Walk split_walk_;

 private:
  const Self& self() const { return static_cast<const Self&>(*this); }
};

}  // namespace duet::batch_norm
