// Files for the CPU. Loops over what is independent are shared by OpenMP's threads.
#include "user_kernels/starter_texts.h"

namespace duet {
namespace {

constexpr const char* kConv2d =
    R"host(// conv2d cpu_NAME: a loop computes one output after the other, and adds up all that it needs.
//
//   y[n,k,p,q] = b[k] + sum over c,r,s of
//                x[n, c, p*STRIDE_H + r*DILATION_H - PAD_H, q*STRIDE_W + s*DILATION_W - PAD_W] * w[k,c,r,s]
//
// x outside the image counts as 0. Sizes: x N,C,H,W; w K,C,R,S; b K (null without BIAS); y N,K,P,Q.
DUET_REQUIRES(GROUPS == 1, "there is more than one group");
DUET_REQUIRES(!NHWC, "takes nchw only");

void forward(const float* x, const float* w, const float* b, float* y) {
#pragma omp parallel for collapse(2)
  for (int n = 0; n < N; ++n) {
    for (int k = 0; k < K; ++k) {
      for (int p = 0; p < P; ++p) {
        for (int q = 0; q < Q; ++q) {
          float sum = BIAS ? b[k] : 0.0f;
          for (int c = 0; c < C; ++c) {
            for (int r = 0; r < R; ++r) {
              for (int s = 0; s < S; ++s) {
                const int h = p * STRIDE_H + r * DILATION_H - PAD_H;
                const int v = q * STRIDE_W + s * DILATION_W - PAD_W;
                if (h < 0 || h >= H || v < 0 || v >= W) continue;
                sum += x[(((long long)n * C + c) * H + h) * W + v] * w[((k * C + c) * R + r) * S + s];
              }
            }
          }
          y[(((long long)n * K + k) * P + p) * Q + q] = sum;
        }
      }
    }
  }
}

// dx[n,c,h,v] = sum over k,r,s of dy[n,k,p,q] * w[k,c,r,s] where p and q are the output that reads it
void backward_data(const float* dy, const float* w, float* dx) {
#pragma omp parallel for collapse(2)
  for (int n = 0; n < N; ++n) {
    for (int c = 0; c < C; ++c) {
      for (int h = 0; h < H; ++h) {
        for (int v = 0; v < W; ++v) {
          float sum = 0.0f;
          for (int k = 0; k < K; ++k) {
            for (int r = 0; r < R; ++r) {
              for (int s = 0; s < S; ++s) {
                const int above = h + PAD_H - r * DILATION_H, left = v + PAD_W - s * DILATION_W;
                if (above < 0 || left < 0 || above % STRIDE_H != 0 || left % STRIDE_W != 0) continue;
                const int p = above / STRIDE_H, q = left / STRIDE_W;
                if (p >= P || q >= Q) continue;
                sum += dy[(((long long)n * K + k) * P + p) * Q + q] * w[((k * C + c) * R + r) * S + s];
              }
            }
          }
          dx[(((long long)n * C + c) * H + h) * W + v] = sum;
        }
      }
    }
  }
}

// dw[k,c,r,s] = sum over n,p,q of dy[n,k,p,q] * x[n,c,...], and db[k] = sum over n,p,q of dy
void backward_filter(const float* x, const float* dy, float* dw, float* db) {
#pragma omp parallel for
  for (int k = 0; k < K; ++k) {
    for (int i = 0; i < C * R * S; ++i) {
      const int s = i % S, r = i / S % R, c = i / (S * R);
      float sum = 0.0f;
      for (int n = 0; n < N; ++n) {
        float image = 0.0f;  // summed by itself: fewer terms are added to a large sum
        for (int p = 0; p < P; ++p) {
          for (int q = 0; q < Q; ++q) {
            const int h = p * STRIDE_H + r * DILATION_H - PAD_H;
            const int v = q * STRIDE_W + s * DILATION_W - PAD_W;
            if (h < 0 || h >= H || v < 0 || v >= W) continue;
            image += dy[(((long long)n * K + k) * P + p) * Q + q] *
                     x[(((long long)n * C + c) * H + h) * W + v];
          }
        }
        sum += image;
      }
      dw[k * C * R * S + i] = sum;
    }
    if (!BIAS) continue;
    float sum = 0.0f;
    for (int n = 0; n < N; ++n) {
      float image = 0.0f;
      for (int i = 0; i < P * Q; ++i) image += dy[((long long)n * K + k) * P * Q + i];
      sum += image;
    }
    db[k] = sum;
  }
}
)host";

constexpr const char* kLinear =
    R"host(// linear cpu_NAME: a loop computes one output after the other, and adds up all that it needs.
//
//   y[n,o] = b[o] + sum over i of x[n,i] * w[o,i]
//
// Sizes: x N,IN; w OUT,IN; b OUT (null without BIAS); y N,OUT.

void forward(const float* x, const float* w, const float* b, float* y) {
#pragma omp parallel for collapse(2)
  for (int n = 0; n < N; ++n) {
    for (int o = 0; o < OUT; ++o) {
      float sum = BIAS ? b[o] : 0.0f;
      for (int i = 0; i < IN; ++i) sum += x[(long long)n * IN + i] * w[(long long)o * IN + i];
      y[(long long)n * OUT + o] = sum;
    }
  }
}

// dx[n,i] = sum over o of dy[n,o] * w[o,i]
void backward_data(const float* dy, const float* w, float* dx) {
#pragma omp parallel for
  for (int n = 0; n < N; ++n) {
    for (int i = 0; i < IN; ++i) dx[(long long)n * IN + i] = 0.0f;
    for (int o = 0; o < OUT; ++o) {
      const float d = dy[(long long)n * OUT + o];
      for (int i = 0; i < IN; ++i) dx[(long long)n * IN + i] += d * w[(long long)o * IN + i];
    }
  }
}

// dw[o,i] = sum over n of dy[n,o] * x[n,i], and db[o] = sum over n of dy[n,o]
void backward_filter(const float* x, const float* dy, float* dw, float* db) {
#pragma omp parallel for
  for (int o = 0; o < OUT; ++o) {
    float sum = 0.0f;
    for (int i = 0; i < IN; ++i) dw[(long long)o * IN + i] = 0.0f;
    for (int n = 0; n < N; ++n) {
      const float d = dy[(long long)n * OUT + o];
      for (int i = 0; i < IN; ++i) dw[(long long)o * IN + i] += d * x[(long long)n * IN + i];
      sum += d;
    }
    if (BIAS) db[o] = sum;
  }
}
)host";

constexpr const char* kRelu = R"host(// relu cpu_NAME: a loop over all elements.
//
//   y = max(x, 0)        dx = dy where x > 0, else 0
//
// NaN stays NaN. T is float, or bfloat16 where 'math' is bf16.

void forward(const T* x, T* y) {
#pragma omp parallel for
  for (long long i = 0; i < ELEMENTS; ++i) {
    const float value = x[i];
    y[i] = T(value > 0.0f || value != value ? value : 0.0f);
  }
}

void backward(const T* x, const T* y, const T* dy, T* dx) {
#pragma omp parallel for
  for (long long i = 0; i < ELEMENTS; ++i) {
    const float value = x[i];
    dx[i] = value <= 0.0f ? T(0.0f) : dy[i];
  }
}
)host";

constexpr const char* kSoftmax = R"host(// softmax cpu_NAME: a loop over the rows.
//
//   y[i] = exp(x[i] - m) / sum over j of exp(x[j] - m)      m: the largest of the row
//   dx[i] = y[i] * (dy[i] - sum over j of dy[j] * y[j])
//
// A row is the last axis: COLUMNS elements; there are ROWS.
#include <cmath>

void forward(const float* x, float* y) {
#pragma omp parallel for
  for (long long row = 0; row < ROWS; ++row) {
    const float* from = x + row * COLUMNS;
    float* to = y + row * COLUMNS;
    float largest = from[0], sum = 0.0f;
    for (int i = 1; i < COLUMNS; ++i) largest = std::fmax(largest, from[i]);
    for (int i = 0; i < COLUMNS; ++i) sum += to[i] = std::exp(from[i] - largest);
    for (int i = 0; i < COLUMNS; ++i) to[i] /= sum;
  }
}

void backward(const float* x, const float* y, const float* dy, float* dx) {
#pragma omp parallel for
  for (long long row = 0; row < ROWS; ++row) {
    const long long first = row * COLUMNS;
    float sum = 0.0f;
    for (int i = 0; i < COLUMNS; ++i) sum += dy[first + i] * y[first + i];
    for (int i = 0; i < COLUMNS; ++i) dx[first + i] = y[first + i] * (dy[first + i] - sum);
  }
}
)host";

constexpr const char* kMaxPool2d =
    R"host(// max_pool2d cpu_NAME: forward a loop over the outputs, backward the same, window by window.
//
//   y[n,c,p,q] = the largest x[n, c, p*STRIDE_H - PAD_H + r, q*STRIDE_W - PAD_W + s], r < R and s < S
//
// Padding counts as -infinity. dy goes to the largest; of equal ones to the first in row-major order,
// and of NaNs to the last. Sizes: x N,C,H,W; y N,C,P,Q.
DUET_REQUIRES(!NHWC, "takes nchw only");

// Where in its image the largest of window (p, q) stands.
static int largest_of(const float* image, int p, int q) {
  int at = -1;
  for (int r = 0; r < R; ++r) {
    for (int s = 0; s < S; ++s) {
      const int h = p * STRIDE_H - PAD_H + r, v = q * STRIDE_W - PAD_W + s;
      if (h < 0 || h >= H || v < 0 || v >= W) continue;
      const float value = image[h * W + v];
      if (at < 0 || value > image[at] || value != value) at = h * W + v;
    }
  }
  return at;
}

void forward(const float* x, float* y) {
#pragma omp parallel for
  for (long long nc = 0; nc < (long long)N * C; ++nc) {
    const float* image = x + nc * (H * W);
    for (int i = 0; i < P * Q; ++i) y[nc * (P * Q) + i] = image[largest_of(image, i / Q, i % Q)];
  }
}

void backward(const float* x, const float* y, const float* dy, float* dx) {
#pragma omp parallel for
  for (long long nc = 0; nc < (long long)N * C; ++nc) {
    const float* image = x + nc * (H * W);
    float* gradient = dx + nc * (H * W);
    for (int i = 0; i < H * W; ++i) gradient[i] = 0.0f;
    for (int i = 0; i < P * Q; ++i) gradient[largest_of(image, i / Q, i % Q)] += dy[nc * (P * Q) + i];
  }
}
)host";

constexpr const char* kLeakyRelu = R"host(// leaky_relu cpu_NAME: a loop over the elements.
//
//   y = x where x > 0, else SLOPE * x        dx = dy where x > 0, else SLOPE * dy
//
// T is float, or bfloat16 where 'math' is bf16.

void forward(const T* x, T* y) {
#pragma omp parallel for
  for (long long i = 0; i < ELEMENTS; ++i) {
    const float value = x[i];
    y[i] = T(value > 0.0f ? value : SLOPE * value);
  }
}

void backward(const T* x, const T* y, const T* dy, T* dx) {
#pragma omp parallel for
  for (long long i = 0; i < ELEMENTS; ++i) {
    const float gradient = dy[i];
    dx[i] = T(float(x[i]) > 0.0f ? gradient : SLOPE * gradient);
  }
}
)host";

constexpr const char* kSilu = R"host(// silu cpu_NAME: a loop over the elements.
//
//   s = 1 / (1 + exp(-x))        y = x * s        dx = dy * s * (1 + x * (1 - s))
#include <cmath>

static float sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }

void forward(const float* x, float* y) {
#pragma omp parallel for
  for (long long i = 0; i < ELEMENTS; ++i) y[i] = x[i] * sigmoid(x[i]);
}

void backward(const float* x, const float* y, const float* dy, float* dx) {
#pragma omp parallel for
  for (long long i = 0; i < ELEMENTS; ++i) {
    const float s = sigmoid(x[i]);
    dx[i] = dy[i] * s * (1.0f + x[i] * (1.0f - s));
  }
}
)host";

constexpr const char* kGlobalAvgPool2d =
    R"host(// global_avg_pool2d cpu_NAME: forward a loop over the images, a channel after the other.
//
//   y[n,c] = the mean of x[n,c,h,w]        dx[n,c,h,w] = dy[n,c] / (H*W)

// Where pixel i of a channel stands.
static long long place(long long n, int c, int i) {
  return NHWC ? (n * (H * W) + i) * C + c : (n * C + c) * (H * W) + i;
}

void forward(const float* x, float* y) {
#pragma omp parallel for
  for (long long n = 0; n < N; ++n) {
    for (int c = 0; c < C; ++c) {
      float sum = 0.0f;
      for (int i = 0; i < H * W; ++i) sum += x[place(n, c, i)];
      y[n * C + c] = sum / (H * W);
    }
  }
}

void backward(const float* x, const float* y, const float* dy, float* dx) {
#pragma omp parallel for
  for (long long n = 0; n < N; ++n) {
    for (int c = 0; c < C; ++c) {
      for (int i = 0; i < H * W; ++i) dx[place(n, c, i)] = dy[n * C + c] / (H * W);
    }
  }
}
)host";

constexpr const char* kReorder = R"host(// reorder cpu_NAME: a loop over the elements as y has them.
//
//   y[n,c,h,w] = x[n,c,h,w]        dx[n,c,h,w] = dy[n,c,h,w]
//
// x and dx are in nhwc where NHWC is true, else in nchw; y and dy where TO_NHWC is.

static long long place(bool nhwc, long long n, int c, int i) {
  return nhwc ? (n * (H * W) + i) * C + c : (n * C + c) * (H * W) + i;
}

static void copy(const float* from, bool from_nhwc, float* to, bool to_nhwc) {
#pragma omp parallel for
  for (long long n = 0; n < N; ++n) {
    for (int c = 0; c < C; ++c) {
      for (int i = 0; i < H * W; ++i) to[place(to_nhwc, n, c, i)] = from[place(from_nhwc, n, c, i)];
    }
  }
}

void forward(const float* x, float* y) { copy(x, NHWC, y, TO_NHWC); }

void backward(const float* x, const float* y, const float* dy, float* dx) { copy(dy, TO_NHWC, dx, NHWC); }
)host";

constexpr const char* kBatchNorm2d = R"host(// batch_norm2d cpu_NAME: a loop over the channels.
//
//   mean = the mean of a channel's x        var = the mean of (x - mean)^2
//   x' = (x - mean) / sqrt(var + EPS)       y = w * x' + b
//   db = sum of dy        dw = sum of dy * x'
//   dx = w / sqrt(var + EPS) * (dy - db / m - x' * dw / m)        m = N*H*W, the values of a channel
//
// Training moves the running mean and variance by MOMENTUM towards these (the variance as var * m / (m - 1)); evaluation
// uses them in their place, and then dx = w / sqrt(var + EPS) * dy. Without AFFINE w, b, dw and db are null.
#include <cmath>

DUET_STATE(2 * C * sizeof(float));  // of each channel the mean and 1 / sqrt(var + EPS)

static constexpr int kCount = N * H * W;

// Where value i of a channel stands.
static long long place(int c, int i) {
  return NHWC ? (long long)i * C + c : ((long long)(i / (H * W)) * C + c) * (H * W) + i % (H * W);
}

void forward(const float* x, const float* w, const float* b, float* running_mean, float* running_var, float* y,
             State state, Training training) {
  float* const kept = state.as<float>();
#pragma omp parallel for
  for (int c = 0; c < C; ++c) {
    double mean = running_mean[c], var = running_var[c];
    if (training) {
      mean = var = 0;
      for (int i = 0; i < kCount; ++i) mean += x[place(c, i)];
      mean /= kCount;
      for (int i = 0; i < kCount; ++i) var += (x[place(c, i)] - mean) * (x[place(c, i)] - mean);
      var /= kCount;
      const double unbiased = kCount > 1 ? var * kCount / (kCount - 1) : var;
      running_mean[c] = float((1 - MOMENTUM) * running_mean[c] + MOMENTUM * mean);
      running_var[c] = float((1 - MOMENTUM) * running_var[c] + MOMENTUM * unbiased);
    }
    kept[c] = float(mean);
    kept[C + c] = float(1 / std::sqrt(var + EPS));
    for (int i = 0; i < kCount; ++i) {
      const float normal = (x[place(c, i)] - kept[c]) * kept[C + c];
      y[place(c, i)] = AFFINE ? w[c] * normal + b[c] : normal;
    }
  }
}

void backward(const float* x, const float* w, const float* b, const float* running_mean, const float* running_var,
              const float* y, const float* dy, float* dx, float* dw, float* db, State state, Training training) {
  const float* const kept = state.as<float>();
#pragma omp parallel for
  for (int c = 0; c < C; ++c) {
    double of_dy = 0, of_products = 0;
    for (int i = 0; i < kCount; ++i) {
      of_dy += dy[place(c, i)];
      of_products += dy[place(c, i)] * ((x[place(c, i)] - kept[c]) * kept[C + c]);
    }
    if (dw) dw[c] = float(of_products);
    if (db) db[c] = float(of_dy);
    if (!dx) continue;
    const float scale = (AFFINE ? w[c] : 1.0f) * kept[C + c];
    for (int i = 0; i < kCount; ++i) {
      const double normal = (x[place(c, i)] - kept[c]) * kept[C + c];
      const double mean_part = training ? (of_dy + normal * of_products) / kCount : 0;
      dx[place(c, i)] = float(scale * (dy[place(c, i)] - mean_part));
    }
  }
}
)host";

}  // namespace

const StarterTexts& cpu_starters() {
  static const StarterTexts all = {{"batch_norm2d", kBatchNorm2d},
                                   {"conv2d", kConv2d},
                                   {"global_avg_pool2d", kGlobalAvgPool2d},
                                   {"leaky_relu", kLeakyRelu},
                                   {"linear", kLinear},
                                   {"max_pool2d", kMaxPool2d},
                                   {"relu", kRelu},
                                   {"reorder", kReorder},
                                   {"silu", kSilu},
                                   {"softmax", kSoftmax}};
  return all;
}

}  // namespace duet
