// Tables of results as text for a console.
#pragma once

#include <string>

#include "compare/result_tables.h"

namespace duet {

/// Columns aligned, numbers at the right, two blanks between; columns without any content are left
/// out.
std::string table_text(const ResultTable& table);

}  // namespace duet
