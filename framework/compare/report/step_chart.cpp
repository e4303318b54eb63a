#include "compare/report/step_chart.h"

#include <algorithm>
#include <cmath>

#include "compare/tables/format.h"
#include "core/error.h"
#include "core/number_text.h"
#include "core/xml_text.h"

namespace duet {
namespace {

// In units of the drawing, which is shown a little larger.
constexpr double kWidth = 480, kShownWidth = 560, kMargin = 14;
constexpr double kLabelEnd = 156, kBarBegin = 164, kBarEnd = 370, kRatioEnd = kWidth - kMargin;
constexpr double kHead = 84, kBar = 12, kGroupGap = 11;
constexpr size_t kMostLetters = 18, kMostLettersInHead = 24, kColours = 6;

struct Bar {
  double us = kUnknown;
  bool wrong = false;  // then it has no time
};
struct BarGroup {
  std::string name;
  std::vector<Bar> bars;    // by arm
  double speed = kUnknown;  // of the first arm against the second
};

const LayersSection& measured_layers(const Results& results) {
  for (const LayersSection& section : results.layers) {
    if (!section.rows.empty() && !section.totals.empty()) return section;
  }
  throw DataError(
      "there is nothing to draw: the section 'layers' is missing from these results or was not "
      "finished");
}

BarGroup whole_step(const LayersSection& section, size_t arms) {
  BarGroup group{"the whole step", std::vector<Bar>(arms)};
  for (const ArmTotal& total : section.totals) {
    if (total.arm < arms) group.bars[total.arm].us = total.step_us.median;
  }
  for (const ArmRatio& ratio : section.step_ratios) {
    if (arms == 2 && ratio.a == 0) group.speed = ratio.speedup;
  }
  return group;
}

// All passes of an arm in one group; a pass without a time takes it from the group.
Bar sum_of(const std::vector<const MeasuredArm*>& passes) {
  Bar bar{passes.empty() ? kUnknown : 0};
  for (const MeasuredArm* pass : passes) {
    bar.us += pass->is_wrong() ? kUnknown : pass->us.median;
    bar.wrong = bar.wrong || pass->is_wrong();
  }
  return bar;
}

// A layer's passes are one group; those of no layer (the batch, the update) are another.
std::vector<BarGroup> layer_groups(const LayersSection& section, size_t arms) {
  std::vector<BarGroup> groups;
  std::vector<std::vector<const ComparedRow*>> rows;  // of each group
  for (const ComparedRow& row : section.rows) {
    const std::string name = row.type.empty() ? "the rest" : row.layer;
    size_t i = 0;
    while (i < groups.size() && groups[i].name != name) ++i;
    if (i == groups.size()) {
      groups.push_back({name, {}});
      rows.emplace_back();
    }
    rows[i].push_back(&row);
  }
  for (size_t i = 0; i < groups.size(); ++i) {
    for (size_t arm = 0; arm < arms; ++arm) {
      std::vector<const MeasuredArm*> passes;
      for (const ComparedRow* row : rows[i]) {
        if (const MeasuredArm* pass = row->arm(arm)) passes.push_back(pass);
      }
      groups[i].bars.push_back(sum_of(passes));
    }
    if (arms == 2) groups[i].speed = groups[i].bars[1].us / groups[i].bars[0].us;
  }
  return groups;
}

std::string number(double value) { return printed("%.6g", value); }

std::string place(double x, double y) { return " x=\"" + number(x) + "\" y=\"" + number(y) + "\""; }

std::string text(double x, double y, const std::string& style, const std::string& words) {
  return "<text class=\"" + style + "\"" + place(x, y) + ">" + xml_text(words) + "</text>\n";
}

std::string rectangle(double x, double y, double width, double height, size_t arm) {
  return "<rect class=\"arm" + std::to_string(arm % kColours) + "\"" + place(x, y) + " width=\"" +
         number(width) + "\" height=\"" + number(height) + "\"/>\n";
}

std::string group_svg(const BarGroup& group, double y, double us_of_whole_width) {
  const double height = kBar * static_cast<double>(group.bars.size()), middle = y + height / 2 + 4;
  std::string svg = text(kLabelEnd, middle, "label end", shortened(group.name, kMostLetters));
  for (size_t arm = 0; arm < group.bars.size(); ++arm) {
    const Bar& bar = group.bars[arm];
    const double top = y + kBar * static_cast<double>(arm);
    double end = kBarBegin;
    if (!std::isnan(bar.us)) {
      const double width = (kBarEnd - kBarBegin) * bar.us / us_of_whole_width;
      svg += rectangle(kBarBegin, top, width, kBar - 1, arm);
      end += width;
    }
    svg += bar.wrong ? text(end + 5, top + 10, "wrong", "wrong")
                     : text(end + 5, top + 10, "value", shown(bar.us, format_significant));
  }
  if (!std::isnan(group.speed)) {
    svg += text(kRatioEnd, middle, "ratio end", format_speedup(group.speed));
  }
  return svg;
}

constexpr const char* kStyle = R"(<style>
text { font-family: system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1b1f24; font-size: 14px }
.title { font-size: 17px; font-weight: 600 } .about, .value { fill: #59616b }
.value, .wrong { font-size: 12px } .wrong { fill: #a4161a } .ratio { font-weight: 600 } .end { text-anchor: end }
.page { fill: #ffffff } .arm0 { fill: #0072b2 } .arm1 { fill: #d55e00 } .arm2 { fill: #00835f }
.arm3 { fill: #a64d82 } .arm4 { fill: #6d5bd0 } .arm5 { fill: #8a6d00 }
@media (prefers-color-scheme: dark) {
text { fill: #e7eaee } .about, .value { fill: #a3acb7 } .wrong { fill: #ff8d8d }
.page { fill: #14171b } .arm0 { fill: #56b4e9 } .arm1 { fill: #f0964b } .arm2 { fill: #3dc79a }
.arm3 { fill: #e08fbf } .arm4 { fill: #a99cf5 } .arm5 { fill: #d9bb45 }
}
</style>
)";

std::string head_svg(const Results& results, const LayersSection& section, bool has_ratios) {
  const std::string title = "A training step of " + shortened(results.name, kMostLettersInHead);
  std::string svg =
      "<title>" + xml_text(title) + "</title>\n" + kStyle +
      "<rect class=\"page\" width=\"100%\" height=\"100%\" rx=\"6\"/>\n" +
      text(kMargin, 27, "title", title) +
      text(kMargin, 47, "about",
           "µs, shorter is faster; batch " + format_whole(section.batch) + ", " + section.math +
               ", " + shortened(results.environment.device(), kMostLettersInHead));
  double x = kMargin;
  for (size_t arm = 0; arm < results.arms.size(); ++arm) {
    const std::string name = shortened(results.arm_name(arm), kMostLetters);
    svg += rectangle(x, 58, 11, 11, arm) + text(x + 16, 68, "about", name);
    x += 34 + 8.0 * static_cast<double>(name.size());
  }
  if (has_ratios) {
    svg += text(kRatioEnd, 68, "about end",
                "speed of " + shortened(results.arm_name(0), kMostLetters));
  }
  return svg;
}

}  // namespace

std::string step_chart_svg(const Results& results) {
  const LayersSection& section = measured_layers(results);
  const size_t arms = results.arms.size();
  std::vector<BarGroup> groups = layer_groups(section, arms);
  groups.insert(groups.begin(), whole_step(section, arms));
  double longest = 0;
  bool has_ratios = false;
  for (const BarGroup& group : groups) {
    has_ratios = has_ratios || !std::isnan(group.speed);
    for (const Bar& bar : group.bars) longest = std::fmax(longest, bar.us);
  }
  const double step = kBar * static_cast<double>(arms) + kGroupGap;
  const double height = kHead + step * static_cast<double>(groups.size()) + kMargin - kGroupGap;
  std::string svg =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"" + number(kShownWidth) +
      "\" height=\"" + number(std::round(height * kShownWidth / kWidth)) + "\" viewBox=\"0 0 " +
      number(kWidth) + " " + number(height) + "\">\n" + head_svg(results, section, has_ratios);
  for (size_t i = 0; i < groups.size(); ++i) {
    svg += group_svg(groups[i], kHead + step * static_cast<double>(i), longest);
  }
  return svg + "</svg>\n";
}

}  // namespace duet
