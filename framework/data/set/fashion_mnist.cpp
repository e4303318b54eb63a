// Fashion-MNIST (Xiao, Rasul, Vollgraf 2017): 60000 + 10000 grey images of 28x28, ten kinds of
// clothes. No keys.
#include "data/format/idx.h"
#include "data/set/dataset_types.h"

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
      "fa8a0bd0fa7c558a",
      "",
      {{"http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion"},
       {{"train-images-idx3-ubyte.gz", 26421880,
         "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"},
        {"train-labels-idx1-ubyte.gz", 29515,
         "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"},
        {"t10k-images-idx3-ubyte.gz", 4422102,
         "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"},
        {"t10k-labels-idx1-ubyte.gz", 5148,
         "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"}}}};
  return type;
}

}  // namespace duet
