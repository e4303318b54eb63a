// Results (results.h) as JSON, and back. A type lists its keys once, in `fields(f)`:
//   f("us", us)          absent values are null
//   f.maybe("us", us)    absent values have no key
//   f.or_null("type", t) an empty text is null
//   f.by_arm("arms", a)  a list of at most as many as there are arms
//   if (f.leaves_out(!agrees)) return;   what follows has no keys then
#pragma once

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>

#include "compare/results/results.h"
#include "core/error.h"

namespace duet {

/// Throws DataError, with the file and what is wrong in it and where: not there, not JSON, not
/// results of compare, or of another version of them, or of the wrong form. The summary is made
/// anew.
Results load_results(const std::filesystem::path& path);
/// The JSON in a file that `program` wrote, with "schema". Throws DataError as load_results().
nlohmann::json read_results_file(const std::filesystem::path& path, const std::string& program,
                                 const char* schema);
/// The same as a T. Throws DataError.
template <class T>
T load_as(const std::filesystem::path& path, const std::string& program, const char* schema);
/// load_results() of JSON; the summary is that of the JSON.
Results results_from(const nlohmann::json& json);
/// Of network_json().
std::vector<NetworkLayer> network_from(const nlohmann::json& network);
nlohmann::json to_json(const Results& results);
nlohmann::json to_json(const BenchResults& results);
/// JSON as the text of a file.
std::string file_text(const nlohmann::json& json);

class JsonWriter {
 public:
  template <class T>
  static nlohmann::json write(const T& value);

  template <class T>
  JsonWriter& operator()(const char* key, const T& value) {
    object_[key] = write(value);
    return *this;
  }
  template <class T>
  JsonWriter& maybe(const char* key, const T& value) {
    return is_absent(value) ? *this : (*this)(key, value);
  }
  JsonWriter& or_null(const char* key, const std::string& text) {
    object_[key] = text.empty() ? nlohmann::json() : nlohmann::json(text);
    return *this;
  }
  template <class T>
  JsonWriter& by_arm(const char* key, const T& value) {
    return (*this)(key, value);
  }
  bool leaves_out(bool absent) const { return absent; }
  void set_arms(size_t) {}

 private:
  template <class T>
  static bool is_absent(const T& value) {
    if constexpr (std::is_floating_point_v<T>) {
      return std::isnan(value);
    } else if constexpr (requires { value.known(); }) {
      return !value.known();
    } else if constexpr (requires { value.empty(); }) {
      return value.empty();
    } else {
      return !value;
    }
  }

  nlohmann::json object_ = nlohmann::json::object();
};

template <class T>
nlohmann::json JsonWriter::write(const T& value) {
  if constexpr (std::is_same_v<T, Count>) {
    return std::isnan(value) ? nlohmann::json() : nlohmann::json(std::llround(value));
  } else if constexpr (std::is_same_v<T, double>) {
    return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json();
  } else if constexpr (std::is_same_v<T, Place>) {
    return value.index;
  } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
    return value;
  } else if constexpr (requires { value.has_value(); }) {
    return value ? write(*value) : nlohmann::json();
  } else if constexpr (requires { value.first; }) {
    return nlohmann::json::array({write(value.first), write(value.second)});
  } else if constexpr (
      requires { value.push_back({}); } || requires { value.begin(); }) {
    auto list = nlohmann::json::array();
    for (const auto& each : value) list.push_back(write(each));
    return list;
  } else {
    if constexpr (requires { value.known(); }) {
      if (!value.known()) return {};
    }
    JsonWriter writer;
    const_cast<T&>(value).fields(writer);  // which does not change it
    return std::move(writer.object_);
  }
}

class JsonReader {
 public:
  /// Throws DataError: "layers[0].rows[3].us: is "fast", not an object".
  template <class T>
  static T read(const nlohmann::json& json);

  template <class T>
  JsonReader& operator()(const char* key, T& value) {
    const auto found = object_.find(key);
    const bool absent = found == object_.end() || found->is_null();
    if constexpr (std::is_same_v<T, Place>) {
      if (absent) refuse({&at_, key}, "is missing");
    }
    if (!absent) read(*found, {&at_, key}, value);
    return *this;
  }
  template <class T>
  JsonReader& maybe(const char* key, T& value) {
    return (*this)(key, value);
  }
  JsonReader& or_null(const char* key, std::string& text) { return (*this)(key, text); }
  template <class T>
  JsonReader& by_arm(const char* key, T& value) {
    const auto found = object_.find(key);
    if (found != object_.end() && found->is_array() && found->size() > *arms_) {
      refuse({&at_, key}, "has " + std::to_string(found->size()) + " entries, more than the " +
                              std::to_string(*arms_) + " arms");
    }
    return (*this)(key, value);
  }
  bool leaves_out(bool) const { return false; }
  /// Places that are read from now on are below `count`.
  void set_arms(size_t count) { *arms_ = count; }

 private:
  /// A place in the document: a key of an object, or an element of a list.
  struct At {
    const At* parent = nullptr;
    const char* key = nullptr;
    size_t index = 0;
    std::string text() const;
  };

  JsonReader(const nlohmann::json& object, const At& at, size_t* arms)
      : object_(object), at_(at), arms_(arms) {}

  [[noreturn]] static void refuse(const At& at, const std::string& why);
  [[noreturn]] static void refuse(const At& at, const nlohmann::json& found,
                                  const std::string& wanted);
  static double number(const nlohmann::json& json, const At& at);
  static double count(const nlohmann::json& json, const At& at);
  static void check_list(const nlohmann::json& json, const At& at, bool of_numbers);

  template <class T>
  void read(const nlohmann::json& json, const At& at, T& value);

  const nlohmann::json& object_;
  const At& at_;
  size_t* arms_;
};

template <class T>
T JsonReader::read(const nlohmann::json& json) {
  size_t arms = SIZE_MAX;
  T value;
  const At top;
  JsonReader(json, top, &arms).read(json, top, value);
  return value;
}

template <class T>
void JsonReader::read(const nlohmann::json& json, const At& at, T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    if (!json.is_boolean()) refuse(at, json, "true or false");
    value = json.get<bool>();
  } else if constexpr (std::is_same_v<T, double>) {
    value = number(json, at);
  } else if constexpr (std::is_same_v<T, Count>) {
    value.value = count(json, at);
  } else if constexpr (std::is_same_v<T, Place>) {
    const double place = number(json, at);
    if (!(place >= 0 && place < static_cast<double>(*arms_)) || std::floor(place) != place) {
      refuse(at, json, "one of the " + std::to_string(*arms_) + " arms, counted from 0");
    }
    value.index = static_cast<size_t>(place);
  } else if constexpr (std::is_integral_v<T>) {
    if (sizeof(T) == 8 && json.is_number_unsigned()) {
      value = json.get<T>();  // a seed may be any
    } else {
      value = static_cast<T>(
          std::min(count(json, at), static_cast<double>(std::numeric_limits<T>::max())));
    }
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (!json.is_string()) refuse(at, json, "a text");
    value = json.get<std::string>();
  } else if constexpr (requires { value.has_value(); }) {
    read(json, at, value.emplace());
  } else if constexpr (requires { value.first; }) {
    if (!json.is_array() || json.size() != 2) refuse(at, json, "a list of two");
    read(json[0], {&at, nullptr, 0}, value.first);
    read(json[1], {&at, nullptr, 1}, value.second);
  } else if constexpr (requires { value.begin(); }) {
    using Element = typename T::value_type;
    check_list(json, at, std::is_arithmetic_v<Element>);
    value.clear();
    for (size_t i = 0; i < json.size(); ++i) {
      if constexpr (std::is_same_v<Element, double>) {
        value.push_back(json[i].is_null() ? kUnknown : number(json[i], {&at, nullptr, i}));
      } else {
        Element& element = value.emplace_back();
        if constexpr (requires { element.has_value(); }) {
          if (json[i].is_null()) continue;
        }
        read(json[i], {&at, nullptr, i}, element);
      }
    }
  } else {
    if (!json.is_object()) refuse(at, json, "an object");
    JsonReader reader(json, at, arms_);
    value.fields(reader);
  }
}

/// What `read` returns; a DataError of it names the file.
template <class Read>
auto in_file(const std::filesystem::path& path, const Read& read) {
  try {
    return read();
  } catch (const DataError& e) {
    throw DataError(path.string() + ": " + e.what());
  }
}

template <class T>
T load_as(const std::filesystem::path& path, const std::string& program, const char* schema) {
  const nlohmann::json parsed = read_results_file(path, program, schema);
  return in_file(path, [&] { return JsonReader::read<T>(parsed); });
}

}  // namespace duet
