// The search for cuDNN's fastest algorithm. cuDNN has one of its own,
// cudnnFindConvolution...AlgorithmEx, and we do without it, because
//   - it times first calls, in which kernels are still being loaded: an algorithm of 13 us was
//     given 292 us and lost to one of 20 us;
//   - it times launches one by one, and a training step replays a graph;
//   - it does not know that some algorithms can add the bias and others need another kernel for it;
//   - it does not know how exact an algorithm is: Winograd's F(9x9, 5x5) leaves as large errors as
//     TF32 does, with products in fp32.
// So every algorithm is timed as it will run, and the fastest whose results hold is taken.
#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/number_text.h"
#include "device/graph_time.h"
#include "device/tuning_cache.h"
#include "layers/conv2d/cudnn/conv2d_algorithms.h"
#include "layers/conv2d/cudnn/conv2d_trial.h"

namespace duet {
namespace {

// The three passes have three sets of types and functions of the same form.

int algorithm_count(Pass pass) {
  if (pass == Pass::kForward) return CUDNN_CONVOLUTION_FWD_ALGO_COUNT;
  if (pass == Pass::kBackwardData) return CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT;
  return CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT;
}

/// Fills `bytes`, unless this algorithm cannot do it.
cudnnStatus_t find_workspace(Pass pass, cudnnHandle_t cudnn, const Conv2dDescriptors& d, int number,
                             size_t* bytes) {
  const auto x = d.x.get(), y = d.y.get();
  const auto w = d.w.get();
  const auto convolution = d.convolution.get();
  switch (pass) {
    case Pass::kForward:
      return cudnnGetConvolutionForwardWorkspaceSize(
          cudnn, x, w, convolution, y, static_cast<cudnnConvolutionFwdAlgo_t>(number), bytes);
    case Pass::kBackwardData:
      return cudnnGetConvolutionBackwardDataWorkspaceSize(
          cudnn, w, y, convolution, x, static_cast<cudnnConvolutionBwdDataAlgo_t>(number), bytes);
    default:
      return cudnnGetConvolutionBackwardFilterWorkspaceSize(
          cudnn, x, y, convolution, w, static_cast<cudnnConvolutionBwdFilterAlgo_t>(number), bytes);
  }
}

/// The algorithms whose runs cuDNN says are not repeatable: `query` asks it for so many properties.
template <class Properties, class Query>
std::vector<int> wanderers(int algorithms, Query query) {
  std::vector<Properties> properties(2 * algorithms);  // of each algorithm, in up to two maths
  int found = 0;
  // Where it fails nothing is known, and Conv2dTrial::check() is left.
  if (query(2 * algorithms, &found, properties.data()) != CUDNN_STATUS_SUCCESS) return {};
  std::vector<int> numbers;
  for (int i = 0; i < found; ++i) {
    if (properties[i].status == CUDNN_STATUS_SUCCESS &&
        properties[i].determinism == CUDNN_NON_DETERMINISTIC) {
      numbers.push_back(properties[i].algo);
    }
  }
  return numbers;
}
std::vector<int> wanderers(Pass pass, cudnnHandle_t cudnn, const Conv2dDescriptors& d) {
  const auto x = d.x.get(), y = d.y.get();
  const auto w = d.w.get();
  const auto convolution = d.convolution.get();
  const int count = algorithm_count(pass);
  switch (pass) {
    case Pass::kForward:
      return wanderers<cudnnConvolutionFwdAlgoPerf_t>(count, [&](auto... of) {
        return cudnnGetConvolutionForwardAlgorithm_v7(cudnn, x, w, convolution, y, of...);
      });
    case Pass::kBackwardData:
      return wanderers<cudnnConvolutionBwdDataAlgoPerf_t>(count, [&](auto... of) {
        return cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnn, w, y, convolution, x, of...);
      });
    default:
      return wanderers<cudnnConvolutionBwdFilterAlgoPerf_t>(count, [&](auto... of) {
        return cudnnGetConvolutionBackwardFilterAlgorithm_v7(cudnn, x, y, convolution, w, of...);
      });
  }
}

std::string name_of(int number, Pass pass) {
  // The backward passes' 0, 1 and 3 (filter) have no names but their numbers.
  static const char* const forward[] = {
      "IMPLICIT_GEMM", "IMPLICIT_PRECOMP_GEMM", "GEMM", "DIRECT", "FFT", "FFT_TILING",
      "WINOGRAD",      "WINOGRAD_NONFUSED"};
  static const char* const data[] = {"", "", "FFT", "FFT_TILING", "WINOGRAD", "WINOGRAD_NONFUSED"};
  static const char* const filter[] = {"",          "", "FFT", "", "WINOGRAD", "WINOGRAD_NONFUSED",
                                       "FFT_TILING"};
  const std::string name = pass == Pass::kForward        ? forward[number]
                           : pass == Pass::kBackwardData ? data[number]
                                                         : filter[number];
  return "ALGO_" + std::to_string(number) + (name.empty() ? "" : " " + name);
}

std::string rejected_text(const std::vector<CudnnAlgorithm::Rejected>& rejected, Pass pass) {
  std::string text;
  for (const CudnnAlgorithm::Rejected& other : rejected) {
    text += "; rejected " + name_of(other.number, pass) +
            (other.repeats ? printed(": error %.1e", other.error) : ": does not repeat");
  }
  return text;
}

/// What runs of one pass by different algorithms have in common.
class Search {
 public:
  Search(const Conv2dProblem& problem, Pass pass, const Conv2dDescriptors& descriptors,
         Context& context)
      : problem_(problem),
        pass_(pass),
        descriptors_(descriptors),
        context_(context),
        allowed_(allowed()),
        trial_(problem, pass, {problem.dtype, problem.dtype}, largest_workspace()) {}

  CudnnAlgorithm fastest() {
    const bool wants_bias = pass_ == Pass::kForward && problem_.bias;
    std::vector<std::vector<bool>> choices = {{false}};  // of where the bias is added
    if (wants_bias) choices = {{false, true}};
    // To what is stored in bfloat16 it is added where nothing else is to be had: y is rounded twice.
    if (wants_bias && problem_.dtype == DType::kBFloat16) choices = {{true}, {false}};
    std::vector<CudnnAlgorithm::Rejected> rejected;
    for (const std::vector<bool>& inside : choices) {
      if (const auto found = fastest_of(timed(inside), rejected)) return *found;
    }
    throw UnsupportedError(
        "conv2d cudnn " + std::string(to_string(pass_)) +
        ": no algorithm is repeatable, computes in " + std::string(to_string(problem_.math)) +
        " and needs at most " + std::to_string(context_.workspace_limit() >> 20) +
        " MiB of workspace, for " + problem_.to_string() + rejected_text(rejected, pass_));
  }

 private:
  std::optional<CudnnAlgorithm> fastest_of(std::vector<CudnnAlgorithm> candidates,
                                           std::vector<CudnnAlgorithm::Rejected>& rejected) {
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const auto& a, const auto& b) { return a.microseconds < b.microseconds; });
    for (CudnnAlgorithm& candidate : candidates) {
      const Conv2dTrial::Outcome outcome = trial_.check([&] { queue(candidate); });
      if (outcome.right) {
        candidate.rejected = rejected;
        return candidate;
      }
      const auto known = [&](const auto& other) { return other.number == candidate.number; };
      if (std::none_of(rejected.begin(), rejected.end(), known)) {
        rejected.push_back({candidate.number, outcome.error, outcome.repeats});
      }
    }
    return {};
  }

  /// The algorithms that fit the workspace and whose runs cuDNN calls repeatable.
  std::vector<CudnnAlgorithm> allowed() const {
    const std::vector<int> unrepeatable = wanderers(pass_, context_.cudnn(), descriptors_);
    std::vector<CudnnAlgorithm> algorithms;
    for (int number = 0; number < algorithm_count(pass_); ++number) {
      if (std::count(unrepeatable.begin(), unrepeatable.end(), number) > 0) continue;
      CudnnAlgorithm algorithm = {.number = number};
      if (find_workspace(pass_, context_.cudnn(), descriptors_, number, &algorithm.workspace) ==
              CUDNN_STATUS_SUCCESS &&
          algorithm.workspace <= context_.workspace_limit()) {
        algorithms.push_back(algorithm);
      }
    }
    return algorithms;
  }

  size_t largest_workspace() const {
    size_t largest = 0;
    for (const CudnnAlgorithm& algorithm : allowed_) {
      largest = std::max(largest, algorithm.workspace);
    }
    return largest;
  }

  void queue(const CudnnAlgorithm& algorithm) const {
    run_by_cudnn(pass_, context_.cudnn(), descriptors_, algorithm, trial_.memory());
  }

  /// With microseconds filled in, for each way to add the bias: inside, or by another kernel.
  std::vector<CudnnAlgorithm> timed(const std::vector<bool>& inside) const {
    constexpr double kHopeless = 1.5;
    std::vector<CudnnAlgorithm> candidates;
    double best = std::numeric_limits<double>::infinity();
    for (CudnnAlgorithm candidate : allowed_) {
      for (const bool adds_bias : inside) {
        candidate.adds_bias = adds_bias;
        try {
          candidate.microseconds = microseconds_in_graph(
              context_, [&] { queue(candidate); }, kHopeless * best);
        } catch (const DeviceError&) {
          continue;  // it has a workspace size and yet no kernel for these sizes
        }
        best = std::min(best, candidate.microseconds);
        candidates.push_back(candidate);
      }
    }
    context_.synchronize();  // throws if the GPU itself has failed
    return candidates;
  }

  const Conv2dProblem& problem_;
  const Pass pass_;
  const Conv2dDescriptors& descriptors_;
  Context& context_;
  const std::vector<CudnnAlgorithm> allowed_;
  const Conv2dTrial trial_;
};

constexpr double kErrorUnit = 1e-9;  // the cache holds whole numbers

std::string rejected_key(int number) { return "rejected_" + std::to_string(number); }

TuningCache::Entry to_entry(const CudnnAlgorithm& algorithm) {
  TuningCache::Entry entry = {{"algorithm", algorithm.number},
                              {"adds_bias", algorithm.adds_bias},
                              {"nanoseconds", static_cast<int64_t>(algorithm.microseconds * 1e3)}};
  for (const auto& rejected : algorithm.rejected) {
    const bool finite = rejected.error < 1e9;
    entry[rejected_key(rejected.number)] = !rejected.repeats ? -1
                                           : finite
                                               ? static_cast<int64_t>(rejected.error / kErrorUnit)
                                               : -2;
  }
  return entry;
}

/// What the cache says, unless this library does not know it (a file that was edited).
std::optional<CudnnAlgorithm> from_entry(const TuningCache::Entry& entry, Pass pass,
                                         const Conv2dDescriptors& descriptors, Context& context) {
  const auto field = [&](const std::string& name) -> std::optional<int64_t> {
    const auto found = entry.find(name);
    if (found == entry.end()) return {};
    return found->second;
  };
  const int64_t number = field("algorithm").value_or(-1);
  if (number < 0 || number >= algorithm_count(pass)) return {};
  CudnnAlgorithm algorithm = {.number = static_cast<int>(number),
                              .adds_bias = field("adds_bias") == 1,
                              .microseconds = field("nanoseconds").value_or(0) * 1e-3};
  for (int other = 0; other < algorithm_count(pass); ++other) {
    const auto error = field(rejected_key(other));
    if (!error) continue;
    algorithm.rejected.push_back(
        {.number = other,
         .error = *error == -2 ? std::nan("") : static_cast<double>(*error) * kErrorUnit,
         .repeats = *error != -1});
  }
  const cudnnStatus_t status =
      find_workspace(pass, context.cudnn(), descriptors, algorithm.number, &algorithm.workspace);
  if (status != CUDNN_STATUS_SUCCESS || algorithm.workspace > context.workspace_limit()) return {};
  return algorithm;
}

}  // namespace

std::string CudnnAlgorithm::to_string(Pass pass) const {
  return name_of(number, pass) + (adds_bias ? ", adds the bias" : "") +
         rejected_text(rejected, pass);
}

CudnnAlgorithm choose_algorithm(const Conv2dProblem& problem, Pass pass,
                                const Conv2dDescriptors& descriptors, Context& context) {
  static TuningCache cache(TuningCache::path_of("cudnn_algorithms.json"));
  // "checked beyond storing": entries from before results were looked at so are not taken.
  const std::string key = problem.to_string() + " | " + std::string(to_string(pass)) +
                          " | checked beyond storing | " + gpu_name() + " | cuDNN " +
                          std::to_string(cudnnGetVersion()) + " | workspace " +
                          std::to_string(context.workspace_limit());
  if (const auto entry = cache.find(key)) {
    if (const auto known = from_entry(*entry, pass, descriptors, context)) return *known;
  }
  const CudnnAlgorithm best = Search(problem, pass, descriptors, context).fastest();
  cache.insert(key, to_entry(best));
  return best;
}

}  // namespace duet
