// Test doubles of one line: cpu_reference of a layer, and behind each of its runs what a wrong kernel
// would have made of the outputs.
#pragma once

#include <string>
#include <vector>

#include "measure/examine/examine.h"
#include "support/case_rig.h"
#include "support/double_base.h"

namespace duet {

template <class P>
using Spoil = void (*)(const P& problem, Pass pass, const Run& run, const LayerTensors& t);

template <class P>
class Slip : public DoubleBase {
 public:
  Slip(const P& problem, std::unique_ptr<Implementation> sound, Spoil<P> spoil)
      : DoubleBase(std::move(sound)), problem_(problem), spoil_(spoil) {}
  void run(Pass pass, const Run& run, const LayerTensors& t) override {
    sound_->run(pass, run, t);
    if (output(pass, t)) spoil_(problem_, pass, run, t);
  }
  using DoubleBase::output;

 private:
  const P problem_;
  const Spoil<P> spoil_;
};

/// cpu_double_slip in a layer's list while this lives; one at a time.
template <class P>
class SlipInList {
 public:
  SlipInList(std::vector<ImplEntry<P>>& list, Spoil<P> spoil)
      : listed_(list, {{"cpu_double_slip", supports_all, make, false, reference_dtypes()}}) {
    current() = {&list, spoil};
  }

 private:
  struct Current {
    std::vector<ImplEntry<P>>* list;
    Spoil<P> spoil;
  };
  static Current& current() {
    static Current all;
    return all;
  }
  static std::unique_ptr<Implementation> make(const P& problem, Context& context) {
    return std::make_unique<Slip<P>>(
        problem, make_sound(*current().list, "cpu_reference", problem, context), current().spoil);
  }

  const InList<P> listed_;
};

/// The first fault of cpu_double_slip in `pass`, "kind: text", or an empty string.
inline std::string fault_of_slip(const Layer& layer, Pass pass) {
  const CheckData check_data = make_check_data(layer, random_data(layer, 1), {}, {pass});
  const Examination found =
      check(layer, "cpu_double_slip", pass, check_data, test_context(Device::kCpu));
  if (found.passed()) return "";
  return std::string(to_string(found.faults[0].kind)) + ": " + found.faults[0].text;
}

}  // namespace duet
