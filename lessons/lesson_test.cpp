// What lesson.h must notice, without a GPU: wrong values, missing ones, calls that fail otherwise
// than they should, GPUs that are too old.
#include "lesson.h"

using lesson::compare, lesson::unmet;

int failures = 0;

void test(const char* name, bool passed) {
  if (passed) return;
  ++failures;
  std::printf("FAILED: %s\n", name);
}

/// Whether `call` counts a mistake.
template <class Call>
bool notices(Call call) {
  const int before = lesson::wrong;
  call();
  return lesson::wrong == before + 1;
}

int main() {
  const std::vector<float> right = {1, 2, 3}, nan = {1, NAN, 3};
  test("equal values", !notices([&] { compare("x", right, right); }));
  test("a difference within the limit", !notices([&] {
         compare("x", std::vector<float>{1, 2, 3.5}, right, 0.5);
       }));
  test("a difference beyond it", notices([&] {
         compare("x", std::vector<float>{1, 2, 3.5}, right, 0.4);
       }));
  test("NaN for a number", notices([&] { compare("x", nan, right, 10); }));
  test("a number for NaN", notices([&] { compare("x", right, nan, 10); }));
  test("NaN for NaN", !notices([&] { compare("x", nan, nan); }));
  test("infinity for a number", notices([&] {
         compare("x", std::vector<float>{1, INFINITY, 3}, right, 10);
       }));
  test("too few values", notices([&] { compare("x", std::vector<float>{1, 2}, right); }));
  test("no values", notices([] { compare("x", std::vector<float>{}, std::vector<float>{}); }));
  test("a fact that does not hold", notices([] { lesson::expect("fact", false); }));
  test("the error that was expected",
       !notices([] { SHOULD_FAIL(cudaErrorInvalidValue, cudaErrorInvalidValue); }));
  test("another error", notices([] { SHOULD_FAIL(cudaErrorNoDevice, cudaErrorInvalidValue); }));
  test("no error", notices([] { SHOULD_FAIL(cudaSuccess, cudaErrorInvalidValue); }));

  test("an old GPU", unmet({9, 0, "clusters"}, 8, 9).find("clusters") != std::string::npos);
  test("the oldest that will do", unmet({9, 0, "clusters"}, 9, 0).empty());
  test("a newer one", unmet({9, 0, "clusters"}, 12, 0).empty());
  test("a newer one where none will do", !unmet({9, 0, "wgmma", true}, 10, 0).empty());
  test("the exact one", unmet({9, 0, "wgmma", true}, 9, 0).empty());

  const std::vector<float> values = lesson::random_values(1000, 1);
  test("values lie from -1 to 1", std::all_of(values.begin(), values.end(), [](float value) {
         return value >= -1 && value < 1;
       }));
  test("seeds differ", values != lesson::random_values(1000, 2));
  std::printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
