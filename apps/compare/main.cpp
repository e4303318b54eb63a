// compare: two or more ways to compute one network, measured side by side.
#include "compare/compare.h"

#include "common/application.h"
#include "compare/results/problem_words.h"
#include "core/config.h"
#include "core/error.h"
#include "train/version.h"

namespace {

constexpr const char* kExamples = R"(Examples:
  compare --config configs/fashion_mnist_cnn.yaml --out results.json --report report.html
  compare --config configs/fashion_mnist_cnn.yaml --a custom_naive --b custom --c cudnn --quick
  compare --config configs/fashion_mnist_cnn.yaml --a mine.yaml --b cudnn --only training
  compare --config configs/lenet5_fashion.yaml --a cpu_blas --b cpu_reference --batch 1,8 --seeds 1
  compare --config configs/fashion_mnist_cnn.yaml --fail-on mismatch,slower:0.95
  compare --from results.json --report report.html

An arm is a family (cpu, custom, cudnn), auto, the id of an implementation, or a YAML file of the same
network. Without any, custom is compared with cudnn, or cpu_blas with cpu_reference where there is no
GPU; a single one of --a to --d is compared with one of these.

Exit codes: 0 done, 1 failure, 2 wrong usage, configuration or data, 3 unsupported here, 4 a
condition of --fail-on was met (results are written first), 130 interrupted (what is finished is written).)";

int run(int argc, char** argv) {
  duet::CompareOptions options;
  bool quiet = false;
  duet::Isolation isolation;
  std::vector<std::string> named(4), more, batches;
  CLI::App app("Trains and times one network in several ways, the arms, side by side.", "compare");
  app.footer(kExamples);
  app.set_version_flag("--version", duet::version_text());
  CLI::Option* config =
      app.add_option("--config", options.arms.config, "the network, as YAML")->type_name("FILE");
  const char* const kArms[] = {"--a", "--b", "--c", "--d"};
  std::vector<CLI::Option*> measuring = {config};
  for (size_t i = 0; i < 4; ++i) {
    measuring.push_back(
        app.add_option(kArms[i], named[i],
                       i ? "another arm" : "the first arm, which is compared with the others")
            ->type_name("ARM"));
  }
  const auto add = [&](CLI::Option* option) { measuring.push_back(option); };
  add(app.add_option("--arm", more, "one more arm; may be given several times")
          ->type_name("ARM")
          ->allow_extra_args(false));
  add(app.add_option("--set", options.arms.assignments,
                     "override a key in every arm, e.g. data.batch=256; may be given several times")
          ->type_name("A.B=VALUE")
          ->allow_extra_args(false));
  add(app.add_option("--data", options.data,
                     "folder of the data set, or one that holds it under its name")
          ->type_name("DIR"));
  add(app.add_option("--only", options.only,
                     "these sections only: " + duet::join(duet::compare_sections(), ","))
          ->type_name("SECTION,...")
          ->delimiter(',')
          ->allow_extra_args(false));
  add(app.add_flag(
      "--quick", options.quick,
      "about a minute: shorter blocks, no cold times, one epoch (or a part of it), two "
      "seeds, up to three batch sizes, and a smaller batch for slow layers (the output "
      "says what was changed)"));
  add(app.add_option(
             "--batch", batches,
             "batch sizes of throughput, e.g. 64 or 1..1024x2 (default: 1,8,32,64,256,1024)")
          ->type_name("N,...")
          ->delimiter(',')
          ->allow_extra_args(false));
  add(app.add_option("--seeds", options.seeds, "trainings of every arm (default: 5)")
          ->type_name("N")
          ->check(duet::whole_number()));
  add(app.add_option("--epochs", options.arms.epochs,
                     "epochs of each training (default: the file's)")
          ->type_name("N")
          ->check(duet::whole_number()));
  for (CLI::Option* option : duet::add_isolation(app, &isolation)) add(option);
  add(duet::add_kernels(app));
  CLI::Option* from =
      app.add_option("--from", options.from, "show the results of a saved run instead of measuring")
          ->type_name("FILE");
  for (CLI::Option* option : measuring) from->excludes(option);
  app.add_option("--out", options.out, "write the results as JSON")->type_name("FILE");
  app.add_option("--report", options.report, "write the results as a page for the browser")
      ->type_name("FILE.html");
  app.add_option("--svg", options.svg, "write a training step and its layers as a picture")
      ->type_name("FILE.svg");
  app.add_option("--into", options.into,
                 "write the layers' table between <!-- compare --> and <!-- /compare --> of a page")
      ->type_name("FILE");
  app.add_option("--markdown", options.markdown, "write the tables as Markdown")->type_name("FILE");
  app.add_flag("--json", options.json, "print the results as JSON instead of tables");
  app.add_option(
         "--fail-on", options.fail_on,
         "exit with 4 where an arm is wrong (mismatch), or where a step of the first arm has "
         "clearly less than RATIO times another's speed (slower:RATIO; slower: 1)")
      ->type_name("WHAT,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_flag("--quiet", quiet, "tables, warnings and errors only");
  if (const auto code = duet::parse(app, argc, argv)) return *code;
  duet::set_up_logging(quiet);
  if (options.arms.config.empty() && options.from.empty()) {
    return duet::tell_usage_error(app,
                                  "--config FILE is needed, e.g. --config "
                                  "configs/fashion_mnist_cnn.yaml, or --from results.json");
  }
  auto& requests = options.arms.requests;
  for (const auto* list : {&named, &more}) {
    for (const std::string& name : *list) {
      if (!name.empty()) requests.push_back(name);
    }
  }
  if (requests.size() == 1 && more.empty()) {  // the default is the other one, whatever its place
    requests.insert(named[0].empty() ? requests.begin() : requests.end(), "");
  }
  if (requests.size() == 1) {
    return duet::tell_usage_error(
        app, "one arm alone cannot be compared; name another, e.g. --b cudnn or --arm cpu");
  }
  if (!batches.empty()) options.batches = duet::read_batches(duet::join(batches, ","), "--batch");
  options.isolate = !isolation.one_process;
  options.patience = std::chrono::seconds(isolation.patience);
  options.command = duet::command_text(app, argc, argv);
  return duet::run_compare(options);
}

}  // namespace

int main(int argc, char** argv) { return duet::run_application(run, argc, argv); }
