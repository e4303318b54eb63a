// The words of a problem as people write it, "n=64,c=1,h=28,w=28,k=64,r=3,s=3,nhwc", and the axes
// among them: words with several values, of which every combination is a problem.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace duet {

/// A word and its values. A word without '=' (nhwc, tf32, float32) is written out: layout=nhwc,
/// math=tf32, dtype=float32.
struct ProblemWord {
  std::string name;
  std::vector<std::string> values;
};
using ProblemWords = std::vector<ProblemWord>;

/// Words at commas and blanks. A value may be a range: 1..1024x2 doubles, 64..256+64 adds, 1..4
/// counts; and a word may have several: n=1,8,64,c=3; each counts once. Throws ConfigError with the
/// word, what is expected, and the nearest known one.
ProblemWords split_problem(const std::string& text);

/// The values of "1,8,64" or "1..1024x2", each once. `what` names them in messages ("--batch").
std::vector<std::string> split_values(const std::string& text, const std::string& what);
/// The same as numbers. Throws ConfigError for what is none, or too large for one.
std::vector<int64_t> read_batches(const std::string& text, const std::string& what);

/// Gives `name` other values, or adds it.
void set_word(ProblemWords& words, const std::string& name, std::vector<std::string> values);

/// Every combination of values, the last word's values next to each other. Throws ConfigError if
/// there are more than a person would wait for.
std::vector<ProblemWords> combinations(const ProblemWords& words);

/// "n=64,c=1,h=28,nhwc"
std::string join_problem(const ProblemWords& words);

}  // namespace duet
