// The list of schedules.
#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "core/number_text.h"

namespace duet {
namespace {

using Kind = ScheduleRule::Kind;

void read_constant(ConfigReader&, Schedule* schedule) { schedule->keys.kind = Kind::kConstant; }

void read_per(ConfigReader& reader, Schedule* schedule) {
  schedule->per_epoch = reader.choice("per", {"epoch", "step"}, "epoch") == "epoch";
}

void read_step(ConfigReader& reader, Schedule* schedule) {
  schedule->keys.kind = Kind::kStep;
  schedule->keys.step_size = static_cast<double>(reader.integer("step_size"));
  schedule->keys.gamma = reader.number("gamma", 0.1, 0.0);
  read_per(reader, schedule);
}

void read_exponential(ConfigReader& reader, Schedule* schedule) {
  schedule->keys.kind = Kind::kExponential;
  schedule->keys.gamma = reader.number("gamma", {}, 0.0);
  read_per(reader, schedule);
}

void read_cosine(ConfigReader& reader, Schedule* schedule) {
  schedule->keys.kind = Kind::kCosine;
  schedule->keys.eta_min = reader.number("eta_min", 0.0, 0.0);
  schedule->ends = true;
}

void read_one_cycle(ConfigReader& reader, Schedule* schedule) {
  ScheduleRule& keys = schedule->keys;
  keys.kind = Kind::kOneCycle;
  for (const char* key : {"max_lr", "max_learning_rate"}) {
    reader.reject(key, "the highest rate is the optimizer's learning_rate");
  }
  keys.pct_start = reader.number("pct_start", keys.pct_start, 0.0, 1.0);
  keys.linear_anneal = reader.choice("anneal_strategy", {"cos", "linear"}, "cos") == "linear";
  keys.div_factor = reader.number("div_factor", keys.div_factor, 1.0);
  keys.final_div_factor = reader.number("final_div_factor", keys.final_div_factor, 1.0);
  schedule->ends = true;
}

void read_linear(ConfigReader& reader, Schedule* schedule) {
  schedule->keys.kind = Kind::kLinear;
  schedule->keys.start_factor = reader.number("start_factor", {}, 0.0, 1.0);
  schedule->keys.end_factor = reader.number("end_factor", {}, 0.0, 1.0);
  schedule->ends = true;
}

void read_reduce_on_plateau(ConfigReader& reader, Schedule* schedule) {
  PlateauRule& rule = schedule->plateau.emplace();
  reader.reject("mode", "which values are better is known of the metric");
  rule.metric = reader.text("metric", rule.metric);
  rule.factor = reader.number("factor", rule.factor, 0.0, 1.0);
  if (rule.factor >= 1.0) reader.error("factor", "expected a number below 1");
  rule.patience = reader.integer("patience", rule.patience, 0);
  rule.threshold = reader.number("threshold", rule.threshold, 0.0);
  rule.is_relative = reader.choice("threshold_mode", {"rel", "abs"}, "rel") == "rel";
  rule.cooldown = reader.integer("cooldown", rule.cooldown, 0);
  rule.least_rate = reader.number("min_lr", rule.least_rate, 0.0);
}

// The keys <name>_epochs and <name>_steps, of which one may be given.
TrainingSpan read_span(ConfigReader& reader, const std::string& name, int64_t epochs,
                       int64_t least_steps) {
  const std::string in_epochs = name + "_epochs", in_steps = name + "_steps";
  if (!reader.has(in_steps)) {
    reader.raw(in_steps);  // known
    return {.epochs = reader.number(in_epochs, static_cast<double>(epochs), 0.0,
                                    static_cast<double>(ConfigReader::kMaxInteger))};
  }
  if (reader.raw(in_epochs)) reader.error(in_epochs, "give this or " + in_steps + ", not both");
  return {.steps = reader.integer(in_steps, {}, least_steps)};
}

}  // namespace

int64_t TrainingSpan::in_steps(int64_t steps_per_epoch) const {
  return steps + std::llround(epochs * static_cast<double>(steps_per_epoch));
}

ScheduleRule Schedule::rule(double learning_rate, int64_t steps_per_epoch) const {
  ScheduleRule rule = keys;
  const int64_t before = warmup.in_steps(steps_per_epoch);
  rule.learning_rate = learning_rate;
  rule.warmup = static_cast<double>(before);
  rule.period = per_epoch ? static_cast<double>(steps_per_epoch) : 1.0;
  rule.total = static_cast<double>(std::max<int64_t>(1, total.in_steps(steps_per_epoch) - before));
  return rule;
}

std::string Schedule::misfit(double learning_rate, int64_t steps_per_epoch, int64_t steps) const {
  const auto at = [](int64_t step) { return std::to_string(step); };
  const int64_t before = warmup.in_steps(steps_per_epoch), end = total.in_steps(steps_per_epoch);
  const ScheduleRule of_steps = rule(learning_rate, steps_per_epoch);
  const auto last = static_cast<uint64_t>(std::max<int64_t>(0, steps - 1));
  const auto is_zero = [&](uint64_t step) { return of_steps.rate(step) == 0.0f; };
  if (is_zero(0) && is_zero(last / 2) && is_zero(last)) {
    return "the learning rate is 0 at every step: no weight changes";
  }
  const std::string rate = printed("%.3g", static_cast<double>(of_steps.rate(last)));
  const std::string ended = "the training at step " + at(steps) + ", with a rate of " + rate;
  if (before > 0 && before >= steps) {
    return "the warm-up of the learning rate ends at step " + at(before) + ", and " + ended;
  }
  if (ends && end < steps) {
    return "the schedule of the learning rate ends at step " + at(end) + " of " + at(steps);
  }
  if (ends && end > steps) {
    return "the schedule of the learning rate ends at step " + at(end) + ", and " + ended;
  }
  if (keys.kind == Kind::kStep) {
    const double first = static_cast<double>(before) +
                         keys.step_size * (per_epoch ? static_cast<double>(steps_per_epoch) : 1.0);
    if (first >= static_cast<double>(steps)) {
      return "the learning rate would first fall at step " + printed("%.0f", first) +
             "; the training ends at step " + at(steps);
    }
  }
  if (plateau && steps_per_epoch * (plateau->patience + 2) >= steps) {
    return "the learning rate could first fall after epoch " + at(plateau->patience + 2) +
           "; the training ends before it would be used";
  }
  return "";
}

const std::vector<const ScheduleType*>& schedule_types() {
  static const ScheduleType constant = {"constant", "the optimizer's rate; for a warm-up alone",
                                        read_constant};
  static const ScheduleType step = {
      "step", "times gamma every step_size epochs or steps; step_size, gamma, per", read_step};
  static const ScheduleType exponential = {
      "exponential", "times gamma every epoch or step; gamma, per", read_exponential};
  static const ScheduleType cosine = {"cosine", "half a cosine down to eta_min; eta_min",
                                      read_cosine};
  static const ScheduleType one_cycle = {
      "one_cycle", "up to the optimizer's rate and down; pct_start, div_factor, final_div_factor",
      read_one_cycle};
  static const ScheduleType linear = {
      "linear", "a straight line; start_factor, end_factor of the optimizer's rate", read_linear};
  static const ScheduleType reduce_on_plateau = {
      "reduce_on_plateau",
      "times factor where a metric has not improved for more than patience epochs; metric, factor, "
      "patience, threshold, threshold_mode, cooldown, min_lr",
      read_reduce_on_plateau};
  static const std::vector<const ScheduleType*> types = {
      &constant, &step, &exponential, &cosine, &one_cycle, &linear, &reduce_on_plateau};
  return types;
}

Schedule read_schedule(ConfigReader& reader, int64_t epochs) {
  std::vector<std::string> names;
  for (const ScheduleType* type : schedule_types()) names.emplace_back(type->name);
  const std::string name = reader.choice("type", names);
  const ConfigNode* type_read = reader.raw("type");
  Schedule schedule;
  if (!type_read || type_read->scalar != name) return schedule;  // told; its keys are nobody's
  for (const ScheduleType* type : schedule_types()) {
    if (type->name == name) type->read(reader, &schedule);
  }
  if (schedule.ends) {
    for (const char* key : {"T_max", "total_iters"}) {
      reader.reject(key, "write total_epochs or total_steps, which count the warm-up too");
    }
    schedule.total = read_span(reader, "total", epochs, 1);
    if (schedule.total.steps == 0 && schedule.total.epochs == 0.0) {
      reader.error("total_epochs", "expected a number above 0");
    }
  }
  schedule.warmup = read_span(reader, "warmup", 0, 0);
  const auto as_long = [&](const char* key, double warmup, double total) {
    if (schedule.ends && total > 0 && warmup >= total) {
      reader.error(key, "the warm-up must end before the schedule does");
    }
  };
  as_long("warmup_epochs", schedule.warmup.epochs, schedule.total.epochs);
  as_long("warmup_steps", static_cast<double>(schedule.warmup.steps),
          static_cast<double>(schedule.total.steps));
  reader.finish();
  return schedule;
}

}  // namespace duet
