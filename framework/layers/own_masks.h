// Implementations whose random masks are not the reference's.
#pragma once

#include <string_view>

namespace duet {

/// Whether implementation `id` draws random masks of a generator of its own, which no seed, step and
/// stream of ours sets: other ones than the reference, one behind the other from call to call,
/// whatever the step's number. The id ends so, for all tables to say it. Only who names the id gets
/// it, no family and no measurement chooses it; where masks must be the same (arms that are compared,
/// a resumed run) it is refused; and a check holds it to what every mask must be (measure/own_masks.h).
inline bool has_own_masks(std::string_view id) { return id.ends_with("_own_masks"); }

}  // namespace duet
