// dw of a 3x3 convolution of stride 1 in tf32 (kParts 1) or of float32 in two parts (kernels/wgmma_filter.cuh), of x and dy as they
// lie: a warpgroup writes the rows that are multiplied (kernels/written_rows.cuh).
#pragma once

#include "kernels/wgmma_filter.cuh"
#include "kernels/written_rows.cuh"
#include "layers/conv2d/pooled_rows.cuh"
#include "layers/conv2d/staged_convolution.cuh"

namespace duet {

template <int kParts>
class WrittenFilter : StagedConvolution<float> {
 public:
  WrittenFilter(const Conv2dProblem& problem, size_t workspace_limit)
      : StagedConvolution(problem),
        segments_(problem.q, kParts == 1 ? FilterTile<float>::kMostColumns : 12),
        plan_(problem.n, problem.p, segments_, problem.k, problem.c, int64_t(parts_stride()),
              workspace_limit, likely_multiprocessor_count(), true) {}

  size_t workspace_bytes() const { return sizeof(float) * plan_.splits * parts_stride(); }
  std::string text() const { return plan_.text(); }

  /// A window's argmax (packed_argmax.cuh) is nullptr where nothing is pooled, and so may be db.
  void run(const Run& run, const Tensor& x, const Tensor& dy, const uint32_t* argmax, float* dw,
           float* db) const {
    const Conv2dProblem& d = problem_;
    auto* const parts = static_cast<float*>(run.workspace);
    const auto launch_parts = [&](const auto& of_dy) {
      launch_wgmma_filter(tensor_rows<3, kChannels>(x, d.c, d.h, d.w, d.pad_h, d.pad_w,
                                                    segments_.columns + d.s - 1),
                          of_dy, plan_, d.k, db != nullptr, parts, parts_stride(), run.stream());
    };
    if (argmax) {
      launch_parts(pooled_rows(dy, argmax));
    } else {
      launch_parts(tensor_rows<2, kPanel>(dy, d.k, d.p, d.q, 0, 0, segments_.columns));
    }
    launch_sum_filters(parts, plan_.splits, padded_channels(), dw, db, run.stream());
  }

 private:
  using Plan = FilterPlan<float, kParts>;
  static constexpr int kChannels = kParts == 1 ? kPanel : kPanel / 2;  // of a tile

  int padded_channels() const { return round_up(problem_.c, kChannels); }
  size_t parts_stride() const {
    return partial_stride(problem_.k, geometry_.taps * padded_channels());
  }
  template <int kFours, int channels_of_block>
  TensorRows<kFours, channels_of_block, kParts> tensor_rows(const Tensor& tensor, int channels,
                                                            int height, int width, int pad_h,
                                                            int pad_w, int columns) const {
    const bool planes = problem_.layout == Layout::kNCHW;
    return {.from = tensor.data<float>(),
            .images = problem_.n,
            .channels = channels,
            .height = height,
            .width = width,
            .of_image = channels * height * width,
            .of_channel = planes ? height * width : 1,
            .of_row = planes ? width : width * channels,
            .of_column = planes ? 1 : channels,
            .pad_h = pad_h,
            .pad_w = pad_w,
            .columns = columns};
  }
  PooledRows<kParts> pooled_rows(const Tensor& dy, const uint32_t* argmax) const {
    const Conv2dProblem& d = problem_;
    const bool planes = d.layout == Layout::kNCHW;
    const int pool_h = d.p / 2, pool_w = d.q / 2, windows = pool_h * pool_w;
    return {.dy = dy.data<float>(),
            .argmax = argmax,
            .images = d.n,
            .filters = d.k,
            .pool_h = pool_h,
            .pool_w = pool_w,
            .of_image = d.k * windows,
            .of_filter = planes ? windows : 1,
            .of_window = planes ? 1 : d.k,
            .columns = segments_.columns};
  }

  const FilterSegments<float> segments_;
  const Plan plan_;
};

}  // namespace duet
