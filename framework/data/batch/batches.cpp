#include "data/batch/batches.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <exception>
#include <limits>
#include <stdexcept>
#include <string>

#include "core/error.h"
#include "core/parallel.h"
#include "core/storage.h"
#include "data/batch/batch_records.h"
#include "data/batch/batches_gather.h"
#include "data/batch/data_memory.h"
#include "data/batch/mixup.h"

namespace duet {
namespace {

constexpr int64_t kMostSamples = int64_t{1} << 31;  // of shuffled()
constexpr size_t kPieceBytes = size_t{64} << 20;
constexpr size_t kPartBytes = size_t{64} << 10;  // that a thread copies at a time
constexpr int kCopyingThreads = 4;               // more do not make memory faster

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
    std::array<uint64_t, 3> sums = {};
    if (split.facts.empty()) {
      const uint8_t* image = split.images.data() + n * channels * pixels;
      for (int64_t i = 0; i < channels * pixels; ++i) sums[i / pixels] += image[i];
    } else {
      sums = split.facts[n].sums;
    }
    const auto count = static_cast<uint64_t>(pixels);
    means[n] = static_cast<uint32_t>(
        channels == 3 ? (19595 * sums[0] + 38470 * sums[1] + 7471 * sums[2]) / count
                      : (sums[0] << 16) / count);
  });
  return means;
}

void read_sample(const Split& split, bool numbers, size_t bytes, uint32_t sample, void* to) {
  const auto* from =
      numbers ? reinterpret_cast<const uint8_t*>(split.numbers.data()) : split.images.data();
  if (split.read) return split.read(sample, static_cast<uint8_t*>(to));
  std::memcpy(to, from + sample * bytes, bytes);
}

// All images of files to the device, a piece at a time.
Buffer upload_files(Device device, const Split& split, size_t bytes) {
  const auto count = static_cast<size_t>(split.count);
  Buffer buffer(device, count * bytes);
  const size_t at_once = std::min(count, std::max<size_t>(1, kPieceBytes / bytes));
  std::vector<uint8_t> piece(at_once * bytes);
  for (size_t first = 0; first < count; first += at_once) {
    const auto some = static_cast<int64_t>(std::min(at_once, count - first));
    std::vector<std::exception_ptr> errors(static_cast<size_t>(some));
    parallel_for(some, some * kWorthSharing, [&](int64_t i) {
      try {
        split.read(static_cast<int64_t>(first) + i, piece.data() + static_cast<size_t>(i) * bytes);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    });
    for (const std::exception_ptr& error : errors) {
      if (error) std::rethrow_exception(error);
    }
    copy_bytes(buffer.at(first * bytes), device, piece.data(), Device::kCpu,
               static_cast<size_t>(some) * bytes);
  }
  return buffer;
}

// The value of each place of a sample. `bytes` holds what every byte becomes: cheaper than a
// multiply-add in software.
class Values {
 public:
  Values(const GatherProblem& p, const float* bytes, const GatherRow& row)
      : p_(p), bytes_(bytes), row_(row) {
    if (p.augment.any()) draw_ = draw_of(p, row.place);
  }

  float byte(uint32_t c, uint32_t pixel) const {
    return bytes_[256 * c + row_.bytes[c * p_.pixels + pixel]];
  }
  float number(uint32_t c, uint32_t pixel) const {
    const auto* numbers = reinterpret_cast<const float*>(row_.bytes);
    return std::fma(numbers[c * p_.pixels + pixel], p_.scale[c], p_.shift[c]);
  }
  float augmented(uint32_t c, uint32_t pixel) const {
    if (!row_.bytes) return row_.blank;
    const auto y = static_cast<int32_t>(pixel / p_.width);
    const auto x = static_cast<int32_t>(pixel % p_.width);
    if (is_in_hole(p_.augment, draw_, y, x)) return 0.0f;
    const int64_t value = drawn_pixel(p_, draw_, row_, c, y, x);
    if (value % 65536 == 0) return bytes_[256 * c + value / 65536];
    return std::fma(static_cast<float>(value) * 0x1p-16f, p_.scale[c], p_.shift[c]);
  }

 private:
  const GatherProblem& p_;
  const float* bytes_;
  const GatherRow& row_;
  AugmentDraw draw_{};
};

template <class T>
void gather_on_cpu(const GatherProblem& p, T* batch, Layout layout, const float* bytes) {
  const uint64_t step = *p.step;
  const size_t size = static_cast<size_t>(p.channels) * p.pixels;
  parallel_for(p.order.batch, p.order.batch * static_cast<int64_t>(size), [&](int64_t i) {
    T* const x = batch + static_cast<size_t>(i) * size;
    const GatherRow row = gather_row(p, step, static_cast<uint32_t>(i));
    const auto number = static_cast<uint32_t>(i);
    write_label(p, number, label_of(p, step, number, row.place.sample));
    if (!row.bytes) {
      std::fill_n(x, size, T(row.blank));
      return;
    }
    const Values values(p, bytes, row);
    const auto fill = [&](const auto& value) {
      for (uint32_t c = 0; c < p.channels; ++c) {
        T* const first = layout == Layout::kNCHW ? x + static_cast<size_t>(c) * p.pixels : x + c;
        const size_t stride = layout == Layout::kNCHW ? 1 : p.channels;
        for (uint32_t i = 0; i < p.pixels; ++i) first[i * stride] = T(value(c, i));
      }
    };
    if (p.numbers) {
      fill([&](uint32_t c, uint32_t i) { return values.number(c, i); });
    } else if (const uint32_t share = own_share(p, step); share != kWholeShare) {
      const GatherRow other = gather_row(p, step, row_mixed_into(p, static_cast<uint32_t>(i)));
      const Values others(p, bytes, other);
      fill([&](uint32_t c, uint32_t i) {
        return mixed(share, values.augmented(c, i), others.augmented(c, i));
      });
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
      numbers_(info.numbers),
      device_(context.device()),
      from_files_(split.read != nullptr) {
  check(info, split);
  const int64_t batch = options.batch;
  const size_t channels = static_cast<size_t>(info.channels);
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
  const size_t bytes = static_cast<size_t>(sample_.elements()) * (numbers_ ? sizeof(float) : 1);
  records_ = std::make_unique<BatchRecords>(info, split, bytes, options.augment);
  const size_t all = static_cast<size_t>(count_) * records_->row_bytes();
  if (options.stream == Stream::kMemory || options.stream == Stream::kFiles ||
      (options.stream == Stream::kAuto && 2 * all > free_memory(device_))) {
    stream(context, split, bytes);
  } else if (split.read) {
    samples_ = upload_files(device_, split, bytes);
  } else {
    samples_ = numbers_ ? upload(device_, split.numbers) : upload(device_, split.images);
  }
  if (!stream_) records_->upload(device_, split);
  labels_ = upload(context.device(), split.labels);
  if (options.augment.contrast) grey_means_ = upload(context.device(), grey_means(sample_, split));
  if (options.augment.mixup > 0.0) {
    shares_ = upload(context.device(), mixup_shares(options.augment.mixup));
  }
  scale_ = upload(context.device(), scale);
  shift_ = upload(context.device(), shift);
  if (!info.has_target_images()) return;
  if (!split.targets) throw std::logic_error("Batches: a split of pairs without targets");
  targets_ = std::make_unique<Batches>(context, info.target_info(), *split.targets, options);
}

Batches::~Batches() = default;
Batches::Batches(Batches&&) noexcept = default;

void Batches::check(const DatasetInfo& info, const Split& split) const {
  const auto count = static_cast<size_t>(count_);
  const size_t elements = count * static_cast<size_t>(sample_.elements());
  const auto channels = static_cast<size_t>(info.channels);
  bool fits = options_.batch >= 1 && count_ >= 1 && count_ <= kMostSamples &&
              sample_.elements() <= std::numeric_limits<int32_t>::max() &&
              (split.read || (numbers_ ? split.numbers.size() : split.images.size()) == elements) &&
              (split.labels.empty() || split.labels.size() == count) &&
              info.mean.size() == channels && info.stddev.size() == channels;
  if (numbers_) fits = fits && !split.read && !options_.augment.any();
  if (!info.records.empty()) fits = fits && options_.augment.mixup == 0.0;
  if (fits) return;
  throw std::logic_error("Batches: the sizes of split, data set and options do not fit");
}

size_t Batches::memory_bytes() const {
  return (targets_ ? targets_->memory_bytes() : 0) + records_->memory_bytes() +
         (stream_ ? stream_->device_bytes() : samples_.bytes()) + labels_.bytes() +
         grey_means_.bytes() + shares_.bytes() + scale_.bytes() + shift_.bytes();
}

void Batches::replace(const Split& samples, int64_t first, int64_t count) {
  const int64_t elements = sample_.elements();
  const size_t value = numbers_ ? sizeof(float) : 1;
  const auto bytes = static_cast<size_t>(count * elements) * value;
  const bool fits = count >= 1 && first >= 0 && first + count <= samples.count &&
                    bytes <= samples_.bytes() && !samples.read;
  if (!fits || stream_ || targets_ || options_.shuffle) {
    throw std::logic_error("Batches::replace: these samples cannot be replaced");
  }
  const auto* const from = numbers_ ? reinterpret_cast<const std::byte*>(samples.numbers.data())
                                    : reinterpret_cast<const std::byte*>(samples.images.data());
  copy_bytes(samples_.data(), device_, from + static_cast<size_t>(first * elements) * value,
             Device::kCpu, bytes);
  count_ = count;
  per_epoch_ = (count + options_.batch - 1) / options_.batch;
}

SampleOrder Batches::order() const {
  return {.seed = options_.seed,
          .count = static_cast<uint32_t>(count_),
          .batch = static_cast<uint32_t>(options_.batch),
          .per_epoch = static_cast<uint32_t>(per_epoch_),
          .shuffle = options_.shuffle};
}

void Batches::stream(Context& context, const Split& split, size_t bytes) {
  threads_ = from_files_ ? cpu_threads() : std::min(cpu_threads(), kCopyingThreads);
  const auto fill_row = [order = order(), &split, bytes, numbers = numbers_, &records = *records_](
                            uint64_t step, size_t row, std::byte* to) {
    const uint32_t sample = sample_of(order, step, static_cast<uint32_t>(row)).sample;
    if (sample >= order.count) return;
    read_sample(split, numbers, bytes, sample, to);
    records.copy(split, sample, to);
  };
  // An evaluation ends with its epoch.
  const auto end = [order = order()](uint64_t step) {
    return order.shuffle ? ~uint64_t{0} : (step / order.per_epoch + 1) * order.per_epoch;
  };
  stream_ = std::make_unique<BatchStream>(
      context,
      BatchStream::Options{
          .rows = static_cast<size_t>(options_.batch),
          .row_bytes = records_->row_bytes(),
          .threads = threads_,
          .rows_a_part = from_files_ ? 1 : std::max<size_t>(1, kPartBytes / records_->row_bytes()),
          .fill_row = fill_row,
          .end = end});
}

std::string Batches::whereabouts() const {
  if (!stream_) return device_ == Device::kGpu ? "on the GPU" : "in memory";
  return std::string("streamed from ") + (from_files_ ? "files" : "memory") + " by " +
         std::to_string(threads_) + (threads_ == 1 ? " thread" : " threads");
}

void Batches::gather(Context& context, const uint64_t* step, const FieldTensors& to,
                     bool step_rests) const {
  Tensor images, labels, rows;
  for (const auto& [name, tensor] : to) {
    if (name == kImagesField) {
      images = tensor;
    } else if (name == kLabelsField && labels_.bytes() > 0) {
      labels = tensor;
    } else if (name == kRowsField) {
      rows = tensor;
    } else if (name == kTargetsField && targets_) {
      targets_->gather_images(context, step, tensor, {}, {}, step_rests);
    } else if (!records_->has(name)) {
      throw std::logic_error("Batches::gather: the samples have no field '" + name + "'");
    }
  }
  records_->gather(context, step, order(), stream_.get(), to);
  gather_images(context, step, images, labels, rows, step_rests);
}

void Batches::gather_images(Context& context, const uint64_t* step, const Tensor& x,
                            const Tensor& labels, const Tensor& rows, bool step_rests) const {
  const Shape shape{options_.batch, sample_[0], sample_[1], sample_[2]};
  const bool storable = x.desc.dtype == DType::kFloat32 || x.desc.dtype == DType::kBFloat16;
  const bool mixed = labels && labels.desc == mixed_labels_desc(options_.batch);
  const bool single = labels.desc == labels_desc(options_.batch) && options_.augment.mixup == 0.0;
  if (x.shape() != shape || !storable || (labels && !single && !mixed) ||
      (rows && rows.desc != rows_desc(options_.batch))) {
    throw std::logic_error("Batches::gather: expected x of " + shape.to_string() +
                           " float32 or bfloat16 and as many int32 labels, mixed for mixup, got " +
                           x.desc.to_string() + " and " + labels.desc.to_string());
  }
  const GatherProblem problem = {
      .step = step,
      .step_rests = step_rests && !stream_,
      .samples = static_cast<const uint8_t*>(stream_ ? stream_->slots() : samples_.data()),
      .numbers = numbers_,
      .slot_bytes = stream_ ? stream_->slot_bytes() : 0,
      .row_bytes = records_->row_bytes(),
      .grey_means = static_cast<const uint32_t*>(grey_means_.data()),
      .shares = static_cast<const uint32_t*>(shares_.data()),
      .sample_labels = static_cast<const int32_t*>(labels_.data()),
      .scale = static_cast<const float*>(scale_.data()),
      .shift = static_cast<const float*>(shift_.data()),
      .x = x.memory,
      .labels = labels && !mixed ? labels.data<int32_t>() : nullptr,
      .mixed_labels = mixed ? static_cast<MixedLabel*>(labels.memory) : nullptr,
      .rows = rows ? rows.data<int32_t>() : nullptr,
      .order = order(),
      .channels = static_cast<uint32_t>(sample_[0]),
      .pixels = static_cast<uint32_t>(sample_[1] * sample_[2]),
      .width = static_cast<uint32_t>(sample_[2]),
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
