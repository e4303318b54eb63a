// The summary of results and what --fail-on makes of them.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "compare/distinct.h"
#include "compare/fairness.h"
#include "compare/fields.h"
#include "compare/format.h"
#include "compare/results.h"
#include "core/config.h"

namespace duet {

using nlohmann::json;

namespace {

// Of the arms of a ratio or difference those whose training halted.
std::vector<std::string> diverged(const json& results, const json& pair) {
  std::vector<std::string> names;
  for (const char* key : {"a", "b"}) {
    const json& arm = element(member(member(results, "training"), "arms"), count_at(pair, key));
    if (number_at(arm, "halted_at") || !list(member(arm, "halted_seeds")).empty()) {
      names.push_back(arm_of(results, pair, key));
    }
  }
  return names;
}

// ---- where arms part ----

json wrong_at(const json& layer, const json& pass, const std::string& arm,
              const std::string& text) {
  return {{"layer", layer}, {"pass", pass}, {"arm", arm}, {"text", text}};
}

json first_wrong_layer(const json& results) {
  for (const json& batch : list(member(results, "layers"))) {
    for (const json& row : list(member(batch, "rows"))) {
      const json& arms = list(member(row, "arms"));
      for (size_t i = 0; i < arms.size(); ++i) {
        const json& faults = list(member(arms[i], "faults"));
        const json& agrees = member(arms[i], "agrees");
        const bool wrong = agrees.is_boolean() && !agrees.get<bool>();
        if (faults.empty() && !wrong) continue;
        std::string text = text_at(element(faults, 0), "text");
        if (text.empty()) text = "does not agree with the reference";
        return wrong_at(text_at(row, "layer"), text_at(row, "pass"), arm_name(results, i), text);
      }
    }
  }
  return nullptr;
}

// Of a list of an arm's faults of whole steps.
json first_wrong_step(const json& faults, const std::string& arm) {
  const json& first = element(list(faults), 0);
  if (first.is_null()) return nullptr;
  return wrong_at(text_at(first, "layer"), text_at(first, "pass"), arm, text_at(first, "text"));
}

json first_wrong_layers_step(const json& results) {
  for (const json& batch : list(member(results, "layers"))) {
    const json& arms = list(member(batch, "step_faults"));
    for (size_t i = 0; i < arms.size(); ++i) {
      json first = first_wrong_step(arms[i], arm_name(results, i));
      if (!first.is_null()) return first;
    }
  }
  return nullptr;
}

json first_wrong_throughput(const json& results) {
  for (const json& row : list(member(results, "throughput"))) {
    for (const json& arm : list(member(row, "arms"))) {
      json first = first_wrong_step(member(arm, "faults"), arm_of(results, arm, "arm"));
      if (!first.is_null()) return first;
    }
  }
  return nullptr;
}

json first_wrong_training(const json& results) {
  const json& training = member(results, "training");
  for (const json& arm : list(member(training, "arms"))) {
    const std::string name = arm_of(results, arm, "arm");
    json first = first_wrong_step(member(arm, "step_faults"), name);
    if (!first.is_null()) return first;
    const json& repeats = member(arm, "repeats");
    if (repeats.is_boolean() && !repeats.get<bool>()) {
      return wrong_at(nullptr, nullptr, name, "its losses differ when it is run again");
    }
  }
  for (const json& difference : list(member(training, "differences"))) {
    const std::string a = arm_of(results, difference, "a"), b = arm_of(results, difference, "b");
    const json& agree = member(difference, "losses_agree");
    if (agree.is_boolean() && !agree.get<bool>()) {
      return wrong_at(nullptr, nullptr, a,
                      "its losses part from those of " + b + " within the first ten steps (" +
                          shown(number_at(difference, "first_10_share"), format_share) +
                          " of the loss)");
    }
    const std::vector<std::string> halted = diverged(results, difference);
    if (halted.size() == 1) {
      return wrong_at(nullptr, nullptr, halted[0],
                      "its training diverged, that of " + (halted[0] == a ? b : a) + " did not");
    }
    if (text_at(difference, "verdict") == "different") {
      return wrong_at(nullptr, nullptr, a, "its accuracy after training differs from that of " + b);
    }
  }
  return nullptr;
}

// ---- headlines ----

std::string batch_text(const json& object) {
  return "batch " + shown(number_at(object, "batch"), format_whole);
}

// "custom is 2.11x as fast as cudnn (95%: 2.10 to 2.12) in a training step of batch 64"
std::string speed_sentence(const json& results, const json& ratio, const std::string& what) {
  const std::string a = arm_of(results, ratio, "a"), b = arm_of(results, ratio, "b");
  const std::string verdict = text_at(ratio, "verdict");
  if (verdict == kSameCode) {
    return a + " and " + b + " run the same code " + what + " (times spread from " +
           spread_of_same_code(ratio) + " of their median)";
  }
  const std::string interval =
      " (95%: " +
      format_interval(number_at(ratio, "low").value_or(0), number_at(ratio, "high").value_or(0)) +
      ")";
  const std::string speed = shown(number_at(ratio, "speedup"), format_speedup);
  if (verdict == "same") return a + " is as fast as " + b + " " + what + interval;
  if (verdict == "unclear") {
    return "whether " + a + " is faster than " + b + " " + what + " is unclear: " + speed +
           interval;
  }
  return a + " is " + speed + " as fast as " + b + " " + what + interval;
}

std::string step_sentence(const json& results, const json& ratio, const json& section) {
  const std::string halted = join(diverged(results, ratio), " and ");
  return speed_sentence(results, ratio, "in a training step of " + batch_text(section)) +
         (halted.empty() ? "" : ", but the training of " + halted + " diverged");
}

void tell_steps(const json& results, json* lines) {
  bool told = false;
  for (const json& batch : list(member(results, "layers"))) {
    for (const json& ratio : list(member(batch, "step_ratios"))) {
      lines->push_back(step_sentence(results, ratio, batch));
      told = true;
    }
  }
  const json& training = member(results, "training");
  for (const json& ratio : list(member(training, "step_ratios"))) {
    if (told) break;  // the same step, measured again
    lines->push_back(step_sentence(results, ratio, training));
  }
}

// What the machine did meanwhile, where that bears on the times.
void tell_conditions(const json& results, json* lines) {
  constexpr double kWaited = 0.05, kOthers = 0.25, kThrottled = 0.05;
  const json& environment = member(results, "environment");
  const json& load = member(environment, "load");
  const double waited = number_at(load, "waited_share").value_or(0);
  const double others = number_at(load, "others_share").value_or(0);
  if (waited > kWaited || others > kOthers) {
    lines->push_back("the machine was busy: other processes took " + format_share(others) + " of " +
                     shown(number_at(load, "cores"), format_whole) + " cores, this one waited " +
                     format_share(waited) + " of its time (load average " +
                     shown(number_at(load, "load_average"), format_significant) + ")");
  }
  const json& clocks = member(environment, "clocks");
  if (number_at(clocks, "throttled_share").value_or(0) > kThrottled) {
    std::vector<std::string> reasons;
    for (const json& reason : list(member(clocks, "reasons"))) {
      if (reason.is_string()) reasons.push_back(reason.get<std::string>());
    }
    lines->push_back("the GPU was slowed down: " + join(reasons) + "; its clock was between " +
                     shown(number_at(clocks, "sm_mhz_min"), format_whole) + " and " +
                     shown(number_at(clocks, "sm_mhz_max"), format_whole) + " MHz");
  }
}

double mean_accuracy(const json& arm) {
  double sum = 0;
  size_t count = 0;
  for (const json& value : list(member(arm, "accuracy"))) {
    sum += number(value).value_or(0);
    ++count;
  }
  return count ? sum / static_cast<double>(count) : 0;
}

void tell_training(const json& results, json* lines) {
  const json& training = member(results, "training");
  const json& arms = list(member(training, "arms"));
  for (const json& d : list(member(training, "differences"))) {
    const auto at = [&](const char* key) -> const json& { return element(arms, count_at(d, key)); };
    const std::string halted = join(diverged(results, d), " and ");
    if (!halted.empty()) {
      lines->push_back("the accuracies of " + arm_of(results, d, "a") + " and " +
                       arm_of(results, d, "b") + " are not compared: the training of " + halted +
                       " diverged");
      continue;
    }
    const size_t seeds = list(member(training, "seeds")).size();
    const std::string verdict = text_at(d, "verdict");
    lines->push_back(arm_of(results, d, "a") + " learns to " +
                     format_accuracy(mean_accuracy(at("a"))) + ", " + arm_of(results, d, "b") +
                     " to " + format_accuracy(mean_accuracy(at("b"))) + " (" +
                     std::to_string(seeds) + (seeds == 1 ? " seed" : " seeds") +
                     "): " + (verdict == "unclear" ? "too few or too scattered to tell" : verdict));
  }
  for (const json& arm : arms) {
    const auto halted = number_at(arm, "halted_at");
    if (halted) {
      lines->push_back("the loss of " + arm_of(results, arm, "arm") +
                       " stopped being finite at step " + format_whole(*halted));
    }
    const json& repeats = member(arm, "repeats");
    if (!repeats.is_boolean()) continue;
    lines->push_back(arm_of(results, arm, "arm") + " run again gives " +
                     (repeats.get<bool>() ? "the same bits" : "other bits"));
  }
}

// "fastest at ..., slowest at ...": the range over batch sizes.
void tell_throughput(const json& results, const char* key, const std::string& what, json* lines) {
  for (size_t b = 1; b < arm_count(results); ++b) {
    const json *best = nullptr, *worst = nullptr;
    std::string best_batch, worst_batch;
    size_t rows = 0;
    bool same = false;
    for (const json& row : list(member(results, "throughput"))) {
      for (const json& ratio : list(member(row, key))) {
        if (number_at(ratio, "b") != static_cast<double>(b)) continue;
        same |= text_at(ratio, "verdict") == kSameCode;
        if (!number_at(ratio, "speedup")) continue;
        ++rows;
        const double speed = *number_at(ratio, "speedup");
        if (!best || speed > *number_at(*best, "speedup")) {
          best = &ratio;
          best_batch = batch_text(row);
        }
        if (!worst || speed < *number_at(*worst, "speedup")) {
          worst = &ratio;
          worst_batch = batch_text(row);
        }
      }
    }
    if (rows == 0 && same) {
      lines->push_back(what + ": " + arm_name(results, 0) + " and " + arm_name(results, b) +
                       " run the same code");
    }
    if (rows == 1) {
      lines->push_back(speed_sentence(results, *best, "in " + what + " of " + best_batch));
    }
    if (rows < 2) continue;
    lines->push_back(what + ": " + arm_name(results, 0) + " is between " +
                     format_speedup(*number_at(*worst, "speedup")) + " (" + worst_batch + ") and " +
                     format_speedup(*number_at(*best, "speedup")) + " (" + best_batch +
                     ") as fast as " + arm_name(results, b));
  }
}

void tell_math(const json& results, json* lines) {
  std::vector<std::string> texts;
  bool differ = false;
  const json& arms = list(member(results, "arms"));
  for (const json& arm : arms) {
    texts.push_back(text_at(arm, "name") + " in " + text_at(arm, "math"));
    differ = differ || text_at(arm, "math") != text_at(arms[0], "math");
  }
  if (differ) lines->push_back("the arms do not compute alike: " + join(texts));
}

json first_wrong(const json& results) {
  for (const auto look :
       {first_wrong_layer, first_wrong_layers_step, first_wrong_training, first_wrong_throughput}) {
    json first = look(results);
    if (!first.is_null()) return first;
  }
  return nullptr;
}

// ---- --fail-on ----

bool is_checked(const json& entry, const char* key) { return member(entry, key).is_boolean(); }

// Whether anything in the results tells right from wrong.
bool has_agreement(const json& results) {
  for (const json& batch : list(member(results, "layers"))) {
    for (const json& row : list(member(batch, "rows"))) {
      for (const json& arm : list(member(row, "arms"))) {
        if (is_checked(arm, "agrees") || !list(member(arm, "faults")).empty()) return true;
      }
    }
  }
  for (const json& d : list(member(member(results, "training"), "differences"))) {
    if (is_checked(d, "losses_agree") || !text_at(d, "verdict").empty()) return true;
  }
  for (const json& row : list(member(results, "throughput"))) {
    for (const json& arm : list(member(row, "arms"))) {
      if (member(arm, "faults").is_array()) return true;
    }
  }
  return false;
}

// The arms of the first difference both of whose trainings halted, or nothing.
std::string all_diverged(const json& results) {
  for (const json& d : list(member(member(results, "training"), "differences"))) {
    const auto names = diverged(results, d);
    if (names.size() == 2) return join(names, " and of ");
  }
  return "";
}

// Whether the first arm has less than `asked` times the other's speed, beyond doubt. An interval
// within 2% of 1 counts as 1, unless more than that is asked for.
bool is_slower(const json& ratio, double asked) {
  const std::string verdict = text_at(ratio, "verdict");
  if (asked <= 1 && (verdict == "same" || verdict == "unclear")) return false;
  return *number_at(ratio, "high") < asked;
}

// Every section has the step of its batch, which was measured once.
void tell_slower(const json& results, double asked, std::vector<std::string>* lines) {
  bool timed = false;
  Distinct slower;
  const auto look = [&](const json& ratios, const std::string& what) {
    for (const json& ratio : list(ratios)) {
      const bool same = text_at(ratio, "verdict") == kSameCode;
      timed |= same || number_at(ratio, "high");
      if (same || !number_at(ratio, "high")) continue;
      if (!is_slower(ratio, asked)) continue;
      slower.add("slower: " + speed_sentence(results, ratio, what) + ", and " +
                 format_speedup(asked) + " is asked for");
    }
  };
  for (const json& batch : list(member(results, "layers"))) {
    look(member(batch, "step_ratios"), "in a training step of " + batch_text(batch));
  }
  const json& training = member(results, "training");
  look(member(training, "step_ratios"), "in a training step of " + batch_text(training));
  for (const json& row : list(member(results, "throughput"))) {
    look(member(row, "training_ratios"), "in a training step of " + batch_text(row));
    look(member(row, "inference_ratios"), "in inference of " + batch_text(row));
  }
  lines->insert(lines->end(), slower.texts().begin(), slower.texts().end());
  if (!timed) lines->push_back("slower: nothing to compare: no step was timed in two arms");
}

}  // namespace

json summarise_results(const json& results) {
  const json first = first_wrong(results);
  json headlines = json::array();
  tell_math(results, &headlines);
  tell_steps(results, &headlines);
  for (const std::string& line : fairness_lines(results)) headlines.push_back(line);
  for (const std::string& line : version_lines(results)) headlines.push_back(line);
  tell_training(results, &headlines);
  tell_throughput(results, "training_ratios", "training", &headlines);
  tell_throughput(results, "inference_ratios", "inference", &headlines);
  tell_conditions(results, &headlines);
  return {{"ok", first.is_null()}, {"first_mismatch", first}, {"headlines", headlines}};
}

std::vector<std::string> failures(const json& results, const FailOn& fail_on) {
  std::vector<std::string> lines;
  if (fail_on.mismatch) {
    const json first = first_wrong(results);
    if (first.is_object()) {
      std::string where = text_at(first, "layer");
      if (!where.empty()) where += " " + text_at(first, "pass") + ": ";
      lines.push_back("mismatch: " + where + text_at(first, "arm") + ": " + text_at(first, "text"));
    } else if (!has_agreement(results)) {
      lines.push_back("mismatch: nothing to compare: neither layers nor training were compared");
    } else if (const std::string halted = all_diverged(results); !halted.empty()) {
      lines.push_back("mismatch: nothing to compare after training: that of " + halted +
                      " diverged");
    }
  }
  if (fail_on.slower) tell_slower(results, fail_on.ratio, &lines);
  return lines;
}

}  // namespace duet
