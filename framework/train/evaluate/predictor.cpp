#include "train/evaluate/predictor.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/storage.h"
#include "measure/check/guarded_buffer.h"

namespace duet {

namespace {

// Where value i of an image, channel by channel, lies in it.
int64_t place_of(const TensorDesc& desc, int64_t i) {
  if (desc.shape.rank() != 4 || desc.layout != Layout::kNHWC) return i;
  const int64_t c = desc.shape[1], pixels = desc.shape[2] * desc.shape[3];
  return i % pixels * c + i / pixels;
}

// Image n of a tensor N x C x H x W, whatever its layout: channel by channel.
std::vector<float> image_of(const std::vector<double>& all, const TensorDesc& desc, int64_t n) {
  const int64_t size = desc.elements() / desc.shape[0];
  std::vector<float> values;
  for (int64_t i = 0; i < size; ++i) {
    values.push_back(static_cast<float>(all[static_cast<size_t>(n * size + place_of(desc, i))]));
  }
  return values;
}

}  // namespace

Predictor::Predictor(const std::vector<ResolvedLayer>& layers, Weights& weights, Context& context)
    : context_(context),
      net_(without_losses(layers), weights, context, Net::Mode::kInference),
      step_(context.device(), sizeof(uint64_t)),
      output_(net_.output().bytes()) {
  fill_bytes(step_.data(), context.device(), 0, step_.bytes());
  for (const auto& [name, tensor] : net_.fields()) {
    if (name == kImagesField) continue;
    throw ConfigError("the network reads the field '" + name +
                      "' in a layer that is no loss or metric, and a sample to predict from has "
                      "images or numbers alone");
  }
}

void Predictor::infer() {
  if (context_.device() == Device::kCpu || ++inferred_ <= 2) return net_.infer();
  net_.prepare_weights();
  if (!graph_) {
    graph_ = StepGraph::with_early_secondaries(context_, [this] { net_.infer(); });
  }
  graph_.launch();
}

// The images `first` to `first` + `count`.
void Predictor::infer(int64_t first, int64_t count, const Observer& observe) {
  for (const Net::Call& call : net_.calls()) {
    if (call.step->pass != Pass::kForward) continue;
    net_.run(call, static_cast<const uint64_t*>(step_.data()), false);
    const Tensor& y = call.node->tensors.y[0];
    if (y.desc.shape.rank() != 4) continue;
    const Shape& s = y.desc.shape;
    const std::vector<double> all = values_of(y, context_.device());
    for (int64_t n = 0; n < count; ++n) {
      observe(first + n, call.node->name, {s[1], s[2], s[3]}, image_of(all, y.desc, n));
    }
  }
}

void Predictor::take_batches(const DatasetInfo& info) {
  if (batches_ && info.mean == mean_ && info.stddev == stddev_) return;
  const int64_t batch = net_.input().desc.shape[0];
  const auto elements = static_cast<size_t>(batch * info.channels * info.height * info.width);
  Split blank{.count = batch};
  info.numbers ? blank.numbers.resize(elements) : blank.images.resize(elements);
  batches_.emplace(context_, info.inputs_alone(), blank, BatchOptions{.batch = batch});
  mean_ = info.mean;
  stddev_ = info.stddev;
}

void Predictor::read_output(int64_t count, float* to) {
  const Tensor& y = net_.output();
  const int64_t size = y.elements() / y.desc.shape[0];
  copy_bytes(output_.data(), Device::kCpu, y.memory, context_.device(), y.bytes());
  visit_storage(y.desc.dtype, [&](auto zero) {
    const auto* const from = reinterpret_cast<const decltype(zero)*>(output_.data());
    for (int64_t n = 0; n < count; ++n) {
      for (int64_t i = 0; i < size; ++i) {
        to[n * size + i] = static_cast<float>(from[n * size + place_of(y.desc, i)]);
      }
    }
  });
}

void Predictor::predict(const DatasetInfo& info, const Split& samples, const Observer& observe,
                        std::vector<float>* outputs) {
  take_batches(info);
  const int64_t batch = net_.input().desc.shape[0];
  const int64_t size = net_.output().elements() / batch;
  outputs->resize(static_cast<size_t>(samples.count * size));
  for (int64_t first = 0; first < samples.count; first += batch) {
    const int64_t some = std::min(batch, samples.count - first);
    batches_->replace(samples, first, some);
    batches_->gather(context_, static_cast<const uint64_t*>(step_.data()), net_.fields());
    observe ? infer(first, some, observe) : infer();
    read_output(some, outputs->data() + first * size);
  }
}

std::vector<double> softmax(const float* x, size_t count) {
  const double largest = *std::max_element(x, x + count);
  std::vector<double> shares;
  double sum = 0.0;
  for (size_t i = 0; i < count; ++i) {
    shares.push_back(std::exp(static_cast<double>(x[i]) - largest));
    sum += shares.back();
  }
  for (double& share : shares) share /= sum;
  return shares;
}

}  // namespace duet
