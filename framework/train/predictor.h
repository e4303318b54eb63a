// A trained network on images alone: what it makes of them before its losses.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

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
  std::vector<float> logits(const DatasetInfo& info, std::vector<uint8_t> images) {
    return logits(info, std::move(images), {});
  }
  /// Sees what a layer makes of one image, C x H x W; `image` counts from 0.
  using Observer =
      std::function<void(int64_t image, const std::string& layer, const std::vector<int64_t>& shape,
                         const std::vector<float>& values)>;
  /// The same, layer by layer: `observe` is called for every layer whose output is images.
  std::vector<float> logits(const DatasetInfo& info, std::vector<uint8_t> images,
                            const Observer& observe);

 private:
  /// Queues the network: on a GPU from its third batch on a replayed graph.
  void infer();
  void infer(const uint64_t* step, int64_t first, int64_t count, const Observer& observe);

  Context& context_;
  Net net_;
  int batches_ = 0;  // that infer() has queued
  StepGraph graph_;
};

/// exp(x) over the sum of exp(x), in double. Not finite where an x is not.
std::vector<double> softmax(const float* x, size_t count);

}  // namespace duet
