// trainer: trains, resumes and evaluates the network of a YAML file.
#include "commands.h"
#include "common/application.h"
#include "core/error.h"
#include "train/trainer.h"
#include "train/version.h"

namespace {

constexpr const char* kExamples = R"(Examples:
  trainer --config configs/fashion_mnist_cnn.yaml --backend custom
  trainer --config configs/fashion_mnist_cnn.yaml --backend cudnn --set math=tf32
  trainer --config configs/mixed.yaml --set layers.conv2.backend=custom_naive
  trainer --config configs/lenet5_fashion.yaml --backend cpu --epochs 2 --out runs/first
  trainer --config configs/lenet5_fashion.yaml --backend cpu --resume last --out runs/first
  trainer --config configs/fashion_mnist_cnn.yaml --dry-run
  trainer list impls
  trainer doctor

Exit codes: 0 done, 1 failure, 2 wrong usage, configuration or data, 3 unsupported here,
130 interrupted (the run is saved; go on with --resume). A second Ctrl-C ends at once, without saving.)";

int run(int argc, char** argv) {
  duet::TrainerOptions options;
  bool quiet = false;
  std::string backend;
  std::string what;
  CLI::App app("Trains and evaluates a network by hand-written kernels, by cuDNN, or on the CPU.",
               "trainer");
  app.footer(kExamples);
  app.set_version_flag("--version", duet::version_text());
  app.add_option("--config", options.setup.config, "the network, as YAML")->type_name("FILE");
  app.add_option("--backend", backend,
                 "a family (cpu, custom, cudnn), an implementation's id or 'auto', for layers that "
                 "name none")
      ->type_name("NAME");
  app.add_option("--set", options.setup.assignments,
                 "override a key, e.g. optimizer.learning_rate=0.01 or layers.conv1.bias=false; "
                 "may be given several times")
      ->type_name("A.B=VALUE")
      ->allow_extra_args(false);
  app.add_option("--data", options.data,
                 "folder of the data set, or one that holds it under its name")
      ->type_name("DIR");
  CLI::Option* out =
      app.add_option("--out", options.out, "folder of the run (default: runs/<name>-<time>)")
          ->type_name("DIR");
  app.add_option("--epochs", options.setup.epochs,
                 "epochs in all, with those before --resume (default: the file's)")
      ->type_name("N")
      ->check(duet::whole_number());
  app.add_option("--seed", options.setup.seed,
                 "seed of weights, order and masks (default: the file's)")
      ->type_name("N")
      ->check(duet::whole_number());
  CLI::Option* resume =
      app.add_option(
             "--resume", options.resume,
             "go on from a checkpoint; 'last' is that of --out, or of the newest run in runs/")
          ->type_name("CKPT");
  app.add_flag("--allow-changes", options.allow_changes,
               "resume or evaluate although network, training or data are not the checkpoint's");
  CLI::Option* evaluate = app.add_option("--evaluate", options.evaluate,
                                         "evaluate a checkpoint on the validation data, and stop")
                              ->type_name("CKPT")
                              ->excludes(resume)
                              ->excludes(out);
  app.add_flag("--dry-run", options.dry_run,
               "print the network with its shapes and implementations, and stop");
  app.add_flag("--profile", options.profile,
               "time every layer and pass of a step, trace some steps, and stop")
      ->excludes(resume)
      ->excludes(evaluate);
  app.add_flag("--quiet", quiet, "warnings and errors only");
  app.add_flag("--json", options.json, "print the result as one JSON object on standard output");

  bool list_json = false, doctor_json = false;
  std::string doctor_data;
  CLI::App* list = app.add_subcommand(
      "list", "print the layers, implementations, data sets or optimizers there are");
  list->add_option("what", what, "layers, impls, datasets or optimizers")
      ->required()
      ->check(CLI::IsMember({"layers", "impls", "datasets", "optimizers"}));
  list->add_flag("--json", list_json, "as JSON");
  CLI::App* doc =
      app.add_subcommand("doctor", "print what this machine has: GPU, libraries, data sets");
  doc->add_option("--data", doctor_data, "folder of the data sets, each under its name")
      ->type_name("DIR");
  doc->add_flag("--json", doctor_json, "as JSON");

  if (const auto code = duet::parse(app, argc, argv)) return *code;
  duet::set_up_logging(quiet);
  if (*list) {
    list_what(what, list_json || options.json);
    return duet::kExitDone;
  }
  if (*doc) {
    doctor(doctor_data.empty() ? options.data : doctor_data, doctor_json || options.json);
    return duet::kExitDone;
  }
  if (options.setup.config.empty()) {
    return duet::tell_usage_error(
        app, "--config FILE is needed, e.g. --config configs/fashion_mnist_cnn.yaml");
  }
  if (options.allow_changes && options.resume.empty() && options.evaluate.empty()) {
    return duet::tell_usage_error(app, "--allow-changes belongs to --resume or --evaluate");
  }
  if (!backend.empty()) options.setup.backend = backend;
  return duet::run_trainer(options);
}

}  // namespace

int main(int argc, char** argv) { return duet::run_application(run, argc, argv); }
