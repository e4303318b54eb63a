#include "layers/activation/activation.h"

#include <sstream>

namespace duet {

std::string ActivationProblem::to_string() const {
  std::ostringstream text;
  text << "x=" << x.to_string();
  if (kind == ActivationKind::kLeakyRelu) text << " slope=" << slope;
  return text.str();
}

}  // namespace duet
