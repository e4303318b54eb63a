// What the files of implementations say of themselves, put into the program when it is built
// (cmake/embed_comments.cmake).
#pragma once

#include <string>
#include <vector>

/// The comment at the start of framework/layers/FOLDER/FOLDER_ID.cu or .cpp, or of a file that begins with
/// the ids of several, without its slashes.
struct ImplementationComment {
  std::string file;  // "conv2d/ladder/conv2d_custom_naive.cu"
  std::string text;
};
extern const std::vector<ImplementationComment> kImplementationComments;
