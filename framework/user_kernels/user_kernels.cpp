#include "user_kernels/user_kernels.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <future>
#include <set>

#include "core/error.h"
#include "core/shell_word.h"
#include "device/cpu.h"
#include "device/tuning_cache.h"
#include "user_kernels/kernel_compiler.h"
#include "user_kernels/loaded_kernels.h"
#include "user_kernels/plugin.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

std::vector<std::shared_ptr<const UserKernels>>& all_kernels() {
  static std::vector<std::shared_ptr<const UserKernels>> all;
  return all;
}

// Lists hand ids out as views: they outlive an entry that another takes the place of.
std::string_view kept_id(const std::string& id) {
  static std::set<std::string> ids;
  return *ids.insert(id).first;
}

// All that a file's constants depend on. The code of a plugin is the same for all.
std::string problem_of(const KernelFile& file, const Layer& layer) {
  if (file.plugin) return std::string(layer.type());
  std::string problem(layer.type());
  problem += " " + layer.problem_text();
  for (const TensorDesc& x : layer.inputs()) problem += " | " + x.to_string();
  return problem + (layer.options().math == Math::kTF32 ? " tf32" : "");
}

std::string type_of_exception() {
  const std::type_info* type = abi::__cxa_current_exception_type();
  if (!type) return "that C++ does not know";
  int status = 0;
  char* const name = abi::__cxa_demangle(type->name(), nullptr, nullptr, &status);
  const std::string text = name ? name : type->name();
  std::free(name);
  return "of type " + text;
}

/// Calls code of a user's file. Whatever it throws is an Error of Duet's then, which callers expect.
template <class Call>
auto guarded(std::string_view id, const Call& call) {
  try {
    return call();
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc& error) {
    throw OutOfMemoryError(std::string(id) + ": " + message_of(error));
  } catch (const std::exception& error) {
    throw RunError(std::string(id) + " threw an exception: " + error.what());
#ifdef __GLIBC__
  } catch (const abi::__forced_unwind&) {  // its thread ends
    throw;
#endif
  } catch (...) {
    throw RunError(std::string(id) + " threw an exception " + type_of_exception());
  }
}

/// An implementation of a file, which tells its source too.
class FromFile : public Implementation {
 public:
  FromFile(std::string_view id, std::unique_ptr<Implementation> own, std::string detail)
      : id_(id), own_(std::move(own)), detail_(std::move(detail)) {}

  void prepare(Pass pass, Context& context) override {
    guarded(id_, [&] { own_->prepare(pass, context); });
  }
  size_t workspace_bytes(Pass pass) const override {
    return guarded(id_, [&] { return own_->workspace_bytes(pass); });
  }
  size_t state_bytes() const override {
    return guarded(id_, [&] { return own_->state_bytes(); });
  }
  std::string detail(Pass pass) const override {
    const std::string own = guarded(id_, [&] { return own_->detail(pass); });
    return own.empty() ? detail_ : own + ", " + detail_;
  }
  std::vector<std::string> calls(Pass pass) const override {
    return guarded(id_, [&] { return own_->calls(pass); });
  }
  void run(Pass pass, const Run& run, const LayerTensors& tensors) override {
    guarded(id_, [&] { own_->run(pass, run, tensors); });
  }

 private:
  const std::string_view id_;  // kept_id
  const std::unique_ptr<Implementation> own_;
  const std::string detail_;
};

void add(const KernelFile& file) {
  auto entry = std::make_shared<const UserKernels>(file);
  for (auto& each : all_kernels()) {
    const KernelFile& other = each->file();
    if (other.name() != file.name()) continue;
    std::error_code error;
    if (!fs::equivalent(other.path, file.path, error) && other.hash != file.hash) {
      throw ConfigError(file.path.string() + ": " + other.path.string() +
                        " has the same name and another content; rename one");
    }
    if (other.hash == file.hash) return;
    add_entry(file.type, entry);
    each = std::move(entry);
    return;
  }
  add_entry(file.type, entry);
  all_kernels().push_back(std::move(entry));
}

}  // namespace

UserKernels::UserKernels(KernelFile file) : file_(std::move(file)), id_(kept_id(file_.id)) {}

UserKernels::UserKernels(KernelFile file, std::vector<TunedValue> tuned)
    : file_(std::move(file)),
      tuned_(std::move(tuned)),
      id_(kept_id(file_.id + "[" + tuned_text(tuned_) + "]")) {}

const CompiledKernels& UserKernels::compiled(const Layer& layer) const {
  const std::string problem = problem_of(file_, layer);
  {
    const std::lock_guard lock(mutex_);
    const auto found = compiled_.find(problem);
    if (found != compiled_.end()) return found->second;
    if (!hangs_.empty()) throw CompilerHangsError(hangs_);
  }
  try {
    CompiledKernels made =
        guarded(id_, [&] { return compile_kernels(file_, layer, tuned_for(layer)); });
    const std::lock_guard lock(mutex_);
    return compiled_.emplace(problem, std::move(made)).first->second;
  } catch (const CompilerHangsError& error) {
    const std::lock_guard lock(mutex_);
    hangs_ = error.what();
    throw;
  }
}

std::vector<TunedValue> UserKernels::tuned_for(const Layer& layer) const {
  if (!tuned_.empty()) return tuned_;
  return kept_tuned(file_, layer, file_.device == Device::kGpu ? gpu_name() : cpu_name());
}

void UserKernels::compile_ahead(const std::vector<const Layer*>& layers) const {
  std::map<std::string, std::future<CompiledKernels>> compiling;
  for (const Layer* layer : layers) {
    const std::string problem = problem_of(file_, *layer);
    {
      const std::lock_guard lock(mutex_);
      if (compiled_.contains(problem)) continue;
    }
    if (compiling.contains(problem)) continue;
    const auto tuned = tuned_for(*layer);
    compiling[problem] = std::async(
        std::launch::async, [this, layer, tuned] { return compile_kernels(file_, *layer, tuned); });
  }
  for (auto& [problem, made] : compiling) {
    try {
      CompiledKernels kernels = made.get();
      const std::lock_guard lock(mutex_);
      compiled_.emplace(problem, std::move(kernels));
    } catch (const Error&) {
    }
  }
}

std::string kernel_options(std::string_view type) {
  std::string text;
  for (const auto& each : all_kernels()) {
    if (each->file().type == type) text += " --kernels " + shell_word(each->file().path.string());
  }
  return text;
}

std::string tuned_text(const std::vector<TunedValue>& tuned) {
  std::vector<std::string> words;
  for (const TunedValue& each : tuned)
    words.push_back(each.name + "=" + std::to_string(each.value));
  return join(words, ",");
}

std::string keep_tuned(const KernelFile& file, const Layer& layer, const std::string& processor,
                       const std::vector<TunedValue>& tuned) {
  TuningCache::Entry entry;
  for (const TunedValue& each : tuned) entry[each.name] = each.value;
  TuningCache cache(TuningCache::path_of("tuned_kernels.json"));
  cache.insert(file.hash + " | " + problem_of(file, layer) + " | " + processor, entry);
  return cache.why_not_kept();
}

std::vector<TunedValue> kept_tuned(const KernelFile& file, const Layer& layer,
                                   const std::string& processor) {
  const TuningCache cache(TuningCache::path_of("tuned_kernels.json"));
  const auto entry = cache.find(file.hash + " | " + problem_of(file, layer) + " | " + processor);
  std::vector<TunedValue> tuned;
  for (const auto& [name, value] : entry.value_or(TuningCache::Entry())) {
    tuned.push_back({name, value});
  }
  return tuned;
}

std::optional<std::string> UserKernels::cannot_run(const Layer& layer) const {
  if (file_.plugin) return {};
  return no_kernel_interface(layer);
}

std::optional<std::string> UserKernels::unsupported(const Layer& layer, Pass pass) const {
  if (auto reason = cannot_run(layer)) return reason;
  try {
    const CompiledKernels& made = compiled(layer);
    if (!made.plugin) return made.unsupported(pass);
    return guarded(id_, [&] { return made.plugin->unsupported(layer, pass); });
  } catch (const Error& error) {
    return error.what();
  }
}

bool UserKernels::mistaken(const Layer& layer) const {
  if (cannot_run(layer)) return false;
  try {
    return compiled(layer).mistake;
  } catch (const Error& error) {
    return error.exit_code() == kExitUsage;
  }
}

bool UserKernels::is_broken(const Layer& layer) const {
  if (cannot_run(layer)) return false;
  try {
    return compiled(layer).mistake;
  } catch (const Error&) {
    return true;
  }
}

std::unique_ptr<Implementation> UserKernels::make(const Layer& layer, Context& context) const {
  const CompiledKernels& made = compiled(layer);
  const std::string tuned = made.tuned.empty() ? "" : ", " + tuned_text(made.tuned);
  const auto own = [&] {
    if (made.plugin) return made.plugin->make(layer, context);
    const bool gpu = file_.device == Device::kGpu;
    return (gpu ? make_gpu_kernels : make_cpu_kernels)(made, kernel_interface(layer));
  };
  return std::make_unique<FromFile>(id_, guarded(id_, own), "source " + file_.hash + tuned);
}

void load_kernels(const std::vector<fs::path>& paths) {
  for (const fs::path& path : paths) {
    for (const fs::path& file : kernel_files_in(path)) add(read_kernel_file(file));
  }
}

void unload_kernels() {
  for (const auto& each : all_kernels()) remove_entry(each->file().type, each->file().id);
  all_kernels().clear();
}

std::vector<std::shared_ptr<const UserKernels>> loaded_kernels() { return all_kernels(); }

std::shared_ptr<const UserKernels> find_kernels(std::string_view type, std::string_view id) {
  for (const auto& each : all_kernels()) {
    if (each->file().type == type && each->file().id == id) return each;
  }
  return nullptr;
}

bool is_mistaken(const Layer& layer, std::string_view id) {
  const auto kernels = find_kernels(layer.type(), id);
  return kernels && kernels->mistaken(layer);
}

bool is_broken(const Layer& layer, std::string_view id) {
  const auto kernels = find_kernels(layer.type(), id);
  return kernels && kernels->is_broken(layer);
}

}  // namespace duet
