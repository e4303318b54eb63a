// Fashion-MNIST (Xiao, Rasul, Vollgraf 2017): 60000 + 10000 grey images of 28x28, ten kinds of
// clothes. No keys.
#include "data/dataset_types.h"
#include "data/idx.h"

namespace duet {

namespace {

DatasetInfo info() {
  DatasetInfo info{"fashion_mnist", 1, 28, 28, 10, {0.2860}, {0.3530}};
  info.class_names = {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
                      "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot"};
  return info;
}

}  // namespace

const DatasetType& fashion_mnist_type() {
  static const DatasetType type = {
      "fashion_mnist",
      "60000 + 10000 grey images of 28x28, ten kinds of clothes",
      [](ConfigReader&) {
        return DatasetLoader{info(), [](const std::filesystem::path& data_dir) {
                               return load_idx_dataset(fashion_mnist_type(), info(), data_dir);
                             }};
      },
      idx_dataset_files(),
      "On Debian and Ubuntu 'apt install dataset-fashion-mnist' brings it.",
      "fa8a0bd0fa7c558a"};
  return type;
}

}  // namespace duet
