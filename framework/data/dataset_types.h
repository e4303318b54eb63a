// The rows of the list of data sets, each defined in the file of its name.
#pragma once

#include "data/dataset.h"

namespace duet {

const DatasetType& fashion_mnist_type();
const DatasetType& mnist_type();
const DatasetType& synthetic_images_type();

}  // namespace duet
