// bench and compare as Python calls them: options by name, results as JSON on standard output.
#pragma once

#include <nanobind/nanobind.h>

namespace duet::python {

/// Adds run_bench() and run_compare() to the module. They are for a process of their own (duet/_measure.py):
/// they fork, as the implementations that they measure may crash, and set the process's log.
void define_measurements(nanobind::module_& m);

}  // namespace duet::python
