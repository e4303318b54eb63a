// The errors that Duet throws. They end in an application's main(), which prints message_of() and
// exits with exit_code_of(); who catches one on its way saves something first.
#pragma once

#include <exception>
#include <new>
#include <stdexcept>
#include <string>

namespace duet {

/// Exit codes of every application.
enum ExitCode : int {
  kExitDone = 0,
  kExitFailure = 1,
  kExitUsage = 2,        // wrong usage, configuration or data
  kExitUnsupported = 3,  // an implementation or this machine cannot do what was asked
  kExitComparison = 4,
  kExitInterrupted = 130,
};

/// Base of all Duet errors.
class Error : public std::runtime_error {
 public:
  Error(const std::string& message, ExitCode code) : std::runtime_error(message), code_(code) {}
  ExitCode exit_code() const { return code_; }

 private:
  ExitCode code_;
};

/// The run failed for a reason outside the configuration (disk full, loss not finite, ...).
class RunError : public Error {
 public:
  explicit RunError(const std::string& message) : Error(message, kExitFailure) {}
};

/// A smaller batch might fit: neither the host nor the GPU gave the memory asked for.
class OutOfMemoryError : public RunError {
 public:
  using RunError::RunError;
};

/// The user asked to stop (Ctrl-C).
class InterruptedError : public Error {
 public:
  explicit InterruptedError(const std::string& message = "interrupted")
      : Error(message, kExitInterrupted) {}
};

/// A mistake in a configuration or on the command line. One error may list many mistakes, a line
/// each.
class ConfigError : public Error {
 public:
  explicit ConfigError(const std::string& message) : Error(message, kExitUsage) {}
};

/// A data set, checkpoint or other input file is missing, truncated or corrupt.
class DataError : public Error {
 public:
  explicit DataError(const std::string& message) : Error(message, kExitUsage) {}
};

/// Something valid that this implementation, this build or this machine cannot do.
class UnsupportedError : public Error {
 public:
  explicit UnsupportedError(const std::string& message) : Error(message, kExitUnsupported) {}
};

/// A CUDA, cuDNN, cuBLAS or BLAS call failed: `file:line: call -> NAME: text`.
class DeviceError : public Error {
 public:
  explicit DeviceError(const std::string& message) : Error(message, kExitFailure) {}
};

/// Nothing more can be measured in this process: the GPU does nothing more for it, since an
/// implementation made an access that it must not, or an implementation left behind what cannot be
/// undone (open files, a busy thread). The message starts with the implementation's id.
class UnusableProcessError : public RunError {
 public:
  using RunError::RunError;
};

/// What the user is told of it.
inline std::string message_of(const std::exception& error) {
  return dynamic_cast<const std::bad_alloc*>(&error) ? "out of memory: this machine has too little "
                                                       "for what was asked for; make it smaller, "
                                                       "the batch first"
                                                     : error.what();
}

inline std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return message_of(e);
  }
}

inline ExitCode exit_code_of(const std::exception& error) {
  const auto* own = dynamic_cast<const Error*>(&error);
  return own ? own->exit_code() : kExitFailure;
}

inline ExitCode exit_code_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return exit_code_of(e);
  }
}

}  // namespace duet
