// What programs of `trainer explain` compare, and that their comparison sees what is wrong.
#include "explain/values.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>

#include "core/write_file.h"
#include "support/temporary_folder.h"

namespace duet {
namespace {

TEST(ExplainCompared, ElementsAreSpreadOverTheTensorAndItsBorders) {
  EXPECT_EQ(::compared({2, 3}), (std::vector<size_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(::compared({4096}).back(), 4095u);
  const std::vector<size_t> sizes = {64, 61, 28, 56};
  const std::vector<size_t> elements = ::compared(sizes);
  ASSERT_EQ(elements.size(), 4096u);
  EXPECT_EQ(elements[0], 0u);
  EXPECT_EQ(elements[1], size_t{64} * 61 * 28 * 56 - 1);
  EXPECT_GT(std::set<size_t>(elements.begin(), elements.end()).size(), 3900u);
  size_t below = 1;
  for (size_t axis = sizes.size(); axis-- > 0;) {
    std::map<size_t, size_t> counts;
    for (const size_t element : elements) ++counts[element / below % sizes[axis]];
    EXPECT_EQ(counts.size(), sizes[axis]);  // each index somewhere
    EXPECT_GT(counts[0], 200u);
    EXPECT_GT(counts[sizes[axis] - 1], 200u);
    below *= sizes[axis];
  }
}

class ExplainCompare : public testing::Test {
 protected:
  /// Compares with 0, ..., 4999 at the elements that are chosen, each of which may err by 0.5.
  bool right(const std::vector<double>& found, double rms = 0.1) {
    const std::vector<size_t> elements = ::compared({found.size()});
    std::vector<double> numbers = {rms};
    numbers.insert(numbers.end(), elements.begin(), elements.end());
    numbers.insert(numbers.end(), elements.size(), 0.5);
    const std::string_view bytes(reinterpret_cast<const char*>(numbers.data()),
                                 numbers.size() * sizeof(double));
    write_file(folder_ / "values", std::string(bytes));
    ::Values values(folder_ / "values", numbers.size());
    testing::internal::CaptureStdout();
    const bool right = ::compare("y", found, {found.size()}, values);
    testing::internal::GetCapturedStdout();
    return right;
  }
  TemporaryFolder folder_;
};

TEST_F(ExplainCompare, SeesOneWrongElementAndWhatIsNoNumberAnywhere) {
  std::vector<double> found(5000);
  std::iota(found.begin(), found.end(), 0);
  EXPECT_TRUE(right(found));
  const std::vector<size_t> elements = ::compared({found.size()});
  for (const size_t i : {elements[0], elements[1], elements[2000], elements[4095]}) {
    for (const double error : {0.49, 0.51, -0.51, HUGE_VAL}) {
      std::vector<double> wrong = found;
      wrong[i] += error;
      EXPECT_EQ(right(wrong, 0.4), error == 0.49) << i << " " << error;
    }
  }
  for (size_t i = 0; i < found.size(); i += 7) {  // compared or not
    std::vector<double> wrong = found;
    wrong[i] = std::nan("");
    ASSERT_FALSE(right(wrong)) << i;
  }
  // Each by less than it may, but all of them.
  for (double& value : found) value += 0.2;
  EXPECT_FALSE(right(found));
  EXPECT_TRUE(right(found, 0.21));
}

}  // namespace
}  // namespace duet
