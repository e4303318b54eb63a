// What `trainer explain` writes for every implementation of the cudnn family. The programs compile,
// and draw the inputs that the reference was given. Their comparison accepts what the layer's
// definition gives on the CPU, and no changed results. Where there is a GPU they end with 0. Runs
// with the recorder loaded (LD_PRELOAD). All programs are compiled as one.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>

#include "core/error.h"
#include "core/write_file.h"
#include "explain/program.h"
#include "explain/values.h"
#include "explain/values_text.h"
#include "explain_paths.h"
#include "layers/layer_cases.h"
#include "layers/layers.h"
#include "measure/check/agreement.h"
#include "measure/check/layer_rig.h"
#include "support/temporary_folder.h"
#include "support/text.h"
#include "test_paths.h"

namespace duet {
namespace {

/// Passes in which they only hand memory on: copies, which no library makes.
const std::set<std::pair<std::string, Pass>> kCallNothing = {{"add", Pass::kBackward},
                                                             {"split", Pass::kForward}};

/// Implementations that run no case of their layer: cuDNN's persistent mode is of images.
const std::set<std::string> kRunNothing = {"batch_norm1d cudnn_persistent",
                                           "batch_norm1d_relu cudnn_persistent"};

struct Explained {
  std::string name;  // of the case
  RecordedLayer recorded;
  ProgramData data = {};
  std::string text = {};
  std::vector<double> values = {};

  const Layer& layer() const { return *recorded.layer; }
  std::string title() const {
    return name + " " + recorded.id + " " + std::string(to_string(recorded.pass));
  }
};

constexpr size_t kWorkspaceLimit = size_t{1} << 30;

Explained explained(const std::string& name, std::shared_ptr<const Layer> layer,
                    const std::string& id, Pass pass) {
  Explained one = {name, record_layer(std::move(layer), id, pass, kWorkspaceLimit)};
  one.data = program_data(one.recorded);
  one.text = program_text(one.recorded, one.data, {name, "all.cpp", "all.values"});
  one.values = program_values(one.recorded, one.data);
  return one;
}

/// What a case's program depends on, but for sizes. Convolutions are measured where there is a GPU:
/// there one set of keys has to do.
std::string kind_of(const LayerCase& c, const Layer& layer) {
  std::string kind = std::to_string(static_cast<int>(layer.inputs()[0].layout)) +
                     std::to_string(static_cast<int>(layer.options().math));
  for (const TensorDesc& x : layer.inputs()) kind += std::to_string(x.shape.rank());
  const bool measured = layer.type().starts_with("conv2d") && !recorder_stands_in();
  for (const auto& [key, value] : c.keys) kind += measured ? "" : " " + key;
  return kind;
}

/// Everything for each implementation, pass, layout, arithmetic and set of keys.
const std::vector<Explained>& programs() {
  static const std::vector<Explained> all = [] {
    std::vector<Explained> written;
    std::set<std::string> seen;
    for (const CasesOfType& cases : layer_cases()) {
      for (const LayerCase& c : cases.cases) {
        if (!c.training || c.forward_only) continue;
        const std::shared_ptr<Layer> layer = make_layer(cases.type, c);
        for (const ImplInfo& info : layer->implementations()) {
          const std::string id(info.id), type(cases.type);
          if (family_of(id) != Family::kCudnn) continue;
          for (const Pass pass : layer->passes()) {
            if (kCallNothing.count({type, pass}) || layer->unsupported(id, pass)) continue;
            const std::string pass_name(to_string(pass));
            if (!seen.insert(type + " " + id + " " + pass_name + " " + kind_of(c, *layer)).second) {
              continue;
            }
            try {
              written.push_back(explained(type + " " + c.name, layer, id, pass));
            } catch (const std::exception& error) {
              ADD_FAILURE() << type << " " << c.name << " " << id << " " << pass_name << ": "
                            << error.what();
            }
          }
        }
      }
    }
    return written;
  }();
  return all;
}

/// All implementations of the family that run anything, and those that some program is of.
std::set<std::string> implementations() {
  std::set<std::string> names;
  for (const CasesOfType& cases : layer_cases()) {
    for (const ImplInfo& info : make_layer(cases.type, cases.cases.front())->implementations()) {
      const std::string name = std::string(cases.type) + " " + std::string(info.id);
      if (family_of(info.id) == Family::kCudnn && !kRunNothing.count(name)) names.insert(name);
    }
  }
  return names;
}
std::set<std::string> implementations_of(const std::vector<Explained>& programs) {
  std::set<std::string> names;
  for (const Explained& one : programs) {
    names.insert(std::string(one.layer().type()) + " " + one.recorded.id);
  }
  return names;
}

/// The first `count` programs as one; text before main() that several have stands there once. Given
/// a file it writes the inputs of all programs to it, given a number and a file of values it is
/// that program.
std::string joined(const std::vector<Explained>& all, size_t count) {
  const std::string shared(kValuesText.substr(kValuesText.find("#include")));
  std::set<std::string> includes;
  std::map<std::string, std::pair<std::string, std::string>>
      mains;  // and the cases, by what is before
  std::string inputs;
  for (const Explained& one : all) {
    for (const NamedMemory& memory : one.recorded.memory) {
      if (memory.part) inputs += "  give(" + input_of(one.recorded, memory).text + ");\n";
    }
  }
  for (size_t i = 0; i < count; ++i) {
    const std::string& text = all[i].text;
    const std::string main = "int main(", number = std::to_string(i);
    const size_t begin = text.find(shared), end = text.find(main);
    if (begin == std::string::npos || end == std::string::npos) {
      ADD_FAILURE() << all[i].title() << "\n" << text;
      continue;
    }
    for (const std::string& line : lines_of(text.substr(0, begin))) {
      if (line.rfind("#include", 0) == 0) includes.insert(line);
    }
    auto& [bodies, cases] = mains[text.substr(begin + shared.size(), end - begin - shared.size())];
    bodies += "int main_" + number + "(" + text.substr(end + main.size());
    cases += "  if (number == " + number + ") return main_" + number + "(argc, argv);\n";
  }
  std::string programs, calls;
  for (const auto& [before, main] : mains) {
    const std::string space = "programs_" + std::to_string(calls.size());
    programs += "namespace " + space + " {\n" + before + main.first +
                "int run(int number, int argc, char** argv) {\n" + main.second +
                "  return -1;\n}\n}\n";
    calls += "  if (code < 0) code = " + space + "::run(number, argc - 1, argv + 1);\n";
  }
  std::string text;
  for (const std::string& include : includes) text += include + "\n";
  return text + shared + programs + R"(
std::ofstream out;
void give(const std::vector<float>& values) {
  out.write(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
}
void give_all() {
)" + inputs +
         R"(}
int main(int argc, char** argv) {
  if (argc == 2) return out.open(argv[1], std::ios::binary), give_all(), 0;
  const int number = std::atoi(argv[1]);
  int code = -1;
)" + calls +
         "  return code;\n}\n";
}

std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

class ExplainPrograms : public testing::Test {
 protected:
  static int run(const std::string& command) {
    const int status = std::system(("env -u LD_PRELOAD " + command).c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  /// Without a program to write it looks for errors alone, which takes a fifth of the time.
  bool compile(const std::string& text, const std::string& program = "") {
    const std::string source = folder_ / "all.cpp";
    std::ofstream(source) << text;
    const std::string target =
        program.empty() ? " -fsyntax-only" : " -o " + program + DUET_EXPLAIN_LIBRARIES;
    return run(DUET_EXPLAIN_COMPILER " -std=c++17 -O0 -w" DUET_EXPLAIN_INCLUDES " " + source +
               target) == 0;
  }
  TemporaryFolder folder_;
};

TEST_F(ExplainPrograms, CompileReadTheirValuesAndDrawTheReferencesInputs) {
  const std::vector<Explained>& all = programs();
  EXPECT_EQ(implementations_of(all), implementations());
  ASSERT_GT(all.size(), 150u);
  const std::string program = folder_ / "all", out = folder_ / "out";
  const std::string values = folder_ / "all.values";
  // Without a GPU they all end at once: one stands for them.
  const size_t built = recorder_stands_in() ? 1 : all.size();
  EXPECT_TRUE(built == all.size() || compile(joined(all, all.size())));
  ASSERT_TRUE(compile(joined(all, built), program));

  ASSERT_EQ(run(program + " " + out), 0);
  std::string inputs;
  for (const Explained& one : all) {
    for (const NamedMemory& memory : one.recorded.memory) {
      if (memory.part) inputs += bytes_of(input_of(one.recorded, memory).values);
    }
  }
  EXPECT_TRUE(content_of(out) == inputs);

  for (size_t i = 0; i < built; ++i) {
    write_file(values, bytes_of(all[i].values));
    const int code = run(program + " " + std::to_string(i) + " " + values + " > " + out);
    EXPECT_EQ(code, recorder_stands_in() ? 3 : 0) << all[i].title() << "\n"
                                                  << content_of(out) << all[i].text;
  }
  // Files that are not there, are cut off, or have more than the program takes.
  const std::string first = program + " 0 ", to_out = " > " + out;
  EXPECT_EQ(run(first + (folder_ / "none.values").string() + to_out), 1);
  EXPECT_TRUE(has(content_of(out), "none.values cannot be read; it was written with this program"));
  for (const int more : {-1, 1, 8}) {
    std::string bytes = bytes_of(all[0].values);
    bytes.resize(bytes.size() + static_cast<size_t>(more));
    write_file(values, bytes);
    EXPECT_EQ(run(first + values + to_out), 1);
    EXPECT_TRUE(has(content_of(out), "all.values has " + std::to_string(bytes.size()) +
                                         " bytes, and this program needs " +
                                         std::to_string(8 * all[0].values.size())));
  }
}

/// What the program's comparisons of all outputs print if one of them is wrong, else "".
std::string whats_wrong(const Explained& one, const std::string& file,
                        const std::vector<std::vector<double>>& found) {
  testing::internal::CaptureStdout();
  ::Values values(file, one.values.size());
  for (const auto& places : one.data.zeroed) values.take(places.size());
  bool right = true;
  const auto outputs = outputs_of(one.recorded);
  for (size_t k = 0; k < outputs.size(); ++k) {
    right &=
        ::compare(outputs[k]->name.c_str(), found[k], sizes_in_memory(outputs[k]->desc), values);
  }
  const std::string printed = testing::internal::GetCapturedStdout();
  return right ? "" : printed;
}

/// The results of cpu_reference in the types that the layer stores, in the order of outputs_of().
std::vector<std::vector<double>> found_on_the_cpu(const Explained& one) {
  const Pass pass = one.recorded.pass;
  std::vector<Pass> passes = passes_before(one.layer(), pass);
  passes.push_back(pass);
  Context context(Device::kCpu);
  LayerRig rig(one.layer(), "cpu_reference", passes, context, {});
  rig.load(one.data.data);
  for (const Pass each : passes) rig.run(each);
  std::vector<std::vector<double>> found;
  for (const NamedMemory* output : outputs_of(one.recorded)) {
    for (const NamedValues& values : rig.outputs(pass)) {
      if (values.name == output->output) found.push_back(values.values);
    }
  }
  // All that the pass writes is compared; outputs that are one in memory once.
  EXPECT_EQ(found.size(), one.layer().is_sum() ? 1u : rig.outputs(pass).size()) << one.title();
  return found;
}

TEST_F(ExplainPrograms, HoldWhatTheDefinitionGivesForRightAndAChangeForWrong) {
  const std::string file = folder_ / "one.values";
  for (const Explained& one : programs()) {
    SCOPED_TRACE(one.title());
    write_file(file, bytes_of(one.values));
    std::vector<std::vector<double>> found = found_on_the_cpu(one);
    EXPECT_EQ(whats_wrong(one, file, found), "");
    for (std::vector<double>& output : found) {
      for (double* value : {&output.front(), &output.back()}) {
        const double before = *value;
        for (const double wrong : {before + 1, std::nan(""), HUGE_VAL}) {
          *value = wrong;
          EXPECT_NE(whats_wrong(one, file, found), "") << wrong;
        }
        *value = before;
      }
      const std::vector<double> written = output;
      output.assign(output.size(), std::nan(""));  // as memory that nobody wrote
      EXPECT_NE(whats_wrong(one, file, found), "");
      output = written;
    }
  }
}

/// The file is what docs/explain.md says, and the program's verdict by it is that of a check.
TEST_F(ExplainPrograms, ValuesAreTheReferencesAndTheVerdictIsAChecks) {
  const std::string file = folder_ / "one.values";
  size_t zeroed = 0;
  std::map<bool, size_t> verdicts;
  for (const Explained& one : programs()) {
    SCOPED_TRACE(one.title());
    const Pass pass = one.recorded.pass;
    const Reference reference =
        run_reference(one.layer(), one.data.data, {}, {pass}, nullptr, Device::kCpu);
    auto at = one.values.begin();
    for (size_t k = 0; k < one.data.zeroed.size(); ++k) {
      for (const double place : one.data.zeroed[k]) {
        ASSERT_EQ(*at++, place);
        EXPECT_EQ(one.data.data.dy[k].at(static_cast<size_t>(place)), 0);
        ++zeroed;
      }
    }
    for (const NamedMemory* output : outputs_of(one.recorded)) {
      const std::vector<NamedValues>& all = reference.of(pass);
      const NamedValues& values = *std::find_if(
          all.begin(), all.end(), [&](const auto& each) { return each.name == output->output; });
      const std::vector<size_t> sizes = sizes_in_memory(output->desc), elements = ::compared(sizes);
      const auto begin = at++;  // the RMS
      for (const size_t i : elements) ASSERT_EQ(*at++, values.values.at(i));
      const std::vector<double> allowed(at, at + static_cast<int64_t>(elements.size()));
      at += static_cast<int64_t>(elements.size());
      const Limit limit =
          limit_of(one.layer(), pass, output->desc, values.parameter, one.layer().options().math);
      // A check looks at all elements, and at the mean of what was rounded to be stored.
      if (elements.size() < values.values.size() || limit.storage > 0) continue;
      write_file(file, bytes_of(std::vector<double>(begin, at)));
      for (const double share : {0.03, 0.06, 0.1, 0.5, 0.99, 1.01}) {
        for (const size_t wrong : {size_t(1), allowed.size()}) {
          std::vector<double> found = values.values;
          for (size_t i = 0; i < wrong; ++i) found[i] += share * allowed[i];
          ::Values program(file, 1 + 2 * elements.size());
          testing::internal::CaptureStdout();
          const bool right = ::compare("y", found, sizes, program);
          testing::internal::GetCapturedStdout();
          EXPECT_EQ(right, compare(values.values, found, limit, values.sizes).agrees) << share;
          ++verdicts[right];
        }
      }
    }
    EXPECT_TRUE(at == one.values.end());
    EXPECT_EQ(one.values.size(), count_of_values(one.recorded, one.data));
  }
  EXPECT_GT(zeroed, 0u);
  EXPECT_GT(verdicts[true], 100u);
  EXPECT_GT(verdicts[false], 100u);
}

/// The functions of NVIDIA's libraries that are called in a text, but those that only tell a
/// version or the name of an error.
std::set<std::string> library_calls(const std::string& text) {
  static const std::regex call(R"(\b(cudnn|cublas|cublasLt|cufft)[A-Z]\w*(?=\())");
  static const std::regex tells("Get(Version|Property|StatusName|StatusString)|ErrorString");
  std::set<std::string> names;
  for (std::sregex_iterator found(text.begin(), text.end(), call), end; found != end; ++found) {
    if (!std::regex_search(found->str(), tells)) names.insert(found->str());
  }
  return names;
}

TEST(ExplainRecorder, KnowsEveryFunctionThatDuetCalls) {
  const std::filesystem::path root = DUET_SOURCE_DIR;
  const std::string known = content_of(root / "apps/explain/recorded_functions.cpp");
  size_t calls = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(root / "framework")) {
    const std::string extension = file.path().extension();
    if (extension != ".cpp" && extension != ".h" && extension != ".cu") continue;
    for (const std::string& name : library_calls(content_of(file.path()))) {
      ++calls;
      EXPECT_NE(known.find(" " + name + ","), std::string::npos)
          << file.path() << " calls " << name
          << "; put it into apps/explain/recorded_functions.cpp, or it is not recorded";
    }
  }
  EXPECT_GT(calls, 50u);
}

}  // namespace
}  // namespace duet
