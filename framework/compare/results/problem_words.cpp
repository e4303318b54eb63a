#include "compare/results/problem_words.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>

#include "core/config.h"
#include "core/error.h"

namespace duet {
namespace {

constexpr size_t kMostProblems = 1000;

const std::vector<std::pair<std::string, std::string>>& bare_words() {
  static const std::vector<std::pair<std::string, std::string>> words = {
      {"nchw", "layout=nchw"},      {"nhwc", "layout=nhwc"},        {"fp32", "math=fp32"},
      {"tf32", "math=tf32"},        {"bf16", "math=bf16"},          {"float32", "dtype=float32"},
      {"float64", "dtype=float64"}, {"bfloat16", "dtype=bfloat16"},
  };
  return words;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::optional<int64_t> whole(const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

// The values of "64", "2x1", "true" or a range.
std::vector<std::string> expand(const std::string& value, const std::string& name) {
  const size_t dots = value.find("..");
  if (dots == std::string::npos) return {value};
  const size_t sign = value.find_first_of("x+", dots);
  const auto first = whole(value.substr(0, dots));
  const auto last =
      whole(value.substr(dots + 2, sign == std::string::npos ? sign : sign - dots - 2));
  const bool times = sign != std::string::npos && value[sign] == 'x';
  const auto step =
      sign == std::string::npos ? std::optional<int64_t>(1) : whole(value.substr(sign + 1));
  const auto sound = [](std::optional<int64_t> size) {
    return size && *size >= 1 && *size <= ConfigReader::kMaxInteger;
  };
  if (!sound(first) || !sound(last) || !sound(step) || *last < *first || (times && *step < 2)) {
    throw ConfigError(name + "=" + value +
                      ": not a range; expected e.g. 1..1024x2 (doubling), 64..256+64 (adding) or "
                      "1..4, from the smaller to the larger");
  }
  std::vector<std::string> values;
  for (int64_t i = *first; i <= *last; i = times ? i * *step : i + *step) {
    values.push_back(std::to_string(i));
    if (values.size() > kMostProblems) {
      throw ConfigError(name + "=" + value + ": more than " + std::to_string(kMostProblems) +
                        " values; take larger steps");
    }
  }
  return values;
}

void append(std::vector<std::string>& values, const std::string& value, const std::string& name) {
  for (std::string& each : expand(value, name)) {
    const bool known = std::find(values.begin(), values.end(), each) != values.end();
    if (known) continue;
    if (values.size() == kMostProblems) {
      throw ConfigError(name + ": more than " + std::to_string(kMostProblems) +
                        " values; take fewer");
    }
    values.push_back(std::move(each));
  }
}

[[noreturn]] void refuse_bare(const std::string& token) {
  std::vector<std::string> known;
  for (const auto& [word, meaning] : bare_words()) known.push_back(word);
  const std::string hint = did_you_mean(token, known);
  throw ConfigError("'" + token + "' has no value; expected " + token + "=VALUE" +
                    (hint.empty() ? ", or one of the words without: " + join(known) : hint));
}

}  // namespace

ProblemWords split_problem(const std::string& text) {
  ProblemWords words;
  size_t at = 0;
  while ((at = text.find_first_not_of(", \t\n", at)) != std::string::npos) {
    const size_t end = std::min(text.find_first_of(", \t\n", at), text.size());
    std::string token = text.substr(at, end - at);
    at = end;
    if (token.find('=') == std::string::npos) {
      if (is_digit(token[0]) && !words.empty()) {  // a further value of the word before
        append(words.back().values, token, words.back().name);
        continue;
      }
      const auto bare = std::find_if(bare_words().begin(), bare_words().end(),
                                     [&](const auto& word) { return word.first == token; });
      if (bare == bare_words().end()) refuse_bare(token);
      token = bare->second;
    }
    const size_t equals = token.find('=');
    const std::string name = token.substr(0, equals), value = token.substr(equals + 1);
    if (name.empty() || value.empty()) {
      throw ConfigError("'" + token + "': expected WORD=VALUE, e.g. n=64");
    }
    for (const ProblemWord& word : words) {
      if (word.name == name) throw ConfigError("'" + name + "' is given twice");
    }
    words.push_back({name, {}});
    append(words.back().values, value, name);
  }
  return words;
}

std::vector<std::string> split_values(const std::string& text, const std::string& what) {
  std::vector<std::string> values;
  size_t at = 0;
  while ((at = text.find_first_not_of(", ", at)) != std::string::npos) {
    const size_t end = std::min(text.find_first_of(", ", at), text.size());
    append(values, text.substr(at, end - at), what);
    at = end;
  }
  if (values.empty()) throw ConfigError(what + ": expected values, e.g. 64 or 1,8,64 or 1..1024x2");
  return values;
}

std::vector<int64_t> read_batches(const std::string& text, const std::string& what) {
  std::vector<int64_t> batches;
  for (const std::string& value : split_values(text, what)) {
    const auto batch = whole(value);
    if (!batch) throw ConfigError(what + " " + value + ": not a number, or too large a one");
    batches.push_back(*batch);
  }
  return batches;
}

void set_word(ProblemWords& words, const std::string& name, std::vector<std::string> values) {
  for (ProblemWord& word : words) {
    if (word.name != name) continue;
    word.values = std::move(values);
    return;
  }
  words.push_back({name, std::move(values)});
}

std::vector<ProblemWords> combinations(const ProblemWords& words) {
  std::vector<ProblemWords> all = {{}};
  for (const ProblemWord& word : words) {
    if (all.size() * word.values.size() > kMostProblems) {
      throw ConfigError("these axes make more than " + std::to_string(kMostProblems) +
                        " problems; take fewer values");
    }
    std::vector<ProblemWords> longer;
    for (const ProblemWords& begun : all) {
      for (const std::string& value : word.values) {
        longer.push_back(begun);
        longer.back().push_back({word.name, {value}});
      }
    }
    all = std::move(longer);
  }
  return all;
}

std::string join_problem(const ProblemWords& words) {
  std::vector<std::string> tokens;
  for (const ProblemWord& word : words) {
    const std::string token = word.name + "=" + join(word.values, ",");
    const auto bare = std::find_if(bare_words().begin(), bare_words().end(),
                                   [&](const auto& known) { return known.second == token; });
    tokens.push_back(bare == bare_words().end() ? token : bare->first);
  }
  return join(tokens, ",");
}

}  // namespace duet
