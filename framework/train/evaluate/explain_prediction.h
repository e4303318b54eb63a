// What `trainer explain-prediction` does.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/checkpoint/trained.h"
#include "train/evaluate/heat_map.h"

namespace duet {

/// Where a network sees a class.
struct Explanation {
  size_t number = 0;  // of the class
  double confidence = 0.0;
  std::string layer;
  FeatureMaps features, gradients;  // the layer's output, and of that the class's output before
                                    // softmax
  HeatMap map;                      // grad_cam() of these
};

/// open_trained() for explain_prediction(): of batch 1 and without fold_norms. Throws ConfigError,
/// too, if the network predicts no classes.
Trained open_to_explain(TrainedOptions options);

/// Of an image (info.channels x info.height x info.width bytes), normalised as `info` says, in
/// evaluation. An empty class is the likeliest, an empty layer the last that makes images of more
/// than one pixel. The layers of `trained` become those that ran. Throws duet::Error. REQUIRES:
/// `trained` came from open_to_explain().
Explanation explain_prediction(Trained& trained, const DatasetInfo& info,
                               std::vector<uint8_t> image, const std::string& class_name,
                               const std::string& layer);

struct ExplainPredictionOptions {
  TrainedOptions trained;
  std::string picture;     // a file (data/set/pictures.h)
  std::string layer;       // whose maps are summed; empty: the last that makes images
  std::string class_name;  // or its number; empty: the predicted class
  bool resize = false;
  std::string out;    // the PNG file
  bool json = false;  // one JSON object instead of a table
};

/// Draws over the picture where the network sees a class (train/evaluate/heat_map.h), and prints the class,
/// how sure the network is of it and the layer. The heat map is of the class's output before
/// softmax. The drawing has the picture's size; where the data set fits pictures by a rule of its
/// own, it is of the picture as that makes it. Throws duet::Error.
void run_explain_prediction(const ExplainPredictionOptions& options);

}  // namespace duet
