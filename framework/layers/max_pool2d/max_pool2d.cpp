#include "layers/max_pool2d/max_pool2d.h"

#include "layers/max_pool2d/max_pool2d_impls.h"

namespace duet {

const LayerType& max_pool2d_type() {
  static const LayerType type = {
      "max_pool2d", "the largest value of each window",
      [](ConfigReader& reader) -> std::unique_ptr<Layer> {
        return std::make_unique<Pool2dLayer>(PoolKind::kMax, max_pool2d_impls(),
                                             Pool2dParams::read(reader, PoolKind::kMax));
      },
      [] { return Pool2dLayer::infos(max_pool2d_impls()); }, pool2d_shape_words()};
  return type;
}

}  // namespace duet
