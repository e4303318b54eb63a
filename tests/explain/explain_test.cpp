// What `trainer explain` writes for every implementation of the cudnn family: it compiles, its plain
// loops give what the reference in double gives, and where there is a GPU it ends with 0. Runs with
// the recorder loaded (LD_PRELOAD). All programs are compiled as one, each in a namespace.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

#include "core/error.h"
#include "explain/plain_loops.h"
#include "explain/program.h"
#include "explain_paths.h"
#include "layers/layer_cases.h"
#include "layers/layers.h"
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
  std::shared_ptr<Layer> layer;
  std::string id;
  Pass pass;
  LayerData data;
  Reference reference = {};
  std::string text = "";
};

bool is_plain(const LayerCase& c) {
  const auto plain = [](Data data) { return data != Data::kNonFinite && data != Data::kTies; };
  return c.training && !c.forward_only && plain(c.data) &&
         std::all_of(c.data_of.begin(), c.data_of.end(), plain);
}

/// What a case's program depends on, but for sizes. Convolutions are measured where there is a GPU: there
/// one set of keys has to do.
std::string kind_of(const LayerCase& c, const Layer& layer) {
  std::string kind = std::to_string(static_cast<int>(layer.inputs()[0].layout)) +
                     std::to_string(static_cast<int>(layer.options().math));
  for (const TensorDesc& x : layer.inputs()) kind += std::to_string(x.shape.rank());
  const bool measured = layer.type().starts_with("conv2d") && !recorder_stands_in();
  for (const auto& [key, value] : c.keys) kind += measured ? "" : " " + key;
  return kind;
}

/// A case for each implementation, pass, layout, arithmetic and set of keys.
std::vector<Explained> explained() {
  std::vector<Explained> all;
  std::set<std::string> seen;
  for (const CasesOfType& cases : layer_cases()) {
    for (const LayerCase& c : cases.cases) {
      if (!is_plain(c)) continue;
      const std::shared_ptr<Layer> layer = make_layer(cases.type, c);
      for (const ImplInfo& info : layer->implementations()) {
        const std::string id(info.id);
        if (family_of(id) != Family::kCudnn) continue;
        for (const Pass pass : layer->passes()) {
          if (layer->unsupported(id, pass)) continue;
          const std::string key = std::string(cases.type) + " " + id + " " +
                                  std::string(to_string(pass)) + " " + kind_of(c, *layer);
          if (!seen.insert(key).second) continue;
          LayerData data = make_data(c, *layer);
          data.step = 0;                // what record_layer() runs
          if (layer->takes_labels()) {  // all rows count in a program
            for (double& label : data.x[1]) label = std::max(label, 0.0);
          }
          all.push_back({std::string(cases.type) + " " + c.name, layer, id, pass, data});
        }
      }
    }
  }
  return all;
}

/// The programs of all that is explained.
std::vector<Explained> programs() {
  std::vector<Explained> all = explained(), written;
  for (Explained& one : all) {
    const std::string type(one.layer->type());
    SCOPED_TRACE(one.name + " " + one.id + " " + std::string(to_string(one.pass)));
    if (kCallNothing.count({type, one.pass})) continue;
    try {
      const RecordedLayer recorded = record_layer(one.layer, one.id, one.pass, size_t{1} << 30);
      one.text = program_text(recorded, {one.name, "explained.cpp"});
      std::vector<Pass> passes = {one.pass};
      if (!plain_loops(*one.layer, one.pass)->found.empty() && one.pass != Pass::kForward) {
        passes.insert(passes.begin(), Pass::kForward);
      }
      one.reference = run_reference(*one.layer, one.data, {}, passes, nullptr, Device::kCpu);
      written.push_back(one);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
  return written;
}

/// What of the layer's data stands for NAME_values.
const std::vector<double>* values_of(const Explained& one, const std::string& name) {
  const Layer& layer = *one.layer;
  const auto number = [&](size_t from) {
    return name.size() > from ? std::stoul(name.substr(from)) - 1 : 0;
  };
  if (name == "labels") return &one.data.x[1];
  if (name == "dloss") return &one.data.dy[0];
  if (name[0] == 'x') return &one.data.x[number(1)];
  if (name.rfind("dy", 0) == 0) return &one.data.dy[number(2)];
  for (size_t i = 0; i < layer.parameters().size(); ++i) {
    const std::string& parameter = layer.parameters()[i].name;
    if (parameter == name || (name == "w" && parameter == "weight") ||
        (name == "b" && parameter == "bias")) {
      return &one.data.w[i];
    }
  }
  return nullptr;
}

/// What of the reference stands for an output.
const NamedValues* reference_of(const std::vector<NamedValues>& all, const std::string& name) {
  const std::map<std::string, std::string> names = {{"y", "y[0]"},
                                                    {"loss", "y[0]"},
                                                    {"hits", "y[1]"},
                                                    {"dx", "dx[0]"},
                                                    {"dw", "dw[0] weight"},
                                                    {"db", "dw[1] bias"},
                                                    {"dweight", "dw[0] weight"},
                                                    {"dbias", "dw[1] bias"}};
  std::string wanted = names.count(name) ? names.at(name) : name;
  if (name.rfind("dx", 0) == 0 && name.size() > 2) {
    wanted = "dx[" + std::to_string(std::stoi(name.substr(2)) - 1) + "]";
  }
  for (const NamedValues& values : all) {
    if (values.name == wanted) return &values;
  }
  return nullptr;
}

/// The names in "std::vector<float> NAME_values = pattern(".
std::vector<std::string> inputs_of(const std::string& text) {
  const std::string begin = "std::vector<float> ", end = "_values = pattern(";
  std::vector<std::string> names;
  for (size_t at = 0; (at = text.find(end, at)) != std::string::npos; ++at) {
    const size_t from = text.rfind(begin, at) + begin.size();
    names.push_back(text.substr(from, at - from));
  }
  return names;
}

/// Programs in a namespace each, without their includes, which come first.
std::string bodies_of(const std::vector<Explained>& all) {
  std::set<std::string> includes;
  std::string bodies;
  for (size_t i = 0; i < all.size(); ++i) {
    bodies += "namespace program_" + std::to_string(i) + " {\n#undef CHECK\n";
    for (const std::string& line : lines_of(all[i].text)) {
      if (line.rfind("#include", 0) == 0) {
        includes.insert(line);
      } else {
        bodies += line + "\n";
      }
    }
    bodies += "}\n";
  }
  std::string text;
  for (const std::string& include : includes) text += include + "\n";
  return text + "#include <fstream>\n" + bodies;
}

/// All programs as one: with two files the plain loops of all, on the values in one into the other;
/// with a number that program itself.
std::string joined(const std::vector<Explained>& all) {
  std::string loops, cases;
  for (size_t i = 0; i < all.size(); ++i) {
    const std::string space = "program_" + std::to_string(i);
    cases += "    case " + std::to_string(i) + ": return " + space + "::main();\n";
    for (const std::string& name : inputs_of(all[i].text)) {
      loops += "  take(" + space + "::" + name + "_values);\n";
    }
    const PlainLoops plain = *plain_loops(*all[i].layer, all[i].pass);
    if (!plain.found.empty()) loops += "  take(" + space + "::" + plain.found + "_found);\n";
    if (!plain.prepare.empty()) loops += "  " + space + "::prepare();\n";
    for (const PlainLoops::Output& output : plain.outputs) {
      loops += "  give(" + space + "::plain_" + output.name + ");\n";
    }
  }
  return bodies_of(all) + R"(
std::ifstream in;
std::ofstream out;
template <class T>
void take(std::vector<T>& values) {
  size_t count = 0;
  in >> count;
  values.resize(count);
  for (T& value : values) in >> value;
}
template <class Expected>
void give(Expected (*plain)(size_t)) {
  size_t count = 0;
  in >> count;
  for (size_t i = 0; i < count; ++i) out << plain(i).value << ' ';
}
void run_loops(char** files) {
  in.open(files[0]);
  out.open(files[1]);
  out.precision(17);
)" + loops +
         R"(}
int main(int argc, char** argv) {
  if (argc == 3) return run_loops(argv + 1), 0;
  switch (std::atoi(argv[1])) {
)" + cases +
         "  }\n  return -1;\n}\n";
}

void write_all(const std::vector<double>& values, std::ofstream& file) {
  file << values.size() << '\n';
  for (const double value : values) file << static_cast<float>(value) << ' ';
}

/// What the plain loops of all are given: the values of every tensor, and how many to compute.
void write_values(const std::vector<Explained>& all, const std::string& path) {
  std::ofstream file(path);
  file.precision(9);
  for (const Explained& one : all) {
    for (const std::string& name : inputs_of(one.text)) {
      const std::vector<double>* const values = values_of(one, name);
      ASSERT_NE(values, nullptr) << name;
      write_all(*values, file);
    }
    const PlainLoops plain = *plain_loops(*one.layer, one.pass);
    if (!plain.found.empty()) {
      const NamedValues* const found = reference_of(one.reference.of(Pass::kForward), plain.found);
      ASSERT_NE(found, nullptr) << plain.found;
      write_all(found->values, file);
    }
    for (const PlainLoops::Output& output : plain.outputs) {
      const NamedValues* const expected = reference_of(one.reference.of(one.pass), output.name);
      ASSERT_NE(expected, nullptr) << output.name;
      file << '\n' << expected->values.size() << '\n';
    }
  }
}

std::string title_of(const Explained& one) {
  return one.name + " " + one.id + " " + std::string(to_string(one.pass));
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
  for (const Explained& one : programs) names.insert(std::string(one.layer->type()) + " " + one.id);
  return names;
}

class ExplainPrograms : public testing::Test {
 protected:
  static int run(const std::string& command) {
    const int status = std::system(("env -u LD_PRELOAD " + command).c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  static bool compile(const std::string& source, const std::string& program) {
    return run(DUET_EXPLAIN_COMPILER " -std=c++17 -O0 -w " + source + " -o " + program +
               " " DUET_EXPLAIN_FLAGS) == 0;
  }
  TemporaryFolder folder_;
};

TEST_F(ExplainPrograms, CompileAndTheirLoopsAreTheLayers) {
  const std::vector<Explained> all = programs();
  EXPECT_EQ(implementations_of(all), implementations());
  ASSERT_GT(all.size(), 150u);
  const std::string source = folder_ / "all.cpp", program = folder_ / "all";
  const std::string in = folder_ / "in", out = folder_ / "out";
  std::ofstream(source) << joined(all);
  ASSERT_TRUE(compile(source, program)) << source;
  write_values(all, in);
  ASSERT_EQ(run(program + " " + in + " " + out), 0);
  std::ifstream file(out);
  for (const Explained& one : all) {
    SCOPED_TRACE(title_of(one));
    const auto outputs = plain_loops(*one.layer, one.pass)->outputs;
    for (const PlainLoops::Output& output : outputs) {
      const std::vector<double>& expected =
          reference_of(one.reference.of(one.pass), output.name)->values;
      for (size_t k = 0; k < expected.size(); ++k) {
        std::string word;
        file >> word;
        ASSERT_NEAR(std::stod(word), expected[k], 1e-5 * (1 + std::fabs(expected[k])))
            << output.name << " " << k;
      }
    }
  }
  for (size_t i = 0; i < all.size(); ++i) {
    if (i > 0 && recorder_stands_in()) break;  // they all end at once
    const int code = run(program + " " + std::to_string(i) + " > " + out);
    EXPECT_EQ(code, recorder_stands_in() ? 3 : 0) << title_of(all[i]) << "\n" << all[i].text;
  }
}

/// The functions of NVIDIA's libraries that are called in a text, but those that only tell a version
/// or the name of an error.
std::set<std::string> library_calls(const std::string& text) {
  static const std::regex call(R"(\b(cudnn|cublas|cublasLt|cufft)[A-Z]\w*(?=\())");
  static const std::regex tells("Get(Version|Property|StatusName|StatusString)|ErrorString");
  std::set<std::string> names;
  for (std::sregex_iterator found(text.begin(), text.end(), call), end; found != end; ++found) {
    if (!std::regex_search(found->str(), tells)) names.insert(found->str());
  }
  return names;
}

std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
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
