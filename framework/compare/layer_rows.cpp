#include "compare/layer_rows.h"

#include <nlohmann/json.hpp>

#include "compare/problem.h"
#include "compare/results.h"

namespace duet {

using nlohmann::json;

namespace {

json tensor_json(const TensorResult& tensor) {
  const Agreement& a = tensor.agreement;
  return {{"name", tensor.name},
          {"max_error", number_json(a.max_error)},
          {"rms_relative", number_json(a.rms_relative)},
          {"cosine", number_json(a.cosine)},
          {"worst", a.worst < 0 ? json() : json(index_text(tensor.desc, a.worst))},
          {"expected", number_json(a.expected)},
          {"found", number_json(a.found)},
          {"share_of_limit", number_json(a.share_of_limit)},
          {"limit", tensor.limit.to_string()}};
}

json arm_json(const RowFacts& facts, const RowArm& arm) {
  if (!arm.layer || !arm.measurement) return {};
  const PassMeasurement& m = *arm.measurement;
  json object = {{"implementation", arm.id},
                 {"shared", arm.shared},
                 {"detail", m.detail},
                 {"workspace_bytes", m.workspace_bytes},
                 {"prepare_s", m.prepare_seconds},
                 {"agrees", m.examination.passed()},
                 {"faults", json::array()},
                 {"tensors", json::array()},
                 {"us", nullptr},
                 {"cold_us", nullptr},
                 {"in_network_us", nullptr},
                 {"gflop_per_s", nullptr},
                 {"gb_per_s", nullptr},
                 {"share_of_floor", nullptr}};
  for (const Fault& fault : m.examination.faults) {
    object["faults"].push_back({{"kind", to_string(fault.kind)}, {"text", fault.text}});
  }
  for (const TensorResult& tensor : m.examination.tensors) {
    object["tensors"].push_back(tensor_json(tensor));
  }
  if (m.cold) object["cold_us"] = microseconds_json(m.cold->summary());
  if (!m.warm) return object;
  const Summary time = m.warm->summary();
  const double flops = arm.layer->flops(facts.pass);
  object["us"] = microseconds_json(time);
  if (flops > 0) object["gflop_per_s"] = number_json(flops / time.median / 1e9);
  object["gb_per_s"] = number_json(least_bytes(*arm.layer) / time.median / 1e9);
  if (facts.floor_seconds) {
    object["share_of_floor"] = number_json(*facts.floor_seconds / time.median);
  }
  return object;
}

}  // namespace

json layer_row(const RowFacts& facts, const std::vector<RowArm>& arms) {
  json row = {{"layer", facts.name},
              {"type", facts.layer->type()},
              {"pass", to_string(facts.pass)},
              {"problem", facts.layer->problem_text()},
              {"flops", facts.layer->flops(facts.pass)},
              {"bytes", least_bytes(*facts.layer)},
              {"floor_us", facts.floor_seconds ? json(1e6 * *facts.floor_seconds) : json()},
              {"repeat", facts.repeat},
              {"arms", json::array()},
              {"ratios", json::array()}};
  for (const RowArm& arm : arms) row["arms"].push_back(arm_json(facts, arm));
  return row;
}

json ratio_json(const std::vector<RowArm>& arms, size_t a, size_t b) {
  const auto times = [&](size_t i) -> const Times* {
    const PassMeasurement* m = arms[i].measurement;
    return m && m->warm ? &*m->warm : nullptr;
  };
  if (!times(a) || !times(b)) return {};
  return ratio_json(a, b, *times(a), *times(b));
}

std::string repeat_command(const Layer& layer, Pass pass) {
  return "bench " + std::string(layer.type()) + " --shape " + problem_argument(layer) + " --pass " +
         std::string(to_string(pass));
}

}  // namespace duet
