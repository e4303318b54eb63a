#include "train/loss_weight.h"

namespace duet {

LossWeight::LossWeight(Context& context, const Net::Node& loss) : context_(context), loss_(loss) {
  const std::span<const float> weights = loss.layer->class_weights();
  if (weights.empty()) return;
  const Device device = context.device();
  weights_ = Buffer(device, weights.size_bytes());
  sum_ = Buffer(device, sizeof(double));
  copy_bytes(weights_.data(), device, weights.data(), Device::kCpu, weights_.bytes());
}

void LossWeight::queue() {
  if (!get()) return;
  sum_class_weights(context_, loss_.tensors.x[1], static_cast<const float*>(weights_.data()),
                    static_cast<int>(weights_.bytes() / sizeof(float)),
                    static_cast<double*>(sum_.data()));
}

void sum_class_weights(Context& context, const Tensor& labels, const float* class_weights,
                       int classes, double* sum) {
#if DUET_WITH_CUDA
  if (context.device() == Device::kGpu) {
    return sum_class_weights_gpu(context, labels, class_weights, classes, sum);
  }
#endif
  (void)context;
  const Shape& shape = labels.desc.shape;
  *sum = 0.0;
  for (int64_t i = 0; i < shape[0]; ++i) {
    *sum +=
        class_weight_of_row(labels.data<int32_t>(), shape.rank() == 2, i, class_weights, classes);
  }
}

}  // namespace duet
