#include "train/step/profiler.h"

#include <spdlog/spdlog.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.h"
#include "core/interrupt.h"
#include "device/gpu.h"
#include "net/table.h"
#include "net/yaml.h"
#include "train/run/run_folder.h"
#include "train/step/profile.h"
#include "train/step/trace.h"
#include "train/version.h"

namespace duet {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr size_t kTracedSteps = 5;

json about(const Training& training, const NetSpec& spec) {
  json versions = json::object();
  for (const auto& [name, version] : gpu::versions()) versions[name] = version;
  const bool on_gpu = training.context().device() == Device::kGpu;
  return {{"name", spec.name},
          {"backend", spec.backend.name},
          {"batch", spec.data.batch},
          {"math", to_string(spec.math)},
          {"duet", version_text()},
          {"versions", versions},
          {"device", on_gpu ? gpu_name() : "cpu"}};
}

std::pair<Profile, StepTrace> measure(Training& training) {
  const InterruptGuard guard;
  spdlog::info("profiling");
  try {
    Profile profile = profile_step(training);
    StepTrace trace = trace_steps(training, kTracedSteps);
    InterruptGuard::check();
    return {std::move(profile), std::move(trace)};
  } catch (const InterruptedError&) {
    throw InterruptedError("interrupted before the profile was done; nothing was written");
  }
}

}  // namespace

json run_profiler(Training& training, const Setup& setup, const fs::path& folder) {
  const RunFolder out = RunFolder::create(folder.empty() ? make_run_path(setup.spec.name) : folder);
  const json head = about(training, setup.spec);
  const auto [profile, trace] = measure(training);

  json result = profile_json(profile);
  result.update(head);
  out.write("config.yaml", write_yaml(setup.config));
  out.write("profile.json", json_text(result, 2) + "\n");
  out.write("trace.json", json_text(trace_json(trace, training, head)) + "\n");
  std::fputs(profile_table(profile).c_str(), stdout);
  spdlog::info("the same as JSON: {}", (out.path() / "profile.json").string());
  spdlog::info("{} steps on a timeline: {}; open it in https://ui.perfetto.dev or chrome://tracing",
               kTracedSteps, (out.path() / "trace.json").string());
  result["out"] = out.path().string();
  return result;
}

}  // namespace duet
