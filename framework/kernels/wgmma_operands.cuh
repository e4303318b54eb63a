// The operands of a product by wgmma (wgmma_product.cuh): images with the channels last, and matrices
// of weights, in bfloat16 or float (of which tf32 is multiplied), brought box by box by the copy engine.
// A plain matrix is its rows, or its columns.
//
// One step of the product sums over the terms in 128 bytes, 64 or 32. An operand O says:
//   Element            bfloat16 or float
//   kTurned            whether the sum runs along the rows of 128 bytes in shared memory (false), or
//                      across them (true: see matrix_descriptor(), and of float wgmma_turned.cuh)
//   Start, start<kRows>(t)   what is worth computing once for tile number t of kRows rows
//   bytes<kRows>()     that a step's copies bring; bytes<kRows>(start) where tiles differ in it
//   copy<kRows>(start, step, shared, barrier)   starts them
//   steps(t, split)    of tile t's sum, where tiles differ in them (A): they number B's terms too
//   unwritten()        rows of 128 bytes that no copy writes, from this one of each step on (turned operands)
//   kSums              whether the sums of its rows may be wanted (A)
#pragma once

#include <algorithm>
#include <type_traits>

#include "kernels/integers.cuh"
#include "kernels/tensor_copy.cuh"

namespace duet {

inline constexpr int kRowBytes = 128;
/// Terms of a step.
template <class T>
inline constexpr int kStepDepth = kRowBytes / static_cast<int>(sizeof(T));
/// Rows of A that a warpgroup multiplies; tiles have multiples of it along both axes.
inline constexpr int kPanel = 64;

/// Whether operand O lies as the instruction does not take it.
template <class O>
inline constexpr bool kIsTurnedFloat = O::kTurned&& std::is_same_v<typename O::Element, float>;

/// Steps of a tile's sum: so many, from `first` on.
struct WgmmaSteps {
  int first, count;
};

/// Positions (image, row, column) cut into boxes of at most `most`.
struct PositionBoxes {
  int images, height, width;
  int n = 1, h = 1, w = 1;  // of a box
  /// The pixels that positions are, for locate(): of all rows and columns, unless set otherwise.
  int first_pixel = 0, row_pixels, column_pixels = 1;
  FastDivisor by_w, by_h, by_boxes_w, by_boxes_h;

  /// With as few boxes as can be, and where results lie in planes of pixels (`planes`) in long runs of
  /// these. Their height and width, and the image's, are rounded down to multiples of `unit`.
  PositionBoxes(int images_, int height_, int width_, int most, bool planes = false, int unit = 1)
      : images(images_),
        height(height_ / unit * unit),
        width(width_ / unit * unit),
        row_pixels(width) {
    double best = 1e300;
    for (int box_w = std::min(width, most / unit / unit * unit); box_w >= unit; box_w -= unit) {
      const int most_h = std::min(height, most / box_w / unit * unit);
      for (int box_h = most_h; box_h >= unit; box_h -= unit) {
        const int box_n = std::min(images, most / (box_w * box_h));
        const int run = box_w == width ? box_w * box_h : box_w;
        const double cost = double(ceil_div(images, box_n)) * ceil_div(height, box_h) *
                            ceil_div(width, box_w) * (planes ? 1 + 8. / run : 1);
        if (cost >= best) continue;
        best = cost;
        n = box_n, h = box_h, w = box_w;
      }
    }
    by_w = FastDivisor(w);
    by_h = FastDivisor(h);
    by_boxes_w = FastDivisor(ceil_div(width, w));
    by_boxes_h = FastDivisor(ceil_div(height, h));
  }
  __host__ __device__ int box() const { return n * h * w; }
  int count() const { return ceil_div(images, n) * ceil_div(height, h) * ceil_div(width, w); }

  struct Start {
    int n, h, w;
  };
  __device__ __forceinline__ Start start(int number) const {
    Start at;
    int rest;
    by_boxes_w.divmod(number, rest, at.w);
    by_boxes_h.divmod(rest, at.n, at.h);
    return {at.n * n, at.h * h, at.w * w};
  }
  /// Position i of the box -> image and pixel; whether there is one.
  __device__ __forceinline__ bool locate(const Start& start, int i, int& image, int& pixel) const {
    int rest, column, row;
    by_w.divmod(i, rest, column);
    by_h.divmod(rest, image, row);
    const bool inside = image < n;
    image += start.n, row += start.h, column += start.w;
    pixel = first_pixel + row * row_pixels + column * column_pixels;
    return inside && image < images && row < height && column < width;
  }
};

/// How taps move over an image: position p along an axis meets, at tap r, its element
/// p * stride + first + r * step.
struct TapAxis {
  int count = 1, stride = 1, first = 0, step = 1;
};

/// Images [n][height][width][channels] under the taps of a convolution.
template <class T>
struct TapImage {
  CUtensorMap map;
  int tap_h, tap_w, stride_h, stride_w, first_h, first_w;
  FastDivisor by_blocks, by_taps_w;  // blocks of kStepDepth channels

  /// A box takes `channels` by the positions of `boxes`.
  TapImage(const T* images, int count, int height, int width, int channels, const TapAxis& h,
           const TapAxis& w, const PositionBoxes& boxes)
      : map(tensor_map(images, {{{channels, 1, kStepDepth<T>},
                                 {width, channels, boxes.w, w.stride},
                                 {height, int64_t{width} * channels, boxes.h, h.stride},
                                 {count, int64_t{height} * width * channels, boxes.n}}})),
        tap_h(h.step),
        tap_w(w.step),
        stride_h(h.stride),
        stride_w(w.stride),
        first_h(h.first),
        first_w(w.first),
        by_blocks(ceil_div(channels, kStepDepth<T>)),
        by_taps_w(w.count) {}

  /// A tap and a block of channels, number tap * blocks + block of all.
  struct Term {
    int r, s, block;
  };
  __device__ __forceinline__ Term term(int number) const {
    int tap;
    Term term;
    by_blocks.divmod(number, tap, term.block);
    by_taps_w.divmod(tap, term.r, term.s);
    return term;
  }
  __device__ __forceinline__ void advance(Term& term) const {
    if (++term.block < int(by_blocks.divisor)) return;
    term.block = 0;
    if (++term.s < int(by_taps_w.divisor)) return;
    term.s = 0, ++term.r;
  }
  /// Positions from `at` on.
  __device__ __forceinline__ void copy(const PositionBoxes::Start& at, const Term& term,
                                       void* shared, const CopyBarrier& barrier) const {
    // region box
    copy_box(shared, map, term.block * kStepDepth<T>, at.w * stride_w + first_w + term.s * tap_w,
             at.h * stride_h + first_h + term.r * tap_h, at.n, barrier);
    // end box
  }
};

/// Rows are positions, the sum runs over taps and channels.
template <class T>
struct ImageByPosition {
  using Element = T;
  static constexpr bool kTurned = false, kSums = false;
  using Start = PositionBoxes::Start;
  TapImage<T> image;
  PositionBoxes boxes;
  template <int kRows>
  __device__ __forceinline__ int bytes() const {
    return boxes.box() * kRowBytes;
  }
  template <int kRows>
  __device__ __forceinline__ Start start(int tile) const {
    return boxes.start(tile);
  }
  template <int kRows>
  __device__ __forceinline__ void copy(const Start& start, int step, char* shared,
                                       const CopyBarrier& barrier) const {
    image.copy(start, image.term(step), shared, barrier);
  }
  __device__ __forceinline__ bool locate(const Start& start, int row, int& group,
                                         int& number) const {
    return boxes.locate(start, row, group, number);
  }
};

/// Rows are taps and channels, these in whole blocks of kStepDepth, or the channels alone (one tap); the sum runs over
/// positions.
template <class T>
struct ImageByTap {
  using Element = T;
  static constexpr bool kTurned = true, kSums = true;
  static constexpr int kBlock = kStepDepth<T>;
  struct Start {
    int row;
    typename TapImage<T>::Term term;
  };
  TapImage<T> image;
  PositionBoxes boxes;
  int rows;
  template <int kRows>
  __device__ __forceinline__ int bytes() const {
    return kRows / kBlock * boxes.box() * kRowBytes;
  }
  template <int kRows>
  __device__ __forceinline__ Start start(int tile) const {
    return {tile * kRows, image.term(tile * (kRows / kBlock))};
  }
  template <int kRows>
  __device__ __forceinline__ void copy(const Start& start, int step, char* shared,
                                       const CopyBarrier& barrier) const {
    const PositionBoxes::Start at = boxes.start(step);
    typename TapImage<T>::Term term = start.term;
#pragma unroll
    for (int i = 0; i < kRows; i += kBlock) {
      image.copy(at, term, shared + i * kRowBytes, barrier);
      image.advance(term);
    }
  }
  __device__ __forceinline__ bool locate(const Start& start, int row, int& group,
                                         int& number) const {
    group = 0;
    number = start.row + row;
    return number < rows;
  }
  __device__ __forceinline__ int unwritten() const { return boxes.box(); }
};

/// A matrix, so many of whose rows or columns are the operand's rows.
struct MatrixOperand {
  using Start = int;
  CUtensorMap map;
  int rows;
  MatrixOperand(const CUtensorMap& map_, int rows_) : map(map_), rows(rows_) {}
  template <int kRows>
  __device__ __forceinline__ Start start(int tile) const {
    return tile * kRows;
  }
  __device__ __forceinline__ bool locate(const Start& first, int row, int& group,
                                         int& number) const {
    group = 0;
    number = first + row;
    return number < rows;
  }
};

/// Its rows are rows, the sum runs along them. The copying thread has next to nothing to compute, which with small
/// tiles is what a step waits for.
template <class T>
struct MatrixRows : MatrixOperand {
  using Element = T;
  static constexpr bool kTurned = false, kSums = false;
  int box;
  MatrixRows(const T* matrix, int rows_, int columns, int tile_rows)
      : MatrixOperand(matrix_map(matrix, rows_, columns, std::min(rows_, tile_rows)), rows_),
        box(std::min(rows_, tile_rows)) {}
  template <int kRows>
  __device__ __forceinline__ int bytes() const {
    return box * kRowBytes;
  }
  template <int kRows>
  __device__ __forceinline__ void copy(const Start& first, int step, char* shared,
                                       const CopyBarrier& barrier) const {
    copy_box(shared, map, step * kStepDepth<T>, first, barrier);
  }
};

/// Turned: its columns are rows, the sum runs down them.
template <class T>
struct MatrixColumns : MatrixOperand {
  using Element = T;
  static constexpr bool kTurned = true, kSums = true;
  MatrixColumns(const T* matrix, int matrix_rows, int columns)
      : MatrixOperand(matrix_map(matrix, matrix_rows, columns, kStepDepth<T>), columns) {}
  template <int kRows>
  __device__ __forceinline__ int bytes() const {
    return kRows * kRowBytes;
  }
  template <int kRows>
  __device__ __forceinline__ void copy(const Start& first, int step, char* shared,
                                       const CopyBarrier& barrier) const {
    constexpr int kDepth = kStepDepth<T>;
#pragma unroll
    for (int i = 0; i < kRows; i += kDepth)
      copy_box(shared + i * kRowBytes, map, first + i, step * kDepth, barrier);
  }
  __device__ __forceinline__ int unwritten() const { return kStepDepth<T>; }
};

/// The taps that a sum runs over, rows of count_w of them: all, one after the other, or the first and
/// every so many of a filter's taps further on.
struct TapNumbers {
  int first = 0, step_h = 1, step_w = 1;
  FastDivisor by_w{1};  // count_w
  __device__ __forceinline__ int of(int number) const {
    int r, s;
    by_w.divmod(number, r, s);
    return first + r * step_h + s * step_w;
  }
};

/// Weights [row][tap][channel], in tiles of whole panels. Numbers::of() says which tap of the filter one of the sum is.
template <class Numbers>
struct TapWeights {
  using Start = int;
  CUtensorMap map;
  FastDivisor by_blocks;
  Numbers numbers;
  template <int kRows>
  __device__ __forceinline__ int bytes() const {
    return kRows * kRowBytes;
  }
  template <int kRows>
  __device__ __forceinline__ Start start(int tile) const {
    return tile * (kRows / kPanel);
  }
};

/// Rows are rows, the sum runs over taps and channels.
template <class T, class Numbers = TapNumbers>
struct WeightByRow : TapWeights<Numbers> {
  using Element = T;
  static constexpr bool kTurned = false;
  /// `taps` in memory.
  WeightByRow(const T* weights, int rows, int taps, int channels, int tile_rows,
              const Numbers& numbers = {})
      : TapWeights<Numbers>{tensor_map(weights, {{{channels, 1, kStepDepth<T>},
                                                  {taps, channels},
                                                  {rows, int64_t{taps} * channels, tile_rows},
                                                  kNoAxis}}),
                            FastDivisor(ceil_div(channels, kStepDepth<T>)), numbers} {}
  template <int kRows>
  __device__ __forceinline__ void copy(const int& first, int step, char* shared,
                                       const CopyBarrier& barrier) const {
    int tap, block;
    this->by_blocks.divmod(step, tap, block);
    copy_box(shared, this->map, block * kStepDepth<T>, this->numbers.of(tap), first * kPanel, 0,
             barrier);
  }
};

/// Rows are channels, the sum runs over taps and their rows.
template <class Numbers = TapNumbers>
struct WeightByChannel : TapWeights<Numbers> {
  using Element = bfloat16;
  static constexpr bool kTurned = true;
  /// `taps` in memory.
  WeightByChannel(const bfloat16* weights, int rows, int taps, int channels,
                  const Numbers& numbers = {})
      : TapWeights<Numbers>{
            tensor_map(weights, {{{channels, 1, kPanel},
                                  {taps, channels},
                                  {rows, int64_t{taps} * channels, kStepDepth<bfloat16>},
                                  kNoAxis}}),
            FastDivisor(ceil_div(rows, kStepDepth<bfloat16>)), numbers} {}
  template <int kRows>
  __device__ __forceinline__ void copy(const int& first, int step, char* shared,
                                       const CopyBarrier& barrier) const {
    int tap, block;
    this->by_blocks.divmod(step, tap, block);
#pragma unroll
    for (int i = 0; i < kRows / kPanel; ++i)
      copy_box(shared + i * kPanel * kRowBytes, this->map, (first + i) * kPanel,
               this->numbers.of(tap), block * kStepDepth<bfloat16>, 0, barrier);
  }
};

}  // namespace duet
