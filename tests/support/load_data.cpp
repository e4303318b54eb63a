#include "support/load_data.h"

#include <stdexcept>

#include "net/yaml.h"

namespace duet {

Dataset load_data(const std::string& keys, const std::filesystem::path& data_dir) {
  ConfigNode node = read_yaml(keys, "test");
  ConfigErrors errors("test");
  ConfigReader reader(node, "data", errors);
  const DatasetType* type = find_dataset_type(reader.text("dataset"));
  if (!type) throw std::logic_error(keys + ": no such data set");
  const DatasetLoader loader = read_dataset(*type, reader);
  reader.finish();
  errors.raise_if_any();
  return loader.load(data_dir);
}

}  // namespace duet
