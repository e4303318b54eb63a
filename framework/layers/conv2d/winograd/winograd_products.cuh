// The launches of custom_winograd and custom_winograd_3xtf32, plain and fused, each planned once for a
// problem: an image-sized result (y of forward, or dx as a convolution of dy), dx of small images as a
// sum of patches, and dw.
#pragma once

#include "device/launch.h"
#include "kernels/split_reduction.cuh"
#include "layers/conv2d/winograd/winograd_backward_data.cuh"
#include "layers/conv2d/winograd/winograd_backward_filter.cuh"
#include "layers/conv2d/winograd/winograd_forward.cuh"
#include "layers/conv2d/winograd/winograd_mma_block.cuh"

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

template <class Block>
std::string winograd_text(const char* rows, const char* columns) {
  return "F(2x2, 3x3), " + std::to_string(Block::kA) + " " + rows + " x " +
         std::to_string(Block::kB) + " " + columns + Block::kText;
}

/// A kernel that multiplies by transformed filters, in the block and cluster that suit the problem.
template <class... Parameters>
class WinogradProduct {
 public:
  int64_t cost() const { return cost_; }
  std::string text() const { return text_; }
  size_t workspace_bytes() const { return workspace_bytes_; }
  std::optional<std::string> unsupported() const { return bulk_copies_unsupported(kernel_, smem_); }
  void prepare() const { allow_smem(kernel_, smem_); }

 protected:
  using Kernel = void (*)(Parameters...);
  explicit WinogradProduct(int multiprocessors) : multiprocessors_(multiprocessors) {}

  bool has_kernel() const { return kernel_ != nullptr; }

  /// Takes this block, by itself or in the best cluster, if it is cheaper than what is there. Grid:
  /// grid_x times as many as the columns need. `columns` is what they are called.
  template <class Block>
  void consider(const WinogradFilters& f, int grid_x, size_t smem, Kernel alone, Kernel in_cluster,
                const char* columns) {
    const int chunks = ceil_div(f.depth, Block::kDepth);
    const dim3 grid(grid_x, ceil_div(f.columns, Block::kB));
    for (int cluster : {1, 2, 4, 8}) {
      const int each = ceil_div(chunks, cluster);
      if (each * (cluster - 1) >= chunks) break;  // nothing would be left for the last block
      const Kernel kernel = cluster > 1 ? in_cluster : alone;
      const int64_t blocks = int64_t{grid.x} * grid.y * cluster;
      if (cluster > 1 &&
          !fits_at_once(kernel, {grid.x * cluster, grid.y}, Block::kThreads, smem, cluster))
        break;
      // Waves of blocks that fill a multiprocessor each, times what one takes. Beside its chunks, fitted
      // to its times: the start and the end, and joining a cluster's results.
      constexpr int64_t kStartAndEnd = 86000, kJoin = 25000;
      const int64_t cost = (blocks + multiprocessors_ - 1) / multiprocessors_ *
                           (each * Block::kChunkCost + kStartAndEnd + (cluster > 1 ? kJoin : 0));
      if (has_kernel() && cost >= cost_) continue;
      cost_ = cost;
      kernel_ = kernel;
      launch_filters_ = launch_winograd_filters<Block>;
      grid_ = dim3(grid.x * cluster, grid.y);
      threads_ = Block::kThreads;
      cluster_ = cluster;
      smem_ = smem;
      workspace_bytes_ = winograd_filter_bytes<Block>(f.columns, f.depth);
      text_ = winograd_text<Block>("tiles", columns);
      if (cluster > 1) text_ += ", clusters of " + std::to_string(cluster);
    }
  }

  void multiply(const WinogradFilters& filters, void* workspace, cudaStream_t stream,
                const std::type_identity_t<Parameters>&... arguments) const {
    launch_filters_(filters, static_cast<float*>(workspace), stream);
    launch(config(grid_, threads_, smem_, stream),
           {cluster_ > 1 ? in_clusters_of(cluster_) : cudaLaunchAttribute{}, overlaps_primary()},
           kernel_, arguments...);
  }

 private:
  static cudaLaunchConfig_t config(dim3 grid, int threads, size_t smem, cudaStream_t stream) {
    return {.gridDim = grid, .blockDim = threads, .dynamicSmemBytes = smem, .stream = stream};
  }
  bool fits_at_once(Kernel kernel, dim3 grid, int threads, size_t smem, int cluster) const {
    const int64_t blocks = int64_t{grid.x} * grid.y;
    if (blocks > multiprocessors_ || bulk_copies_unsupported(kernel, smem)) return false;
    allow_smem(kernel, smem);
    return blocks <=
           cluster * clusters_at_once(config(grid, threads, smem, nullptr), cluster, kernel);
  }

  const int multiprocessors_;
  int64_t cost_ = 0;
  Kernel kernel_ = nullptr;
  void (*launch_filters_)(const WinogradFilters&, float*, cudaStream_t) = nullptr;
  dim3 grid_;
  int threads_ = 0, cluster_ = 1;
  size_t smem_ = 0, workspace_bytes_ = 0;
  std::string text_;
};

/// An image-sized result: patches of the problem's x times filters. kInParts: each product as three of
/// tf32.
template <class Output, bool kInParts>
class WinogradImageProduct
    : public WinogradProduct<WinogradGeometry, const float*, const float*, Output> {
 public:
  WinogradImageProduct(const Conv2dProblem& problem, int multiprocessors)
      : WinogradImageProduct::WinogradProduct(multiprocessors), geometry_(problem, Output::kPool) {
    if constexpr (kInParts) {
      consider_block<WinogradMmaBlock<512>>();
    } else {
      consider_block<WinogradBlock<1>>();
      if constexpr (!Output::kPool) {
        consider_block<WinogradBlock<1, 36>>();
        consider_block<WinogradBlock<2>>();
      }
    }
  }
  void run(const float* x, const WinogradFilters& filters, const Output& output, void* workspace,
           cudaStream_t stream) const {
    this->multiply(filters, workspace, stream, geometry_, x, static_cast<const float*>(workspace),
                   output);
  }

 private:
  template <class Block>
  void consider_block() {
    const bool staged = winograd_forward_staged<Block>(geometry_);
    this->template consider<Block>(WinogradFilters::of_forward(nullptr, geometry_.d),
                                   ceil_div(geometry_.total_tiles, Block::kA),
                                   winograd_forward_smem_bytes<Block>(geometry_),
                                   staged ? winograd_forward_kernel<Block, true, false, Output>
                                          : winograd_forward_kernel<Block, false, false, Output>,
                                   staged ? winograd_forward_kernel<Block, true, true, Output>
                                          : winograd_forward_kernel<Block, false, true, Output>,
                                   "filters");
  }

  const WinogradGeometry geometry_;
};

/// dx of images whose tiles fit one block.
template <class Gradient, bool kInParts>
class WinogradPatchSum : public WinogradProduct<WinogradGeometry, Gradient, const float*, float*> {
 public:
  WinogradPatchSum(const Conv2dProblem& problem, int multiprocessors)
      : WinogradPatchSum::WinogradProduct(multiprocessors), geometry_(problem, Gradient::kPool) {
    if (geometry_.tiles <= 32) {
      consider_block<std::conditional_t<kInParts, WinogradMmaBlock<512>, WinogradBlock<2>>>();
    } else if constexpr (!Gradient::kPool && !kInParts) {
      if (geometry_.tiles <= 36) consider_block<WinogradBlock<2, 36>>();
    }
  }
  /// Nothing else may be called where an image does not fit a block.
  bool fits() const { return this->has_kernel(); }
  void run(const Gradient& dy, const float* w, float* dx, void* workspace,
           cudaStream_t stream) const {
    this->multiply(WinogradFilters::of_backward_data(w, geometry_.d), workspace, stream, geometry_,
                   dy, static_cast<const float*>(workspace), dx);
  }

 private:
  template <class Block>
  void consider_block() {
    this->template consider<Block>(WinogradFilters::of_backward_data(nullptr, geometry_.d),
                                   geometry_.d.n, winograd_data_smem_bytes<Block>(geometry_),
                                   winograd_backward_data_kernel<Block, false, Gradient>,
                                   winograd_backward_data_kernel<Block, true, Gradient>,
                                   "channels");
  }

  const WinogradGeometry geometry_;
};

/// dw and db.
template <class Gradient, bool kInParts>
class WinogradFilterGradient {
 public:
  WinogradFilterGradient(const Conv2dProblem& problem, int multiprocessors)
      : geometry_(problem, Gradient::kPool),
        smem_(winograd_filter_smem_bytes<Block>(geometry_)),
        kernel_(winograd_filter_staged<Block>(geometry_)
                    ? winograd_backward_filter_kernel<Block, true, Gradient>
                    : winograd_backward_filter_kernel<Block, false, Gradient>) {
    const int products = ceil_div(problem.c, Block::kA) * ceil_div(problem.k, Block::kB);
    split_ = plan_split(products, geometry_.total_tiles, Block::kDepth, multiprocessors);
  }
  std::string text() const {
    return winograd_text<Block>("channels", "filters") + ", " + std::to_string(split_.splits) +
           " splits";
  }
  size_t workspace_bytes() const {
    return split_.splits == 1 ? 0 : sizeof(float) * split_.splits * stride();
  }
  std::optional<std::string> unsupported() const { return bulk_copies_unsupported(kernel_, smem_); }
  void prepare() const { allow_smem(kernel_, smem_); }
  /// `db` may be nullptr.
  void run(const float* x, const Gradient& dy, float* dw, float* db, void* workspace,
           cudaStream_t stream) const {
    const Conv2dProblem& d = geometry_.d;
    float* const partial = static_cast<float*>(workspace);
    const int weights = d.k * d.c * 9;
    const bool whole = split_.splits == 1;
    const dim3 grid(ceil_div(d.c, Block::kA), ceil_div(d.k, Block::kB), split_.splits);
    launch_following({grid, Block::kThreads, smem_, stream}, kernel_, geometry_, x, dy,
                     split_.depth_per_split, stride(), whole ? dw : partial,
                     whole ? db : partial + weights);
    if (whole) return;
    launch_reduce_splits(partial, split_.splits, stride(), weights + d.k, weights, dw, db, stream);
  }

 private:
  // By 16 warps 64x64x56x56 -> 64 takes 191 us and by eight 206, pooled 1024x64x13x13 -> 128 175 and 167 (H200).
  using MmaBlock = WinogradMmaBlock<Gradient::kPool ? 256 : 512>;
  using Block = std::conditional_t<kInParts, MmaBlock, WinogradBlock<1>>;
  size_t stride() const { return partial_stride(geometry_.d.k, geometry_.d.c * 9); }

  const WinogradGeometry geometry_;
  const size_t smem_;
  void (*const kernel_)(WinogradGeometry, const float*, Gradient, int, size_t, float*, float*);
  SplitPlan split_;
};

}  // namespace duet
