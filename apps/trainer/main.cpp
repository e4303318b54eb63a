// trainer: trains, resumes, evaluates and uses the network of a YAML file.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>

#include "commands.h"
#include "common/application.h"
#include "common/completion.h"
#include "compare/report/run_report.h"
#include "compare/tables/accuracy_table.h"
#include "core/config.h"
#include "core/error.h"
#include "core/program.h"
#include "train/evaluate/evaluate.h"
#include "train/evaluate/explain_prediction.h"
#include "train/evaluate/predict.h"
#include "train/trainer.h"
#include "train/version.h"
#include "user_kernels/starter.h"

namespace {

constexpr const char* kExamples = R"(Examples:
  trainer --config configs/fashion_mnist_cnn.yaml --backend custom
  trainer --config configs/fashion_mnist_cnn.yaml --backend cudnn --set math=tf32
  trainer --config configs/mixed.yaml --set layers.conv2.backend=custom_naive
  trainer --config configs/lenet5_fashion.yaml --backend cpu --epochs 2 --out runs/first
  trainer --config configs/lenet5_fashion.yaml --backend cpu --resume last --out runs/first
  trainer show configs/resnet_mnist.yaml --svg resnet.svg
  trainer evaluate --checkpoint runs/first
  trainer predict --checkpoint runs/first --resize picture.png
  trainer explain-prediction runs/first picture.png --out heat.png
  trainer report runs/first
  trainer accuracy runs/* --write accuracy.md
  trainer list impls
  trainer describe conv2d
  trainer explain configs/lenet5_fashion.yaml --backend cudnn --layer conv1 --out conv1.cpp
  trainer new-kernel conv2d mine
  trainer doctor
  trainer download cifar10
  source <(trainer completion bash)

Exit codes: 0 done, 1 failure, 2 wrong usage, configuration or data, 3 unsupported here,
130 interrupted (the run is saved; go on with --resume). A second Ctrl-C ends at once, without saving.)";

const std::vector<std::string> kLists = {"layers", "impls", "datasets", "optimizers", "schedules"};

// Everything that can be said on the command line. Options of one meaning, of the trainer itself
// and of its commands, share a field.
struct Arguments {
  duet::TrainerOptions trainer;
  duet::TrainedOptions trained;
  duet::PredictOptions predict;
  duet::ExplainPredictionOptions explain_prediction;
  duet::AccuracyOptions accuracy;
  ExplainOptions explain;
  std::optional<int64_t> batch;
  std::string backend;
  std::string svg;
  std::string what;
  std::string name;
  std::vector<std::string> mirrors;
  bool quiet = false;
  std::map<const CLI::App*, std::function<void()>> commands;
  std::string kernel_device = "gpu";  // of new-kernel
};

void add_backend(CLI::App* app, Arguments& arguments) {
  app->add_option(
         "--backend", arguments.backend,
         "a family (cpu, custom, cudnn), an implementation's id or 'auto', for layers that "
         "name none")
      ->type_name("NAME");
}

void add_set(CLI::App* app, Arguments& arguments) {
  app->add_option("--set", arguments.trainer.setup.assignments,
                  "override a key, e.g. optimizer.learning_rate=0.01 or layers.conv1.bias=false; "
                  "may be given several times")
      ->type_name("A.B=VALUE")
      ->allow_extra_args(false);
}

void add_data(CLI::App* app, Arguments& arguments) {
  app->add_option("--data", arguments.trainer.data,
                  "folder of the data set, or one that holds it under its name")
      ->type_name("DIR");
}

void add_json(CLI::App* app, Arguments& arguments) {
  app->add_flag("--json", arguments.trainer.json,
                "print the result as one JSON object on standard output");
}

void add_quiet(CLI::App* app, Arguments& arguments) {
  app->add_flag("--quiet", arguments.quiet, "warnings and errors only");
}

// `name` is that of an option, or without dashes of a word.
void add_checkpoint(CLI::App* app, Arguments& arguments, const std::string& name = "--checkpoint") {
  app->add_option(name, arguments.trained.checkpoint,
                  "a .safetensors file of a run, or the run's folder: its best epoch then")
      ->type_name("PATH")
      ->required();
  app->add_option("--config", arguments.trainer.setup.config,
                  "the network, as YAML, of a checkpoint that does not hold it (PyTorch's)")
      ->type_name("FILE");
}

void add_training(CLI::App& app, Arguments& arguments) {
  duet::TrainerOptions& options = arguments.trainer;
  app.add_option("--config", options.setup.config, "the network, as YAML")->type_name("FILE");
  add_backend(&app, arguments);
  add_set(&app, arguments);
  add_data(&app, arguments);
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
  duet::add_kernels(app);
  CLI::Option* init_from =
      app.add_option("--init-from", options.setup.init_from,
                     "begin with the weights of a checkpoint, of Duet or PyTorch, or of a run's "
                     "folder, where the network has the same parameters")
          ->type_name("PATH")
          ->excludes(resume);
  app.add_option("--init-skip", options.setup.init_skip,
                 "a layer that begins with initial values even so; may be given several times")
      ->type_name("LAYER")
      ->allow_extra_args(false);
  app.add_flag("--allow-changes", options.allow_changes,
               "resume or evaluate although network, training or data are not the checkpoint's");
  CLI::Option* evaluate =
      app.add_option(
             "--evaluate", options.evaluate,
             "evaluate a checkpoint as the network of --config, and stop; for one of Duet's "
             "own, 'trainer evaluate' needs no --config")
          ->type_name("CKPT")
          ->excludes(resume)
          ->excludes(init_from)
          ->excludes(out);
  app.add_flag("--dry-run", options.dry_run,
               "print the network with its shapes and implementations, and stop");
  CLI::Option* tensorboard =
      app.add_flag("--tensorboard", options.tensorboard,
                   "write scalars, histograms of the weights and pictures of the first filters for "
                   "TensorBoard, too")
          ->excludes(evaluate);
  app.add_flag("--profile", options.profile,
               "time every layer and pass of a step, trace some steps, and stop")
      ->excludes(resume)
      ->excludes(evaluate)
      ->excludes(tensorboard);
  add_quiet(&app, arguments);
  add_json(&app, arguments);
}

// Adds a command, and what it runs.
CLI::App* add_command(CLI::App& app, Arguments& arguments, const std::string& name,
                      const std::string& description, std::function<void()> run) {
  CLI::App* command = app.add_subcommand(name, description);
  arguments.commands[command] = std::move(run);
  return command;
}

void add_evaluate(CLI::App& app, Arguments& arguments) {
  CLI::App* evaluate = add_command(
      app, arguments, "evaluate",
      "loss, accuracy and confusion matrix of a checkpoint on the validation data", [&arguments] {
        const duet::TrainerOptions& options = arguments.trainer;
        duet::run_evaluate(arguments.trained, arguments.batch,
                           {options.data, options.allow_changes, options.json});
      });
  add_checkpoint(evaluate, arguments);
  add_data(evaluate, arguments);
  add_backend(evaluate, arguments);
  evaluate
      ->add_option("--batch", arguments.batch,
                   "images at a time (default: as it was trained); the result is the same but for "
                   "rounding")
      ->type_name("N")
      ->check(duet::whole_number());
  add_set(evaluate, arguments);
  evaluate->add_flag("--allow-changes", arguments.trainer.allow_changes,
                     "evaluate although network or data are not the checkpoint's");
  add_quiet(evaluate, arguments);
  duet::add_kernels(*evaluate);
  add_json(evaluate, arguments);
}

void add_predict(CLI::App& app, Arguments& arguments) {
  CLI::App* predict = add_command(app, arguments, "predict",
                                  "print the most likely classes of pictures or rows, or the "
                                  "numbers or pictures that the network makes of them; needs no "
                                  "data set",
                                  [&arguments] {
                                    if (arguments.predict.top < 1)
                                      throw duet::ConfigError("--top: at least 1");
                                    arguments.predict.trained = arguments.trained;
                                    arguments.predict.json = arguments.trainer.json;
                                    duet::run_predict(arguments.predict);
                                  });
  add_checkpoint(predict, arguments);
  predict
      ->add_option("images", arguments.predict.images,
                   "PNG, JPEG and IDX files (plain or .gz; FILE:N is image N of an IDX file, from "
                   "0); CSV files if the network takes their numbers")
      ->type_name("IMAGE")
      ->required();
  predict->add_option("--top", arguments.predict.top, "how many classes of each image (default: 3)")
      ->type_name("K")
      ->check(duet::whole_number());
  predict->add_flag("--resize", arguments.predict.resize,
                    "scale pictures of another size to the network's");
  predict
      ->add_option("--activations", arguments.predict.activations,
                   "write what every layer makes of each image as pictures into this folder")
      ->type_name("DIR");
  predict
      ->add_option("--out", arguments.predict.out,
                   "folder for the pictures that the network makes, NAME.png for each")
      ->type_name("DIR");
  add_backend(predict, arguments);
  add_set(predict, arguments);
  add_quiet(predict, arguments);
  duet::add_kernels(*predict);
  add_json(predict, arguments);
}

void add_explain_prediction(CLI::App& app, Arguments& arguments) {
  duet::ExplainPredictionOptions& options = arguments.explain_prediction;
  CLI::App* command = add_command(
      app, arguments, "explain-prediction",
      "draw over a picture where the network sees a class (Grad-CAM); needs no data set",
      [&arguments, &options] {
        options.trained = arguments.trained;
        options.json = arguments.trainer.json;
        duet::run_explain_prediction(options);
      });
  add_checkpoint(command, arguments, "checkpoint");
  command
      ->add_option("picture", options.picture,
                   "a PNG, JPEG or IDX file (FILE:N is image N of an IDX file, from 0)")
      ->type_name("PICTURE")
      ->required();
  command
      ->add_option("--layer", options.layer,
                   "the layer whose output is looked at (default: the last that makes images of "
                   "more than one pixel)")
      ->type_name("NAME");
  command
      ->add_option("--class", options.class_name,
                   "the class, by its name or number (default: the likeliest)")
      ->type_name("CLASS");
  command->add_option("--out", options.out, "the drawing, of the picture's size")
      ->type_name("FILE.png")
      ->required();
  command->add_flag("--resize", options.resize,
                    "scale a picture of another size to the network's; the drawing keeps its own");
  add_backend(command, arguments);
  add_set(command, arguments);
  add_quiet(command, arguments);
  duet::add_kernels(*command);
  add_json(command, arguments);
}

void add_show(CLI::App& app, Arguments& arguments) {
  CLI::App* show = add_command(
      app, arguments, "show",
      "print a network with its shapes and implementations, and draw its graph", [&arguments] {
        duet::SetupOptions& options = arguments.trainer.setup;
        options.backend = arguments.trained.backend;
        duet::Setup setup = duet::read_setup(options);
        duet::show_network(setup, arguments.trainer.json, arguments.svg);
      });
  show->add_option("config", arguments.trainer.setup.config, "the network, as YAML")
      ->type_name("FILE")
      ->required();
  show->add_option("--svg", arguments.svg, "write a drawing of the network's graph")
      ->type_name("FILE.svg");
  add_backend(show, arguments);
  add_set(show, arguments);
  duet::add_kernels(*show);
  add_json(show, arguments);
}

void add_report(CLI::App& app, Arguments& arguments) {
  CLI::App* report = add_command(
      app, arguments, "report",
      "write a training's curves, confusion matrix and network as a page for the browser",
      [&arguments] {
        duet::run_report({arguments.what, arguments.trainer.out});
      });
  report->add_option("run", arguments.what, "the folder of the run")->type_name("RUN")->required();
  report->add_option("--out", arguments.trainer.out, "the page (default: report.html in RUN)")
      ->type_name("FILE.html");
  add_quiet(report, arguments);
}

void add_accuracy(CLI::App& app, Arguments& arguments) {
  CLI::App* accuracy = add_command(app, arguments, "accuracy",
                                   "print what finished trainings came to, a row for each network "
                                   "and what ran it, over the seeds",
                                   [&arguments] { duet::run_accuracy(arguments.accuracy); });
  accuracy
      ->add_option("runs", arguments.accuracy.sources,
                   "folders of runs, and tables that this command has written (.json)")
      ->type_name("RUN")
      ->required();
  accuracy
      ->add_option("--write", arguments.accuracy.write,
                   "write the table as a page, and as JSON beside it")
      ->type_name("FILE.md");
  add_quiet(accuracy, arguments);
}

void add_list(CLI::App& app, Arguments& arguments) {
  CLI::App* list =
      add_command(app, arguments, "list",
                  "print the layers, implementations, data sets, optimizers or schedules there are",
                  [&arguments] { list_what(arguments.what, arguments.trainer.json); });
  list->add_option("what", arguments.what, "what to print")
      ->type_name("{" + duet::join(kLists, ",") + "}");
  duet::add_kernels(*list);
  add_json(list, arguments);
}

void add_describe(CLI::App& app, Arguments& arguments) {
  CLI::App* describe = add_command(
      app, arguments, "describe",
      "print the keys of a layer or the idea of an implementation, and what is supported",
      [&arguments] { ::describe(arguments.what, arguments.trainer.json); });
  describe->add_option("name", arguments.what, "a layer, or an implementation")
      ->type_name("NAME")
      ->required();
  duet::add_kernels(*describe);
  add_json(describe, arguments);
}

void add_explain(CLI::App& app, Arguments& arguments) {
  CLI::App* command = add_command(
      app, arguments, "explain",
      "write a program of exactly the library calls that a layer makes in a pass, and the values "
      "that they must give; needs no GPU",
      [&arguments] {
        arguments.explain.setup = arguments.trainer.setup;
        arguments.explain.setup.backend = arguments.trained.backend;
        ::explain(arguments.explain);
      });
  command->add_option("config", arguments.trainer.setup.config, "the network, as YAML")
      ->type_name("FILE")
      ->required();
  CLI::Option* layer =
      command->add_option("--layer", arguments.explain.layer, "the layer's name, e.g. conv1")
          ->type_name("NAME");
  CLI::Option* pass = command
                          ->add_option("--pass", arguments.explain.pass,
                                       "forward (without the option), backward, backward_data or "
                                       "backward_filter")
                          ->type_name("PASS");
  CLI::Option* out =
      command
          ->add_option("--out", arguments.explain.out,
                       "write into this file, and the reference's values into NAME.values beside "
                       "it (default: the program to standard output, without values)")
          ->type_name("FILE.cpp");
  command
      ->add_flag("--trace", arguments.explain.trace,
                 "instead print all library calls of a training step, by layer and pass")
      ->excludes(layer)
      ->excludes(pass)
      ->excludes(out);
  add_backend(command, arguments);
  add_set(command, arguments);
  duet::add_kernels(*command);
}

void add_new_kernel(CLI::App& app, Arguments& arguments) {
  CLI::App* command = add_command(
      app, arguments, "new-kernel",
      "write a file of kernels to begin with, naive and right, into this folder", [&arguments] {
        const bool cpu = arguments.kernel_device == "cpu";
        ::new_kernel(arguments.what, arguments.name, cpu ? duet::Device::kCpu : duet::Device::kGpu);
      });
  command
      ->add_option("layer", arguments.what, "the layer type: " + duet::join(duet::starter_types()))
      ->type_name("LAYER")
      ->required();
  command->add_option("name", arguments.name, "of the kernels: mine is custom_mine, or cpu_mine")
      ->type_name("NAME")
      ->required();
  command->add_option("--device", arguments.kernel_device, "what they run on: gpu (default) or cpu")
      ->check(CLI::IsMember({"cpu", "gpu"}));
}

void add_completion(CLI::App& app, Arguments& arguments) {
  const std::vector<std::string>& shells = duet::completion_shells();
  CLI::App* completion =
      add_command(app, arguments, "completion",
                  "print what makes a shell complete trainer's command line", [&app, &arguments] {
                    std::fputs(duet::completion_script(app, arguments.what).c_str(), stdout);
                  });
  completion->add_option("shell", arguments.what, "for instance: source <(trainer completion bash)")
      ->required()
      ->check(CLI::IsMember(shells));
}

void add_download(CLI::App& app, Arguments& arguments) {
  CLI::App* download = add_command(
      app, arguments, "download",
      "fetch a published data set, where trainings find it; goes on where it ended",
      [&arguments] { fetch_dataset(arguments.what, arguments.trainer.data, arguments.mirrors); });
  download->add_option("name", arguments.what, "e.g. cifar10; 'trainer list datasets' names them")
      ->type_name("NAME")
      ->required();
  download
      ->add_option("--data", arguments.trainer.data,
                   "into DIR/NAME, for a training with --data DIR (default: ~/.cache/duet/NAME)")
      ->type_name("DIR");
  download
      ->add_option("--mirror", arguments.mirrors,
                   "a folder on the web that holds the published files, instead of the known ones; "
                   "may be given several times")
      ->type_name("URL")
      ->allow_extra_args(false);
  add_quiet(download, arguments);
}

void add_commands(CLI::App& app, Arguments& arguments) {
  add_evaluate(app, arguments);
  add_predict(app, arguments);
  add_explain_prediction(app, arguments);
  add_show(app, arguments);
  add_report(app, arguments);
  add_accuracy(app, arguments);
  add_list(app, arguments);
  add_describe(app, arguments);
  add_explain(app, arguments);
  add_new_kernel(app, arguments);
  add_completion(app, arguments);
  add_download(app, arguments);
  CLI::App* doctor = add_command(
      app, arguments, "doctor", "print what this machine has: GPU, libraries, data sets",
      [&arguments] { ::doctor(arguments.trainer.data, arguments.trainer.json); });
  add_data(doctor, arguments);
  add_json(doctor, arguments);
}

// Options before a command that it does not have; empty if there are none.
std::string foreign_options(const CLI::App& app, const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() == 0 || command.get_option_no_throw(option->get_name())) continue;
    names.push_back(option->get_name());
  }
  return duet::join(names);
}

int run_command(const CLI::App& app, const CLI::App& command, Arguments& arguments) {
  if (const std::string foreign = foreign_options(app, command); !foreign.empty()) {
    return duet::tell_usage_error(app,
                                  foreign + ": does not belong to '" + command.get_name() + "'");
  }
  const bool known = std::find(kLists.begin(), kLists.end(), arguments.what) != kLists.end();
  if (command.get_name() == "list" && !known) {
    const std::string found =
        arguments.what.empty()
            ? ", e.g. '" + duet::as_started("trainer list impls") + "'"
            : ", found '" + arguments.what + "'" + duet::did_you_mean(arguments.what, kLists);
    return duet::tell_usage_error(app, "list: expected one of " + duet::join(kLists) + found);
  }
  arguments.trained.config = arguments.trainer.setup.config;
  arguments.trained.assignments = arguments.trainer.setup.assignments;
  if (!arguments.backend.empty()) arguments.trained.backend = arguments.backend;
  const auto& run = arguments.commands.at(&command);
  run();
  return duet::kExitDone;
}

int run(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("Trains and evaluates a network by hand-written kernels, by cuDNN, or on the CPU.",
               "trainer");
  app.footer(kExamples);
  app.set_version_flag("--version", duet::version_text());
  add_training(app, arguments);
  add_commands(app, arguments);
  if (const auto code = duet::parse(app, argc, argv)) return *code;
  duet::set_up_logging(arguments.quiet);
  const std::vector<CLI::App*> commands = app.get_subcommands();
  if (!commands.empty()) return run_command(app, *commands.front(), arguments);
  duet::TrainerOptions& options = arguments.trainer;
  if (options.setup.config.empty()) {
    return duet::tell_usage_error(
        app, "--config FILE is needed, e.g. --config configs/fashion_mnist_cnn.yaml");
  }
  if (options.allow_changes && options.resume.empty() && options.evaluate.empty()) {
    return duet::tell_usage_error(app, "--allow-changes belongs to --resume or --evaluate");
  }
  if (!arguments.backend.empty()) options.setup.backend = arguments.backend;
  return duet::run_trainer(options);
}

}  // namespace

int main(int argc, char** argv) { return duet::run_application(run, argc, argv); }
