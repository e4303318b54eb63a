// Files of kernels as implementations: once loaded, they stand in their layer types' lists
// (layers/added.h), under their ids, for everything that asks those lists.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "layers/added.h"
#include "user_kernels/compiled_kernels.h"
#include "user_kernels/kernel_file.h"

namespace duet {

/// A file as a row of its layer type's list. Compiles when it is first asked about a problem.
class UserKernels : public AddedEntry {
 public:
  explicit UserKernels(KernelFile file);
  /// With these values of DUET_TUNE, under an id that names them: "custom_mine[BLOCK=64]".
  UserKernels(KernelFile file, std::vector<TunedValue> tuned);

  const KernelFile& file() const { return file_; }
  std::string_view id() const override { return id_; }
  /// Refusals, what is wrong with the file, and why nothing can be compiled here are all reasons.
  std::optional<std::string> unsupported(const Layer& layer, Pass pass) const override;
  /// Why no file but a plugin could, whatever it holds.
  std::optional<std::string> cannot_run(const Layer& layer) const;
  /// Whether the reason is a mistake in the file, which no other problem or machine mends.
  bool mistaken(const Layer& layer) const;
  /// Whether nothing can be compiled of the file: for a mistake in it, or for want of a compiler that does.
  bool is_broken(const Layer& layer) const;
  std::unique_ptr<Implementation> make(const Layer& layer, Context& context) const override;
  /// Compiles once for a problem, with its own values of DUET_TUNE, or those that were kept for it.
  /// Throws what compile_kernels() throws. Threads may call it, and compile_ahead(), at the same time.
  const CompiledKernels& compiled(const Layer& layer) const;
  /// Compiles for problems that compiled() will be asked for, in a thread each. What cannot be compiled
  /// is left to that.
  void compile_ahead(const std::vector<const Layer*>& layers) const;

 private:
  /// Its own values of DUET_TUNE, or those that were kept for the problem.
  std::vector<TunedValue> tuned_for(const Layer& layer) const;

  const KernelFile file_;
  const std::vector<TunedValue> tuned_;
  const std::string_view id_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, CompiledKernels> compiled_;  // by problem; nothing is taken out
  mutable std::string hangs_;  // what the compiler did with another problem; it is not tried again
};

/// Adds the kernels of each path, a file or a folder, to their lists. A file that is loaded already
/// takes the place of what it was. Throws as read_kernel_file() and kernel_files_in() do, and
/// ConfigError where two files have one name.
void load_kernels(const std::vector<std::filesystem::path>& paths);
/// " --kernels PATH" of each that is loaded for a layer type, for commands to be given to a shell.
std::string kernel_options(std::string_view type);

/// "BLOCK=64,FILTERS=4"
std::string tuned_text(const std::vector<TunedValue>& tuned);
/// The values that run a problem of this source on a processor (a GPU's or CPU's name) from now on, in every
/// process. Returns why they cannot be kept, or "".
std::string keep_tuned(const KernelFile& file, const Layer& layer, const std::string& processor,
                       const std::vector<TunedValue>& tuned);
std::vector<TunedValue> kept_tuned(const KernelFile& file, const Layer& layer,
                                   const std::string& processor);

/// Takes all out of their lists again.
void unload_kernels();
/// All that are loaded.
std::vector<std::shared_ptr<const UserKernels>> loaded_kernels();
/// The one that is `id` of a layer type; nullptr where that is not from a file.
std::shared_ptr<const UserKernels> find_kernels(std::string_view type, std::string_view id);
/// Whether an implementation is from a file, and cannot run `layer` for a mistake in it.
bool is_mistaken(const Layer& layer, std::string_view id);
/// Whether it is from a file of which nothing can be compiled.
bool is_broken(const Layer& layer, std::string_view id);

}  // namespace duet
