// The text of a configuration, up to the plan of the network, as far as --dry-run goes. A comment
// "#set A.B=VALUE" at the start of a line stands for that option, so that inputs are also
// configurations that trainer reads.
#include <sstream>
#include <string>

#include "core/error.h"
#include "fuzz/fuzz_target.h"
#include "net/table.h"
#include "net/yaml.h"
#include "train/setup.h"

DUET_FUZZ_TARGET(configuration) {
  duet::SetupOptions options{.config = "input.yaml"};
  std::istringstream lines{std::string(input)};
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("#set ")) options.assignments.push_back(line.substr(5));
  }
  try {
    const duet::Setup setup =
        duet::read_setup(duet::read_yaml(std::string(input), options.config), options);
    duet::network_table(setup.layers, nullptr);
    duet::training_text(setup);
    duet::write_yaml(setup.config);
  } catch (const duet::Error&) {
  }
}
