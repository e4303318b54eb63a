// A trained network on images, or numbers, alone: what it makes of them before its losses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/batch/batches.h"
#include "data/set/dataset.h"
#include "device/step_graph.h"
#include "net/net.h"

namespace duet {

class Predictor {
 public:
  /// `layers` are those of the training, losses among them; their batch is how many images run
  /// at a time. `weights` and `context` must outlive this. Throws ConfigError if a layer that is no
  /// loss or metric reads another field than the images.
  Predictor(const std::vector<ResolvedLayer>& layers, Weights& weights, Context& context);

  /// Of a batch.
  const TensorDesc& output() const { return net_.output().desc; }
  /// What the network makes of `samples`, of which only images or numbers are read, before softmax:
  /// count x outputs, or count x channels x height x width of images. Normalises as `info` says. A
  /// row depends on its sample and on its place in a batch, which is always full, not on the
  /// others.
  std::vector<float> logits(const DatasetInfo& info, const Split& samples) {
    return logits(info, samples, {});
  }
  /// The same of images: count x info.channels x info.height x info.width bytes.
  std::vector<float> logits(const DatasetInfo& info, std::vector<uint8_t> images) {
    const int64_t size = info.channels * info.height * info.width;
    const int64_t count = static_cast<int64_t>(images.size()) / size;
    return logits(info, Split{count, std::move(images)}, {});
  }
  /// The same, to `outputs`. Takes no memory in a call with the normalisation of the one before, but
  /// what `outputs` lacks.
  void predict(const DatasetInfo& info, const Split& samples, std::vector<float>* outputs) {
    predict(info, samples, {}, outputs);
  }
  /// Sees what a layer makes of one image, C x H x W; `image` counts from 0.
  using Observer =
      std::function<void(int64_t image, const std::string& layer, const std::vector<int64_t>& shape,
                         const std::vector<float>& values)>;
  /// The same, layer by layer: `observe` is called for every layer whose output is images.
  std::vector<float> logits(const DatasetInfo& info, const Split& samples,
                            const Observer& observe) {
    std::vector<float> outputs;
    predict(info, samples, observe, &outputs);
    return outputs;
  }

 private:
  /// Queues the network: on a GPU from its third batch on a replayed graph.
  void infer();
  void infer(int64_t first, int64_t count, const Observer& observe);
  void predict(const DatasetInfo& info, const Split& samples, const Observer& observe,
               std::vector<float>* outputs);
  /// Has batches_ normalise as `info` says.
  void take_batches(const DatasetInfo& info);
  /// The first `count` rows of the network's output.
  void read_output(int64_t count, float* to);

  Context& context_;
  Net net_;
  std::optional<Batches> batches_;     // one batch, whose samples are replaced
  std::vector<double> mean_, stddev_;  // of batches_
  Buffer step_;                        // its number, 0
  std::vector<std::byte> output_;      // as it lies in the device's memory
  int inferred_ = 0;                   // batches that infer() has queued
  StepGraph graph_;
};

/// exp(x) over the sum of exp(x), in double. Not finite where an x is not.
std::vector<double> softmax(const float* x, size_t count);

}  // namespace duet
