#include "measurements.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <iostream>

#include "compare/compare.h"
#include "lab/bench.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace duet::python {
namespace {

using Strings = std::vector<std::string>;

void set_up_logging(bool quiet) {
  auto logger = spdlog::stderr_logger_st("duet");
  logger->set_pattern("%v");
  logger->set_level(quiet ? spdlog::level::warn : spdlog::level::info);
  spdlog::set_default_logger(logger);
}

int bench(const std::string& layer, const std::string& shape, const std::string& config,
          const std::string& batch, const std::string& math, const Strings& impls,
          const Strings& passes, const std::string& device, bool quick, bool cold, bool check_only,
          bool quiet, const std::string& command) {
  set_up_logging(quiet);
  BenchOptions options;
  options.problems = {
      .layer = layer, .shape = shape, .config = config, .batch = batch, .math = math};
  options.impls = impls;
  options.passes = passes;
  if (!device.empty()) options.device = device == "cpu" ? Device::kCpu : Device::kGpu;
  options.quick = quick;
  options.cold = cold;
  options.check_only = check_only;
  options.isolate = true;
  options.json = true;
  options.command = command;
  const int code = run_bench(options, std::cout);
  std::cout.flush();
  return code;
}

int compare(const std::string& config, const Strings& arms, const Strings& assignments,
            const Strings& only, const std::vector<int64_t>& batches, std::optional<int64_t> seeds,
            std::optional<int64_t> epochs, const std::string& data, bool quick,
            const std::string& report, bool quiet, const std::string& command) {
  set_up_logging(quiet);
  CompareOptions options;
  options.arms = {.config = config, .requests = arms, .assignments = assignments, .epochs = epochs};
  options.data = data;
  options.only = only;
  options.quick = quick;
  options.batches = batches;
  options.seeds = seeds;
  options.report = report;
  options.isolate = true;
  options.json = true;
  options.command = command;
  const int code = run_compare(options);
  std::fflush(stdout);
  return code;
}

}  // namespace

void define_measurements(nb::module_& m) {
  m.def("run_bench", bench, "layer"_a, "shape"_a, "config"_a, "batch"_a, "math"_a, "impls"_a,
        "passes"_a, "device"_a, "quick"_a, "cold"_a, "check_only"_a, "quiet"_a, "command"_a);
  m.def("run_compare", compare, "config"_a, "arms"_a, "assignments"_a, "only"_a, "batches"_a,
        "seeds"_a.none(), "epochs"_a.none(), "data"_a, "quick"_a, "report"_a, "quiet"_a,
        "command"_a);
}

}  // namespace duet::python
