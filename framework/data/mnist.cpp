// MNIST (LeCun, Cortes, Burges 1998): 60000 + 10000 grey images of 28x28, handwritten digits. No
// keys.
#include "data/dataset_types.h"
#include "data/idx.h"

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
      "502b9d2f82ef044f"};
  return type;
}

}  // namespace duet
