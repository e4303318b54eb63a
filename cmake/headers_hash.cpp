// headers_hash FOLDER OUTPUT: writes the definition of duet::kBuiltHeaders (user_kernels/headers_hash.h).
#include "user_kernels/headers_hash.h"

#include <fstream>

int main(int count, char** words) {
  if (count != 3) return 2;
  std::ofstream out(words[2]);
  out << "#include \"user_kernels/headers_hash.h\"\n\nconst char* const duet::kBuiltHeaders = \""
      << duet::hash_of_headers(words[1]) << "\";\n";
  out.close();
  return out ? 0 : 1;
}
