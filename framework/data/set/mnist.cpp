// MNIST (LeCun, Cortes, Burges 1998): 60000 + 10000 grey images of 28x28, handwritten digits. No
// keys.
#include "data/format/idx.h"
#include "data/set/dataset_types.h"

namespace duet {

const DatasetType& mnist_type() {
  static const DatasetType type = {
      "mnist",
      "60000 + 10000 grey images of 28x28, handwritten digits",
      [](ConfigReader&) {
        DatasetLoader loader{{"mnist", 1, 28, 28, 10, {0.1307}, {0.3081}, numbered_classes(10)},
                             {}};
        loader.load = [info = loader.info](const std::filesystem::path& data_dir) {
          return load_idx_dataset(mnist_type(), info, data_dir);
        };
        return loader;
      },
      idx_dataset_files(),
      "",
      "502b9d2f82ef044f",
      "",
      {{"https://ossci-datasets.s3.amazonaws.com/mnist",
        "https://storage.googleapis.com/cvdf-datasets/mnist"},
       {{"train-images-idx3-ubyte.gz", 9912422,
         "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"},
        {"train-labels-idx1-ubyte.gz", 28881,
         "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"},
        {"t10k-images-idx3-ubyte.gz", 1648877,
         "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"},
        {"t10k-labels-idx1-ubyte.gz", 4542,
         "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"}}}};
  return type;
}

}  // namespace duet
