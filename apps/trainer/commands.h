// The trainer's subcommands; each prints to standard output.
#pragma once

#include <string>

/// What there is: "layers", "impls", "datasets", "optimizers" or "schedules".
void list_what(const std::string& what, bool json);

/// GPU, library versions and data sets of this machine. `data` is the --data folder, whose data
/// sets are read and checked, or empty.
void doctor(const std::string& data, bool json);
