#include "layers/pixel_shuffle/pixel_shuffle.h"

namespace duet {

// Each in the file of its name.
ImplEntry<PixelShuffleProblem> pixel_shuffle_cpu_reference();
ImplEntry<PixelShuffleProblem> pixel_shuffle_custom_vectorized();
ImplEntry<PixelShuffleProblem> pixel_shuffle_custom_naive();
ImplEntry<PixelShuffleProblem> pixel_shuffle_cudnn();

std::vector<ImplEntry<PixelShuffleProblem>>& pixel_shuffle_impls() {
  static std::vector<ImplEntry<PixelShuffleProblem>> list = {
    pixel_shuffle_cpu_reference(),
#if DUET_WITH_CUDA
    pixel_shuffle_custom_vectorized(),
    pixel_shuffle_custom_naive(),
    pixel_shuffle_cudnn(),
#endif
  };
  return list;
}

namespace {

class PixelShuffleLayer : public LayerOf<PixelShuffleLayer, PixelShuffleProblem> {
 public:
  explicit PixelShuffleLayer(ConfigReader& reader)
      : LayerOf("pixel_shuffle", pixel_shuffle_impls()), scale_(reader.integer("scale")) {}

  bool change_option(size_t number) override {
    if (number == 0) scale_ = scale_ == 1 ? 2 : 1;  // 1 fits every number of channels
    return number == 0;
  }

 protected:
  PixelShuffleProblem infer(const std::vector<TensorDesc>& inputs, const LayerOptions&) override {
    const TensorDesc& x = inputs[0];
    const Shape& s = x.shape;
    if (s.rank() != 4) throw ShapeError("takes images (N x C x H x W), not " + s.to_string());
    const int64_t square = scale_ * scale_;
    if (s[1] % square != 0) {
      throw ShapeError("scale " + std::to_string(scale_) + " takes channels in multiples of " +
                       std::to_string(square) + " (scale * scale), not the " +
                       std::to_string(s[1]) + " of " + s.to_string());
    }
    if (x.elements() > ConfigReader::kMaxInteger) {
      throw ShapeError("takes fewer than 2^31 elements, not " + s.to_string());
    }
    outputs_ = {{{s[0], s[1] / square, s[2] * scale_, s[3] * scale_}, x.dtype, x.layout}};
    return {.x = x, .y = outputs_[0], .scale = scale_, .dtype = x.dtype};
  }

 private:
  int64_t scale_;
};

}  // namespace

const LayerType& pixel_shuffle_type() {
  static const LayerType type = layer_type<PixelShuffleLayer, pixel_shuffle_impls>(
      "pixel_shuffle", "channels become pixels: an image scale times as high and as wide");
  return type;
}

}  // namespace duet
