// The part of ProgramCalls that asks for algorithms and workspace.
#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "program_calls.h"
#include "program_text.h"

namespace duet {
namespace {

/// "Forward", "BackwardData", "BackwardFilter"
std::string direction(const std::string& convolution) {
  if (convolution == "cudnnConvolutionBiasActivationForward") return "Forward";
  return convolution.substr(std::strlen("cudnnConvolution"));
}

std::string hexadecimal(uint64_t word) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%llxull", static_cast<unsigned long long>(word));
  return text;
}

/// The question about a convolution's workspace as the layer asked it last, with the same descriptors
/// and algorithm.
const Record* asked(const RecordedLayer& recorded, const Record& convolution) {
  std::set<std::string> objects;
  for (const RecordedArgument& argument : convolution.arguments) {
    if (argument.kind == "object") objects.insert(argument.text());
  }
  const std::string name = "cudnnGetConvolution" + direction(convolution.name) + "WorkspaceSize";
  const Record* found = nullptr;
  for (const Record& record : recorded.records) {
    if (record.name != name) continue;
    if (record.argument("algo").text() != convolution.argument("algo").text()) continue;
    const auto known = [&](const RecordedArgument& argument) {
      return argument.kind != "object" || objects.count(argument.text());
    };
    if (std::all_of(record.arguments.begin(), record.arguments.end(), known)) found = &record;
  }
  return found;
}

}  // namespace

std::string ProgramCalls::convolution_question(const Record& record) {
  const Record* const question = asked(recorded_, record);
  if (!question) throw UnsupportedError("explain: the workspace of " + record.name + " is unknown");
  const std::string suffix = suffix_.at(&record), to = direction(record.name);
  const std::string type = to == "Forward" ? "Fwd" : to == "BackwardData" ? "BwdData" : "BwdFilter";
  const std::string winograd = type == "Fwd" ? "CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED"
                               : type == "BwdData"
                                   ? "CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED"
                                   : "CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED";
  const RecordedArgument& algorithm = question->argument("algo");
  std::vector<std::string> arguments;  // the handle and the descriptors
  for (const RecordedArgument& argument : question->arguments) {
    if (argument.kind == "object") arguments.push_back(expression(*question, argument));
  }
  const bool fused = record.name == "cudnnConvolutionBiasActivationForward";
  std::string text = "\n";
  if (recorded_.measured) {
    text += commented(
        "The algorithm: the same sums can be had as a matrix product, by FFT, by Winograd's "
        "transform. Duet has timed those that cuDNN offers for these sizes, and keeps the fastest "
        "whose results are exact enough and repeat.");
  } else if (fused) {
    text += commented(
        "The algorithm was not measured: no GPU was there when this was written. This is the only "
        "one that takes the identity for its activation.");
  } else {
    text += commented(
        "The algorithm was not measured: no GPU was there when this was written. So cuDNN is asked "
        "for its guess here, and the first that repeats is taken, but for Winograd's transform of "
        "large tiles, which errs as much as TF32 does; Duet times them all.");
  }
  const bool ask = !recorded_.measured && !fused;
  text += std::string("  ") + (ask ? "" : "const ") + "cudnnConvolution" + type +
          "Algo_t algorithm" + suffix + " = " + algorithm.text() + ";\n";
  if (ask) {
    text +=
        fill("  cudnnConvolution$typeAlgoPerf_t proposals$suffix[8];\n  int proposed$suffix = 0;\n",
             {{"type", type}, {"suffix", suffix}});
    std::vector<std::string> more = arguments;
    more.insert(more.end(), {"8", "&proposed" + suffix, "proposals" + suffix});
    text += checked("cudnnGetConvolution" + to + "Algorithm_v7", more);
    text += fill(R"(  for (int i = proposed$suffix; i-- > 0;) {
    const bool works = proposals$suffix[i].status == CUDNN_STATUS_SUCCESS;
    const bool repeats = proposals$suffix[i].determinism == CUDNN_DETERMINISTIC;
    const bool exact = proposals$suffix[i].algo != $winograd;
    if (works && repeats && exact) algorithm$suffix = proposals$suffix[i].algo;
  }
)",
                 {{"suffix", suffix}, {"winograd", winograd}});
  }
  text += "\n" + commented("The workspace that this algorithm needs.") +
          fill("  size_t workspace$suffix_bytes = 0;\n", {{"suffix", suffix}});
  arguments.insert(arguments.end(), {"algorithm" + suffix, "&workspace" + suffix + "_bytes"});
  text += checked(question->name, arguments);
  return text + fill("  char* workspace$suffix = room_on_gpu<char>(workspace$suffix_bytes);\n",
                     {{"suffix", suffix}});
}

std::string ProgramCalls::product_question(const Record& record) {
  const std::string suffix = suffix_.at(&record);
  const auto text_of = [&](const char* name) { return expression(record, record.argument(name)); };
  std::vector<std::string> arguments;
  for (const char* name : {"lightHandle", "computeDesc", "Adesc", "Bdesc", "Cdesc", "Ddesc"}) {
    arguments.push_back(text_of(name));
  }
  if (recorded_.measured) {
    std::string words;
    for (const nlohmann::json& word : record.argument("algo").value) {
      words += (words.empty() ? "" : ", ") + hexadecimal(word.get<uint64_t>());
    }
    arguments.insert(arguments.end(), {"&algorithm" + suffix, "&algorithm_check" + suffix});
    return "\n" +
           commented(
               "The algorithm, eight opaque words: Duet has timed what the heuristics propose, and "
               "keeps the fastest. It belongs to this version of cuBLASLt, which is asked whether "
               "it "
               "would run it.") +
           fill(
               "  const cublasLtMatmulAlgo_t algorithm$suffix = {{$words}};\n"
               "  cublasLtMatmulHeuristicResult_t algorithm_check$suffix = {};\n",
               {{"suffix", suffix}, {"words", words}}) +
           checked("cublasLtMatmulAlgoCheck", arguments) +
           fill(
               "  const size_t workspace$suffix_bytes = algorithm_check$suffix.workspaceSize;\n"
               "  char* workspace$suffix = room_on_gpu<char>(workspace$suffix_bytes);\n",
               {{"suffix", suffix}});
  }
  arguments.insert(arguments.end(),
                   {"preference" + suffix, "1", "&proposal" + suffix, "&proposed" + suffix});
  return "\n" +
         commented(
             "The algorithm was not measured: no GPU was there when this was written. The "
             "heuristics' "
             "first proposal is taken here; Duet times them all.") +
         fill(R"(  cublasLtMatmulPreference_t preference$suffix;
  CHECK(cublasLtMatmulPreferenceCreate(&preference$suffix));
  const size_t most_bytes$suffix = size_t{32} << 20;
  CHECK(cublasLtMatmulPreferenceSetAttribute(preference$suffix,
                                             CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                             &most_bytes$suffix, sizeof most_bytes$suffix));
  // Sums may not be split in ways that add up in anything less than the compute type.
  const uint32_t reductions$suffix = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  CHECK(cublasLtMatmulPreferenceSetAttribute(preference$suffix,
                                             CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                             &reductions$suffix, sizeof reductions$suffix));
  cublasLtMatmulHeuristicResult_t proposal$suffix = {};
  int proposed$suffix = 0;
)",
              {{"suffix", suffix}}) +
         checked("cublasLtMatmulAlgoGetHeuristic", arguments) +
         fill(
             "  const cublasLtMatmulAlgo_t algorithm$suffix = proposal$suffix.algo;\n"
             "  const size_t workspace$suffix_bytes = proposal$suffix.workspaceSize;\n"
             "  char* workspace$suffix = room_on_gpu<char>(workspace$suffix_bytes);\n",
             {{"suffix", suffix}});
}

std::string ProgramCalls::questions() {
  std::string text;
  for (const auto* record : selection_.run) {
    if (suffix_.count(record) && record->name != "cublasLtMatmul") {
      text += convolution_question(*record);
    }
  }
  if (!plans_.empty()) {
    std::string most = plans_.front();
    for (size_t i = 1; i < plans_.size(); ++i) most = "std::max(" + most + ", " + plans_[i] + ")";
    text += "\n" + commented("Work area of the transforms, which run one after the other.") +
            "  char* work_area = room_on_gpu<char>(" + most + ");\n";
  }
  return text;
}

}  // namespace duet
