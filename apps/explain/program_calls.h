// Recorded calls as statements of C++.
#pragma once

#include <map>
#include <set>

#include "selection.h"

namespace duet {

class ProgramCalls {
 public:
  ProgramCalls(const RecordedLayer& recorded, const Selection& selection);

  /// The lines that make and set all objects, with the memory that they need.
  std::string setup();
  /// The lines that ask for algorithms and workspace.
  std::string questions();
  /// The lines of the passes' calls and of the host's work between them.
  std::string run();

  // What the lines above use; complete once they were asked for.
  const std::set<std::string>& memory() const { return used_memory_; }
  const std::string& constants() const { return constants_; }
  /// Functions for descriptors of cuDNN's graph API, where there are any.
  std::string graph_functions() const;
  /// The host functions that run() calls instead of Duet's own kernels (host_kernels.h).
  const std::set<std::string>& host_kernels() const { return host_; }
  bool uses(const std::string& library) const;

 private:
  void name_objects();
  void name_descriptors();
  std::string fresh(const std::string& name);
  std::string call(const Record& record, const std::map<std::string, std::string>& instead = {});
  std::string expression(const Record& record, const RecordedArgument& argument);
  std::string memory(const Record& record, const RecordedArgument& argument);
  std::string held_memory(const Record& record, const RecordedArgument& argument,
                          uintptr_t address);
  std::string scalar(const RecordedArgument& argument);
  std::string attribute(const Record& record);
  std::string plan(const Record& record);
  std::string descriptor(const Record& record);
  std::string value(const Record& record, const std::string& attribute, const std::string& type,
                    const nlohmann::json& value);
  std::string convolution_question(const Record& record);
  std::string product_question(const Record& record);
  std::string kernel(const Record& record);
  std::string comment(const std::string& function);
  std::string statement(const Record& record);

  const RecordedLayer& recorded_;
  const Selection& selection_;
  std::map<std::string, std::string> objects_;  // names of objects, by their tokens
  std::map<std::string, std::string> kinds_;    // of the graph API's descriptors, likewise
  /// The plan of a variant pack, a plan's engine configuration, its engine, and that one's graph; tokens.
  std::map<std::string, std::string> made_of_;
  std::set<std::string> products_;               // tokens of the graphs that multiply
  std::map<const Record*, std::string> suffix_;  // of calls with a question of their own
  std::map<uintptr_t, std::string> held_;        // names of memory that the layer holds
  std::set<std::string> names_, used_memory_, commented_, scalars_, host_;
  std::string constants_, declared_;
  std::vector<std::string> plans_;
};

/// "CHECK(f(a, b));" in lines of 100 columns, indented.
std::string checked(const std::string& function, const std::vector<std::string>& arguments);
/// Lines of a comment, indented.
std::string commented(const std::string& text, const std::string& indent = "  ");
/// "xDesc" as "x_desc".
std::string snake_case(const std::string& name);
/// float, __nv_bfloat16 or int.
std::string element_type(DType dtype);

}  // namespace duet
