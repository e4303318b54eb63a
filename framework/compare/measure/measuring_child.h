// A measurement in a child process, which an implementation may end.
#pragma once

#include <functional>

#include "core/child.h"

namespace duet {

/// Calls measure(send) in a child process, and `receive` here with every text that it sends, as
/// run_in_child() does. What it throws ends the child, and is thrown here with its message
/// (named_error) and exit code; but an UnusableProcessError is the note of a child that has not
/// finished. REQUIRES: what run_in_child() does.
ChildEnd measure_in_child(const std::function<void(const Send&)>& measure, const Send& receive);

}  // namespace duet
