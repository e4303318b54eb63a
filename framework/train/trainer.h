// The trainer's run: what `trainer --config FILE` does.
#pragma once

#include <string>

#include "train/setup.h"

namespace duet {

struct TrainerOptions {
  SetupOptions setup;
  std::string data;            // folder of the data set; empty: the usual places
  std::string out;             // run folder; empty: runs/<name>-<time>
  std::string resume;          // checkpoint to go on from, or "last"
  bool allow_changes = false;  // resume or evaluate with another network or training too
  std::string evaluate;        // checkpoint to evaluate instead of training
  bool dry_run = false;        // print the resolved network and stop
  bool profile = false;        // time every layer and pass in the network instead of training
  bool tensorboard = false;    // event files for TensorBoard in the run folder too
  bool json = false;           // one JSON object on standard output at the end
};

/// Prints the network with its shapes and implementations, as a table or one JSON object, and writes
/// a drawing of its graph to `svg` if that is not empty. Needs no GPU. Throws RunError.
void show_network(Setup& setup, bool json, const std::string& svg = {});

/// Returns kExitDone, or kExitInterrupted after a signal (the run is saved then). Logs to standard
/// error through spdlog; tables and JSON go to standard output. Throws duet::Error.
int run_trainer(const TrainerOptions& options);

}  // namespace duet
