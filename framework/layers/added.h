// Implementations that no list in the source has: a user's own, added while the program starts. They
// stand behind those of the list everywhere.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "layers/implementation.h"

namespace duet {

class Layer;

/// What a row of a list is (ImplEntry), for any layer of one type.
class AddedEntry {
 public:
  virtual ~AddedEntry() = default;

  virtual std::string_view id() const = 0;
  /// As Layer's. REQUIRES: `layer` is bound.
  virtual std::optional<std::string> unsupported(const Layer& layer, Pass pass) const = 0;
  virtual std::unique_ptr<Implementation> make(const Layer& layer, Context& context) const = 0;
};

/// Adds `entry` to the type's implementations for as long as the process lives, in the place of one
/// of its id that was added before, which whoever uses it keeps alive.
void add_entry(std::string_view type, std::shared_ptr<const AddedEntry> entry);
void remove_entry(std::string_view type, std::string_view id);
/// The one of that id; nullptr if there is none.
std::shared_ptr<const AddedEntry> find_added(std::string_view type, std::string_view id);
/// `list`, and behind it what was added to the type.
std::vector<ImplInfo> with_added(std::string_view type, std::vector<ImplInfo> list);

}  // namespace duet
