// linear custom_register_tiled: register tiles fed by cp.async, split-K where tiles are too few.
//           The product is in linear_register_tiled.cuh; here are its tiles, the choice between
//           them, and a dot-product kernel for a handful of outputs. dw of up to 16 rows has no
//           tiles (kernels/few_rows.cuh).
// Mapping:  block = a tile of 8x32 to 128x64 outputs and a range of k; lane = 1x8, 4x8 or 8x8 sums.
// Traffic:  an operand is read once for each tile along the other, in 16-byte copies if its lines
//           start on 16 bytes; a split product also writes and reads its partial results.
//           In bf16 x and dy are widened into the workspace, and y and dx rounded from there; dot
//           products read them as they are.
// Limits:   fp32 or bf16, up to 2097120 rows.
// Measured: 3200 -> 256 on an H200, three passes: 1.7x, 1.3x, 1.2x cudnn_cublas at batch 64. At
//           1024 48.7, 54.5, 55.6 us for 45.3, 49.4, 47.0 of custom_large_tile.
#include <algorithm>
#include <array>
#include <limits>

#include "core/arena.h"
#include "core/error.h"
#include "device/attribute.h"
#include "device/check.h"
#include "device/launch.h"
#include "kernels/convert.h"
#include "kernels/few_rows.cuh"
#include "kernels/vector.cuh"
#include "layers/inference_forward.h"
#include "layers/linear/linear_products.h"
#include "layers/linear/linear_register_tiled.cuh"

namespace duet {
namespace {

using linear::blocks_of;
using linear::Product;
using linear::Tile;

/// y[n,o] = b[o] + x[n,:] . w[o,:], kWarps warps an output. Block: 256 threads, outputs in order.
/// kVector 4 needs `in` to be a multiple of 4. x and y are stored as T. Weights at rest are fetched while the kernel before
/// still runs, as many as a warp takes of a row of some thousand.
template <class T, int kWarps, int kVector>
__global__ void __launch_bounds__(256)
    linear_dot_kernel(int64_t outputs, int in, int out, const T* x, const float* w, const float* b,
                      bool relu, bool weights_rest, T* y) {
  if (!weights_rest) wait_for_primary();
  __shared__ float parts[8];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int64_t index = static_cast<int64_t>(blockIdx.x) * (8 / kWarps) + warp / kWarps;
  const bool inside = index < outputs;
  const int64_t n = inside ? index / out : 0, o = inside ? index % out : 0;
  const T* row = x + n * in;
  const float* filter = w + o * in;
  float sum = 0.0f;
  const auto add = [&](const Vector<float, kVector>& p, const Vector<float, kVector>& q) {
    if constexpr (kVector == 4) {
      sum += (p.v[0] * q.v[0] + p.v[1] * q.v[1]) + (p.v[2] * q.v[2] + p.v[3] * q.v[3]);
    } else {
      sum += p.v[0] * q.v[0];
    }
  };
  constexpr int kAhead = 4, kStep = kWarps * 32 * kVector;
  const int first = (warp % kWarps * 32 + lane) * kVector;
  Vector<float, kVector> ahead[kAhead];
#pragma unroll
  for (int k = 0; k < kAhead; ++k)
    if (first + k * kStep < in) ahead[k] = load<kVector>(filter + first + k * kStep);
  const float bias = b ? b[o] : 0.0f;
  if (weights_rest) wait_for_primary();
  let_secondary_start();
#pragma unroll
  for (int k = 0; k < kAhead; ++k)
    if (first + k * kStep < in) add(load<kVector>(row + first + k * kStep), ahead[k]);
#pragma unroll 4
  for (int i = first + kAhead * kStep; i < in; i += kStep)
    add(load<kVector>(row + i), load<kVector>(filter + i));
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    sum += __shfl_xor_sync(0xffffffffu, sum, distance);
  }
  if constexpr (kWarps > 1) {
    if (lane == 0) parts[warp] = sum;
    __syncthreads();
    if (warp % kWarps == 0) {
#pragma unroll
      for (int i = 1; i < kWarps; ++i) sum += parts[warp + i];
    }
  }
  if (inside && warp % kWarps == 0 && lane == 0) {
    if (b) sum += bias;
    y[index] = T(relu ? ReluFunction{}.forward(sum) : sum);
  }
}

template <class T, int kVector>
auto dot_kernel(int warps) {
  return warps == 1   ? linear_dot_kernel<T, 1, kVector>
         : warps == 2 ? linear_dot_kernel<T, 2, kVector>
         : warps == 4 ? linear_dot_kernel<T, 4, kVector>
                      : linear_dot_kernel<T, 8, kVector>;
}

/// Beside tensor cores, which have too little to do there (64x256 -> 10 on an H200, three passes: 1.5,
/// 1.7 and 1.4 us; custom_mma 3.9, 3.5 and 1.9 in tf32, and 4.0 forward in bf16), also where most of a tile of theirs has
/// no outputs (1024x256 -> 10 on an H100: 3.3, 3.3 and 2.5; custom_mma 4.6, 6.8 and 2.2 in tf32). In bf16 x and dy are
/// widened first, which in backward_filter of many rows pays (there 5.1; custom_mma 9.2).
bool preferred(const LinearProblem& problem, Pass pass, size_t) {
  const int64_t products = int64_t{problem.n} * problem.in * problem.out;
  const bool narrow = problem.out <= 16 && products <= 4000000;
  if (problem.math == Math::kFP32 || !(linear_is_small(problem) || narrow)) return false;
  if (problem.dtype == DType::kFloat32) return true;
  return linear_is_small(problem) ? pass == Pass::kForward : pass == Pass::kBackwardFilter;
}

/// One instance of the kernel, as the planner sees it.
struct Variant {
  int m, n, groups, threads;
  double rate;  // of the peak that its FMA reach with many warps; see cost()
  size_t shared_bytes;
  void (*kernel)(Product);
};

template <class T, bool kInnerA, bool kInnerB, int kVector>
Variant variant(double rate) {
  return {.m = T::kM,
          .n = T::kN,
          .groups = T::kGroups,
          .threads = T::kThreads,
          .rate = rate,
          .shared_bytes = linear::shared_bytes<T, kInnerA, kInnerB, kVector>(),
          .kernel = linear::linear_register_tiled_kernel<T, kInnerA, kInnerB, kVector>};
}

// Sums of a lane, warps, groups, depth of a slice, stages, blocks a multiprocessor, reading ahead.
using Tile8x32 = Tile<1, 8, 1, 1, 4, 32, 4, 2, true>;     // one image, few classes
using Tile32x32 = Tile<4, 8, 1, 1, 4, 16, 4, 2, true>;    // small batches
using Tile64x32 = Tile<8, 8, 1, 1, 2, 16, 3, 4, true>;    // the middle
using Tile128x64 = Tile<8, 8, 2, 2, 1, 16, 4, 3, false>;  // large: 3 blocks of 168 registers

template <bool kInnerA, bool kInnerB>
std::vector<Variant> variants(bool aligned) {
  if (!aligned) {
    return {variant<Tile8x32, kInnerA, kInnerB, 1>(0.42),
            variant<Tile32x32, kInnerA, kInnerB, 1>(0.81)};
  }
  return {variant<Tile8x32, kInnerA, kInnerB, 4>(0.42),
          variant<Tile32x32, kInnerA, kInnerB, 4>(0.81),
          variant<Tile64x32, kInnerA, kInnerB, 4>(1.07),
          variant<Tile128x64, kInnerA, kInnerB, 4>(0.88)};
}

int round_up(int value, int unit) { return (value + unit - 1) / unit * unit; }

/// How one product is computed.
struct Plan {
  Variant variant;
  int splits = 1;
  int k_range = 0;
  size_t workspace = 0;
  double cost = std::numeric_limits<double>::infinity();
};

/// Microseconds on an H200, by a model fitted to the measured times of 39 products: a launch, the
/// rounds of blocks of the fullest multiprocessor (its FMA at 1.9 GHz or the bytes it loads,
/// whichever is more), the output, and the second kernel of a split product. What it chose was 3%
/// slower than the fastest of all tiles and splits on average. Only the order of the costs counts.
double cost(const Variant& v, const Product& p, int splits, int k_range, int occupancy, int sms) {
  const double depth = static_cast<double>(k_range) * v.groups;
  const int blocks = blocks_of(int64_t{blocks_of(p.m, v.m)} * blocks_of(p.n, v.n) * splits, sms);
  const double warps = std::min(blocks, occupancy) * v.threads / 32.0;
  const double fma = blocks * v.m * v.n * depth / (128 * 1900.0) / (v.rate * warps / (warps + 3.2));
  const double load = blocks * (v.m + v.n) * depth * 4e-6 * 33;
  const double megabytes = 4e-6 * p.m * p.n;
  // Sums of one slice leave a round nothing to hide its copies and stores behind.
  const double round = p.k <= 16 ? 1.5 : 0.32;
  return 1.7 + round * blocks_of(blocks, occupancy) + std::max(fma, load) +
         (splits == 1 ? 0.3 * megabytes : 1.1 + 1.0 * splits * megabytes);
}

/// The cheapest plan within the workspace limit and what a block may have of shared memory.
Plan plan_product(const std::vector<Variant>& all, const Product& p, size_t workspace_limit) {
  const int sms = gpu_attribute(cudaDevAttrMultiProcessorCount);
  const auto most_shared =
      static_cast<size_t>(gpu_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin));
  Plan best;
  for (const Variant& v : all) {
    if (v.shared_bytes > most_shared || blocks_of(p.m, v.m) > 65535) continue;
    DUET_CUDA(cudaFuncSetAttribute(v.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   static_cast<int>(v.shared_bytes)));
    int occupancy = 0;
    DUET_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&occupancy, v.kernel, v.threads,
                                                            v.shared_bytes));
    if (occupancy == 0) continue;
    for (int splits : {1, 2, 4, 6, 8, 12, 16, 24, 32}) {
      const int k_range = round_up(blocks_of(p.k, splits * v.groups), 4);
      const size_t workspace =
          splits == 1 ? 0 : sizeof(float) * splits * linear::partial_floats(p.m, p.n);
      if (splits > 1 && (int64_t{k_range} * v.groups * (splits - 1) >= p.k || k_range < 8 ||
                         workspace > workspace_limit)) {
        continue;
      }
      const double microseconds = cost(v, p, splits, k_range, occupancy, sms);
      if (microseconds < best.cost) best = {v, splits, k_range, workspace, microseconds};
    }
  }
  if (!best.variant.kernel) {
    throw UnsupportedError("linear custom_register_tiled: no tile fits this GPU's shared memory");
  }
  return best;
}

void launch(const Plan& plan, Product p, const Run& run) {
  p.k_range = plan.k_range;
  p.partials = plan.splits > 1 ? static_cast<float*>(run.workspace) : nullptr;
  const dim3 grid(blocks_of(p.n, plan.variant.n), blocks_of(p.m, plan.variant.m), plan.splits);
  launch_following({grid, plan.variant.threads, plan.variant.shared_bytes, run.stream()},
                   plan.variant.kernel, p);
  if (plan.splits == 1) return;

  // The sum is there when the products end: 0.7 us less.
  constexpr int kThreads = 128;
  const int blocks = blocks_of(int64_t{p.m} * p.n + (p.row_sums ? p.m : 0), kThreads);
  duet::launch({.gridDim = blocks, .blockDim = kThreads, .stream = run.stream()},
               {overlaps_primary()}, linear::linear_sum_partials_kernel, p, plan.splits);
}

class LinearCustomRegisterTiled : public linear::ProductImpl, public InferenceForward {
 public:
  LinearCustomRegisterTiled(const LinearProblem& problem, Context&) : ProductImpl(problem) {}

  void prepare(Pass pass, Context& context) override {
    if (pass == Pass::kForward && linear_is_small(problem_)) return;
    if (is_by_rows(pass)) return;
    const bool in4 = problem_.in % 4 == 0, out4 = problem_.out % 4 == 0;
    const auto all = pass == Pass::kForward        ? variants<true, true>(in4)
                     : pass == Pass::kBackwardData ? variants<true, false>(in4 && out4)
                                                   : variants<false, false>(in4 && out4);
    const size_t limit = context.workspace_limit();
    if (wide_bytes() > limit) {
      throw UnsupportedError("linear custom_register_tiled: x and y in float32 take more than " +
                             std::to_string(limit >> 20) +
                             " MiB of workspace; raise workspace_limit_mib, or take custom_tiled");
    }
    plan(pass) = plan_product(all, linear::product_of(problem_, pass), limit - wide_bytes());
  }

  size_t workspace_bytes(Pass pass) const override {
    return is_by_rows(pass) ? 0 : wide_bytes() + plan(pass).workspace;
  }

  std::string detail(Pass pass) const override {
    if (pass == Pass::kForward && linear_is_small(problem_)) {
      return "dot products of " + std::to_string(dot_warps()) + " warps";
    }
    if (is_by_rows(pass)) return "few rows";
    return product_text(pass) + (narrow() ? ", in float32 between conversions" : "");
  }

  void forward(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b,
               const Tensor& y) override {
    if (linear_is_small(problem_)) return dot(run, false, x, w, b, y);
    const Tensor from = widened(run, x, 0), to = wide(run, y, wide_size(x.desc));
    ProductImpl::forward(product_run(run), from, w, b, to);
    round(run, to, y);
  }

  void infer(const Run& run, const LayerTensors& t, const void*) override {
    const Tensor b = problem_.bias ? t.w[1] : Tensor{};
    if (linear_is_small(problem_)) return dot(run, true, t.x[0], t.w[0], b, t.y[0]);
    forward(run, t.x[0], t.w[0], b, t.y[0]);
  }

  void backward_data(const Run& run, const Tensor& dy, const Tensor& w, const Tensor& dx) override {
    const Tensor from = widened(run, dy, 0), to = wide(run, dx, wide_size(dy.desc));
    ProductImpl::backward_data(product_run(run), from, w, to);
    round(run, to, dx);
  }

  void backward_filter(const Run& run, const Tensor& x, const Tensor& dy, const Tensor& dw,
                       const Tensor& db) override {
    if (is_by_rows(Pass::kBackwardFilter)) {
      return narrow() ? filter_by_rows<bfloat16>(run, x, dy, dw, db)
                      : filter_by_rows<float>(run, x, dy, dw, db);
    }
    const Tensor wide_x = widened(run, x, 0), wide_dy = widened(run, dy, wide_size(x.desc));
    ProductImpl::backward_filter(product_run(run), wide_x, wide_dy, dw, db);
  }

 private:
  bool narrow() const { return problem_.dtype == DType::kBFloat16; }
  bool is_by_rows(Pass pass) const {
    return pass == Pass::kBackwardFilter && problem_.n <= kRowsAtOnce;
  }
  template <class T>
  void filter_by_rows(const Run& run, const Tensor& x, const Tensor& dy, const Tensor& dw,
                      const Tensor& db) const {
    launch_few_rows_backward_filter(problem_.n, problem_.in, problem_.out, x.data<T>(),
                                    dy.data<T>(), dw.data<float>(), db.data<float>(), run.stream());
  }

  /// Of a tensor in float32.
  static size_t wide_size(const TensorDesc& desc) {
    return align_up(sizeof(float) * static_cast<size_t>(desc.elements()));
  }
  /// What tensors in float32 take at the beginning of the workspace in bf16: one of x's size and
  /// one of y's in every pass.
  size_t wide_bytes() const {
    if (!narrow()) return 0;
    return wide_size({{problem_.n, problem_.in}}) + wide_size({{problem_.n, problem_.out}});
  }
  Run product_run(const Run& run) const {
    Run product = run;
    product.workspace = static_cast<char*>(run.workspace) + wide_bytes();
    product.workspace_bytes -= wide_bytes();
    return product;
  }
  /// `tensor` in float32: itself, or memory at `offset` in the workspace.
  Tensor wide(const Run& run, const Tensor& tensor, size_t offset) const {
    if (!narrow()) return tensor;
    return {{tensor.shape()}, static_cast<char*>(run.workspace) + offset};
  }
  Tensor widened(const Run& run, const Tensor& tensor, size_t offset) const {
    const Tensor to = wide(run, tensor, offset);
    if (narrow()) {
      queue_conversion(tensor.data<bfloat16>(), to.data<float>(), to.elements(), run.stream());
    }
    return to;
  }
  void round(const Run& run, const Tensor& from, const Tensor& to) const {
    if (!narrow()) return;
    queue_conversion(from.data<float>(), to.data<bfloat16>(), to.elements(), run.stream());
  }

  std::string product_text(Pass pass) const {
    const Plan& chosen = plan(pass);
    return "tile " + std::to_string(chosen.variant.m) + "x" + std::to_string(chosen.variant.n) +
           " split-K " + std::to_string(chosen.splits);
  }

  void multiply(Pass pass, const Product& product, const Run& run) override {
    launch(plan(pass), product, run);
  }

  int64_t outputs() const { return int64_t{problem_.n} * problem_.out; }

  /// As many as keep the GPU busy and find two vectors each.
  int dot_warps() const {
    int warps = 1;
    while (warps < 8 && outputs() * warps < 2048 && problem_.in >= 512 * warps) warps *= 2;
    return warps;
  }

  void dot(const Run& run, bool weights_rest, const Tensor& x, const Tensor& w, const Tensor& b,
           const Tensor& y) const {
    narrow() ? dot<bfloat16>(run, weights_rest, x, w, b, y)
             : dot<float>(run, weights_rest, x, w, b, y);
  }
  template <class T>
  void dot(const Run& run, bool weights_rest, const Tensor& x, const Tensor& w, const Tensor& b,
           const Tensor& y) const {
    const int warps = dot_warps();
    const auto kernel = problem_.in % 4 == 0 ? dot_kernel<T, 4>(warps) : dot_kernel<T, 1>(warps);
    launch_following({blocks_of(outputs() * warps, 8), 256, 0, run.stream()}, kernel, outputs(),
                     problem_.in, problem_.out, x.data<T>(), w.data<float>(), b.data<float>(),
                     problem_.relu, weights_rest, y.data<T>());
  }

  Plan& plan(Pass pass) { return plans_[static_cast<size_t>(pass)]; }
  const Plan& plan(Pass pass) const { return plans_[static_cast<size_t>(pass)]; }

  std::array<Plan, 4> plans_;  // by Pass
};

}  // namespace

ImplEntry<LinearProblem> linear_custom_register_tiled() {
  auto entry = impl_entry<LinearCustomRegisterTiled>("custom_register_tiled",
                                                     linear_tiles_unsupported, gpu_dtypes());
  entry.preferred = preferred;
  return entry;
}

}  // namespace duet
