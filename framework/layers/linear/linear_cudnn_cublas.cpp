// linear, cudnn_cublas: each pass is one cuBLAS product, its bias work in the epilogue where
// cuBLASLt has one.
//
// cuBLAS is column-major, and a row-major matrix is its own transpose read column by column. So the
// transposed equations are handed over, and nothing is ever moved:
//   forward           y^T[out,N]  = op(w) x^T      A = w, in x out, transposed   B = x, in x N
//   backward_data    dx^T[in,N]   = w^T dy^T       A = w, in x out               B = dy, out x N
//   backward_filter  dw^T[in,out] = x^T op(dy)     A = x, in x N    B = dy, out x N, transposed
// fp32 asks for the pedantic compute type: the ordinary one leaves cuBLAS free to leave fp32.
// In bf16 A and B are bfloat16, sums and dw float32. The weights and the bias are float32: they are
// rounded into the workspace at each call. Sums may not be split in ways that add up in bfloat16.
//
// prepare() times what the heuristics of cuBLASLt propose, and cublasGemmEx, in a graph and keeps
// the fastest. linear_relu's relu is in the epilogue too, or else one more call. The choice is
// remembered in the user's cache folder: of equally fast algorithms another would win each run, and
// the last bits of results would change with it.
#include <cublasLt.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <tuple>

#include "core/arena.h"
#include "core/error.h"
#include "core/storage.h"
#include "device/check.h"
#include "device/cudnn_descriptors.h"
#include "device/graph_time.h"
#include "device/tuning_cache.h"
#include "kernels/convert.h"
#include "layers/linear/linear.h"

namespace duet {
namespace {

constexpr int kProposals = 16;                       // of each kind
constexpr size_t kMostWorkspace = size_t{32} << 20;  // what cuBLAS takes by itself on Hopper
constexpr uint32_t kPointerAlignment = 16;           // promised to the heuristics

template <class T, cublasStatus_t (*destroy)(T)>
class Handle {
 public:
  Handle() = default;
  ~Handle() {
    if (value_) destroy(value_);
  }
  Handle(Handle&& other) noexcept : value_(std::exchange(other.value_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  T* out() { return &value_; }
  operator T() const { return value_; }

 private:
  T value_ = nullptr;
};
using MatmulDesc = Handle<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using MatrixLayout = Handle<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Preference = Handle<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

/// D (m x n) = op(A) op(B), column-major, densely packed.
struct Product {
  int m, n, k;
  bool transpose_a, transpose_b;

  int lda() const { return transpose_a ? k : m; }
  int ldb() const { return transpose_b ? n : k; }
  int64_t a_elements() const { return int64_t{m} * k; }
  int64_t b_elements() const { return int64_t{k} * n; }
  int64_t d_elements() const { return int64_t{m} * n; }
};

/// What a pass does with the bias: adds it to every column of D, or sums B over k into it.
enum class BiasWork { kNone, kAdd, kGradient };

struct Operands {
  const void* a;
  const void* b;
  void* d;
  void* bias;
};

cudaDataType_t cuda_type(DType dtype) {
  return dtype == DType::kBFloat16 ? CUDA_R_16BF : CUDA_R_32F;
}

/// `operands` of A and B, `result` of D and the bias.
struct Types {
  DType operands = DType::kFloat32, result = DType::kFloat32;
};

/// The product of one pass and the way chosen to compute it.
class PassPlan {
 public:
  PassPlan(const Product& product, BiasWork bias_work, bool relu, Math math, const Types& types)
      : product_(product), bias_work_(bias_work), types_(types) {
    compute_ = narrow()              ? CUBLAS_COMPUTE_32F
               : math == Math::kTF32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                     : CUBLAS_COMPUTE_32F_PEDANTIC;
    for (MatmulDesc* desc : {&fused_, &plain_}) {
      DUET_CUBLAS(cublasLtMatmulDescCreate(desc->out(), compute_, CUDA_R_32F));
      set(*desc, CUBLASLT_MATMUL_DESC_TRANSA, op(product.transpose_a));
      set(*desc, CUBLASLT_MATMUL_DESC_TRANSB, op(product.transpose_b));
    }
    if (relu) {
      relu_.emplace(TensorDesc{{product.n, product.m}, types.result});
      set(fused_, CUBLASLT_MATMUL_DESC_EPILOGUE,
          bias_work == BiasWork::kAdd ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU);
    } else if (bias_work != BiasWork::kNone) {
      set(fused_, CUBLASLT_MATMUL_DESC_EPILOGUE,
          bias_work == BiasWork::kAdd ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_BGRADB);
    }
    if (bias_work != BiasWork::kNone) {
      if (narrow()) {
        set(fused_, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE,
            static_cast<int32_t>(cuda_type(types.result)));
      }
    }
    const Product& p = product;
    layout(a_, types.operands, p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k);
    layout(b_, types.operands, p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n);
    layout(d_, types.result, p.m, p.n);
  }

  size_t workspace_bytes() const { return choice_.workspace; }
  std::string detail() const { return text(choice_); }
  /// The functions of the libraries that multiply() calls.
  std::vector<std::string> calls() const {
    const std::string product = choice_.kind == Kind::kGemmEx ? "cublasGemmEx" : "cublasLtMatmul";
    if (choice_.kind == Kind::kLtFused) return {product};
    std::vector<std::string> all = {product};
    if (bias_work_ == BiasWork::kAdd) all.insert(all.begin(), "cublasGemmEx");
    if (bias_work_ == BiasWork::kGradient) all.push_back(narrow() ? "cublasGemmEx" : "cublasSgemv");
    if (relu_) all.push_back("cudnnActivationForward");
    return all;
  }

  /// `ones` has as many elements as the batch, of the operands' type; `workspace` has
  /// workspace_bytes().
  void multiply(Context& context, const Operands& operands, const void* ones, void* workspace) {
    multiply(choice_, context, operands, ones, workspace);
  }

  /// Fills choice_, from the cache entry `key` or by a search. Operands are scratch memory of the
  /// right sizes.
  void choose(Context& context, const Operands& scratch, const void* ones, const Buffer& workspace,
              const std::string& key) {
    static TuningCache cache(TuningCache::path_of("cublas_algorithms.json"));
    if (recall(cache.find(key), context, workspace.bytes())) return;
    double best = std::numeric_limits<double>::infinity();
    for (const Choice& choice : candidates(context, scratch, workspace.bytes())) {
      try {
        const double time = microseconds_in_graph(
            context, [&] { multiply(choice, context, scratch, ones, workspace.data()); }, best);
        if (time >= best || !keeps_nan(choice, context, scratch, ones, workspace.data())) continue;
        best = time;
        choice_ = choice;
      } catch (const DeviceError&) {
        // A proposal may still refuse when it is run; the next one is tried.
      }
    }
    if (best == std::numeric_limits<double>::infinity()) {
      throw DeviceError("cuBLAS ran no product of the linear layer (" + key + ")");
    }
    remember(cache, key);
  }

 private:
  enum class Kind { kLtFused, kLtPlain, kGemmEx };
  struct Choice {
    Kind kind = Kind::kGemmEx;
    cublasLtMatmulAlgo_t algo{};
    size_t workspace = 0;
  };

  static cublasOperation_t op(bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; }

  template <class T>
  static void set(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute, T value) {
    DUET_CUBLAS(cublasLtMatmulDescSetAttribute(desc, attribute, &value, sizeof value));
  }

  static void layout(MatrixLayout& layout, DType dtype, int rows, int columns) {
    DUET_CUBLAS(cublasLtMatrixLayoutCreate(layout.out(), cuda_type(dtype), rows, columns, rows));
  }

  bool narrow() const { return types_.operands == DType::kBFloat16; }
  bool has_epilogue() const { return bias_work_ != BiasWork::kNone || relu_; }
  void bind_bias(void* bias) {
    if (bias_work_ != BiasWork::kNone) set(fused_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  }

  /// An algorithm is eight opaque words.
  static constexpr size_t kAlgoWords = std::size(cublasLtMatmulAlgo_t{}.data);

  void remember(TuningCache& cache, const std::string& key) const {
    TuningCache::Entry entry = {{"kind", static_cast<int64_t>(choice_.kind)},
                                {"workspace", static_cast<int64_t>(choice_.workspace)}};
    for (size_t i = 0; i < kAlgoWords; ++i) {
      entry["word" + std::to_string(i)] = static_cast<int64_t>(choice_.algo.data[i]);
    }
    cache.insert(key, entry);
  }

  /// False if the entry is absent or is nothing that this cuBLAS would run.
  bool recall(const std::optional<TuningCache::Entry>& entry, Context& context, size_t workspace) {
    if (!entry || entry->size() != 2 + kAlgoWords || !entry->count("kind")) return false;
    Choice choice;
    choice.kind = static_cast<Kind>(entry->at("kind"));
    if (choice.kind < Kind::kLtFused || choice.kind > Kind::kGemmEx) return false;
    if (choice.kind == Kind::kLtFused && !has_epilogue()) return false;
    for (size_t i = 0; i < kAlgoWords; ++i) {
      const auto word = entry->find("word" + std::to_string(i));
      if (word == entry->end()) return false;
      choice.algo.data[i] = static_cast<uint64_t>(word->second);
    }
    if (choice.kind != Kind::kGemmEx) {
      cublasLtMatmulHeuristicResult_t result;
      if (cublasLtMatmulAlgoCheck(lt(context), choice.kind == Kind::kLtFused ? fused_ : plain_, a_,
                                  b_, d_, d_, &choice.algo, &result) != CUBLAS_STATUS_SUCCESS ||
          result.workspaceSize > workspace) {
        return false;
      }
      choice.workspace = result.workspaceSize;
    }
    choice_ = choice;
    return true;
  }

  // The handle of cuBLAS is also one of cuBLASLt.
  static cublasLtHandle_t lt(Context& context) {
    return reinterpret_cast<cublasLtHandle_t>(context.cublas());
  }

  std::vector<Choice> candidates(Context& context, const Operands& scratch, size_t workspace) {
    std::vector<Choice> choices;
    if (has_epilogue()) {
      bind_bias(scratch.bias);
      propose(context, Kind::kLtFused, workspace, choices);
    }
    propose(context, Kind::kLtPlain, workspace, choices);
    choices.push_back({});
    return choices;
  }

  void propose(Context& context, Kind kind, size_t workspace, std::vector<Choice>& choices) {
    Preference preference;
    DUET_CUBLAS(cublasLtMatmulPreferenceCreate(preference.out()));
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
      DUET_CUBLAS(
          cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value));
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, kPointerAlignment);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, kPointerAlignment);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, kPointerAlignment);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, kPointerAlignment);
    if (narrow()) {
      prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
             static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    }

    cublasLtMatmulHeuristicResult_t results[kProposals];
    int count = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(lt(context), kind == Kind::kLtFused ? fused_ : plain_, a_,
                                       b_, d_, d_, preference, kProposals, results, &count);
    if (status != CUBLAS_STATUS_SUCCESS) return;  // NOT_SUPPORTED: nothing computes this so
    for (int i = 0; i < count; ++i) {
      if (results[i].state == CUBLAS_STATUS_SUCCESS) {
        choices.push_back({kind, results[i].algo, results[i].workspaceSize});
      }
    }
  }

  void multiply(const Choice& choice, Context& context, const Operands& operands, const void* ones,
                void* workspace) {
    const bool fused = choice.kind == Kind::kLtFused;
    float beta = 0.0f;
    if (!fused && bias_work_ == BiasWork::kAdd) {
      beta = 1.0f;  // D = bias * ones^T, then D += the product
      gemm_ex(context, {product_.m, product_.n, 1, false, false},
              narrow() ? compute_ : CUBLAS_COMPUTE_32F_PEDANTIC, operands.bias, ones, 0.0f,
              operands.d);
    }
    if (choice.kind == Kind::kGemmEx) {
      gemm_ex(context, product_, compute_, operands.a, operands.b, beta, operands.d);
    } else {
      const MatmulDesc& desc = fused ? fused_ : plain_;
      if (fused) bind_bias(operands.bias);
      const float alpha = 1.0f;
      DUET_CUBLAS(cublasLtMatmul(lt(context), desc, &alpha, operands.a, a_, operands.b, b_, &beta,
                                 operands.d, d_, operands.d, d_, &choice.algo, workspace,
                                 choice.workspace, context.stream()));
    }
    if (!fused && relu_) {
      const float alpha = 1.0f, zero = 0.0f;
      DUET_CUDNN(cudnnActivationForward(context.cudnn(), relu_->function.get(), &alpha,
                                        relu_->tensor.get(), operands.d, &zero, relu_->tensor.get(),
                                        operands.d));
    }
    if (!fused && bias_work_ == BiasWork::kGradient) {
      // B is stored n x k (it is transposed in the product): db = B ones.
      if (narrow()) {
        return gemm_ex(context, {product_.n, 1, product_.k, false, false}, compute_, operands.b,
                       ones, 0.0f, operands.bias);
      }
      const float alpha = 1.0f, zero = 0.0f;
      DUET_CUBLAS(cublasSgemv(context.cublas(), CUBLAS_OP_N, product_.n, product_.k, &alpha,
                              static_cast<const float*>(operands.b), product_.n,
                              static_cast<const float*>(ones), 1, &zero,
                              static_cast<float*>(operands.bias), 1));
    }
  }

  /// An epilogue's relu might make 0 of a NaN, where PyTorch's hands it on.
  bool keeps_nan(const Choice& choice, Context& context, const Operands& scratch, const void* ones,
                 void* workspace) {
    if (!relu_ || choice.kind != Kind::kLtFused) return true;
    const size_t bytes = size_of(types_.operands) * static_cast<size_t>(product_.a_elements());
    Operands operands = scratch;
    const Buffer nan(Device::kGpu, bytes);
    fill_bytes(nan.data(), Device::kGpu, 0xff, bytes);
    operands.a = nan.data();
    multiply(choice, context, operands, ones, workspace);
    context.synchronize();
    bool is_nan = false;
    visit_gpu_storage(types_.result, [&](auto first) {
      copy_bytes(&first, Device::kCpu, operands.d, Device::kGpu, sizeof first);
      is_nan = std::isnan(static_cast<float>(first));
    });
    return is_nan;
  }

  void gemm_ex(Context& context, const Product& p, cublasComputeType_t compute, const void* a,
               const void* b, float beta, void* d) const {
    const float alpha = 1.0f;
    const cudaDataType_t operands = cuda_type(types_.operands), result = cuda_type(types_.result);
    constexpr auto kSumsInFloat = static_cast<cublasMath_t>(
        CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);
    if (narrow()) DUET_CUBLAS(cublasSetMathMode(context.cublas(), kSumsInFloat));
    const cublasStatus_t status = cublasGemmEx(
        context.cublas(), op(p.transpose_a), op(p.transpose_b), p.m, p.n, p.k, &alpha, a, operands,
        p.lda(), b, operands, p.ldb(), &beta, d, result, p.m, compute, CUBLAS_GEMM_DEFAULT);
    if (narrow()) DUET_CUBLAS(cublasSetMathMode(context.cublas(), CUBLAS_DEFAULT_MATH));
    DUET_CUBLAS(status);
  }

  std::string text(const Choice& choice) const {
    const std::string where = choice.kind == Kind::kLtFused ? " fused" : " apart";
    std::string bias = bias_work_ == BiasWork::kNone ? "" : ", bias" + where;
    if (relu_) bias += ", relu" + where;
    if (choice.kind == Kind::kGemmEx) return "GemmEx" + bias;
    const auto value = [&](cublasLtMatmulAlgoConfigAttributes_t attribute) {
      int32_t number = 0;
      size_t written = 0;
      (void)cublasLtMatmulAlgoConfigGetAttribute(&choice.algo, attribute, &number, sizeof number,
                                                 &written);
      return std::to_string(number);
    };
    return "Lt algorithm " + value(CUBLASLT_ALGO_CONFIG_ID) + " tile " +
           value(CUBLASLT_ALGO_CONFIG_TILE_ID) + " split-K " +
           value(CUBLASLT_ALGO_CONFIG_SPLITK_NUM) + bias;
  }

  /// In place, where no epilogue has it.
  struct Relu {
    explicit Relu(const TensorDesc& desc) : tensor(desc), function(CUDNN_ACTIVATION_RELU) {}
    gpu::TensorDescriptor tensor;
    gpu::ActivationDescriptor function;
  };

  Product product_;
  BiasWork bias_work_;
  std::optional<Relu> relu_;
  Types types_;
  cublasComputeType_t compute_;
  MatmulDesc fused_, plain_;
  MatrixLayout a_, b_, d_;
  Choice choice_;
};

class LinearCublas : public LinearImpl {
 public:
  explicit LinearCublas(const LinearProblem& problem)
      : LinearImpl(problem), ones_(Device::kGpu, size_of(problem.dtype) * problem.n) {
    visit_gpu_storage(problem.dtype, [&](auto zero) {
      using T = decltype(zero);
      const std::vector<T> ones(problem_.n, T(1.0f));
      copy_bytes(ones_.data(), Device::kGpu, ones.data(), Device::kCpu, ones_.bytes());
    });
  }

  void prepare(Pass pass, Context& context) override {
    const auto [n, in, out] = std::tuple(problem_.n, problem_.in, problem_.out);
    Product product{out, n, in, true, false};
    BiasWork work = problem_.bias ? BiasWork::kAdd : BiasWork::kNone;
    if (pass == Pass::kBackwardData) {
      product = {in, n, out, false, false};
      work = BiasWork::kNone;
    } else if (pass == Pass::kBackwardFilter) {
      product = {in, out, n, false, true};
      work = problem_.bias ? BiasWork::kGradient : BiasWork::kNone;
    }
    const DType sums = accumulator_of(problem_.dtype);
    const Types types = {.operands = problem_.dtype,
                         .result = pass == Pass::kBackwardFilter ? sums : problem_.dtype};
    ArenaPlan plan;
    const size_t a = plan.reserve(size_of(types.operands) * product.a_elements());
    const size_t b = plan.reserve(size_of(types.operands) * product.b_elements());
    const size_t d = plan.reserve(size_of(types.result) * product.d_elements());
    const size_t bias = plan.reserve(size_of(types.result) * out);
    const Buffer scratch(Device::kGpu, plan.bytes());
    fill_bytes(scratch.data(), Device::kGpu, 0x3c, scratch.bytes());  // 0.0115 as a float
    const Operands operands{scratch.at(a), scratch.at(b), scratch.at(d), scratch.at(bias)};
    const Buffer workspace(Device::kGpu, std::min(context.workspace_limit(), kMostWorkspace));

    const bool relu = problem_.relu && pass == Pass::kForward;
    if (relu) context.cudnn();  // made before anything is captured
    plans_.erase(pass);
    PassPlan& chosen =
        plans_.try_emplace(pass, product, work, relu, problem_.math, types).first->second;
    chosen.choose(context, operands, ones_.data(), workspace,
                  problem_.to_string() + (relu ? " relu" : "") + " | " +
                      std::string(to_string(pass)) + " | " + gpu_name() + " | cuBLASLt " +
                      std::to_string(cublasLtGetVersion()) + " | workspace " +
                      std::to_string(workspace.bytes()));
  }

  size_t workspace_bytes(Pass pass) const override {
    return narrow_bytes(pass) + plans_.at(pass).workspace_bytes();
  }
  std::string detail(Pass pass) const override {
    return plans_.at(pass).detail() + (narrow_bytes(pass) > 0 ? ", weights in bf16" : "");
  }
  std::vector<std::string> calls(Pass pass) const override { return plans_.at(pass).calls(); }

  void forward(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b,
               const Tensor& y) override {
    void* const prepared = run.ports.prepared_w.memory;
    void* const stored = prepared ? prepared : run.workspace;
    if (!prepared) store_parameters(run, w, b, stored);
    const void* const bias = as_stored(b, stored, narrow_weight_bytes());
    multiply(Pass::kForward, run,
             {as_stored(w, stored, 0), x.memory, y.memory, const_cast<void*>(bias)});
  }
  std::vector<PortUse> ports(Pass pass, bool inference) const override {
    return prepared_for(pass, inference, [this] { return narrow_bytes(Pass::kForward); });
  }
  void prepare_weights(const Run& run, const LayerTensors& t) override {
    store_parameters(run, t.w[0], problem_.bias ? t.w[1] : Tensor{}, run.ports.prepared_w.memory);
  }

  void backward_data(const Run& run, const Tensor& dy, const Tensor& w, const Tensor& dx) override {
    store_parameters(run, w, {}, run.workspace);
    multiply(Pass::kBackwardData, run,
             {as_stored(w, run.workspace, 0), dy.memory, dx.memory, nullptr});
  }

  void backward_filter(const Run& run, const Tensor& x, const Tensor& dy, const Tensor& dw,
                       const Tensor& db) override {
    multiply(Pass::kBackwardFilter, run, {x.memory, dy.memory, dw.memory, db.memory});
  }

 private:
  bool narrow() const { return problem_.dtype == DType::kBFloat16; }
  size_t narrow_weight_bytes() const {
    return align_up(sizeof(bfloat16) * problem_.in * problem_.out);
  }
  /// What the weights, and behind them the bias, take at the beginning of the workspace in bf16.
  size_t narrow_bytes(Pass pass) const {
    if (!narrow() || pass == Pass::kBackwardFilter) return 0;
    const bool bias = pass == Pass::kForward && problem_.bias;
    return narrow_weight_bytes() + (bias ? align_up(sizeof(bfloat16) * problem_.out) : 0);
  }
  /// The parameters as the product takes them: in bf16 rounded, the weights at the beginning of `memory`.
  void store_parameters(const Run& run, const Tensor& w, const Tensor& b, void* memory) const {
    if (!narrow()) return;
    const auto store = [&](const Tensor& parameter, size_t offset) {
      auto* const to = reinterpret_cast<bfloat16*>(static_cast<char*>(memory) + offset);
      queue_conversion(parameter.data<float>(), to, parameter.elements(), run.stream());
    };
    store(w, 0);
    if (b) store(b, narrow_weight_bytes());
  }
  const void* as_stored(const Tensor& parameter, const void* memory, size_t offset) const {
    if (!narrow() || !parameter) return parameter.memory;
    return static_cast<const char*>(memory) + offset;
  }
  void multiply(Pass pass, const Run& run, const Operands& operands) {
    plans_.at(pass).multiply(run.context, operands, ones_.data(),
                             static_cast<char*>(run.workspace) + narrow_bytes(pass));
  }

  std::map<Pass, PassPlan> plans_;
  Buffer ones_;  // for the bias where no epilogue takes it
};

}  // namespace

ImplEntry<LinearProblem> linear_cudnn_cublas() {
  return impl_entry<LinearCublas>("cudnn_cublas", supports_all, gpu_dtypes());
}

}  // namespace duet
