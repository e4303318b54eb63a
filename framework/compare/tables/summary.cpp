#include "compare/tables/summary.h"

#include <algorithm>

#include "compare/fairness.h"
#include "compare/tables/distinct.h"
#include "compare/tables/format.h"
#include "compare/tables/table_cells.h"
#include "core/config.h"
#include "core/error.h"
#include "core/number_text.h"

namespace duet {
namespace {

// Of the arms of a ratio or difference those whose training halted.
std::vector<std::string> diverged(const Results& results, size_t a, size_t b) {
  std::vector<std::string> names;
  for (size_t arm : {a, b}) {
    if (!results.training || arm >= results.training->arms.size()) continue;
    if (results.training->arms[arm].halted()) names.push_back(results.arm_name(arm));
  }
  return names;
}

// ---- where arms part ----

using Mismatches = std::vector<Mismatch>;

void add_steps(const StepFaults& faults, const std::string& arm, Mismatches* all) {
  for (const StepFault& each : faults) all->push_back({each.layer, each.pass, arm, each.text});
}

void add_training(const Results& results, const TrainingSection& training, Mismatches* all) {
  const auto add = [&](const std::string& arm, const std::string& text) {
    all->push_back({.arm = arm, .text = text});
  };
  for (const TrainedArm& arm : training.arms) {
    const std::string name = results.arm_name(arm.arm);
    add_steps(arm.step_faults, name, all);
    if (arm.repeats == false) add(name, "its losses differ when it is run again");
  }
  for (const TrainingDifference& d : training.differences) {
    const std::string a = results.arm_name(d.a), b = results.arm_name(d.b);
    if (d.losses_agree == false) {
      add(a, "its losses part from those of " + b + " within the first ten steps (" +
                 shown(d.first_10_share, format_share) + " of the loss)");
    }
    const std::vector<std::string> halted = diverged(results, d.a, d.b);
    if (halted.size() == 1) {
      add(halted[0], "its training diverged, that of " + (halted[0] == a ? b : a) + " did not");
    }
    if (d.verdict == "different") add(a, "its accuracy after training differs from that of " + b);
  }
}

// In the order in which they are told: layers alone, then their steps, the training, the throughput.
Mismatches mismatches(const Results& results) {
  Mismatches all;
  for (const LayersSection& batch : results.layers) {
    for (const RowPart& part : arms_of(results, batch)) {
      const auto& faults = part.arm->faults;
      if (faults.empty() && !part.arm->is_wrong()) continue;
      const std::string text = faults.empty() ? "" : faults[0].text;
      all.push_back({part.layer, part.pass, part.arm_name,
                     text.empty() ? "does not agree with the reference" : text});
    }
  }
  for (const LayersSection& batch : results.layers) {
    for (size_t i = 0; i < batch.step_faults.size(); ++i) {
      add_steps(batch.step_faults[i], results.arm_name(i), &all);
    }
  }
  if (results.training) add_training(results, *results.training, &all);
  for (const ThroughputRow& row : results.throughput) {
    for (const ThroughputArm& arm : row.arms) {
      if (arm.faults) add_steps(*arm.faults, results.arm_name(arm.arm), &all);
    }
  }
  return all;
}

// ---- headlines ----

using Lines = std::vector<std::string>;

std::string batch_words(double batch) { return "batch " + shown(batch, format_whole); }

// "custom is 2.11x as fast as cudnn (95%: 2.10 to 2.12) in a training step of batch 64"
std::string speed_sentence(const Results& results, const ArmRatio& ratio, const std::string& what) {
  const std::string a = results.arm_name(ratio.a), b = results.arm_name(ratio.b);
  if (ratio.same_code()) {
    return a + " and " + b + " run the same code " + what + " (times spread from " +
           spread_of_same_code(ratio) + " of their median)";
  }
  const std::string interval = " (95%: " + interval_text(ratio.low, ratio.high) + ")";
  const std::string speed = shown(ratio.speedup, format_speedup);
  if (ratio.verdict == "same") return a + " is as fast as " + b + " " + what + interval;
  if (ratio.verdict == "unclear") {
    return "whether " + a + " is faster than " + b + " " + what + " is unclear: " + speed +
           interval;
  }
  return a + " is " + speed + " as fast as " + b + " " + what + interval;
}

// Of one section; the others have the same steps, measured once.
void tell_steps(const Results& results, Lines* lines) {
  const auto tell = [&](const ArmRatios& ratios, double batch) {
    for (const ArmRatio& ratio : ratios) {
      const std::string halted = join(diverged(results, ratio.a, ratio.b), " and ");
      lines->push_back(
          speed_sentence(results, ratio, "in a training step of " + batch_words(batch)) +
          (halted.empty() ? "" : ", but the training of " + halted + " diverged"));
    }
  };
  const size_t before = lines->size();
  for (const LayersSection& batch : results.layers) tell(batch.step_ratios, batch.batch);
  if (lines->size() > before || !results.training) return;
  tell(results.training->step_ratios, results.training->batch);
}

// What the machine did meanwhile, where that bears on the times.
void tell_conditions(const EnvironmentRecord& environment, Lines* lines) {
  constexpr double kWaited = 0.05, kOthers = 0.25, kThrottled = 0.05;
  const auto& load = environment.load;
  if (load && (load->waited_share > kWaited || load->others_share > kOthers)) {
    lines->push_back("the machine was busy: other processes took " +
                     shown(load->others_share, format_share) + " of " +
                     shown(load->cores, format_whole) + " cores, this one waited " +
                     shown(load->waited_share, format_share) + " of its time (load average " +
                     shown(load->load_average, format_significant) + ")");
  }
  const auto& clocks = environment.clocks;
  if (clocks && clocks->throttled_share > kThrottled) {
    lines->push_back("the GPU was slowed down: " + join(clocks->reasons) +
                     "; its clock was between " + shown(clocks->sm_mhz_min, format_whole) +
                     " and " + shown(clocks->sm_mhz_max, format_whole) + " MHz");
  }
}

std::string mean_accuracy(const TrainingSection& training, size_t arm) {
  if (arm >= training.arms.size() || training.arms[arm].accuracy.empty()) return "0.00%";
  double sum = 0;
  for (double value : training.arms[arm].accuracy) sum += std::isnan(value) ? 0 : value;
  return format_accuracy(sum / static_cast<double>(training.arms[arm].accuracy.size()));
}

std::string mean_loss(const TrainingSection& training, size_t arm) {
  double sum = 0;
  for (double value : training.arms[arm].final_loss) sum += value;
  return format_significant(sum / static_cast<double>(training.arms[arm].final_loss.size()));
}

void tell_training(const Results& results, Lines* lines) {
  if (!results.training) return;
  const TrainingSection& training = *results.training;
  for (const TrainingDifference& d : training.differences) {
    const std::string halted = join(diverged(results, d.a, d.b), " and ");
    const std::string a = results.arm_name(d.a), b = results.arm_name(d.b);
    if (!halted.empty()) {
      lines->push_back("the accuracies of " + a + " and " + b +
                       " are not compared: the training of " + halted + " diverged");
      continue;
    }
    const size_t seeds = training.seeds.size();
    if (d.verdict == kNoAccuracy) {
      lines->push_back(a + " learns to a loss of " + mean_loss(training, d.a) + ", " + b + " of " +
                       mean_loss(training, d.b) + " (" + std::to_string(seeds) +
                       (seeds == 1 ? " seed)" : " seeds)"));
      continue;
    }
    lines->push_back(a + " learns to " + mean_accuracy(training, d.a) + ", " + b + " to " +
                     mean_accuracy(training, d.b) + " (" + std::to_string(seeds) +
                     (seeds == 1 ? " seed" : " seeds") + "): " +
                     (d.verdict == "unclear" ? "too few or too scattered to tell" : d.verdict));
  }
  for (const TrainedArm& arm : training.arms) {
    const std::string name = results.arm_name(arm.arm);
    if (!std::isnan(arm.halted_at)) {
      lines->push_back("the loss of " + name + " stopped being finite at step " +
                       format_whole(arm.halted_at));
    }
    if (!arm.repeats) continue;
    lines->push_back(name + " run again gives " + (*arm.repeats ? "the same bits" : "other bits"));
  }
}

// "fastest at ..., slowest at ...": the range over batch sizes.
void tell_throughput(const Results& results, const StepKind& kind, Lines* lines) {
  const std::string what = kind.name;
  for (size_t b = 1; b < results.arms.size(); ++b) {
    std::vector<std::pair<const ArmRatio*, std::string>> rows;  // and their batch
    bool same = false;
    for (const ThroughputRow& row : results.throughput) {
      for (const ArmRatio& ratio : row.*kind.ratios) {
        if (ratio.b != b) continue;
        same |= ratio.same_code();
        if (!std::isnan(ratio.speedup)) rows.push_back({&ratio, batch_words(row.batch)});
      }
    }
    const std::string arm = results.arm_name(0), other = results.arm_name(b);
    if (rows.empty() && same) {
      lines->push_back(what + ": " + arm + " and " + other + " run the same code");
    }
    if (rows.size() == 1) {
      lines->push_back(
          speed_sentence(results, *rows[0].first, "in " + what + " of " + rows[0].second));
    }
    if (rows.size() < 2) continue;
    const auto slower = [](const auto& x, const auto& y) {
      return x.first->speedup < y.first->speedup;
    };
    const auto worst = std::min_element(rows.begin(), rows.end(), slower);
    const auto best = std::max_element(rows.begin(), rows.end(), slower);
    lines->push_back(what + ": " + arm + " is between " + format_speedup(worst->first->speedup) +
                     " (" + worst->second + ") and " + format_speedup(best->first->speedup) + " (" +
                     best->second + ") as fast as " + other);
  }
}

void tell_math(const Results& results, Lines* lines) {
  std::vector<std::string> texts;
  bool differ = false;
  for (const ArmRecord& arm : results.arms) {
    texts.push_back(arm.name + " in " + arm.math);
    differ = differ || arm.math != results.arms[0].math;
  }
  if (differ) lines->push_back("the arms do not compute alike: " + join(texts));
}

// ---- --fail-on ----

// Whether anything in the results tells right from wrong.
bool has_agreement(const Results& results) {
  for (const LayersSection& batch : results.layers) {
    for (const ComparedRow& row : batch.rows) {
      for (const auto& arm : row.arms) {
        if (arm && (arm->agrees || !arm->faults.empty())) return true;
      }
    }
  }
  for (const ThroughputRow& row : results.throughput) {
    for (const ThroughputArm& arm : row.arms) {
      if (arm.faults) return true;
    }
  }
  if (!results.training) return false;
  const auto& all = results.training->differences;
  return std::any_of(all.begin(), all.end(), [](const TrainingDifference& d) {
    return d.losses_agree || !d.verdict.empty();
  });
}

// The arms of the first difference both of whose trainings halted, or nothing.
std::string all_diverged(const Results& results) {
  if (!results.training) return "";
  for (const TrainingDifference& d : results.training->differences) {
    const auto names = diverged(results, d.a, d.b);
    if (names.size() == 2) return join(names, " and of ");
  }
  return "";
}

// Whether the first arm has less than `asked` times the other's speed, beyond doubt. An interval
// within 2% of 1 counts as 1, unless more than that is asked for.
bool is_slower(const ArmRatio& ratio, double asked) {
  if (asked <= 1 && (ratio.verdict == "same" || ratio.verdict == "unclear")) return false;
  return ratio.high < asked;
}

// Every section has the step of its batch, which was measured once.
void tell_slower(const Results& results, double asked, Lines* lines) {
  bool timed = false;
  Distinct slower;
  const auto look = [&](const ArmRatios& ratios, const std::string& what, double batch) {
    for (const ArmRatio& ratio : ratios) {
      timed |= ratio.same_code() || !std::isnan(ratio.high);
      if (ratio.same_code() || !is_slower(ratio, asked)) continue;
      slower.add("slower: " + speed_sentence(results, ratio, what + batch_words(batch)) + ", and " +
                 format_speedup(asked) + " is asked for");
    }
  };
  const std::string step = "in a training step of ";
  for (const LayersSection& batch : results.layers) look(batch.step_ratios, step, batch.batch);
  if (results.training) look(results.training->step_ratios, step, results.training->batch);
  for (const ThroughputRow& row : results.throughput) {
    look(row.training_ratios, step, row.batch);
    look(row.inference_ratios, "in inference of ", row.batch);
  }
  lines->insert(lines->end(), slower.texts().begin(), slower.texts().end());
  if (!timed) lines->push_back("slower: nothing to compare: no step was timed in two arms");
}

}  // namespace

ResultsSummary summarise(const Results& results) {
  const Mismatches wrong = mismatches(results);
  Lines lines;
  tell_math(results, &lines);
  tell_steps(results, &lines);
  for (const std::string& line : fairness_lines(results)) lines.push_back(line);
  for (const std::string& line : version_warnings(results.environment.machine.versions)) {
    lines.push_back(line);
  }
  tell_training(results, &lines);
  tell_throughput(results, kTrainingSteps, &lines);
  tell_throughput(results, kInferenceSteps, &lines);
  tell_conditions(results.environment, &lines);
  ResultsSummary summary = {.ok = wrong.empty(), .headlines = lines};
  if (!wrong.empty()) summary.first_mismatch = wrong[0];
  return summary;
}

FailOn read_fail_on(const std::vector<std::string>& words) {
  FailOn fail_on;
  std::vector<std::string> mistakes;
  for (const std::string& word : words) {
    if (word == "mismatch") {
      fail_on.mismatch = true;
    } else if (word == "slower") {
      fail_on.slower = true;
    } else if (word.starts_with("slower:")) {
      const std::string text = word.substr(7);
      char* end = nullptr;
      fail_on.slower = true;
      fail_on.ratio = read_number(text.c_str(), &end);
      if (text.empty() || *end || !(fail_on.ratio > 0) || !std::isfinite(fail_on.ratio)) {
        mistakes.push_back("--fail-on " + word +
                           ": expected a ratio above 0 after the colon, e.g. slower:0.95");
      }
    } else {
      mistakes.push_back("--fail-on " + word + ": unknown" +
                         did_you_mean(word, {"mismatch", "slower"}) +
                         "; there are mismatch, slower and slower:RATIO");
    }
  }
  if (!mistakes.empty()) throw ConfigError(join(mistakes, "\n"));
  return fail_on;
}

std::vector<std::string> failures(const Results& results, const FailOn& fail_on) {
  Lines lines;
  if (fail_on.mismatch) {
    if (const Mismatches wrong = mismatches(results); !wrong.empty()) {
      const auto& [layer, pass, arm, text] = wrong[0];
      const std::string where = layer.empty() ? "" : layer + " " + pass + ": ";
      lines.push_back("mismatch: " + where + arm + ": " + text);
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
