#include "train/step/loss_weight.h"

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
  const Tensor &x = loss_.tensors.x[0], &labels = loss_.tensors.x[1];
  const auto classes = static_cast<int>(weights_.bytes() / sizeof(float));
  sum_class_weights(context_,
                    {.labels = labels.data<int32_t>(),
                     .rows = x.elements() / classes,
                     .mixed = are_mixed(labels.desc, x.desc),
                     .ignored = loss_.layer->ignored_class(),
                     .class_weights = static_cast<const float*>(weights_.data()),
                     .classes = classes},
                    static_cast<double*>(sum_.data()));
}

void sum_class_weights(Context& context, const WeightedLabels& labels, double* sum) {
#if DUET_WITH_CUDA
  if (context.device() == Device::kGpu) return sum_class_weights_gpu(context, labels, sum);
#endif
  (void)context;
  *sum = 0.0;
  for (int64_t row = 0; row < labels.rows; ++row) *sum += labels.of_row(row);
}

}  // namespace duet
