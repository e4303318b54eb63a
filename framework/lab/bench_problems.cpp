#include "lab/bench_problems.h"

#include <filesystem>

#include "compare/results/problem.h"
#include "core/error.h"
#include "lab/suites.h"
#include "net/yaml.h"
#include "train/setup.h"

namespace duet {
namespace {

void add_problems(const std::string& suite, const std::string& name, const std::string& layer,
                  const std::string& shape, const ProblemSource& source,
                  std::vector<BenchProblem>* problems) {
  const LayerType& type = layer_type(layer);
  ProblemWords words = split_problem(shape);
  if (!source.batch.empty()) set_word(words, "n", split_values(source.batch, "--batch"));
  if (!source.math.empty()) set_word(words, "math", {source.math});
  for (const ProblemWords& each : combinations(words)) {
    BenchProblem problem{.suite = suite, .name = name, .layer = bind_problem(type, each)};
    if (const auto reason = problem.layer->untrainable()) {
      throw ConfigError(layer + ": " + *reason);  // it is measured in training
    }
    if (problem.layer->passes().empty()) {
      throw ConfigError(layer + " computes nothing: its output is its input's memory");
    }
    problem.passes = problem.layer->passes();
    problems->push_back(std::move(problem));
  }
}

// problems: [{layer: conv2d, shape: "n=64,...", name: conv1}, ...]
std::vector<BenchProblem> read_shapes(const ProblemSource& source) {
  if (!std::filesystem::exists(source.shapes)) {
    throw ConfigError(source.shapes + ": there is no such file; check --shapes");
  }
  ConfigNode root = read_yaml_file(source.shapes);
  ConfigErrors errors(source.shapes);
  ConfigReader reader(root, "shapes", errors);
  ConfigNode* list = reader.raw("problems");
  reader.finish();
  if (!list || list->kind != ConfigNode::Kind::kList || list->items.empty()) {
    errors.add(root.mark,
               "expected a list 'problems', each like {layer: relu, shape: \"n=64,c=256\"}");
    errors.raise_if_any();
  }
  std::vector<BenchProblem> problems;
  for (ConfigNode& item : list->items) {
    ConfigReader problem(item, "problem", errors);
    const size_t mistakes = errors.count();
    const std::string layer = problem.text("layer"), shape = problem.text("shape"),
                      name = problem.text("name", "");
    problem.finish();
    if (errors.count() > mistakes) continue;
    try {
      add_problems("", name, layer, shape, source, &problems);
    } catch (const ConfigError& e) {
      errors.add(item.mark, e.what());
    }
  }
  errors.raise_if_any();
  return problems;
}

// The network's own implementations decide which layers become blocks. Where there is no GPU, or
// none is wanted, those of the CPU do.
SetupOptions setup_options(const ProblemSource& source, const ConfigNode& file, Device device) {
  SetupOptions options{.config = source.config};
  if (!source.math.empty()) options.assignments.push_back("math=" + source.math);
  if (device == Device::kGpu) return options;
  options.backend = "cpu";
  const ConfigNode* layers = file.find("layers");
  for (size_t i = 0; layers && i < layers->items.size(); ++i) {
    if (!layers->items[i].find("backend")) continue;
    options.assignments.push_back("layers." + std::to_string(i) + ".backend=cpu");
  }
  return options;
}

std::vector<BenchProblem> read_network(const ProblemSource& source, Device device) {
  std::vector<std::string> batches = {""};
  if (!source.batch.empty()) batches = split_values(source.batch, "--batch");
  const ConfigNode file = read_yaml_file(source.config);
  std::vector<BenchProblem> problems;
  for (const std::string& batch : batches) {
    SetupOptions options = setup_options(source, file, device);
    if (!batch.empty()) options.assignments.push_back("data.batch=" + batch);
    const Setup setup = read_setup(file, options);
    for (const ResolvedLayer& resolved : setup.layers) {
      if (resolved.layer->passes().empty()) continue;
      BenchProblem problem{.name = resolved.name, .layer = resolved.layer->clone()};
      problem.layer->bind(resolved.layer->inputs(), resolved.layer->options());
      for (Pass pass : resolved.layer->passes()) {
        if (runs(resolved, pass)) problem.passes.push_back(pass);
      }
      problems.push_back(std::move(problem));
    }
  }
  return problems;
}

}  // namespace

std::vector<BenchProblem> read_problems(const ProblemSource& source, Device device) {
  if (!source.config.empty()) return read_network(source, device);
  if (!source.shapes.empty()) return read_shapes(source);
  std::vector<BenchProblem> problems;
  if (!source.layer.empty()) add_problems("", "", source.layer, source.shape, source, &problems);
  for (const std::string& name : source.suites) {
    const Suite suite = make_suite(name);
    for (const SuiteProblem& each : suite.problems) {
      const size_t first = problems.size();
      add_problems(suite.name, each.name, each.layer, each.shape, source, &problems);
      for (size_t i = first; i < problems.size(); ++i) problems[i].held_out = each.held_out;
    }
  }
  return problems;
}

}  // namespace duet
