// The lists of layers, implementations and cases are whole, and the driver finds what is wrong.
#include "support/layer_driver.h"

#include <gtest/gtest-spi.h>

#include <set>

#include "layers/activation/activation.h"
#include "layers/layer_cases.h"
#include "layers/layers.h"
#include "layers/split_products.h"
#include "support/text.h"

namespace duet {
namespace {

TEST(LayerLists, EveryTypeHasCases) {
  std::set<std::string_view> with_cases;
  for (const CasesOfType& row : layer_cases()) {
    EXPECT_TRUE(find_layer_type(row.type)) << "cases of an unknown layer type '" << row.type << "'";
    EXPECT_FALSE(row.cases.empty()) << row.type;
    EXPECT_TRUE(with_cases.insert(row.type).second) << row.type << " is listed twice";
  }
  for (const LayerType* type : layer_types()) {
    EXPECT_TRUE(with_cases.count(type->name))
        << "layer type '" << type->name << "' has no row in tests/layers/layer_cases.cpp";
  }
}

TEST(LayerLists, CaseNamesAreUnique) {
  for (const CasesOfType& row : layer_cases()) {
    std::set<std::string> names;
    for (const LayerCase& c : row.cases) {
      EXPECT_FALSE(c.name.empty()) << row.type;
      EXPECT_TRUE(names.insert(c.name).second) << row.type << ": " << c.name;
    }
  }
}

TEST(LayerLists, TypeNamesAreUnique) {
  std::set<std::string_view> names;
  for (const LayerType* type : layer_types()) {
    EXPECT_TRUE(names.insert(type->name).second) << type->name;
    EXPECT_FALSE(type->summary.empty()) << type->name;
  }
}

TEST(LayerLists, IdsAreUniqueAndStartWithAFamily) {
  for (const LayerType* type : layer_types()) {
    std::set<std::string_view> ids;
    for (const ImplInfo& info : type->implementations()) {
      EXPECT_TRUE(ids.insert(info.id).second)
          << type->name << ": " << info.id << " is listed twice";
      const std::string_view family = to_string(family_of(info.id));
      EXPECT_TRUE(info.id == family || info.id.substr(family.size(), 1) == "_") << info.id;
    }
  }
}

TEST(LayerLists, EveryListHasAReferenceThatDoesEverything) {
  for (const CasesOfType& row : layer_cases()) {
    for (const LayerCase& c : row.cases) {
      for (DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBFloat16}) {
        const auto layer = make_layer(row.type, c, dtype);
        if (layer->passes().empty()) continue;
        // Of parts, which would round to bfloat16 in between.
        const bool parts = row.type == "conv2d_pool_relu" ||
                           row.type == "batch_norm1d_relu_softmax" ||
                           (row.type == "batch_norm2d_relu_pool" && has(c.name, "overlapping"));
        if (dtype == DType::kBFloat16 && parts) continue;
        EXPECT_EQ(layer->type(), row.type);
        for (Pass pass : layer->passes()) {
          EXPECT_FALSE(layer->unsupported("cpu_reference", pass)) << row.type << " " << c.name;
        }
      }
    }
  }
}

TEST(LayerLists, AnEntrySaysWhatItStores) {
  const LayerCase conv{.keys = {{"out_channels", "2"}, {"kernel", "3"}}, .x = {{{2, 3, 6, 6}}}};
  const auto layer = make_layer("conv2d", in_bf16(conv));
  const std::set<std::string_view> in_both = {"cpu_reference",
                                              "custom_direct",
                                              "custom_implicit_gemm",
                                              "custom_implicit_gemm_double_buffered",
                                              "custom_implicit_gemm_register_tiled",
                                              "custom_implicit_gemm_tiled",
                                              "custom_im2col",
                                              "custom_mma",
                                              "custom_naive",
                                              "cudnn",
                                              "cudnn_graph"};
  for (const ImplInfo& info : layer->implementations()) {
    const auto reason = layer->unsupported(info.id, Pass::kForward);
    if (in_both.count(info.id)) {
      EXPECT_FALSE(reason);
    } else if (info.id == "custom_depthwise") {  // stores both, and asks for other groups
      EXPECT_TRUE(has(reason.value_or(""), "groups is 1 of 3 channels")) << reason.value_or("");
    } else if (info.id.starts_with("custom_wgmma") &&
               !multiplies_in_parts(info.id)) {  // of more channels
      EXPECT_TRUE(has(reason.value_or(""), " and fewer")) << reason.value_or("");
    } else {
      EXPECT_EQ(reason, "stores float32 only, and 'math' is bf16") << info.id;
    }
  }
  LayerCase block = conv;
  block.keys.emplace_back("pool_kernel", "2");
  const auto block_layer = make_layer("conv2d_pool_relu", in_bf16(block));
  for (const ImplInfo& info : block_layer->implementations()) {
    const bool both =
        info.id == "custom_direct" || info.id == "custom_mma" || info.id == "custom_split_k";
    for (Pass pass : block_layer->passes()) {
      EXPECT_EQ(!block_layer->unsupported(info.id, pass), both) << info.id;
    }
  }
  EXPECT_EQ(block_layer->unsupported("cpu_reference", Pass::kForward),
            "stores float32 and float64 only, and 'math' is bf16");
  EXPECT_EQ(make_layer("conv2d", conv, DType::kFloat64)->unsupported("cpu_blas", Pass::kForward),
            "stores float32 only, not float64");
}

// Only in a build with CUDA are there others than the CPU's.
TEST(LayerLists, EveryFamilyStoresBf16) {
  for (const CasesOfType& row : layer_cases()) {
    if (row.type == "batch_norm1d_relu_softmax" || row.type == "conv2d_pool_relu" ||
        row.type == "softmax_dropout") {
      continue;
    }
    const auto layer = make_layer(row.type, in_bf16(row.cases.front()));
    if (layer->passes().empty()) continue;
    std::set<Family> all, storing;
    for (const ImplInfo& info : layer->implementations()) {
      all.insert(family_of(info.id));
      if (!layer->unsupported(info.id, Pass::kForward)) storing.insert(family_of(info.id));
    }
    EXPECT_EQ(all, storing) << row.type << " " << layer->problem_text();
  }
}

TEST(LayerLists, ParametersAndTheLossAreNotStoredInBf16) {
  for (const CasesOfType& row : layer_cases()) {
    const auto layer = make_layer(row.type, in_bf16(row.cases.front()));
    EXPECT_EQ(layer->inputs()[0].dtype, DType::kBFloat16) << row.type;
    const DType y = layer->is_end() ? DType::kFloat32 : DType::kBFloat16;
    EXPECT_EQ(layer->outputs()[0].dtype, y) << row.type;
    for (const ParameterSpec& p : layer->parameters()) {
      EXPECT_EQ(p.desc.dtype, DType::kFloat32) << row.type << " " << p.name;
    }
  }
}

TEST(LayerLists, ALayerAndItsTypeHaveTheSameList) {
  for (const CasesOfType& row : layer_cases()) {
    const LayerType* type = find_layer_type(row.type);
    if (!type) continue;
    const auto of_layer = make_layer(row.type, row.cases.front())->implementations();
    const auto of_type = type->implementations();
    ASSERT_EQ(of_layer.size(), of_type.size()) << row.type;
    for (size_t i = 0; i < of_type.size(); ++i) EXPECT_EQ(of_layer[i].id, of_type[i].id);
  }
}

// An implementation of relu that is wrong in a way of one's choice, driven like all others.
enum class Mistake {
  kNone,
  kPastTheEnd,
  kChangesInput,
  kHalfWritten,
  kAccumulates,
  kInaccurate,
  kUnrepeatable,
  kThrows
};
Mistake mistake = Mistake::kNone;

class FaultyRelu : public Implementation {
 public:
  explicit FaultyRelu(const ActivationProblem&) {}
  void run(Pass pass, const Run&, const LayerTensors& t) override {
    const bool forward = pass == Pass::kForward;
    const Tensor out = forward ? t.y[0] : t.dx[0];
    if (!out) return;
    const int64_t n = out.elements();
    const float* x = t.x[0].data<float>();
    for (int64_t i = 0; i < (mistake == Mistake::kHalfWritten ? n / 2 : n); ++i) {
      const float value = x[i] > 0 ? (forward ? x[i] : t.dy[0].data<float>()[i]) : 0.0f;
      out.data<float>()[i] =
          value + (mistake == Mistake::kAccumulates ? out.data<float>()[i] : 0.0f);
    }
    if (mistake == Mistake::kInaccurate) out.data<float>()[18] += 0.5f;
    if (mistake == Mistake::kThrows) throw 7;
    static int runs = 0;
    if (mistake == Mistake::kUnrepeatable) out.data<float>()[0] += 5e-7f * ++runs;
    if (mistake == Mistake::kPastTheEnd) out.data<float>()[n] = 0;
    if (mistake == Mistake::kChangesInput) t.x[0].data<float>()[0] += 1;
  }
};

/// The messages of the failures that checking FaultyRelu gives.
std::string failures_of(Mistake m, Pass pass) {
  static const ActivationLayer::ImplList list = {
      {"cpu_faulty", supports_all, make_implementation<FaultyRelu>}};
  ActivationLayer layer("relu", list, ActivationKind::kRelu);
  const LayerCase c{.name = "faulty", .x = {{{4, 9}}}};
  layer.bind(c.x, c.options);
  const CheckData check_data = make_check_data("relu", c);
  mistake = m;
  testing::TestPartResultArray results;
  {
    testing::ScopedFakeTestPartResultReporter reporter(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &results);
    check_pass(layer, c.name, "cpu_faulty", pass, check_data);
  }
  std::string text;
  for (int i = 0; i < results.size(); ++i) {
    if (results.GetTestPartResult(i).failed()) text += results.GetTestPartResult(i).message();
  }
  return text;
}

TEST(LayerDriver, PassesWhatIsRight) {
  EXPECT_EQ(failures_of(Mistake::kNone, Pass::kForward), "");
  EXPECT_EQ(failures_of(Mistake::kNone, Pass::kBackward), "");
}

TEST(LayerDriver, FindsWhatIsWrong) {
  const std::pair<Mistake, std::vector<std::string>> mistakes[] = {
      {Mistake::kPastTheEnd, {"writes outside: ", "written after the end"}},
      {Mistake::kChangesInput, {"changes its input: ", "input x[0] was changed"}},
      {Mistake::kHalfWritten, {"half written: ", "18 of 36 elements", "the worst at [2,0]"}},
      {Mistake::kAccumulates, {"unwritten: "}},
      {Mistake::kInaccurate, {"wrong: ", "of limit"}},
      {Mistake::kUnrepeatable, {"not deterministic: "}},
      {Mistake::kThrows, {"failed: "}},
  };
  for (const auto& [m, message] : mistakes) {
    for (Pass pass : {Pass::kForward, Pass::kBackward}) {
      EXPECT_TRUE(has(failures_of(m, pass), message));
    }
  }
}

TEST(LayerDriver, SaysWhatFailedAndWhere) {
  const std::string text = failures_of(Mistake::kInaccurate, Pass::kBackward);
  EXPECT_TRUE(has(text, "relu cpu_faulty backward, case faulty, x=4x9 float32", "dx[0]",
                  "max error", "RMS-relative", "at [2,0]", "limit: atol"));
}

}  // namespace
}  // namespace duet
