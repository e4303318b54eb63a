#include "layers/layer_cases.h"

namespace duet {

std::vector<LayerCase> add_cases();
std::vector<LayerCase> avg_pool2d_cases();
std::vector<LayerCase> batch_norm1d_cases();
std::vector<LayerCase> batch_norm1d_relu_cases();
std::vector<LayerCase> batch_norm1d_relu_softmax_cases();
std::vector<LayerCase> batch_norm2d_cases();
std::vector<LayerCase> batch_norm2d_relu_cases();
std::vector<LayerCase> batch_norm2d_relu_pool_cases();
std::vector<LayerCase> bce_with_logits_cases();
std::vector<LayerCase> binary_cross_entropy_loss_cases();
std::vector<LayerCase> charbonnier_loss_cases();
std::vector<LayerCase> concat_cases();
std::vector<LayerCase> conv2d_cases();
std::vector<LayerCase> conv2d_pool_relu_cases();
std::vector<LayerCase> dropout_cases();
std::vector<LayerCase> flatten_cases();
std::vector<LayerCase> gelu_cases();
std::vector<LayerCase> global_avg_pool2d_cases();
std::vector<LayerCase> l1_loss_cases();
std::vector<LayerCase> layer_norm_cases();
std::vector<LayerCase> leaky_relu_cases();
std::vector<LayerCase> linear_cases();
std::vector<LayerCase> linear_relu_cases();
std::vector<LayerCase> max_pool2d_cases();
std::vector<LayerCase> mean_absolute_error_cases();
std::vector<LayerCase> mean_squared_error_cases();
std::vector<LayerCase> mse_cases();
std::vector<LayerCase> mse_loss_cases();
std::vector<LayerCase> multi_margin_cases();
std::vector<LayerCase> pixel_shuffle_cases();
std::vector<LayerCase> psnr_cases();
std::vector<LayerCase> relu_cases();
std::vector<LayerCase> reorder_cases();
std::vector<LayerCase> sigmoid_cases();
std::vector<LayerCase> silu_cases();
std::vector<LayerCase> softmax_cases();
std::vector<LayerCase> softmax_cross_entropy_cases();
std::vector<LayerCase> softmax_dropout_cases();
std::vector<LayerCase> split_cases();
std::vector<LayerCase> ssim_cases();
std::vector<LayerCase> add_relu_cases();
std::vector<LayerCase> tanh_cases();
std::vector<LayerCase> top_k_accuracy_cases();

const std::vector<CasesOfType>& layer_cases() {
  static const std::vector<CasesOfType> all = {
      {"add", add_cases()},
      {"add_relu", add_relu_cases()},
      {"avg_pool2d", avg_pool2d_cases()},
      {"batch_norm1d", batch_norm1d_cases()},
      {"batch_norm1d_relu", batch_norm1d_relu_cases()},
      {"batch_norm1d_relu_softmax", batch_norm1d_relu_softmax_cases()},
      {"batch_norm2d", batch_norm2d_cases()},
      {"batch_norm2d_relu", batch_norm2d_relu_cases()},
      {"batch_norm2d_relu_pool", batch_norm2d_relu_pool_cases()},
      {"bce_with_logits", bce_with_logits_cases()},
      {"binary_cross_entropy_loss", binary_cross_entropy_loss_cases()},
      {"charbonnier_loss", charbonnier_loss_cases()},
      {"concat", concat_cases()},
      {"conv2d", conv2d_cases()},
      {"conv2d_pool_relu", conv2d_pool_relu_cases()},
      {"dropout", dropout_cases()},
      {"flatten", flatten_cases()},
      {"gelu", gelu_cases()},
      {"global_avg_pool2d", global_avg_pool2d_cases()},
      {"l1_loss", l1_loss_cases()},
      {"layer_norm", layer_norm_cases()},
      {"leaky_relu", leaky_relu_cases()},
      {"linear", linear_cases()},
      {"linear_relu", linear_relu_cases()},
      {"max_pool2d", max_pool2d_cases()},
      {"mean_absolute_error", mean_absolute_error_cases()},
      {"mean_squared_error", mean_squared_error_cases()},
      {"mse", mse_cases()},
      {"mse_loss", mse_loss_cases()},
      {"multi_margin", multi_margin_cases()},
      {"pixel_shuffle", pixel_shuffle_cases()},
      {"psnr", psnr_cases()},
      {"relu", relu_cases()},
      {"reorder", reorder_cases()},
      {"sigmoid", sigmoid_cases()},
      {"silu", silu_cases()},
      {"softmax", softmax_cases()},
      {"softmax_cross_entropy", softmax_cross_entropy_cases()},
      {"softmax_dropout", softmax_dropout_cases()},
      {"split", split_cases()},
      {"ssim", ssim_cases()},
      {"tanh", tanh_cases()},
      {"top_k_accuracy", top_k_accuracy_cases()},
  };
  return all;
}

}  // namespace duet
