#include "layers/avg_pool2d/avg_pool2d.h"

#include "layers/avg_pool2d/avg_pool2d_impls.h"

namespace duet {

const LayerType& avg_pool2d_type() {
  static const LayerType type = {
      "avg_pool2d", "the mean of each window",
      [](ConfigReader& reader) -> std::unique_ptr<Layer> {
        return std::make_unique<Pool2dLayer>(PoolKind::kAverage, avg_pool2d_impls(),
                                             Pool2dParams::read(reader, PoolKind::kAverage));
      },
      [] { return Pool2dLayer::infos(avg_pool2d_impls()); }, pool2d_shape_words()};
  return type;
}

}  // namespace duet
