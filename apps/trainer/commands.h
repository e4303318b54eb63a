// The trainer's subcommands; each prints to standard output.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/setup.h"

/// What there is: "layers", "impls", "datasets", "optimizers" or "schedules".
void list_what(const std::string& what, bool json);

/// Fetches a published data set into `data`/NAME, or if that is empty into the cache; from `mirrors`
/// if there are any.
void fetch_dataset(const std::string& name, const std::string& data,
                   const std::vector<std::string>& mirrors);

/// GPU, library versions and data sets of this machine. `data` is the --data folder, whose data
/// sets are read and checked, or empty.
void doctor(const std::string& data, bool json);

struct ExplainOptions {
  duet::SetupOptions setup;
  std::string layer, pass = "forward";
  std::string out;  // a file; empty: standard output
  bool trace = false;
};

/// Writes a program of the library's calls that a pass of a layer makes, or with `trace` a line for
/// every call of a training step. Starts the process again, to record them.
void explain(const ExplainOptions& options);

/// Writes TYPE_custom_NAME.cu, kernels to begin with, into the current folder, and prints what to do
/// with it. Throws ConfigError where there is such a file, or none to begin with for the type.
void new_kernel(const std::string& type, const std::string& name, duet::Device device);

/// A layer type: its keys, and what each implementation can do of an ordinary problem in each
/// arithmetic and layout; or an implementation: what its files say of it, and the same for each
/// layer type that has it. Throws ConfigError if there is nothing of that name.
void describe(const std::string& name, bool json);
