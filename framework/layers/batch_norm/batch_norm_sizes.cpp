// How large the values are whose differences batch normalisation takes: what its rounding is held
// to (layers/rounding.h). A mean over M values errs by the rounding of one value of the RMS of x,
// whatever M is, so that sizes of y and dx have no part that grows with M.
#include <cmath>

#include "core/parallel.h"
#include "layers/batch_norm/batch_norm.h"
#include "layers/rounding.h"

namespace duet {
namespace {

using Values = std::vector<std::vector<double>>;

/// One channel.
struct Statistics {
  double weight = 1, bias = 0, running_mean = 0, running_var = 0;
  double mean_square = 0;  // of x
  double mean = 0, var = 0, inverse = 0;
  double shift_square = 0;  // of what is subtracted from x: its error is that of mean_square
};

class Sizes {
 public:
  /// `dy` may be empty where backward() is not asked for.
  Sizes(const BatchNormProblem& problem, bool training, const Values& x, const Values& w,
        const Values& dy, const std::vector<double>* dy_squares = nullptr)
      : problem_(problem),
        training_(training),
        x_(x[0]),
        w_(w),
        dy_(dy.empty() ? x_ : dy[0]),
        dy_squares_(dy_squares) {}

  /// y before any relu, computed as the definition says.
  std::vector<double> normalised() const {
    std::vector<double> y(x_.size());
    for_each_channel([&](int64_t c) {
      const Statistics s = measure(c);
      for_each(c, [&](int64_t i) { y[i] = (x_[i] - s.mean) * s.inverse * s.weight + s.bias; });
    });
    return y;
  }

  Values forward() const {
    Values sizes = {Values::value_type(x_.size())};
    if (training_) sizes.resize(3, Values::value_type(problem_.channels()));
    for_each_channel([&](int64_t c) {
      const Statistics s = measure(c);
      for_each(c, [&](int64_t i) {
        const double z = (x_[i] - s.mean) * s.inverse, scale = s.weight * s.inverse;
        sizes[0][i] = size_of_squares(square(scale) * (square(x_[i]) + s.shift_square) +
                                      square(s.bias) + square(z * s.weight + s.bias));
      });
      if (!training_) return;
      const double old = 1 - problem_.momentum, m = problem_.momentum;
      const double unbiased = m * count() / (count() - 1);
      sizes[1][c] = size_of_squares(square(old * s.running_mean) + square(m) * s.mean_square);
      sizes[2][c] =
          size_of_squares(square(old * s.running_var) + square(unbiased) * s.var * s.mean_square);
    });
    return sizes;
  }

  Values backward() const {
    Values sizes = {Values::value_type(x_.size())};
    if (problem_.affine) sizes.resize(3, Values::value_type(problem_.channels()));
    for_each_channel([&](int64_t c) {
      const Statistics s = measure(c);
      const auto z_square = [&](int64_t i) {  // before x and the mean cancel
        return (square(x_[i]) + s.shift_square) * square(s.inverse);
      };
      double dbias = 0, dweight = 0, dbias_square = 0, dweight_square = 0;
      for_each(c, [&](int64_t i) {
        const double z = (x_[i] - s.mean) * s.inverse;
        dbias += dy_[i];
        dweight += dy_[i] * z;
        dbias_square += square(dy_[i]) + computed(i);
        dweight_square += square(dy_[i]) * z_square(i) + computed(i) * square(z);
      });
      dbias_square += square(dbias);
      dweight_square += square(dweight) + s.shift_square * square(s.inverse * dbias);
      if (problem_.affine) {
        sizes[1][c] = size_of_squares(dweight_square);
        sizes[2][c] = size_of_squares(dbias_square);
      }
      const double part = training_ ? 1 / count() : 0;
      for_each(c, [&](int64_t i) {
        const double z = (x_[i] - s.mean) * s.inverse;
        const double squares = square(dy_[i]) + computed(i) +
                               part * (dbias_square + square(z) * dweight_square) +
                               z_square(i) * square(part * dweight);
        sizes[0][i] = size_of_squares(square(s.weight * s.inverse) * squares);
      });
    });
    return sizes;
  }

 private:
  double count() const { return static_cast<double>(problem_.count()); }
  double computed(int64_t i) const { return dy_squares_ ? (*dy_squares_)[i] : 0; }

  Statistics measure(int64_t c) const {
    Statistics s;
    size_t next = 0;
    if (problem_.affine) {
      s.weight = w_[next++][c];
      s.bias = w_[next++][c];
    }
    s.running_mean = w_[next++][c];
    s.running_var = w_[next][c];
    for_each(c, [&](int64_t i) {
      s.mean += x_[i] / count();
      s.mean_square += square(x_[i]) / count();
    });
    for_each(c, [&](int64_t i) { s.var += square(x_[i] - s.mean) / count(); });
    if (!training_) {
      s.mean = s.running_mean;
      s.var = s.running_var;
    }
    s.shift_square = training_ ? s.mean_square : square(s.mean);
    s.inverse = 1 / std::sqrt(s.var + problem_.eps);
    return s;
  }

  template <class Body>
  void for_each_channel(Body&& body) const {
    constexpr int64_t kOperations = 20;
    parallel_for(problem_.channels(), kOperations * problem_.x.elements(), body);
  }
  template <class Visit>
  void for_each(int64_t c, Visit&& visit) const {
    const int64_t inner = problem_.inner(), outer = problem_.outer();
    for (int64_t o = 0; o < outer; ++o) {
      const int64_t begin = (o * problem_.channels() + c) * inner;
      for (int64_t i = begin; i < begin + inner; ++i) visit(i);
    }
  }

  const BatchNormProblem& problem_;
  const bool training_;
  const std::vector<double>& x_;
  const Values& w_;
  const std::vector<double>& dy_;
  const std::vector<double>* const dy_squares_;  // or null
};

}  // namespace

Values batch_norm_sizes(const BatchNormProblem& problem, Pass pass, bool training, const Values& x,
                        const Values& w, const Values& dy, const std::vector<double>* dy_squares) {
  const Sizes sizes(problem, training, x, w, dy, dy_squares);
  return pass == Pass::kForward ? sizes.forward() : sizes.backward();
}
std::vector<double> batch_norm_values(const BatchNormProblem& problem, bool training,
                                      const Values& x, const Values& w) {
  return Sizes(problem, training, x, w, {}).normalised();
}

void BatchNormLayer::settle(const Values& x, const Values& w, Values& dy) const {
  for (const bool training : {true, false}) {
    if (!relu_ || (training && problem().count() == 1)) continue;
    const Sizes sizes(problem(), training, x, w, {});
    const std::vector<double> z = sizes.normalised(), size = sizes.forward()[0];
    for (size_t i = 0; i < z.size(); ++i) {
      if (std::abs(z[i]) < kBatchNormTie * size[i]) dy[0][i] = 0;
    }
  }
}

Values BatchNormLayer::sizes(Pass pass, bool training, const Values& x, const Values& w,
                             const Values& dy) const {
  Values dz = dy;
  if (relu_ && pass != Pass::kForward) {
    const std::vector<double> z = batch_norm_values(problem(), training, x, w);
    for (size_t i = 0; i < z.size(); ++i) {
      if (z[i] <= 0) dz[0][i] = 0;
    }
  }
  return batch_norm_sizes(problem(), pass, training, x, w, dz);
}

}  // namespace duet
