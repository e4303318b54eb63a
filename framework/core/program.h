// How a program of Duet's is called from the shell that called this one.
#pragma once

#include <string>

namespace duet {

/// `command`, whose first word is a program of Duet's, with the folder that this program was started
/// from: "trainer list impls" where the shell found it by its name, and
/// "build/release/apps/trainer list impls" where it was started by such a path. For what is printed
/// to be pasted; what is kept in files has no folder.
std::string as_started(const std::string& command);

/// What main() was called with as its first argument. Without it there is no folder.
void set_program(const char* path);

}  // namespace duet
