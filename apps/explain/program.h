// The program that shows a pass of a layer: the library's calls, and the comparison of what they give.
#pragma once

#include <string>

#include "program_data.h"

namespace duet {

/// What a program says of where its layer comes from.
struct ProgramTitle {
  std::string layer;   // "conv1 of lenet5", or what there is to say of a layer by itself
  std::string file;    // that the program is written to, for its compiler's command line
  std::string values;  // the file of program_values()
};

/// The text in C++. Throws UnsupportedError, with the reason, where a part of it could not be shown
/// rightly.
std::string program_text(const RecordedLayer& recorded, const ProgramData& data,
                         const ProgramTitle& title);

}  // namespace duet
