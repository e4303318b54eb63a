#include "train/predictor.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/step_state.h"
#include "data/batches.h"
#include "measure/guarded_buffer.h"

namespace duet {

namespace {

// Image n of a tensor N x C x H x W, whatever its layout: channel by channel.
std::vector<float> image_of(const std::vector<double>& all, const TensorDesc& desc, int64_t n) {
  const int64_t c = desc.shape[1], pixels = desc.shape[2] * desc.shape[3];
  const bool channels_last = desc.layout == Layout::kNHWC;
  std::vector<float> values;
  for (int64_t i = 0; i < c * pixels; ++i) {
    const int64_t within = channels_last ? i % pixels * c + i / pixels : i;
    values.push_back(static_cast<float>(all[static_cast<size_t>(n * c * pixels + within)]));
  }
  return values;
}

}  // namespace

Predictor::Predictor(const std::vector<ResolvedLayer>& layers, Weights& weights, Context& context)
    : context_(context), net_(without_losses(layers), weights, context, Net::Mode::kInference) {
  for (const auto& [name, tensor] : net_.fields()) {
    if (name == kImagesField) continue;
    throw ConfigError("the network reads the field '" + name +
                      "' in a layer that is no loss or metric, and a sample to predict from has "
                      "images or numbers alone");
  }
}

void Predictor::infer() {
  if (context_.device() == Device::kCpu || ++batches_ <= 2) return net_.infer();
  net_.prepare_weights();
  if (!graph_) {
    graph_ = StepGraph::with_early_secondaries(context_, [this] { net_.infer(); });
  }
  graph_.launch();
}

// The images `first` to `first` + `count`.
void Predictor::infer(const uint64_t* step, int64_t first, int64_t count, const Observer& observe) {
  for (const Net::Call& call : net_.calls()) {
    if (call.step->pass != Pass::kForward) continue;
    net_.run(call, step, false);
    const Tensor& y = call.node->tensors.y[0];
    if (y.desc.shape.rank() != 4) continue;
    const Shape& s = y.desc.shape;
    const std::vector<double> all = values_of(y, context_.device());
    for (int64_t n = 0; n < count; ++n) {
      observe(first + n, call.node->name, {s[1], s[2], s[3]}, image_of(all, y.desc, n));
    }
  }
}

std::vector<float> Predictor::logits(const DatasetInfo& info, const Split& samples,
                                     const Observer& observe) {
  const int64_t count = samples.count;
  const int64_t batch = net_.input().desc.shape[0];
  const int64_t outputs = net_.output().elements() / batch;
  const Batches batches(context_, info.inputs_alone(), samples, {.batch = batch});
  const Device device = context_.device();
  const Buffer step(device, sizeof(uint64_t));
  std::vector<float> logits(static_cast<size_t>(batches.per_epoch() * batch * outputs));
  for (int64_t i = 0; i < batches.per_epoch(); ++i) {
    const auto number = static_cast<uint64_t>(i);
    copy_bytes(step.data(), device, &number, Device::kCpu, sizeof number);
    batches.gather(context_, static_cast<const uint64_t*>(step.data()), net_.fields());
    if (observe) {
      infer(static_cast<const uint64_t*>(step.data()), i * batch,
            std::min(batch, count - i * batch), observe);
    } else {
      infer();
    }
    const std::vector<double> values = values_of(net_.output(), device);
    auto to = logits.begin() + i * batch * outputs;
    if (output().shape.rank() == 4) {
      for (int64_t n = 0; n < batch; ++n) {
        const std::vector<float> image = image_of(values, output(), n);
        to = std::copy(image.begin(), image.end(), to);
      }
    } else {
      std::copy(values.begin(), values.end(), to);
    }
  }
  logits.resize(static_cast<size_t>(count * outputs));  // without the blank rows at the end
  return logits;
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
