// The part of ProgramCalls that is about Duet's own kernels.
#include "core/error.h"
#include "layers/conv2d/conv2d.h"
#include "program_calls.h"

namespace duet {
namespace {

std::string element_of(const std::string& parameter) {
  if (parameter.find("bfloat16") != std::string::npos) return "__nv_bfloat16";
  return parameter.find("int") == 0 ? "int" : "float";
}

std::string line(const std::string& function, const std::string& arguments) {
  return "  " + function + "(" + arguments + ");\n";
}

}  // namespace

std::string ProgramCalls::kernel(const Record& record) {
  const std::string name = short_name(record.name);
  const auto pointer = [&](size_t i) {
    RecordedArgument argument = record.arguments.at(i);
    argument.type = element_of(argument.type);
    return memory(record, argument);
  };
  const auto number = [&](size_t i) { return record.arguments.at(i).text(); };
  const auto says = [&](const std::string& function, const std::string& text) {
    host_.insert(function);
    return "\n" + commented("Here Duet runs a kernel of its own, " + name + ": " + text);
  };
  // The sizes of a tensor, and where it begins in planes: x with the padding around it.
  const auto images = [&](size_t i) {
    const NamedMemory* const memory = memory_at(recorded_, address_of(record.arguments.at(i)));
    const bool padded = memory->name == "x" || memory->name == "dx";
    std::string text;
    for (int axis = 0; axis < 4; ++axis) {
      text += (axis == 0 ? "{" : ", ") + std::to_string(memory->desc.shape[axis]);
    }
    const auto& conv = dynamic_cast<const HasProblem<Conv2dProblem>&>(*recorded_.layer).problem();
    return text + "}, " + std::to_string(padded ? conv.pad_h : 0) + ", " +
           std::to_string(padded ? conv.pad_w : 0);
  };
  if (name == "convert_kernel") {
    return says("convert", "the values in the type that the call takes.") +
           line("convert", pointer(1) + ", " + pointer(2) + ", " + number(0));
  }
  if (name == "conv2d_im2col_kernel") {
    used_memory_.insert("x");
    return says("im2col", "the matrix that a product takes.") + line("im2col", "x, " + pointer(3));
  }
  if (name == "conv2d_col2im_kernel") {
    return says("col2im", "its matrix, added up into dx.") +
           line("col2im", pointer(2) + ", " + pointer(3));
  }
  if (name == "into_planes_kernel") {
    return says("into_planes", "room for a transform.") +
           line("into_planes", pointer(1) + ", " + images(1) + ", " + pointer(3));
  }
  if (name == "from_planes_kernel") {
    return says("from_planes", "back out of the planes.") +
           line("from_planes", pointer(1) + ", " + number(2) + "f, " + pointer(3) + ", " +
                                   images(5) + ", " + pointer(5));
  }
  if (name == "softmax_cross_entropy_pick_kernel") {
    return says("pick", "the loss of the logarithms; cuDNN has none.") +
           line("pick", pointer(3) + ", " + pointer(4) + ", " + pointer(8) + ", " + pointer(9) +
                            ",\n       " + pointer(10));
  }
  if (name == "softmax_cross_entropy_unpick_kernel") {
    return says("unpick", "the gradient that the softmax is given.") +
           line("unpick", pointer(4) + ", " + pointer(5) + ",\n         " + pointer(6));
  }
  if (name == "dropout_recompute_kernel" || name == "dropout_recompute_nhwc_kernel") {
    return says("dropout", "cuDNN's dropout would draw a mask of its own.") +
           line("dropout", pointer(4) + ", " + pointer(5) + ", " + number(3));
  }
  if (name == "cudaMemcpyAsync") {
    const auto any = [&](size_t i) {
      RecordedArgument argument = record.arguments.at(i);
      argument.type = "void";
      return memory(record, argument);
    };
    return checked(name, {any(0), any(1), number(2), "cudaMemcpyDeviceToDevice", "stream"});
  }
  throw UnsupportedError("explain: " + std::string(recorded_.layer->type()) + " by " +
                         recorded_.id + " runs " + name +
                         ", a kernel of Duet's, between the library's calls, and explain has no "
                         "loop on the host for it");
}

}  // namespace duet
