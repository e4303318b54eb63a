#include "measure/own_masks.h"

#include <algorithm>
#include <cmath>

#include "device/step_graph.h"
#include "measure/check/agreement.h"

namespace duet {
namespace {

// What elements are kept, and how many of those that can be told.
struct Mask {
  std::vector<double> x, y;

  explicit Mask(LayerRig& rig)
      : x(values_of(rig.read_by(Pass::kForward)[0], rig.context().device())),
        y(values_of(rig.written_by(Pass::kForward)[0], rig.context().device())) {}

  /// A dropped 0 looks as a kept one.
  bool is_known(size_t i) const { return x[i] != 0; }
  double count() const {
    return std::count_if(x.begin(), x.end(), [](double v) { return v != 0; });
  }
  double dropped() const {
    double all = 0;
    for (size_t i = 0; i < x.size(); ++i) all += is_known(i) && y[i] == 0;
    return all;
  }
  /// So many of both that no two masks are likely to be the same.
  bool is_telling() const { return std::min(dropped(), count() - dropped()) >= 32; }
};

// What is kept is multiplied by; of the reference, or where that dropped everything of `found`.
double scale_of(const std::vector<double>& from, const std::vector<double>& reference,
                const std::vector<double>& found) {
  for (const auto* to : {&reference, &found}) {
    for (size_t i = 0; i < from.size(); ++i) {
      const double ratio = (*to)[i] / from[i];
      if (std::isfinite(ratio) && ratio != 0) return ratio;
    }
  }
  return 1;
}

class OwnMaskExaminer {
 public:
  OwnMaskExaminer(const Layer& layer, std::string_view id, Pass pass, const CheckData& check_data,
                  Context& context)
      : pass_(pass),
        context_(context),
        set_(layer, pass, check_data.data, check_data.expected, context.device()),
        rig_(layer, id, passes_through(layer, id, pass), context, check_data.situation),
        other_(layer, id, passes_through(layer, id, pass), context, check_data.situation) {}

  Examination run() {
    run_on(rig_);
    const TensorResult first = hold_to_own_mask(set_, rig_);
    result_.tensors = {first};
    check(first.agreement.agrees, FaultKind::kWrong,
          "does not keep elements, scaled, and drop the right share of them" +
              std::string(pass_ == Pass::kForward ? "" : ", those of forward") + ": " +
              first.agreement.to_string());
    const bool telling = Mask(rig_).is_telling();
    const std::vector<Buffer> bits = rig_.make_snapshot(pass_);
    keep(bits);
    run_on(other_);
    check(other_.holds(pass_, bits), FaultKind::kUnrepeatable,
          "draws another first mask than another instance of the same seed");
    run_on(rig_);
    check(hold_to_own_mask(set_, rig_).agreement.agrees, FaultKind::kFirstTimeOnly,
          "is right only the first time");
    check(!telling || !rig_.holds(pass_, bits), FaultKind::kWrong,
          "draws the same mask at every call");
    if (context_.device() == Device::kGpu && result_.passed()) check_graph(telling);
    return std::move(result_);
  }

 private:
  void run_on(LayerRig& rig) {
    rig.load(set_.data());
    run_through(rig, set_, {}, [&] {
      check(rig.damage().empty(), FaultKind::kOverrun,
            "damages what is around it:\n" + rig.damage());
    });
  }
  void keep(const std::vector<Buffer>& bits) {
    rig_.queue_snapshot(pass_, bits);
    context_.synchronize();
  }
  /// Forward in a graph, and in a backward pass that behind it.
  void check_graph(bool telling) {
    const StepGraph graph(context_, [&] { queue_through(rig_, set_); });
    const std::vector<Buffer> bits = rig_.make_snapshot(pass_);
    for (int replay = 0; replay < 2; ++replay) {
      StepGraph one(context_, {&graph});
      one.launch();
      context_.synchronize();
      check(hold_to_own_mask(set_, rig_).agreement.agrees, FaultKind::kNotInGraph,
            "is wrong when replayed from a captured graph, as training runs it");
      check(replay == 0 || !telling || !rig_.holds(pass_, bits), FaultKind::kNotInGraph,
            "draws the same mask at every replay of a graph");
      keep(bits);
    }
  }
  void check(bool right, FaultKind kind, std::string text) {
    if (!right) result_.faults.push_back({kind, std::move(text)});
  }

  const Pass pass_;
  Context& context_;
  const CheckSet set_;
  LayerRig rig_, other_;
  Examination result_;
};

}  // namespace

TensorResult hold_to_own_mask(const CheckSet& set, LayerRig& rig) {
  const Pass pass = set.pass();
  const Device device = rig.context().device();
  const bool forward = pass == Pass::kForward;
  const Tensor written = rig.written_by(pass)[0];
  const Mask mask(rig);
  const std::vector<double> found = values_of(written, device);
  const std::vector<double> from = forward ? mask.x : values_of(rig.read_by(pass)[1], device);
  const double scale = scale_of(from, set.outputs()[0].values, found);
  std::vector<double> expected(found.size());
  for (size_t i = 0; i < found.size(); ++i) {
    const bool kept = (forward || !mask.is_known(i) ? found[i] : mask.y[i]) != 0;
    expected[i] = kept ? scale * from[i] : 0;
  }
  TensorResult result = hold_to(
      {.name = set.outputs()[0].name, .desc = written.desc, .values = expected},
      {.name = set.outputs()[0].name, .desc = written.desc, .values = found}, rig.layer(), pass);
  const double p = 1 - 1 / scale, count = mask.count();
  const double away = std::abs(mask.dropped() - count * p);
  result.agreement.agrees &= away <= 6 * std::sqrt(count * p * (1 - p)) + 1e-6 * count;
  return result;
}

Examination examine_own_masks(const Layer& layer, std::string_view id, Pass pass,
                              const CheckData& check_data, Context& context) {
  return OwnMaskExaminer(layer, id, pass, check_data, context).run();
}

}  // namespace duet
