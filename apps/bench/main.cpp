// bench: every implementation of a layer on any problem, right or wrong, and how fast.
#include <iostream>

#include "common/application.h"
#include "core/config.h"
#include "core/error.h"
#include "core/program.h"
#include "lab/bench.h"
#include "lab/suites.h"
#include "train/version.h"

namespace {

constexpr const char* kExamples = R"(Examples:
  bench conv2d --shape n=64,c=64,h=13,w=13,k=128,r=3,s=3
  bench conv2d --shape n=64,c=64,h=13,w=13,k=64..512x2,r=3,s=3,nhwc --pass forward --math tf32
  bench linear --shape n=64,in=3200,out=256 --batch 1..1024x2 --impl cudnn,custom --quick
  bench relu --shape n=64,c=128,h=11,w=11 --device cpu
  bench --config configs/fashion_mnist_cnn.yaml --batch 64,1024
  bench --shapes framework/layers/conv2d/bench.yaml --out results.json
  bench --ladder conv2d --write
  bench --ladder softmax --ncu --pass forward --write
  bench --suite vgg16,unet --batch 8 --math bf16 --quick --out results.json --summary suites.md
  bench --from docs/results/suites.json results.json --write
  bench conv2d --kernels . --shape n=64,c=64,h=13,w=13,k=128,r=3,s=3 --impl custom_mine,cudnn
  bench softmax --puzzle puzzles

A shape has cuDNN's letters and the layer's keys: 'trainer list layers' names the layers, their README
the keys. What bench and trainer print as a problem can be pasted. A word may have several values, as
n=1,8,64 or n=1..1024x2 (doubling) or c=16..64+16 (adding); every combination is measured.

Exit codes: 0 done, 1 failure, 2 wrong usage or files, 3 nothing of it can run here, 4 an implementation
is wrong (it is named, and has no time) or --sanitize found something, 130 interrupted (what is finished is
written).)";

// Exactly one thing to measure, with what belongs to it.
std::string mistake_in(const duet::BenchOptions& options) {
  const duet::ProblemSource& source = options.problems;
  const bool once = options.once || options.sanitize || options.ncu;
  if (!options.puzzle.empty()) {
    const bool alone = options.impls.empty() && options.out.empty() && !options.json && !once &&
                       !options.sass && !options.watch && !options.tune && !options.check_only &&
                       !source.layer.empty();
    return alone ? ""
                 : "--puzzle takes LAYER, --shape, --batch, --math and --pass, and nothing else";
  }
  const int given = !source.layer.empty() + !source.config.empty() + !source.shapes.empty() +
                    !source.suites.empty() + !(options.ladder.empty() && options.from.empty());
  if (source.layer.empty() && !source.shape.empty()) {
    return "--shape belongs to a layer: " + duet::as_started("bench") + " LAYER --shape ...";
  }
  if (given == 0) {
    return "name a layer, e.g. " + duet::as_started("bench") +
           " conv2d --shape n=64,c=64,h=13,w=13,k=128,r=3,s=3; or give --config, --shapes, --suite "
           "or --ladder";
  }
  if (given > 1) return "give one of LAYER, --config, --shapes, --suite, --from and --ladder";
  if (!source.layer.empty() && source.shape.empty()) {
    return "bench " + source.layer + " needs --shape, e.g. --shape n=64,c=64,h=13,w=13,...";
  }
  const bool of_suites = !source.suites.empty() || !options.from.empty();
  if ((options.write && options.ladder.empty() && !of_suites) ||
      (options.force && options.ladder.empty())) {
    return "--write and --force belong to --ladder LAYER, --write also to --suite and --from";
  }
  if (!options.summary.empty() && source.suites.empty() && options.from.empty()) {
    return "--summary belongs to --suite or --from";
  }
  if (!options.from.empty() && !options.ladder.empty() && !options.summary.empty()) {
    return "--summary is of suites: leave out --ladder";
  }
  if (once + options.sass > 0 &&
      ((!options.ladder.empty() && !options.ncu) || !options.summary.empty() ||
       !options.out.empty() || options.json)) {
    return "--once, --sanitize, --ncu and --sass measure nothing: leave out --ladder (which goes "
           "with --ncu alone), --summary, --out and --json";
  }
  if (options.once + options.sanitize + options.ncu + options.sass > 1) {
    return "give one of --once, --sanitize, --ncu and --sass";
  }
  if (options.sass && source.layer.empty()) return "--sass needs LAYER, whose kernels are shown";
  if (options.watch && options.tune) return "give one of --watch and --tune";
  if ((options.watch || options.tune) &&
      (source.layer.empty() || once || options.sass || !options.out.empty() || options.json)) {
    return "--watch and --tune need LAYER, and go without --once, --sanitize, --ncu, --sass, --out "
           "and "
           "--json";
  }
  if (options.check_only &&
      (once || options.sass || options.watch || options.tune || !options.ladder.empty())) {
    return "--check-only goes without --once, --sanitize, --ncu, --sass, --watch, --tune and "
           "--ladder";
  }
  const bool whole = options.impls.empty() && options.passes.empty() && source.batch.empty() &&
                     source.math.empty();
  if (!options.from.empty() && (!whole || once || !options.out.empty() || options.json)) {
    return "--from measures nothing: leave out --out, --json, --impl, --pass, --batch, --math, "
           "--once, "
           "--sanitize and --ncu";
  }
  if (options.write && !options.ncu && !options.ladder.empty() && !whole) {
    return "--write replaces the whole table: leave out --impl, --pass, --batch and --math; parts "
           "measured with --pass and --out are put together by --from FILE ... --write";
  }
  return "";
}

int run(int argc, char** argv) {
  duet::BenchOptions options;
  duet::ProblemSource& source = options.problems;
  bool quiet = false;
  duet::Isolation isolation;
  std::string device;
  CLI::App app("Checks the implementations of a layer against the reference, then times them.",
               "bench");
  app.footer(kExamples);
  app.set_version_flag("--version", duet::version_text());
  app.add_option("LAYER", source.layer, "a layer type, e.g. conv2d");
  app.add_option("--shape", source.shape, "the problem of LAYER")->type_name("WORD=VALUE,...");
  app.add_option("--config", source.config, "the layers of a network")->type_name("FILE");
  app.add_option("--shapes", source.shapes, "a list of problems, as YAML")->type_name("FILE");
  const auto list = [&](const char* name, std::vector<std::string>& value,
                        const std::string& what) {
    return app.add_option(name, value, what)->delimiter(',')->allow_extra_args(false);
  };
  list("--suite", source.suites,
       "layers of published networks, or matrix products: " + duet::join(duet::suite_names()))
      ->type_name("NAME,...");
  app.add_option("--from", options.from,
                 "summarise these results of --suite (--out), or with --ladder make one table of "
                 "these parts, instead of measuring")
      ->type_name("FILE ...");
  app.add_option("--summary", options.summary,
                 "write the summary of suites as a page, and its rows as .json beside it")
      ->type_name("FILE.md");
  app.add_option("--ladder", options.ladder,
                 "the problems of the layer's bench.yaml, as the table of its README")
      ->type_name("LAYER");
  app.add_flag(
      "--write", options.write,
      "with --ladder: write the table into that README; of suites: docs/results/suites.md");
  app.add_flag("--force", options.force, "with --write: also a CPU's numbers over a GPU's");
  list("--impl", options.impls, "families and implementation ids (default: all of the device)")
      ->type_name("NAME,...");
  app.add_flag("--choice", options.choice,
               "of each family only what a network would run (of --suite the default)");
  list("--pass", options.passes,
       "forward, backward_data, backward_filter; backward: all but forward (default: all)")
      ->type_name("PASS,...");
  app.add_option("--batch", source.batch,
                 "batch sizes, in place of the problems' own: 64, 1,8,64 or 1..1024x2")
      ->type_name("N,...");
  app.add_option("--math", source.math, "fp32, tf32 or bf16, in place of the problems' own")
      ->type_name("MATH");
  app.add_option("--device", device,
                 "cpu or gpu (default: that of --impl, else the GPU if there is one)")
      ->check(CLI::IsMember({"cpu", "gpu"}));
  app.add_flag("--quick", options.quick, "fewer and shorter blocks of calls");
  app.add_flag("--cold", options.cold, "on a GPU also with the caches flushed before each call");
  app.add_flag("--check-only", options.check_only, "whether they are right, and no times");
  app.add_flag("--once", options.once,
               "run each implementation once, unchecked and untimed (for profilers)");
  app.add_flag(
      "--ncu", options.ncu,
      "the same under Nsight Compute: what bounds each kernel, and what its warps wait for; with "
      "--ladder as a table");
  app.add_flag("--sanitize", options.sanitize,
               "the same under compute-sanitizer: memcheck, racecheck, initcheck and synccheck");
  duet::add_isolation(app, &isolation);
  CLI::Option* kernels = duet::add_kernels(app);
  app.add_flag("--watch", options.watch,
               "examine the kernels of --kernels beside cudnn at every save, until Ctrl-C")
      ->needs(kernels);
  app.add_flag(
         "--tune", options.tune,
         "time every combination of the values that DUET_TUNE names in --kernels, and keep the "
         "fastest for these sizes on this GPU")
      ->needs(kernels);
  app.add_flag("--sass", options.sass, "print the machine code of the kernels of --kernels")
      ->needs(kernels);
  app.add_option("--puzzle", options.puzzle,
                 "write a pass of LAYER yourself: makes a file without a body in that folder, and "
                 "judges one that is there")
      ->type_name("FOLDER");
  app.add_flag("--json", options.json, "print the results as JSON instead of tables");
  app.add_option("--out", options.out, "write the results as JSON")->type_name("FILE");
  app.add_flag("--quiet", quiet, "tables, warnings and errors only");
  if (const auto code = duet::parse(app, argc, argv)) return *code;
  duet::set_up_logging(quiet);
  if (const std::string mistake = mistake_in(options); !mistake.empty()) {
    return duet::tell_usage_error(app, mistake);
  }
  if (!device.empty()) {
    options.device = device == "cpu" ? duet::Device::kCpu : duet::Device::kGpu;
  }
  options.isolate = !isolation.one_process;
  options.patience = std::chrono::seconds(isolation.patience);
  options.command = duet::command_text(app, argc, argv);
  return duet::run_bench(options, std::cout);
}

}  // namespace

int main(int argc, char** argv) { return duet::run_application(run, argc, argv); }
