// mse_loss and the other losses of two tensors custom_vectorized: one kernel a pass over memory in its
// order, which is the same for x, targets and dx, 16 bytes of x at a time.
// Mapping:  thread = 4 elements (8 in bf16), then the next a grid further; block = 256. Forward adds
//           the elements of a vector in float and all else in double; its last block adds up the mean.
// Traffic:  forward x and targets once; backward the same, and dx once.
// Limits:   fp32 or bf16, fewer than 2^31 elements, any layout; tensors start at multiples of 16 bytes,
//           as every arena's do.
#include "device/launch.h"
#include "kernels/grid_sum.cuh"
#include "kernels/integers.cuh"
#include "kernels/vector.cuh"
#include "layers/loss_rows.cuh"
#include "layers/pair_loss/pair_loss.h"

namespace duet {
namespace {

constexpr int64_t kMostBlocks = 1024;

// x and targets of all rows, and which rows count.
template <class T>
struct Pair {
  const T *x, *targets;
  const int* rows;
  int elements, row_count, row_elements;
  FastDivisor by_row;

  /// visit(k, counts, x, target) for the V elements from `first` on; V may be more than a row has.
  template <int V, class Visit>
  __device__ __forceinline__ void for_vector(int first, const Visit& visit) const {
    const auto a = load<V>(x + first), b = load<V>(targets + first);
    int row, column;
    by_row.divmod(first, row, column);
    int next = row_elements - column;  // the first element of the next row, counted from `first`
    bool counts = rows[row] >= 0;
#pragma unroll
    for (int k = 0; k < V; ++k) {
      if (k == next) {
        counts = rows[++row] >= 0;
        next += row_elements;
      }
      visit(k, counts, a.v[k], b.v[k]);
    }
  }
};

// This thread's part of `count`: visit(i) for each, a grid's width apart.
template <class Visit>
__device__ __forceinline__ void for_each_of(int count, const Visit& visit) {
  const unsigned stride = gridDim.x * blockDim.x;
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < unsigned(count); i += stride) {
    visit(int(i));
  }
}

template <class Term, class T>
__global__ void __launch_bounds__(kCombineThreads)
    pair_loss_forward_kernel(Term term, Pair<T> pair, CountedSum* parts, unsigned* ticket,
                             float* loss, int* hits) {
  wait_for_primary();
  constexpr int V = kWidest<T>;
  CountedSum mine;
  for_each_of(pair.row_count, [&](int row) { mine.count += pair.rows[row] >= 0; });
  const auto add = [&](float* sum) {
    return [&term, sum](int, bool counts, float x, float t) {
      *sum += counts ? term.value(x, t) : 0.0f;
    };
  };
  const int vectors = pair.elements / V, tail = vectors * V;
  for_each_of(vectors, [&](int i) {
    float sum = 0.0f;
    pair.template for_vector<V>(i * V, add(&sum));
    mine.sum += sum;
  });
  for_each_of(pair.elements - tail, [&](int i) {
    float sum = 0.0f;
    pair.template for_vector<1>(tail + i, add(&sum));
    mine.sum += sum;
  });
  CountedSum total;
  if (!grid_sum(mine, parts, ticket, &total) || threadIdx.x > 0) return;
  *loss = total.count > 0 ? float(total.sum / (total.count * pair.row_elements)) : 0.0f;
  hits[0] = 0;
  hits[1] = int(total.count);
}

template <class Term, class T>
__global__ void __launch_bounds__(kCombineThreads)
    pair_loss_backward_kernel(Term term, Pair<T> pair, const int* hits, const float* dloss, T* dx) {
  wait_for_primary();
  constexpr int V = kWidest<T>;
  const float scale =
      *dloss / (static_cast<float>(hits[1]) * static_cast<float>(pair.row_elements));
  const auto gradient = [&](float* to) {
    return [&term, scale, to](int k, bool counts, float x, float t) {
      to[k] = counts ? scale * term.slope(x, t) : 0.0f;
    };
  };
  const int vectors = pair.elements / V, tail = vectors * V;
  for_each_of(vectors, [&](int i) {
    Vector<float, V> values;
    pair.template for_vector<V>(i * V, gradient(values.v));
    store(dx + i * V, values);
  });
  for_each_of(pair.elements - tail, [&](int i) {
    float value;
    pair.template for_vector<1>(tail + i, gradient(&value));
    dx[tail + i] = T(value);
  });
}

template <class T>
class PairLossCustomVectorized : public PairLossImpl {
 public:
  explicit PairLossCustomVectorized(const PairLossProblem& problem)
      : PairLossImpl(problem), blocks_(blocks_for(problem.x.elements())) {}

  size_t workspace_bytes(Pass pass) const override {
    return pass == Pass::kForward ? blocks_ * sizeof(CountedSum) : 0;
  }

  void forward(const Run& run, const Tensor& x, const Tensor& targets, const Tensor& rows,
               const Tensor& loss, const Tensor& hits) override {
    visit_pair_loss(problem_, [&](auto term) {
      launch_following({blocks_, kCombineThreads, 0, run.stream()},
                       pair_loss_forward_kernel<decltype(term), T>, term, pair(x, targets, rows),
                       static_cast<CountedSum*>(run.workspace), ticket_.get(), loss.data<float>(),
                       hits.data<int>());
    });
  }

  void backward(const Run& run, const Tensor& x, const Tensor& targets, const Tensor& rows,
                const Tensor& hits, const Tensor& dloss, const Tensor& dx) override {
    visit_pair_loss(problem_, [&](auto term) {
      launch_following({blocks_, kCombineThreads, 0, run.stream()},
                       pair_loss_backward_kernel<decltype(term), T>, term, pair(x, targets, rows),
                       hits.data<int>(), dloss.data<float>(), dx.data<T>());
    });
  }

 private:
  static unsigned blocks_for(int64_t elements) {
    constexpr int64_t kBlock = int64_t{kCombineThreads} * kWidest<T>;
    return static_cast<unsigned>(std::min((elements + kBlock - 1) / kBlock, kMostBlocks));
  }
  Pair<T> pair(const Tensor& x, const Tensor& targets, const Tensor& rows) const {
    const int row_elements = static_cast<int>(problem_.row_elements());
    return {x.data<T>(),
            targets.data<T>(),
            rows.data<int>(),
            static_cast<int>(problem_.x.elements()),
            static_cast<int>(problem_.rows()),
            row_elements,
            FastDivisor(row_elements)};
  }

  const unsigned blocks_;
  const loss_rows::Ticket ticket_;
};

std::optional<std::string> unsupported(const PairLossProblem& problem, Pass) {
  if (problem.x.elements() <= ConfigReader::kMaxInteger) return {};
  return "takes fewer than 2^31 elements";
}

}  // namespace

ImplEntry<PairLossProblem> pair_loss_custom_vectorized() {
  auto entry = gpu_entry<PairLossCustomVectorized>("custom_vectorized", unsupported);
  entry.shared = true;
  return entry;
}

}  // namespace duet
