#include "data/batches.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "core/error.h"
#include "core/parallel.h"
#include "core/storage.h"
#include "data/batches_gather.h"

namespace duet {
namespace {

constexpr int64_t kMostSamples = int64_t{1} << 31;  // of shuffled()

template <class T>
Buffer upload(Device device, const std::vector<T>& values) {
  Buffer buffer(device, values.size() * sizeof(T));
  copy_bytes(buffer.data(), device, values.data(), Device::kCpu, buffer.bytes());
  return buffer;
}

// `values` holds what each byte becomes: cheaper than a multiply-add in software.
template <class T>
void gather_on_cpu(const GatherProblem& p, T* batch, Layout layout, const float* values) {
  const uint64_t step = *p.step;
  const size_t size = static_cast<size_t>(p.channels) * p.pixels;
  parallel_for(p.batch, p.batch * static_cast<int64_t>(size), [&](int64_t row) {
    T* const x = batch + static_cast<size_t>(row) * size;
    const uint32_t sample = sample_of(p, step, static_cast<uint32_t>(row));
    p.labels[row] = sample < p.count ? p.sample_labels[sample] : -1;
    if (sample >= p.count) {
      std::fill_n(x, size, T(0.0f));
      return;
    }
    const uint8_t* image = p.images + sample * size;
    for (uint32_t c = 0; c < p.channels; ++c, image += p.pixels) {
      T* const first = layout == Layout::kNCHW ? x + static_cast<size_t>(c) * p.pixels : x + c;
      const size_t stride = layout == Layout::kNCHW ? 1 : p.channels;
      for (uint32_t i = 0; i < p.pixels; ++i) first[i * stride] = T(values[256 * c + image[i]]);
    }
  });
}

}  // namespace

Batches::Batches(Context& context, const DatasetInfo& info, const Split& split,
                 const BatchOptions& options)
    : options_(options), sample_{info.channels, info.height, info.width}, count_(split.count) {
  const int64_t batch = options.batch;
  const size_t channels = static_cast<size_t>(info.channels);
  if (batch < 1 || count_ < 1 || count_ > kMostSamples ||
      sample_.elements() > std::numeric_limits<int32_t>::max() ||
      split.images.size() != static_cast<size_t>(count_ * sample_.elements()) ||
      split.labels.size() != static_cast<size_t>(count_) || info.mean.size() != channels ||
      info.stddev.size() != channels) {
    throw std::logic_error("Batches: the sizes of split, data set and options do not fit");
  }
  if (options.shuffle && batch > count_) {
    throw ConfigError("a batch of " + std::to_string(batch) + " is larger than the " +
                      std::to_string(count_) + " training samples of " + info.name);
  }
  per_epoch_ = options.shuffle ? count_ / batch : (count_ + batch - 1) / batch;

  std::vector<float> scale, shift;
  for (size_t c = 0; c < channels; ++c) {
    scale.push_back(static_cast<float>(1.0 / (255.0 * info.stddev[c])));
    shift.push_back(static_cast<float>(-info.mean[c] / info.stddev[c]));
    for (int byte = 0; byte < 256; ++byte) {
      values_.push_back(std::fma(static_cast<float>(byte), scale[c], shift[c]));
    }
  }
  images_ = upload(context.device(), split.images);
  labels_ = upload(context.device(), split.labels);
  scale_ = upload(context.device(), scale);
  shift_ = upload(context.device(), shift);
}

void Batches::gather(Context& context, const uint64_t* step, const Tensor& x,
                     const Tensor& labels) const {
  const Shape shape{options_.batch, sample_[0], sample_[1], sample_[2]};
  const bool storable = x.desc.dtype == DType::kFloat32 || x.desc.dtype == DType::kBFloat16;
  if (x.shape() != shape || !storable || labels.shape() != Shape{options_.batch} ||
      labels.desc.dtype != DType::kInt32) {
    throw std::logic_error("Batches::gather: expected x of " + shape.to_string() +
                           " float32 or bfloat16 and as many int32 labels, got " +
                           x.desc.to_string() + " and " + labels.desc.to_string());
  }
  const GatherProblem problem = {
      .step = step,
      .images = static_cast<const uint8_t*>(images_.data()),
      .sample_labels = static_cast<const int32_t*>(labels_.data()),
      .scale = static_cast<const float*>(scale_.data()),
      .shift = static_cast<const float*>(shift_.data()),
      .x = x.memory,
      .labels = labels.data<int32_t>(),
      .seed = options_.seed,
      .count = static_cast<uint32_t>(count_),
      .batch = static_cast<uint32_t>(options_.batch),
      .per_epoch = static_cast<uint32_t>(per_epoch_),
      .channels = static_cast<uint32_t>(sample_[0]),
      .pixels = static_cast<uint32_t>(sample_[1] * sample_[2]),
      .shuffle = options_.shuffle,
  };
  if (context.device() == Device::kCpu) {
    return visit_storage(x.desc.dtype, [&](auto zero) {
      gather_on_cpu(problem, x.data<decltype(zero)>(), x.desc.layout, values_.data());
    });
  }
#if DUET_WITH_CUDA
  gather_on_gpu(problem, x.desc.dtype, x.desc.layout, context.stream());
#endif
}

}  // namespace duet
