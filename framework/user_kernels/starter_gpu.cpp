// Files for a GPU.
#include "user_kernels/starter_texts.h"

namespace duet {
namespace {

constexpr const char* kGpuConv2d =
    R"cuda(// conv2d custom_NAME: a thread computes one output, and adds up all that it needs.
//
//   y[n,k,p,q] = b[k] + sum over c,r,s of
//                x[n, c, p*STRIDE_H + r*DILATION_H - PAD_H, q*STRIDE_W + s*DILATION_W - PAD_W] * w[k,c,r,s]
//
// x outside the image counts as 0. Sizes: x N,C,H,W; w K,C,R,S; b K (null without BIAS); y N,K,P,Q.
DUET_REQUIRES(GROUPS == 1, "there is more than one group");
DUET_REQUIRES(!NHWC, "takes nchw only");
DUET_TUNE(BLOCK, 256, 64, 128, 512);  // threads a block; the first is the default

__global__ void forward(const float* x, const float* w, const float* b, float* y) {
  const long long i = blockIdx.x * (long long)BLOCK + threadIdx.x;
  if (i >= (long long)N * K * P * Q) return;
  const int q = i % Q, p = i / Q % P, k = i / (Q * P) % K, n = i / ((long long)Q * P * K);
  float sum = BIAS ? b[k] : 0.0f;
  for (int c = 0; c < C; ++c) {
    for (int r = 0; r < R; ++r) {
      for (int s = 0; s < S; ++s) {
        const int h = p * STRIDE_H + r * DILATION_H - PAD_H, v = q * STRIDE_W + s * DILATION_W - PAD_W;
        if (h < 0 || h >= H || v < 0 || v >= W) continue;
        sum += x[(((long long)n * C + c) * H + h) * W + v] * w[((k * C + c) * R + r) * S + s];
      }
    }
  }
  y[i] = sum;
}
DUET_LAUNCH(forward, forward, ceil_div((long long)N * K * P * Q, BLOCK), BLOCK);

// dx[n,c,h,v] = sum over k,r,s of dy[n,k,p,q] * w[k,c,r,s] where p and q are the output that reads it
__global__ void backward_data(const float* dy, const float* w, float* dx) {
  const long long i = blockIdx.x * (long long)BLOCK + threadIdx.x;
  if (i >= (long long)N * C * H * W) return;
  const int v = i % W, h = i / W % H, c = i / (W * H) % C, n = i / ((long long)W * H * C);
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
  dx[i] = sum;
}
DUET_LAUNCH(backward_data, backward_data, ceil_div((long long)N * C * H * W, BLOCK), BLOCK);

// dw[k,c,r,s] = sum over n,p,q of dy[n,k,p,q] * x[n,c,...], and db[k] = sum over n,p,q of dy: one more
// thread for each k.
__global__ void backward_filter(const float* x, const float* dy, float* dw, float* db) {
  const int i = blockIdx.x * BLOCK + threadIdx.x;
  const bool bias = i >= K * C * R * S;
  if (i >= K * C * R * S + (BIAS ? K : 0)) return;
  const int s = i % S, r = i / S % R, c = i / (S * R) % C;
  const int k = bias ? i - K * C * R * S : i / (S * R * C);
  float sum = 0.0f;
  for (int n = 0; n < N; ++n) {
    float image = 0.0f;  // summed by themselves: fewer terms are added to a large sum
    for (int p = 0; p < P; ++p) {
      for (int q = 0; q < Q; ++q) {
        const int h = p * STRIDE_H + r * DILATION_H - PAD_H, v = q * STRIDE_W + s * DILATION_W - PAD_W;
        const float gradient = dy[(((long long)n * K + k) * P + p) * Q + q];
        if (bias) {
          image += gradient;
        } else if (h >= 0 && h < H && v >= 0 && v < W) {
          image += gradient * x[(((long long)n * C + c) * H + h) * W + v];
        }
      }
    }
    sum += image;
  }
  (bias ? db[k] : dw[i]) = sum;
}
DUET_LAUNCH(backward_filter, backward_filter, ceil_div(K * C * R * S + (BIAS ? K : 0), BLOCK), BLOCK);
)cuda";

constexpr const char* kGpuLinear =
    R"cuda(// linear custom_NAME: a thread computes one output, and adds up all that it needs.
//
//   y[n,o] = b[o] + sum over i of x[n,i] * w[o,i]
//
// Sizes: x N,IN; w OUT,IN; b OUT (null without BIAS); y N,OUT.
DUET_TUNE(BLOCK, 256, 64, 128, 512);  // threads a block; the first is the default

__global__ void forward(const float* x, const float* w, const float* b, float* y) {
  const long long at = blockIdx.x * (long long)BLOCK + threadIdx.x;
  if (at >= (long long)N * OUT) return;
  const int n = at / OUT, o = at % OUT;
  float sum = BIAS ? b[o] : 0.0f;
  for (int i = 0; i < IN; ++i) sum += x[(long long)n * IN + i] * w[(long long)o * IN + i];
  y[at] = sum;
}
DUET_LAUNCH(forward, forward, ceil_div((long long)N * OUT, BLOCK), BLOCK);

// dx[n,i] = sum over o of dy[n,o] * w[o,i]
__global__ void backward_data(const float* dy, const float* w, float* dx) {
  const long long at = blockIdx.x * (long long)BLOCK + threadIdx.x;
  if (at >= (long long)N * IN) return;
  const int n = at / IN, i = at % IN;
  float sum = 0.0f;
  for (int o = 0; o < OUT; ++o) sum += dy[(long long)n * OUT + o] * w[(long long)o * IN + i];
  dx[at] = sum;
}
DUET_LAUNCH(backward_data, backward_data, ceil_div((long long)N * IN, BLOCK), BLOCK);

// dw[o,i] = sum over n of dy[n,o] * x[n,i]
__global__ void filter_gradient(const float* x, const float* dy, float* dw, float* db) {
  const long long at = blockIdx.x * (long long)BLOCK + threadIdx.x;
  if (at >= (long long)OUT * IN) return;
  const int o = at / IN, i = at % IN;
  float sum = 0.0f;
  for (int n = 0; n < N; ++n) sum += dy[(long long)n * OUT + o] * x[(long long)n * IN + i];
  dw[at] = sum;
}
DUET_LAUNCH(backward_filter, filter_gradient, ceil_div((long long)OUT * IN, BLOCK), BLOCK);

// db[o] = sum over n of dy[n,o]. A pass may launch several kernels, which run one after the other.
__global__ void bias_gradient(const float* x, const float* dy, float* dw, float* db) {
  const int o = blockIdx.x * BLOCK + threadIdx.x;
  if (!BIAS || o >= OUT) return;
  float sum = 0.0f;
  for (int n = 0; n < N; ++n) sum += dy[(long long)n * OUT + o];
  db[o] = sum;
}
DUET_LAUNCH(backward_filter, bias_gradient, ceil_div(OUT, BLOCK), BLOCK);
)cuda";

constexpr const char* kGpuRelu = R"cuda(// relu custom_NAME: a thread computes one element.
//
//   y = max(x, 0)        dx = dy where x > 0, else 0
//
// A NaN stays one, and its gradient is dy. All tensors have ELEMENTS elements, of type T: float, or
// bfloat16 where the network's math is bf16.
DUET_TUNE(BLOCK, 256, 64, 128, 512);  // threads a block; the first is the default

__global__ void forward(const T* x, T* y) {
  const long long i = blockIdx.x * (long long)BLOCK + threadIdx.x;
  if (i >= ELEMENTS) return;
  const float value = float(x[i]);
  y[i] = T(value > 0.0f || value != value ? value : 0.0f);
}
DUET_LAUNCH(forward, forward, ceil_div((long long)ELEMENTS, BLOCK), BLOCK);

__global__ void backward(const T* x, const T* y, const T* dy, T* dx) {
  const long long i = blockIdx.x * (long long)BLOCK + threadIdx.x;
  if (i >= ELEMENTS) return;
  dx[i] = float(x[i]) <= 0.0f ? T(0.0f) : dy[i];
}
DUET_LAUNCH(backward, backward, ceil_div((long long)ELEMENTS, BLOCK), BLOCK);
)cuda";

constexpr const char* kGpuSoftmax = R"cuda(// softmax custom_NAME: a thread computes one row.
//
//   y = exp(x) / sum of exp(x) over the row        dx = y * (dy - sum of dy * y over the row)
//
// ROWS rows of COLUMNS values that are neighbours in memory.
DUET_REQUIRES(!NHWC, "takes rows that are neighbours in memory: nchw, or no image");
DUET_TUNE(BLOCK, 128, 32, 64, 256);  // threads a block; the first is the default

__global__ void forward(const float* x, float* y) {
  const int row = blockIdx.x * BLOCK + threadIdx.x;
  if (row >= ROWS) return;
  x += (long long)row * COLUMNS;
  y += (long long)row * COLUMNS;
  float largest = x[0], sum = 0.0f;
  for (int i = 1; i < COLUMNS; ++i) largest = fmaxf(largest, x[i]);
  for (int i = 0; i < COLUMNS; ++i) sum += expf(x[i] - largest);
  for (int i = 0; i < COLUMNS; ++i) y[i] = expf(x[i] - largest) / sum;
}
DUET_LAUNCH(forward, forward, ceil_div(ROWS, BLOCK), BLOCK);

__global__ void backward(const float* x, const float* y, const float* dy, float* dx) {
  const int row = blockIdx.x * BLOCK + threadIdx.x;
  if (row >= ROWS) return;
  const long long first = (long long)row * COLUMNS;
  float sum = 0.0f;
  for (int i = 0; i < COLUMNS; ++i) sum += dy[first + i] * y[first + i];
  for (int i = 0; i < COLUMNS; ++i) dx[first + i] = y[first + i] * (dy[first + i] - sum);
}
DUET_LAUNCH(backward, backward, ceil_div(ROWS, BLOCK), BLOCK);
)cuda";

constexpr const char* kGpuMaxPool2d =
    R"cuda(// max_pool2d custom_NAME: forward a thread an output, backward a thread an input.
//
//   y[n,c,p,q] = the largest x[n, c, p*STRIDE_H - PAD_H + r, q*STRIDE_W - PAD_W + s], r < R and s < S
//
// Padding counts as -infinity. dy goes to the largest; of equal ones to the first in row-major order,
// and of NaNs to the last. Sizes: x N,C,H,W; y N,C,P,Q.
DUET_REQUIRES(!NHWC, "takes nchw only");
DUET_TUNE(BLOCK, 256, 64, 128, 512);  // threads a block; the first is the default

// Where in its image the largest of window (p, q) stands.
__device__ int largest_of(const float* image, int p, int q) {
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

__global__ void forward(const float* x, float* y) {
  const long long i = blockIdx.x * (long long)BLOCK + threadIdx.x;
  if (i >= (long long)N * C * P * Q) return;
  const float* image = x + i / (P * Q) * (H * W);
  y[i] = image[largest_of(image, i / Q % P, i % Q)];
}
DUET_LAUNCH(forward, forward, ceil_div((long long)N * C * P * Q, BLOCK), BLOCK);

__global__ void backward(const float* x, const float* y, const float* dy, float* dx) {
  const long long i = blockIdx.x * (long long)BLOCK + threadIdx.x;
  if (i >= (long long)N * C * H * W) return;
  const int h = i / W % H, v = i % W;
  const long long image = i / (H * W);
  float sum = 0.0f;
  for (int p = 0; p < P; ++p) {
    if (h < p * STRIDE_H - PAD_H || h >= p * STRIDE_H - PAD_H + R) continue;
    for (int q = 0; q < Q; ++q) {
      if (v < q * STRIDE_W - PAD_W || v >= q * STRIDE_W - PAD_W + S) continue;
      if (largest_of(x + image * (H * W), p, q) == h * W + v) sum += dy[(image * P + p) * Q + q];
    }
  }
  dx[i] = sum;
}
DUET_LAUNCH(backward, backward, ceil_div((long long)N * C * H * W, BLOCK), BLOCK);
)cuda";

constexpr const char* kGpuLeakyRelu =
    R"cuda(// leaky_relu custom_NAME: a thread computes one element.
//
//   y = x where x > 0, else SLOPE * x        dx = dy where x > 0, else SLOPE * dy
//
// All tensors have ELEMENTS elements, of type T: float, or bfloat16 where the network's math is bf16.
DUET_TUNE(BLOCK, 256, 64, 128, 512);  // threads a block; the first is the default

__global__ void forward(const T* x, T* y) {
  const long long i = blockIdx.x * (long long)BLOCK + threadIdx.x;
  if (i >= ELEMENTS) return;
  const float value = float(x[i]);
  y[i] = T(value > 0.0f ? value : SLOPE * value);
}
DUET_LAUNCH(forward, forward, ceil_div((long long)ELEMENTS, BLOCK), BLOCK);

__global__ void backward(const T* x, const T* y, const T* dy, T* dx) {
  const long long i = blockIdx.x * (long long)BLOCK + threadIdx.x;
  if (i >= ELEMENTS) return;
  const float gradient = float(dy[i]);
  dx[i] = T(float(x[i]) > 0.0f ? gradient : SLOPE * gradient);
}
DUET_LAUNCH(backward, backward, ceil_div((long long)ELEMENTS, BLOCK), BLOCK);
)cuda";

constexpr const char* kGpuSilu = R"cuda(// silu custom_NAME: a thread computes one element.
//
//   s = 1 / (1 + exp(-x))        y = x * s        dx = dy * s * (1 + x * (1 - s))
DUET_TUNE(BLOCK, 256, 64, 128, 512);  // threads a block; the first is the default

__device__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

__global__ void forward(const float* x, float* y) {
  const long long i = blockIdx.x * (long long)BLOCK + threadIdx.x;
  if (i < ELEMENTS) y[i] = x[i] * sigmoid(x[i]);
}
DUET_LAUNCH(forward, forward, ceil_div((long long)ELEMENTS, BLOCK), BLOCK);

__global__ void backward(const float* x, const float* y, const float* dy, float* dx) {
  const long long i = blockIdx.x * (long long)BLOCK + threadIdx.x;
  if (i >= ELEMENTS) return;
  const float s = sigmoid(x[i]);
  dx[i] = dy[i] * s * (1.0f + x[i] * (1.0f - s));
}
DUET_LAUNCH(backward, backward, ceil_div((long long)ELEMENTS, BLOCK), BLOCK);
)cuda";

constexpr const char* kGpuGlobalAvgPool2d =
    R"cuda(// global_avg_pool2d custom_NAME: forward a thread adds up one channel of an image, backward it writes one pixel.
//
//   y[n,c] = the mean of x[n,c,h,w]        dx[n,c,h,w] = dy[n,c] / (H*W)
DUET_TUNE(BLOCK, 128, 32, 64, 256);  // threads a block; the first is the default

// Where pixel i of a channel stands.
__device__ long long place(long long n, int c, int i) {
  return NHWC ? (n * (H * W) + i) * C + c : (n * C + c) * (H * W) + i;
}

__global__ void forward(const float* x, float* y) {
  const long long nc = blockIdx.x * (long long)BLOCK + threadIdx.x;
  if (nc >= (long long)N * C) return;
  float sum = 0.0f;
  for (int h = 0; h < H; ++h) {
    float row = 0.0f;  // one running sum over all pixels would round each of them to its last digit
    for (int w = 0; w < W; ++w) row += x[place(nc / C, nc % C, h * W + w)];
    sum += row;
  }
  y[nc] = sum / (H * W);
}
DUET_LAUNCH(forward, forward, ceil_div((long long)N * C, BLOCK), BLOCK);

__global__ void backward(const float* x, const float* y, const float* dy, float* dx) {
  const long long i = blockIdx.x * (long long)BLOCK + threadIdx.x;
  if (i >= ELEMENTS) return;
  const long long nc = i / (H * W);
  dx[place(nc / C, nc % C, i % (H * W))] = dy[nc] / (H * W);
}
DUET_LAUNCH(backward, backward, ceil_div((long long)ELEMENTS, BLOCK), BLOCK);
)cuda";

constexpr const char* kGpuReorder =
    R"cuda(// reorder custom_NAME: a thread copies one element, in the order in which the target has them.
//
//   y[n,c,h,w] = x[n,c,h,w]        dx[n,c,h,w] = dy[n,c,h,w]
//
// x and dx are in nhwc where NHWC is true, else in nchw; y and dy where TO_NHWC is.
DUET_TUNE(BLOCK, 256, 64, 128, 512);  // threads a block; the first is the default

// Where element i of a tensor in the one layout stands in the other.
__device__ long long place(long long i, bool nhwc, bool in_nhwc) {
  if (nhwc == in_nhwc) return i;
  const long long n = i / (C * H * W), rest = i % (C * H * W);
  return nhwc ? n * (C * H * W) + rest % C * (H * W) + rest / C
              : n * (C * H * W) + rest % (H * W) * C + rest / (H * W);
}

__global__ void forward(const float* x, float* y) {
  const long long i = blockIdx.x * (long long)BLOCK + threadIdx.x;
  if (i < ELEMENTS) y[i] = x[place(i, TO_NHWC, NHWC)];
}
DUET_LAUNCH(forward, forward, ceil_div((long long)ELEMENTS, BLOCK), BLOCK);

__global__ void backward(const float* x, const float* y, const float* dy, float* dx) {
  const long long i = blockIdx.x * (long long)BLOCK + threadIdx.x;
  if (i < ELEMENTS) dx[i] = dy[place(i, NHWC, TO_NHWC)];
}
DUET_LAUNCH(backward, backward, ceil_div((long long)ELEMENTS, BLOCK), BLOCK);
)cuda";

constexpr const char* kGpuBatchNorm2d =
    R"cuda(// batch_norm2d custom_NAME: a block computes one channel, and reads it three times.
//
//   mean = the mean of a channel's x        var = the mean of (x - mean)^2
//   x' = (x - mean) / sqrt(var + EPS)       y = w * x' + b
//   db = sum of dy        dw = sum of dy * x'
//   dx = w / sqrt(var + EPS) * (dy - db / m - x' * dw / m)        m = N*H*W, the values of a channel
//
// Training moves the running mean and variance by MOMENTUM towards these (the variance as var * m / (m - 1)); evaluation
// uses them in their place, and then dx = w / sqrt(var + EPS) * dy. Without AFFINE w, b, dw and db are null.
DUET_STATE(2 * C * sizeof(float));    // of each channel the mean and 1 / sqrt(var + EPS)
DUET_TUNE(BLOCK, 256, 128, 512);      // threads a block, a power of two; the first is the default

constexpr int kCount = N * H * W;

// Where value i of a channel stands.
__device__ long long place(int c, int i) {
  return NHWC ? (long long)i * C + c : ((long long)(i / (H * W)) * C + c) * (H * W) + i % (H * W);
}

// Of the values of all threads of the block.
__device__ float sum_of_block(float value) {
  __shared__ float parts[BLOCK];
  parts[threadIdx.x] = value;
  for (int half = BLOCK / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
  }
  __syncthreads();
  const float sum = parts[0];
  __syncthreads();
  return sum;
}

__global__ void forward(const float* x, const float* w, const float* b, float* running_mean, float* running_var,
                        float* y, State state, Training training) {
  const int c = blockIdx.x;
  float mean = running_mean[c], var = running_var[c];
  if (training) {
    float sum = 0.0f;
    for (int i = threadIdx.x; i < kCount; i += BLOCK) sum += x[place(c, i)];
    mean = sum_of_block(sum) / kCount;
    float squares = 0.0f;
    for (int i = threadIdx.x; i < kCount; i += BLOCK) squares += (x[place(c, i)] - mean) * (x[place(c, i)] - mean);
    var = sum_of_block(squares) / kCount;
  }
  const float scale = 1.0f / sqrtf(var + EPS);
  if (threadIdx.x == 0) {
    float* const kept = state.as<float>();
    kept[c] = mean;
    kept[C + c] = scale;
    if (training) {
      const float unbiased = kCount > 1 ? var * kCount / (kCount - 1) : var;
      running_mean[c] = (1 - MOMENTUM) * running_mean[c] + MOMENTUM * mean;
      running_var[c] = (1 - MOMENTUM) * running_var[c] + MOMENTUM * unbiased;
    }
  }
  for (int i = threadIdx.x; i < kCount; i += BLOCK) {
    const float normal = (x[place(c, i)] - mean) * scale;
    y[place(c, i)] = AFFINE ? w[c] * normal + b[c] : normal;
  }
}
DUET_LAUNCH(forward, forward, C, BLOCK);

__global__ void backward(const float* x, const float* w, const float* b, const float* running_mean,
                         const float* running_var, const float* y, const float* dy, float* dx, float* dw, float* db,
                         State state, Training training) {
  const int c = blockIdx.x;
  const float* const kept = state.as<float>();
  const float mean = kept[c], scale = kept[C + c];
  float of_dy = 0.0f, of_products = 0.0f;
  for (int i = threadIdx.x; i < kCount; i += BLOCK) {
    of_dy += dy[place(c, i)];
    of_products += dy[place(c, i)] * ((x[place(c, i)] - mean) * scale);
  }
  of_dy = sum_of_block(of_dy);
  of_products = sum_of_block(of_products);
  if (threadIdx.x == 0 && dw) dw[c] = of_products;
  if (threadIdx.x == 0 && db) db[c] = of_dy;
  if (!dx) return;
  for (int i = threadIdx.x; i < kCount; i += BLOCK) {
    const float normal = (x[place(c, i)] - mean) * scale;
    const float mean_part = training ? (of_dy + normal * of_products) / kCount : 0.0f;
    dx[place(c, i)] = (AFFINE ? w[c] : 1.0f) * scale * (dy[place(c, i)] - mean_part);
  }
}
DUET_LAUNCH(backward, backward, C, BLOCK);
)cuda";

}  // namespace

const StarterTexts& gpu_starters() {
  static const StarterTexts all = {{"batch_norm2d", kGpuBatchNorm2d},
                                   {"conv2d", kGpuConv2d},
                                   {"global_avg_pool2d", kGpuGlobalAvgPool2d},
                                   {"leaky_relu", kGpuLeakyRelu},
                                   {"linear", kGpuLinear},
                                   {"max_pool2d", kGpuMaxPool2d},
                                   {"relu", kGpuRelu},
                                   {"reorder", kGpuReorder},
                                   {"silu", kGpuSilu},
                                   {"softmax", kGpuSoftmax}};
  return all;
}

}  // namespace duet
