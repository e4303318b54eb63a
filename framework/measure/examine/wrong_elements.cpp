#include "measure/examine/wrong_elements.h"

#include <algorithm>
#include <array>
#include <iomanip>

#include "core/number_text.h"

namespace duet {
namespace {

constexpr int64_t kMostRows = 16, kMostColumns = 32;
constexpr size_t kFewIndices = 4;  // that are listed where they follow no rule

struct Axis {
  std::string name;
  int64_t size;
  int64_t stride;  // in elements
};

// Those of more than one index, in the order of the shape whatever the layout: n, c, h, w.
std::vector<Axis> axes_of(const TensorDesc& desc) {
  const Shape& shape = desc.shape;
  std::vector<Axis> axes;
  for (int i = 0; i < shape.rank(); ++i) {
    const std::string name =
        shape.rank() == 4 ? std::string(1, "nchw"[i]) : "axis " + std::to_string(i);
    axes.push_back({name, shape[i], 0});
  }
  std::vector<size_t> order;  // in memory, the innermost last
  for (size_t i = 0; i < axes.size(); ++i) order.push_back(i);
  if (shape.rank() == 4 && desc.layout == Layout::kNHWC) order = {0, 2, 3, 1};
  int64_t stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    axes[order[i]].stride = stride;
    stride *= axes[order[i]].size;
  }
  std::erase_if(axes, [](const Axis& axis) { return axis.size == 1; });
  return axes;
}

// "all 64", "12 of 13", "0 to 7 of 128", "every 4th from 0 (32 of 128)", "1, 3, 4, 9, ... (17 of 128)"
std::string indices_text(const std::vector<char>& is_wrong) {
  std::vector<size_t> all;
  for (size_t i = 0; i < is_wrong.size(); ++i) {
    if (is_wrong[i]) all.push_back(i);
  }
  const std::string of = " of " + std::to_string(is_wrong.size());
  if (all.size() == is_wrong.size()) return "all " + std::to_string(all.size());
  if (all.size() == 1) return std::to_string(all[0]) + of;
  const std::string count = " (" + std::to_string(all.size()) + of + ")";
  const size_t step = all[1] - all[0];
  const bool even = std::adjacent_find(all.begin(), all.end(), [&](size_t a, size_t b) {
                      return b - a != step;
                    }) == all.end();
  if (even && step == 1) {
    return std::to_string(all.front()) + " to " + std::to_string(all.back()) + of;
  }
  if (even && all.size() > 2) {
    const std::string nth = step == 2 ? "2nd" : step == 3 ? "3rd" : std::to_string(step) + "th";
    return "every " + nth + " from " + std::to_string(all[0]) + " to " +
           std::to_string(all.back()) + count;
  }
  std::string text;
  for (size_t i = 0; i < std::min(all.size(), kFewIndices); ++i) {
    text += (i ? ", " : "") + std::to_string(all[i]);
  }
  return text + (all.size() > kFewIndices ? ", ..." : "") + count;
}

struct Cell {
  int64_t elements = 0, wrong = 0, not_finite = 0;
  char symbol() const {
    if (wrong == 0) return '.';
    if (not_finite > 0) return 'N';
    return wrong == elements ? '#' : '+';
  }
};

class Picture {
 public:
  Picture(const TensorDesc& desc, const std::vector<ElementState>& elements)
      : axes_(axes_of(desc)), elements_(elements) {
    // A vector is a single row.
    while (axes_.size() < 2) axes_.insert(axes_.begin(), Axis{"", 1, 0});
    for (const Axis& axis : axes_) wrong_.emplace_back(static_cast<size_t>(axis.size), 0);
    visit([this](const Index& at, ElementState state) {
      if (state == ElementState::kRight) return;
      for (size_t i = 0; i < at.size(); ++i) wrong_[i][static_cast<size_t>(at[i])] = 1;
    });
  }

  std::string text() const {
    std::string axes;
    for (size_t i = 0; i < axes_.size(); ++i) {
      if (axes_[i].name.empty()) continue;
      const std::string indices = indices_text(wrong_[i]);
      axes += (axes.empty() ? "" : "; ") + axes_[i].name + ": " + indices;
    }
    return axes + grid();
  }

 private:
  using Index = std::vector<int64_t>;

  template <class Visit>
  void visit(const Visit& visit) const {
    Index at(axes_.size(), 0);
    int64_t offset = 0;
    for (size_t visited = 0; visited < elements_.size(); ++visited) {
      visit(at, elements_[static_cast<size_t>(offset)]);
      for (size_t i = at.size(); i-- > 0;) {
        offset += axes_[i].stride;
        if (++at[i] < axes_[i].size) break;
        offset -= at[i] * axes_[i].stride;
        at[i] = 0;
      }
    }
  }

  // Indices that share a row or column of cells.
  static int64_t step_of(const Axis& axis, int64_t most) { return (axis.size + most - 1) / most; }

  std::string grid() const {
    const Axis &rows = axes_[axes_.size() - 2], &columns = axes_.back();
    const int64_t high = step_of(rows, kMostRows), wide = step_of(columns, kMostColumns);
    const auto count = [](int64_t size, int64_t step) {
      return static_cast<size_t>((size + step - 1) / step);
    };
    const size_t width = count(columns.size, wide);
    std::vector<std::vector<Cell>> cells(count(rows.size, high), std::vector<Cell>(width));
    visit([&](const Index& at, ElementState state) {
      for (size_t i = 0; i + 2 < at.size(); ++i) {
        if (!wrong_[i][static_cast<size_t>(at[i])]) return;
      }
      Cell& cell = cells[static_cast<size_t>(at[at.size() - 2] / high)]
                        [static_cast<size_t>(at.back() / wide)];
      ++cell.elements;
      cell.wrong += state != ElementState::kRight;
      cell.not_finite += state == ElementState::kNotFinite;
    });
    return drawn(cells, rows, columns, high, wide);
  }

  // The letter, or the number.
  static std::string short_name(const Axis& axis) { return axis.name.substr(axis.name.size() - 1); }

  static std::string drawn(const std::vector<std::vector<Cell>>& cells, const Axis& rows,
                           const Axis& columns, int64_t high, int64_t wide) {
    const std::string corner =
        rows.name.empty() ? "" : short_name(rows) + "\\" + short_name(columns);
    const auto label_width =
        static_cast<int>(std::max(corner.size(), std::to_string(rows.size - 1).size()));
    TextStream text;
    text << "\n" << std::setw(label_width) << corner << " ";
    // The last digit of each index.
    for (size_t i = 0; i < cells[0].size(); ++i) {
      text << (wide == 1 ? static_cast<char>('0' + i % 10) : '-');
    }
    if (wide > 1) text << " " << wide << " a cell";
    std::string symbols;
    for (size_t i = 0; i < cells.size(); ++i) {
      text << "\n" << std::setw(label_width);
      if (rows.name.empty()) {
        text << "";
      } else {
        text << static_cast<int64_t>(i) * high;
      }
      text << " ";
      for (const Cell& cell : cells[i]) {
        text << cell.symbol();
        if (symbols.find(cell.symbol()) == std::string::npos) symbols += cell.symbol();
      }
    }
    return text.str() + "\n" + legend(symbols);
  }

  static std::string legend(const std::string& symbols) {
    static constexpr std::array<std::pair<char, const char*>, 4> kAll = {
        {{'.', "right"},
         {'+', "some wrong"},
         {'#', "all wrong"},
         {'N', "unwritten, NaN or infinite"}}};
    std::string text;
    for (const auto& [symbol, meaning] : kAll) {
      if (symbols.find(symbol) == std::string::npos) continue;
      text += (text.empty() ? "" : ", ") + std::string(1, symbol) + " " + meaning;
    }
    return text;
  }

  std::vector<Axis> axes_;
  const std::vector<ElementState>& elements_;
  std::vector<std::vector<char>> wrong_;  // by axis and index: something there is wrong
};

}  // namespace

std::string picture_of(const TensorDesc& desc, const std::vector<ElementState>& elements) {
  const bool any = std::any_of(elements.begin(), elements.end(),
                               [](ElementState state) { return state != ElementState::kRight; });
  return any && elements.size() > 1 ? Picture(desc, elements).text() : "";
}

}  // namespace duet
