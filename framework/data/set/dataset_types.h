// The rows of the list of data sets, each defined in the file of its name.
#pragma once

#include "data/set/dataset.h"

namespace duet {

const DatasetType& cifar10_type();
const DatasetType& cifar100_type();
const DatasetType& csv_type();
const DatasetType& detection_type();
const DatasetType& fashion_mnist_type();
const DatasetType& idx_type();
const DatasetType& image_folder_type();
const DatasetType& image_pairs_type();
const DatasetType& mnist_type();
const DatasetType& synthetic_images_type();
const DatasetType& synthetic_points_type();
const DatasetType& tiny_imagenet_type();

}  // namespace duet
