// A trained network on images alone: what it makes of them before its losses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/batches.h"
#include "data/dataset.h"
#include "device/step_graph.h"
#include "net/net.h"

namespace duet {

class Predictor {
 public:
  /// `layers` are those of the training, losses among them; their batch is how many images run
  /// at a time. `weights` and `context` must outlive this.
  Predictor(const std::vector<ResolvedLayer>& layers, Weights& weights, Context& context);

  /// Of a batch.
  const TensorDesc& output() const { return net_.output().desc; }
  /// What the network makes of `images` (count x info.channels x info.height x info.width bytes),
  /// before softmax: count x classes, or count x channels x height x width of images. Normalises as
  /// `info` says. A row depends on its image and on its place in a batch, which is always full, not
  /// on the other images.
  std::vector<float> logits(const DatasetInfo& info, const std::vector<uint8_t>& images) {
    return logits(info, images, {});
  }
  /// The same, to `outputs`. Takes no memory in a call with the normalisation of the one before, but
  /// what `outputs` lacks.
  void predict(const DatasetInfo& info, const std::vector<uint8_t>& images,
               std::vector<float>* outputs) {
    predict(info, images, {}, outputs);
  }
  /// Sees what a layer makes of one image, C x H x W; `image` counts from 0.
  using Observer =
      std::function<void(int64_t image, const std::string& layer, const std::vector<int64_t>& shape,
                         const std::vector<float>& values)>;
  /// The same, layer by layer: `observe` is called for every layer whose output is images.
  std::vector<float> logits(const DatasetInfo& info, const std::vector<uint8_t>& images,
                            const Observer& observe) {
    std::vector<float> outputs;
    predict(info, images, observe, &outputs);
    return outputs;
  }

 private:
  /// Queues the network: on a GPU from its third batch on a replayed graph.
  void infer();
  void infer(int64_t first, int64_t count, const Observer& observe);
  void predict(const DatasetInfo& info, const std::vector<uint8_t>& images, const Observer& observe,
               std::vector<float>* outputs);
  /// Has batches_ normalise as `info` says.
  void take_batches(const DatasetInfo& info);
  /// The first `count` images' rows of the network's output.
  void read_output(int64_t count, float* to);

  Context& context_;
  Net net_;
  std::optional<Batches> batches_;     // one batch, whose images are replaced
  std::vector<double> mean_, stddev_;  // of batches_
  Buffer step_;                        // its number, 0
  std::vector<std::byte> output_;      // as it lies in the device's memory
  int inferred_ = 0;                   // batches that infer() has queued
  StepGraph graph_;
};

/// exp(x) over the sum of exp(x), in double. Not finite where an x is not.
std::vector<double> softmax(const float* x, size_t count);

}  // namespace duet
