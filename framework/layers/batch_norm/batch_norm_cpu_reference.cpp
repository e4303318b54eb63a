// batch_norm cpu_reference: the definition as loops. Sums are in double: first the
// mean, then the squares of what differs from it. A few channels at a time, so that a cache line of
// x is read whole where channels are innermost.
#include <cmath>

#include "core/parallel.h"
#include "layers/batch_norm/batch_norm.h"

namespace duet {
namespace {

constexpr int64_t kBlock = 16;  // the most channels at a time

/// Channels [first, last). Values of channel first + k are in element k.
struct Channels {
  int64_t first, last;
  double mean[kBlock], inverse[kBlock];  // 1 / sqrt(var + eps)
};

template <class T>
class BatchNormCpuReference : public BatchNormImpl {
 public:
  using BatchNormImpl::BatchNormImpl;
  using W = Accumulator<T>;

  /// The mean of every channel, then every 1 / sqrt(var + eps).
  size_t state_bytes() const override { return 2 * problem_.channels() * sizeof(double); }

  void forward(const Run& run, const Tensor& x, const BatchNormParameters& w, const Tensor& y,
               const Tensor& state) override {
    const T* in = x.data<T>();
    T* out = y.data<T>();
    for_channels(4, [&](Channels& channels) {
      if (run.training) {
        double var[kBlock];
        measure(in, channels, var);
        update(channels, var, w.running_mean.data<W>(), w.running_var.data<W>());
        save(channels, state.data<double>());
      } else {
        take_running(w, channels);
      }
      for_each(channels, [&](int64_t k, int64_t i) {
        const int64_t c = channels.first + k;
        double value = (in[i] - channels.mean[k]) * channels.inverse[k];
        if (problem_.affine) value = value * w.weight.data<W>()[c] + w.bias.data<W>()[c];
        out[i] = T(value);
      });
    });
  }

  void backward(const Run& run, const Tensor& x, const BatchNormParameters& w, const Tensor& dy,
                const Tensor& state, const Tensor& dx, const BatchNormParameters& dw) override {
    const T *in = x.data<T>(), *gradient = dy.data<T>();
    for_channels(6, [&](Channels& channels) {
      run.training ? take_saved(state.data<double>(), channels) : take_running(w, channels);
      const auto normalised = [&](int64_t k, int64_t i) {
        return (in[i] - channels.mean[k]) * channels.inverse[k];
      };
      double sum[kBlock] = {}, product[kBlock] = {};
      for_each(channels, [&](int64_t k, int64_t i) {
        sum[k] += gradient[i];
        product[k] += gradient[i] * normalised(k, i);
      });
      for (int64_t c = channels.first; problem_.affine && c < channels.last; ++c) {
        dw.weight.data<W>()[c] = static_cast<W>(product[c - channels.first]);
        dw.bias.data<W>()[c] = static_cast<W>(sum[c - channels.first]);
      }
      if (!dx) return;
      const auto count = static_cast<double>(problem_.count());
      for_each(channels, [&](int64_t k, int64_t i) {
        double value = gradient[i];
        if (run.training) value -= sum[k] / count + normalised(k, i) * (product[k] / count);
        if (problem_.affine) value *= w.weight.data<W>()[channels.first + k];
        dx.data<T>()[i] = T(value * channels.inverse[k]);
      });
    });
  }

 private:
  void measure(const T* x, Channels& channels, double (&var)[kBlock]) const {
    const auto count = static_cast<double>(problem_.count());
    double sum[kBlock] = {};
    for_each(channels, [&](int64_t k, int64_t i) { sum[k] += x[i]; });
    for (int64_t k = 0; k < kBlock; ++k) channels.mean[k] = sum[k] / count;
    double squares[kBlock] = {};
    for_each(channels, [&](int64_t k, int64_t i) {
      const double difference = x[i] - channels.mean[k];
      squares[k] += difference * difference;
    });
    for (int64_t k = 0; k < kBlock; ++k) {
      var[k] = squares[k] / count;
      channels.inverse[k] = 1 / std::sqrt(var[k] + problem_.eps);
    }
  }

  void update(const Channels& channels, const double (&var)[kBlock], W* running_mean,
              W* running_var) const {
    const auto count = static_cast<double>(problem_.count());
    const double momentum = problem_.momentum;
    for (int64_t c = channels.first; c < channels.last; ++c) {
      const int64_t k = c - channels.first;
      running_mean[c] =
          static_cast<W>((1 - momentum) * running_mean[c] + momentum * channels.mean[k]);
      running_var[c] = static_cast<W>((1 - momentum) * running_var[c] +
                                      momentum * (var[k] * (count / (count - 1))));
    }
  }

  void save(const Channels& channels, double* state) const {
    for (int64_t c = channels.first; c < channels.last; ++c) {
      state[c] = channels.mean[c - channels.first];
      state[problem_.channels() + c] = channels.inverse[c - channels.first];
    }
  }
  void take_saved(const double* state, Channels& channels) const {
    for (int64_t c = channels.first; c < channels.last; ++c) {
      channels.mean[c - channels.first] = state[c];
      channels.inverse[c - channels.first] = state[problem_.channels() + c];
    }
  }
  void take_running(const BatchNormParameters& w, Channels& channels) const {
    for (int64_t c = channels.first; c < channels.last; ++c) {
      const double var = w.running_var.data<W>()[c];
      channels.mean[c - channels.first] = w.running_mean.data<W>()[c];
      channels.inverse[c - channels.first] = 1 / std::sqrt(var + problem_.eps);
    }
  }

  /// Calls body(channels) for all channels in parts; `operations` are those of a value.
  template <class Body>
  void for_channels(int64_t operations, Body&& body) const {
    const int64_t all = problem_.channels(), block = problem_.inner() == 1 ? kBlock : 1;
    parallel_for((all + block - 1) / block, problem_.x.elements() * operations, [&](int64_t part) {
      Channels channels = {part * block, std::min(all, (part + 1) * block)};
      body(channels);
    });
  }

  /// Calls visit(k, i) for each value of channel first + k, at i in memory, images in their order.
  template <class Visit>
  void for_each(const Channels& channels, Visit&& visit) const {
    const int64_t all = problem_.channels(), inner = problem_.inner(), outer = problem_.outer();
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t c = channels.first; c < channels.last; ++c) {
        const int64_t begin = (o * all + c) * inner;
        for (int64_t i = begin; i < begin + inner; ++i) visit(c - channels.first, i);
      }
    }
  }
};

}  // namespace

ImplEntry<BatchNormProblem> batch_norm_cpu_reference() {
  return reference_entry<BatchNormCpuReference>();
}

}  // namespace duet
