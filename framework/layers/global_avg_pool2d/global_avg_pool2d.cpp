#include "layers/global_avg_pool2d/global_avg_pool2d.h"

#include "layers/global_avg_pool2d/global_avg_pool2d_impls.h"

namespace duet {

const LayerType& global_avg_pool2d_type() {
  static const LayerType type = {"global_avg_pool2d", "the mean of each channel of an image",
                                 [](ConfigReader&) -> std::unique_ptr<Layer> {
                                   return std::make_unique<Pool2dLayer>(PoolKind::kGlobalAverage,
                                                                        global_avg_pool2d_impls(),
                                                                        Pool2dParams());
                                 },
                                 [] { return Pool2dLayer::infos(global_avg_pool2d_impls()); }};
  return type;
}

}  // namespace duet
