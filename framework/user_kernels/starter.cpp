#include "user_kernels/starter.h"

#include "user_kernels/kernel_file.h"
#include "user_kernels/starter_texts.h"

namespace duet {

std::vector<std::string> starter_types() {
  std::vector<std::string> types;
  for (const auto& [type, text] : gpu_starters()) types.push_back(type);
  return types;
}

std::string starter_text(const std::string& type, const std::string& name, Device device) {
  std::string text = (device == Device::kGpu ? gpu_starters() : cpu_starters()).at(type);
  const std::string place = id_prefix(device) + "NAME";
  return text.replace(text.find(place), place.size(), id_prefix(device) + name);
}

std::string starter_shape(const std::string& type) {
  if (type == "conv2d") return "n=64,c=64,h=13,w=13,k=128,r=3,s=3";
  if (type == "linear") return "n=64,in=3200,out=256";
  if (type == "max_pool2d") return "n=64,c=64,h=24,w=24,r=2,s=2";
  if (type == "softmax") return "n=64,in=1000";
  return std::string("n=64,c=64,h=13,w=13") + (type == "reorder" ? ",to=nhwc" : "");
}

}  // namespace duet
