// softmax_dropout custom_online: softmax's custom_online, whose rows are dropped from where they are, in
//           registers. The mask is drawn while the row is on its way, a bit a value. Backward keeps
//           nothing: it evaluates the row and draws the mask again.
// Mapping:  as softmax custom_online; where 16 bytes are moved at a time a thread draws the Philox blocks of
//           its values, else a warp those of its neighbours, and hands them round.
// Traffic:  forward x once, y once; backward x and dy once, dx once. Rows beyond 8192 values are read
//           twice, in backward x three times.
// Limits:   fp32 or bf16, any rank; of images nchw.
#include "device/launch.h"
#include "layers/softmax/softmax_rows.cuh"
#include "layers/softmax_dropout/softmax_dropout.h"

namespace duet {
namespace {

using softmax_rows::RowSoftmax;

/// The mask of what a thread has of a row.
struct RowMask {
  DropoutMask mask;
  float scale;
  const uint64_t* step;
  bool training;  // else nothing is dropped, and `scale` is 1

  /// Bit i is set if the thread's value i is kept: of the columns behind `begin` of a row whose first
  /// element is `first`. Behind the row's end any bits. REQUIRES: the whole team calls.
  template <class F>
  __device__ __forceinline__ unsigned kept(int64_t first, int begin, int columns) const {
    static_assert(F::kValues <= 32);
    if (!training) return ~0u;
    const uint64_t number = *step;
    unsigned bits = 0;
    // More Philox blocks at once would take the registers that hold the row.
    if constexpr (F::V >= 4) {
#pragma unroll 2
      for (int i = 0; i < F::kValues; i += 4) {
        const int column = begin + F::column(i);
        if (column >= columns) break;
        bits |= mask.kept4(number, (first + column) / 4) << i;
      }
    } else {
      // A warp's 32 neighbours are in up to 9 blocks: its lanes draw those of three values.
      constexpr int kBlocks = 9, kTogether = 3;
      const int lane = threadIdx.x % 32, own = min(lane / kBlocks, kTogether - 1);
      const int64_t start = first + begin + F::column(0) - lane;
#pragma unroll 1
      for (int i = 0; i < F::kValues; i += kTogether) {
        if (start + F::distance(i) >= first + columns) break;  // the whole warp
        const unsigned drawn =
            mask.kept4(number, (start + F::distance(i + own)) / 4 + lane % kBlocks);
#pragma unroll
        for (int j = 0; j < kTogether; ++j) {
          if (i + j >= F::kValues) break;
          const int64_t from = start + F::distance(i + j), element = from + lane;
          const unsigned of_block =
              __shfl_sync(0xFFFFFFFFu, drawn, kBlocks * j + int(element / 4 - from / 4));
          bits |= (of_block >> (element % 4) & 1u) << (i + j);
        }
      }
    }
    return bits;
  }
  __device__ __forceinline__ float apply(unsigned kept, int i, float value) const {
    return kept >> i & 1u ? value * scale : 0.0f;
  }
};

template <class F, class T>
__global__ void __launch_bounds__(kCombineThreads)
    softmax_dropout_forward_online_kernel(RowMask mask, int64_t rows, int columns, const T* x,
                                          T* y) {
  wait_for_primary();
  const int64_t row = F::team(), first = row * columns;
  if (row >= rows) return;  // the whole team
  RowSoftmax<F, T> softmax(x + first, columns);
  F::for_each_piece(columns, [&](int begin) {
    const unsigned kept = mask.kept<F>(first, begin, columns);
    softmax.evaluate(begin);
#pragma unroll
    for (int i = 0; i < F::kValues; ++i) {
      softmax.values[i] = mask.apply(kept, i, softmax.values[i]);
    }
    F::store_row(y + first + begin, columns - begin, softmax.values);
  });
}

template <class F, class T>
__global__ void __launch_bounds__(kCombineThreads)
    softmax_dropout_backward_online_kernel(RowMask mask, int64_t rows, int columns, const T* x,
                                           const T* dy, T* dx) {
  wait_for_primary();
  const int64_t row = F::team(), first = row * columns;
  if (row >= rows) return;
  RowSoftmax<F, T> softmax(x + first, columns);
  float gradient[F::kValues];
  const auto read = [&](int begin) {
    F::load_row(dy + first + begin, columns - begin, 0.0f, gradient);
    const unsigned kept = mask.kept<F>(first, begin, columns);
    softmax.evaluate(begin);
#pragma unroll
    for (int i = 0; i < F::kValues; ++i) gradient[i] = mask.apply(kept, i, gradient[i]);
  };
  float sum = 0.0f;
  F::for_each_piece(columns, [&](int begin) {
    read(begin);
#pragma unroll
    for (int i = 0; i < F::kValues; ++i) sum += gradient[i] * softmax.values[i];
  });
  sum = F::combine_row(sum, [](float a, float b) { return a + b; });
  F::for_each_piece(columns, [&](int begin) {
    if (!F::kWhole && columns > F::kMost) read(begin);
#pragma unroll
    for (int i = 0; i < F::kValues; ++i) gradient[i] = softmax.values[i] * (gradient[i] - sum);
    F::store_row(dx + first + begin, columns - begin, gradient);
  });
}

template <class T>
class SoftmaxDropoutCustomOnline : public SoftmaxDropoutImpl {
 public:
  using SoftmaxDropoutImpl::SoftmaxDropoutImpl;

  std::string detail(Pass) const override {
    std::string text;
    with_register_row<T>(columns(), [&](auto form) { text = form.text(); });
    return text;
  }

  void forward(const Run& run, const Tensor& x, const Tensor& y, const Tensor&) override {
    with_register_row<T>(columns(), [&](auto form) {
      using F = decltype(form);
      launch_following({form.blocks(rows()), kCombineThreads, 0, run.stream()},
                       softmax_dropout_forward_online_kernel<F, T>, mask(run), rows(), columns(),
                       x.data<T>(), y.data<T>());
    });
  }
  void backward(const Run& run, const Tensor& x, const Tensor&, const Tensor& dy, const Tensor&,
                const Tensor& dx) override {
    with_register_row<T>(columns(), [&](auto form) {
      using F = decltype(form);
      launch_following({form.blocks(rows()), kCombineThreads, 0, run.stream()},
                       softmax_dropout_backward_online_kernel<F, T>, mask(run), rows(), columns(),
                       x.data<T>(), dy.data<T>(), dx.data<T>());
    });
  }

 private:
  int columns() const { return static_cast<int>(this->problem_.softmax.columns()); }
  int64_t rows() const { return this->problem_.softmax.rows(); }
  RowMask mask(const Run& run) const {
    const float scale = run.training ? 1.0f / (1.0f - this->problem_.dropout.p) : 1.0f;
    return {DropoutMask(this->problem_.dropout), scale, run.step, run.training};
  }
};

std::optional<std::string> unsupported(const SoftmaxDropoutProblem& problem, Pass) {
  if (problem.softmax.inner() == 1) return {};
  return "takes rows whose values are neighbours in memory: of images nchw, not nhwc";
}

}  // namespace

ImplEntry<SoftmaxDropoutProblem> softmax_dropout_custom_online() {
  return gpu_entry<SoftmaxDropoutCustomOnline>("custom_online", unsupported);
}

}  // namespace duet
