// The files that a measurement is asked to write (core/output_files.h): each is written by itself, so
// that one that fails leaves the others.
#pragma once

#include <exception>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/error.h"
#include "core/output_files.h"

namespace duet {

/// Keeps what has been measured in the results' file while more is measured, so that a crash or a
/// kill loses no more than what is in work and a quarter of a second.
class PartialResults {
 public:
  /// Writes nothing if `file` is empty, a device or a pipe.
  explicit PartialResults(std::string file) : file_(std::move(file)) {}
  /// `work` begins. Replaces the file by `results` with "stopped", which names `work`: what the
  /// file says if nothing more is written. Takes a twentieth of the time at most.
  void write(nlohmann::json results, const std::string& work);
  bool due() const;

 private:
  std::string file_;
  double next_ = 0;
};

/// The error that ended the measuring, with the implementation that ran last where a device tells
/// nothing of it. REQUIRES: called in a catch block.
std::exception_ptr named_error();

/// Writes what `make` returns to `file`, if that is not empty, and logs "<what> <file>". An error
/// is logged and its exit code returned.
ExitCode write_output(const std::string& file, const std::string& what,
                      const std::function<std::string()>& make);

}  // namespace duet
