#pragma once

#include <filesystem>

#include "compare/results/run_record.h"
#include "support/temporary_folder.h"

namespace duet {

/// The folder `name` of a made-up run of `epochs` epochs on three classes: its files.
void write_run_fixture(const TemporaryFolder& folder, const std::filesystem::path& name,
                       int epochs = 4);

}  // namespace duet
