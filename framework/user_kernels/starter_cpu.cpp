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

}  // namespace

const StarterTexts& cpu_starters() {
  static const StarterTexts all = {{"conv2d", kConv2d},
                                   {"linear", kLinear},
                                   {"max_pool2d", kMaxPool2d},
                                   {"relu", kRelu},
                                   {"softmax", kSoftmax}};
  return all;
}

}  // namespace duet
