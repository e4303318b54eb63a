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

// The mean of each image's grey, in units of 2^-16 of a byte.
std::vector<uint32_t> grey_means(const Shape& sample, const Split& split) {
  const int64_t channels = sample[0], pixels = sample[1] * sample[2];
  std::vector<uint32_t> means(static_cast<size_t>(split.count));
  parallel_for(split.count, split.count * channels * pixels, [&](int64_t n) {
    uint64_t sums[3] = {};
    const uint8_t* image = split.images.data() + n * channels * pixels;
    for (int64_t i = 0; i < channels * pixels; ++i) sums[i / pixels] += image[i];
    const auto count = static_cast<uint64_t>(pixels);
    means[n] = static_cast<uint32_t>(
        channels == 3 ? (19595 * sums[0] + 38470 * sums[1] + 7471 * sums[2]) / count
                      : (sums[0] << 16) / count);
  });
  return means;
}

// The value of each place of a sample. `bytes` holds what every byte becomes: cheaper than a
// multiply-add in software.
class Values {
 public:
  Values(const GatherProblem& p, const float* bytes, const SampleOfEpoch& place)
      : p_(p), bytes_(bytes), sample_(place.sample) {
    if (p.augment.any()) draw_ = draw_of(p, place);
  }

  float byte(uint32_t c, uint32_t pixel) const { return bytes_[256 * c + p_.images[at(c, pixel)]]; }
  float number(uint32_t c, uint32_t pixel) const {
    return std::fma(p_.numbers[at(c, pixel)], p_.scale[c], p_.shift[c]);
  }
  float augmented(uint32_t c, uint32_t pixel) const {
    const auto y = static_cast<int32_t>(pixel / p_.width);
    const auto x = static_cast<int32_t>(pixel % p_.width);
    if (is_in_hole(p_.augment, draw_, y, x)) return 0.0f;
    const int64_t value = drawn_pixel(p_, draw_, sample_, c, y, x);
    if (value % 65536 == 0) return bytes_[256 * c + value / 65536];
    return std::fma(static_cast<float>(value) * 0x1p-16f, p_.scale[c], p_.shift[c]);
  }

 private:
  size_t at(uint32_t c, uint32_t pixel) const {
    return (static_cast<size_t>(sample_) * p_.channels + c) * p_.pixels + pixel;
  }

  const GatherProblem& p_;
  const float* bytes_;
  const uint32_t sample_;
  AugmentDraw draw_{};
};

template <class T>
void gather_on_cpu(const GatherProblem& p, T* batch, Layout layout, const float* bytes) {
  const uint64_t step = *p.step;
  const size_t size = static_cast<size_t>(p.channels) * p.pixels;
  parallel_for(p.batch, p.batch * static_cast<int64_t>(size), [&](int64_t row) {
    T* const x = batch + static_cast<size_t>(row) * size;
    const SampleOfEpoch place = sample_of(p, step, static_cast<uint32_t>(row));
    p.labels[row] = place.sample < p.count ? p.sample_labels[place.sample] : -1;
    if (place.sample >= p.count) {
      std::fill_n(x, size, T(0.0f));
      return;
    }
    const Values values(p, bytes, place);
    const auto fill = [&](const auto& value) {
      for (uint32_t c = 0; c < p.channels; ++c) {
        T* const first = layout == Layout::kNCHW ? x + static_cast<size_t>(c) * p.pixels : x + c;
        const size_t stride = layout == Layout::kNCHW ? 1 : p.channels;
        for (uint32_t i = 0; i < p.pixels; ++i) first[i * stride] = T(value(c, i));
      }
    };
    if (p.numbers) {
      fill([&](uint32_t c, uint32_t i) { return values.number(c, i); });
    } else if (p.augment.any()) {
      fill([&](uint32_t c, uint32_t i) { return values.augmented(c, i); });
    } else {
      fill([&](uint32_t c, uint32_t i) { return values.byte(c, i); });
    }
  });
}

}  // namespace

Batches::Batches(Context& context, const DatasetInfo& info, const Split& split,
                 const BatchOptions& options)
    : options_(options),
      sample_{info.channels, info.height, info.width},
      count_(split.count),
      numbers_(info.numbers) {
  const int64_t batch = options.batch;
  const size_t channels = static_cast<size_t>(info.channels);
  if (batch < 1 || count_ < 1 || count_ > kMostSamples ||
      sample_.elements() > std::numeric_limits<int32_t>::max() ||
      (numbers_ ? split.numbers.size() : split.images.size()) !=
          static_cast<size_t>(count_ * sample_.elements()) ||
      (numbers_ && options.augment.any()) || split.labels.size() != static_cast<size_t>(count_) ||
      info.mean.size() != channels || info.stddev.size() != channels) {
    throw std::logic_error("Batches: the sizes of split, data set and options do not fit");
  }
  if (options.shuffle && batch > count_) {
    throw ConfigError("a batch of " + std::to_string(batch) + " is larger than the " +
                      std::to_string(count_) + " training samples of " + info.name);
  }
  per_epoch_ = options.shuffle ? count_ / batch : (count_ + batch - 1) / batch;

  std::vector<float> scale, shift;
  for (size_t c = 0; c < channels; ++c) {
    scale.push_back(static_cast<float>(1.0 / ((numbers_ ? 1.0 : 255.0) * info.stddev[c])));
    shift.push_back(static_cast<float>(-info.mean[c] / info.stddev[c]));
    for (int byte = 0; byte < 256 && !numbers_; ++byte) {
      values_.push_back(std::fma(static_cast<float>(byte), scale[c], shift[c]));
    }
  }
  samples_ =
      numbers_ ? upload(context.device(), split.numbers) : upload(context.device(), split.images);
  labels_ = upload(context.device(), split.labels);
  if (options.augment.contrast) grey_means_ = upload(context.device(), grey_means(sample_, split));
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
      .images = numbers_ ? nullptr : static_cast<const uint8_t*>(samples_.data()),
      .numbers = numbers_ ? static_cast<const float*>(samples_.data()) : nullptr,
      .grey_means = static_cast<const uint32_t*>(grey_means_.data()),
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
      .width = static_cast<uint32_t>(sample_[2]),
      .shuffle = options_.shuffle,
      .augment = options_.augment,
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
