#include "train/version.h"

namespace duet {

std::string version_text() {
  const std::string commit = DUET_COMMIT;
  return std::string(DUET_VERSION) + (commit.empty() ? "" : " (" + commit + ")");
}

}  // namespace duet
