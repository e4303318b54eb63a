// The launches of custom_winograd, plain and fused, each planned once for a problem: an image-sized
// result (y of forward, or dx as a convolution of dy), dx of small images as a sum of patches, and
// dw.
#pragma once

#include "layers/conv2d/split_reduction.cuh"
#include "layers/conv2d/winograd_backward_data.cuh"
#include "layers/conv2d/winograd_backward_filter.cuh"
#include "layers/conv2d/winograd_forward.cuh"

namespace duet {

/// Lets `kernel` have that much shared memory. Never less than before: it is one kernel, and other
/// layers, or another pass of this one, may launch it with more.
template <class Kernel>
void allow_smem(Kernel* kernel, size_t bytes) {
  cudaFuncAttributes allowed;
  DUET_CUDA(cudaFuncGetAttributes(&allowed, kernel));
  if (bytes <= static_cast<size_t>(allowed.maxDynamicSharedSizeBytes)) return;
  DUET_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(bytes)));
}

/// Of a grid of blocks that fill a multiprocessor each, in multiplications a point: waves times
/// what a block takes, multiplying or not. The constant is about 5 us of starting and ending.
template <class Block>
int64_t winograd_cost(dim3 grid, int depth, int multiprocessors) {
  constexpr int64_t kStartAndEnd = 80000;
  const int64_t blocks = int64_t{grid.x} * grid.y;
  return (blocks + multiprocessors - 1) / multiprocessors *
         (int64_t{Block::kA} * Block::kB * round_up(depth, Block::kDepth) + kStartAndEnd);
}
template <class Block>
std::string winograd_text(const char* rows, const char* columns) {
  return "F(2x2, 3x3), " + std::to_string(Block::kA) + " " + rows + " x " +
         std::to_string(Block::kB) + " " + columns;
}

/// An image-sized result: patches of the problem's x times filters.
template <class Output>
class WinogradImageProduct {
 public:
  /// Takes the block that suits the problem's sizes best.
  WinogradImageProduct(const Conv2dProblem& problem, int multiprocessors)
      : geometry_(problem, Output::kPool) {
    consider<WinogradBlock<1>>(multiprocessors);
    if constexpr (!Output::kPool) {
      consider<WinogradBlock<1, 36>>(multiprocessors);
      consider<WinogradBlock<2>>(multiprocessors);
    }
  }
  int64_t cost() const { return cost_; }
  std::string text() const { return text_; }
  size_t workspace_bytes() const { return workspace_bytes_; }
  std::optional<std::string> unsupported() const { return bulk_copies_unsupported(kernel_, smem_); }
  void prepare() const { allow_smem(kernel_, smem_); }
  void run(const float* x, const WinogradFilters& filters, const Output& output, void* workspace,
           cudaStream_t stream) const {
    float* u = static_cast<float*>(workspace);
    launch_filters_(filters, u, stream);
    kernel_<<<grid_, threads_, smem_, stream>>>(geometry_, image_floats_, x, u, output);
    DUET_LAUNCHED();
  }

 private:
  template <class Block>
  void consider(int multiprocessors) {
    const Conv2dProblem& d = geometry_.d;
    const dim3 grid(ceil_div(geometry_.total_tiles, Block::kA), ceil_div(d.k, Block::kB));
    const int64_t cost = winograd_cost<Block>(grid, d.c, multiprocessors);
    if (kernel_ != nullptr && cost >= cost_) return;
    cost_ = cost;
    grid_ = grid;
    threads_ = Block::kThreads;
    image_floats_ = winograd_image_floats<Block>(geometry_);
    smem_ = winograd_forward_smem_bytes<Block>(image_floats_);
    kernel_ = image_floats_ > 0 ? winograd_forward_kernel<Block, true, Output>
                                : winograd_forward_kernel<Block, false, Output>;
    launch_filters_ = launch_winograd_filters<Block>;
    workspace_bytes_ = winograd_filter_bytes<Block>(d.k, d.c);
    text_ = winograd_text<Block>("tiles", "filters");
  }

  const WinogradGeometry geometry_;
  int64_t cost_ = 0;
  void (*kernel_)(WinogradGeometry, int, const float*, const float*, Output) = nullptr;
  void (*launch_filters_)(const WinogradFilters&, float*, cudaStream_t) = nullptr;
  dim3 grid_;
  int threads_ = 0, image_floats_ = 0;
  size_t smem_ = 0, workspace_bytes_ = 0;
  std::string text_;
};

/// dx of images whose tiles fit one block.
template <class Gradient>
class WinogradPatchSum {
 public:
  WinogradPatchSum(const Conv2dProblem& problem, int multiprocessors)
      : geometry_(problem, Gradient::kPool) {
    if (geometry_.tiles <= 32) {
      plan<WinogradBlock<2>>(multiprocessors);
    } else if constexpr (!Gradient::kPool) {
      if (geometry_.tiles <= 36) plan<WinogradBlock<2, 36>>(multiprocessors);
    }
  }
  /// Nothing else may be called where an image does not fit a block.
  bool fits() const { return kernel_ != nullptr; }
  int64_t cost() const { return cost_; }
  std::string text() const { return text_; }
  size_t workspace_bytes() const { return workspace_bytes_; }
  std::optional<std::string> unsupported() const { return bulk_copies_unsupported(kernel_, smem_); }
  void prepare() const { allow_smem(kernel_, smem_); }
  void run(const Gradient& dy, const float* w, float* dx, void* workspace,
           cudaStream_t stream) const {
    float* u = static_cast<float*>(workspace);
    launch_filters_(WinogradFilters::of_backward_data(w, geometry_.d), u, stream);
    kernel_<<<grid_, threads_, smem_, stream>>>(geometry_, dy, u, dx);
    DUET_LAUNCHED();
  }

 private:
  template <class Block>
  void plan(int multiprocessors) {
    const Conv2dProblem& d = geometry_.d;
    grid_ = dim3(d.n, ceil_div(d.c, Block::kB));
    cost_ = winograd_cost<Block>(grid_, d.k, multiprocessors);
    threads_ = Block::kThreads;
    smem_ = winograd_data_smem_bytes<Block>();
    kernel_ = winograd_backward_data_kernel<Block, Gradient>;
    launch_filters_ = launch_winograd_filters<Block>;
    workspace_bytes_ = winograd_filter_bytes<Block>(d.c, d.k);
    text_ = winograd_text<Block>("tiles", "channels");
  }

  const WinogradGeometry geometry_;
  int64_t cost_ = 0;
  void (*kernel_)(WinogradGeometry, Gradient, const float*, float*) = nullptr;
  void (*launch_filters_)(const WinogradFilters&, float*, cudaStream_t) = nullptr;
  dim3 grid_;
  int threads_ = 0;
  size_t smem_ = 0, workspace_bytes_ = 0;
  std::string text_;
};

/// dw and db.
template <class Gradient>
class WinogradFilterGradient {
 public:
  WinogradFilterGradient(const Conv2dProblem& problem, int multiprocessors)
      : geometry_(problem, Gradient::kPool),
        smem_(winograd_filter_smem_bytes(geometry_)),
        kernel_(winograd_filter_staged(geometry_)
                    ? winograd_backward_filter_kernel<true, Gradient>
                    : winograd_backward_filter_kernel<false, Gradient>) {
    const int products = ceil_div(problem.c, Block::kB) * ceil_div(problem.k, Block::kA);
    split_ = plan_split(products, geometry_.total_tiles, Block::kDepth, multiprocessors);
  }
  std::string text() const {
    return winograd_text<Block>("filters", "channels") + ", " + std::to_string(split_.splits) +
           " splits";
  }
  size_t workspace_bytes() const { return sizeof(float) * split_.splits * stride(); }
  std::optional<std::string> unsupported() const { return bulk_copies_unsupported(kernel_, smem_); }
  void prepare() const { allow_smem(kernel_, smem_); }
  /// `db` may be nullptr.
  void run(const float* x, const Gradient& dy, float* dw, float* db, void* workspace,
           cudaStream_t stream) const {
    const Conv2dProblem& d = geometry_.d;
    float* partial = static_cast<float*>(workspace);
    const int weights = d.k * d.c * 9;
    const dim3 grid(ceil_div(d.c, Block::kB), ceil_div(d.k, Block::kA), split_.splits);
    kernel_<<<grid, Block::kThreads, smem_, stream>>>(geometry_, x, dy, split_.depth_per_split,
                                                      stride(), partial);
    DUET_LAUNCHED();
    launch_reduce_splits(partial, split_.splits, stride(), weights + d.k, weights, dw, db, stream);
  }

 private:
  using Block = WinogradFilterBlock;
  size_t stride() const { return partial_stride(geometry_.d.k, geometry_.d.c * 9); }

  const WinogradGeometry geometry_;
  const size_t smem_;
  void (*const kernel_)(WinogradGeometry, const float*, Gradient, int, size_t, float*);
  SplitPlan split_;
};

}  // namespace duet
