#include "layers/layers.h"

#include <algorithm>

#include "layers/activation/activation.h"
#include "layers/add/add.h"
#include "layers/batch_norm/batch_norm.h"
#include "layers/batch_norm_relu_pool/batch_norm_relu_pool.h"
#include "layers/batch_norm_relu_softmax/batch_norm_relu_softmax.h"
#include "layers/concat/concat.h"
#include "layers/conv2d/conv2d.h"
#include "layers/conv2d_pool_relu/conv2d_pool_relu.h"
#include "layers/dropout/dropout.h"
#include "layers/flatten/flatten.h"
#include "layers/layer_norm/layer_norm.h"
#include "layers/linear/linear.h"
#include "layers/linear_relu/linear_relu.h"
#include "layers/pair_loss/pair_loss.h"
#include "layers/pair_metric/pair_metric.h"
#include "layers/pixel_shuffle/pixel_shuffle.h"
#include "layers/pool2d/pool2d.h"
#include "layers/reorder/reorder.h"
#include "layers/row_loss/row_loss.h"
#include "layers/softmax/softmax.h"
#include "layers/softmax_cross_entropy/softmax_cross_entropy.h"
#include "layers/softmax_dropout/softmax_dropout.h"
#include "layers/ssim/ssim.h"
#include "layers/top_k_accuracy/top_k_accuracy.h"

namespace duet {

const std::vector<const LayerType*>& layer_types() {
  static const std::vector<const LayerType*> types = {
      // clang-format off
      &add_type(),
      &add_relu_type(),
      &avg_pool2d_type(),
      &batch_norm1d_type(),
      &batch_norm1d_relu_type(),
      &batch_norm1d_relu_softmax_type(),
      &batch_norm2d_type(),
      &batch_norm2d_relu_type(),
      &batch_norm2d_relu_pool_type(),
      &bce_with_logits_type(),
      &binary_cross_entropy_loss_type(),
      &charbonnier_loss_type(),
      &concat_type(),
      &conv2d_type(),
      &conv2d_pool_relu_type(),
      &dropout_type(),
      &flatten_type(),
      &gelu_type(),
      &global_avg_pool2d_type(),
      &l1_loss_type(),
      &layer_norm_type(),
      &leaky_relu_type(),
      &linear_type(),
      &linear_relu_type(),
      &max_pool2d_type(),
      &mean_absolute_error_type(),
      &mean_squared_error_type(),
      &mse_type(),
      &mse_loss_type(),
      &multi_margin_type(),
      &pixel_shuffle_type(),
      &psnr_type(),
      &relu_type(),
      &reorder_type(),
      &sigmoid_type(),
      &silu_type(),
      &softmax_type(),
      &softmax_cross_entropy_type(),
      &softmax_dropout_type(),
      &split_type(),
      &ssim_type(),
      &tanh_type(),
      &top_k_accuracy_type(),
      // clang-format on
  };
  return types;
}

const LayerType* find_layer_type(std::string_view name) {
  for (const LayerType* type : layer_types()) {
    if (type->name == name) return type;
  }
  return nullptr;
}

void add_ids(const LayerType& type, std::vector<std::string>* ids) {
  for (const ImplInfo& info : type.implementations()) {
    if (std::find(ids->begin(), ids->end(), info.id) == ids->end()) ids->emplace_back(info.id);
  }
}

}  // namespace duet
