// What training must do on every device.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "support/network.h"

namespace duet {

/// A small CNN with dropout on 1000 + 250 synthetic images, batch 100, under `backend` (which may
/// carry further top-level lines).
std::string small_training(const std::string& backend);

/// The same, streamed from memory.
std::string streamed_training(const std::string& backend);

/// The same as small_training(), with mixup.
std::string mixed_training(const std::string& backend);

/// small_training() and mixed_training(), with class weights from 0 to 100.
std::string weighted_training(const std::string& backend);
std::string weighted_mixed_training(const std::string& backend);

/// The same data on a residual network with batch normalisation.
std::string small_residual_training(const std::string& backend);

/// The latter by AdamW with clipping, averaged weights and biases that do not decay; and by Muon.
std::string averaged_training(const std::string& backend);
std::string muon_training(const std::string& backend);

/// small_residual_training() and averaged_training(), of which all layers up to the last two are frozen:
/// convolutions, batch normalisations and a residual block.
std::string frozen_training(const std::string& backend);
std::string frozen_averaged_training(const std::string& backend);
/// small_residual_training() whose first convolution alone is trained before frozen layers.
std::string frozen_behind_training(const std::string& backend);

/// Everything that training changes: step, totals, parameters and optimizer state.
std::vector<double> snapshot(TestTraining& t);

/// A path in the system's temporary folder, different for every process.
std::filesystem::path temporary_path(const std::string& name);

/// 13 steps by `first`, saved, loaded into a fresh training of `second`, 12 more: the same bits as
/// 25 steps without a stop.
void check_resume(const std::string& first, const std::string& second,
                  std::string (*network)(const std::string& backend) = small_training);

/// check_resume() with schedules that are in the midst of something at step 13.
void check_resume_of_schedules(const std::string& backend);

/// A trace of some steps is the network's: every operation of every step, in order, on tracks whose
/// events do not overlap, with the times that were measured.
void check_trace(const std::string& backend,
                 std::string (*network)(const std::string& backend) = small_training);

/// Steps, evaluations and a resumed training of streamed data have the bits of resident data.
void check_streaming(const std::string& backend);

/// Inference gives the outputs that an evaluation of the same batch has, with the weights as they are, and moves nothing on.
void check_inference(const std::string& backend,
                     std::string (*network)(const std::string& backend) = small_training);

/// The loss of a training and of an evaluation with class weights is the mean by them over all rows, whatever
/// rows share a batch.
void check_weighted_means(const std::string& backend);

/// With parameters that overflow, nothing is updated or advances any more and the culprit is named.
void check_halt(const std::string& backend,
                std::string (*network)(const std::string& backend) = small_training);

/// A block whose passes run by every two of `ids` learns as it does by the first of them alone.
void check_passes_of_a_block(const std::vector<std::string>& ids, const std::string& math = "fp32",
                             double tolerance = 1e-4);

}  // namespace duet
