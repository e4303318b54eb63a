// Whether Duet's headers are those that this program was built from: what was compiled with others has
// other classes.
#pragma once

#include <filesystem>
#include <string>

namespace duet {

/// 16 hexadecimal digits that are others, but for chance, if a header that a plugin may include is. `folder`
/// is framework/, or include/duet where Duet is installed.
std::string hash_of_headers(const std::filesystem::path& folder);
/// Of the folder that the library was built from.
extern const char* const kBuiltHeaders;

}  // namespace duet
