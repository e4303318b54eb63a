// Lesson 15: attention, softmax(q k^T * scale) v, by cuDNN's legacy call: sequences, lengths, windows.
#include <cudnn.h>

#include "../lesson.h"

// region constants
constexpr int kN = 2, kQ = 4, kK = 6;  // sequences, queries and keys of each
constexpr int kSize = 8, kValue = 5;   // values of a query or key, and of a row of v
constexpr double kScale = 0.35355339;  // 1 / sqrt(kSize)
const std::vector<int> kQueries = {kQ, kQ}, kKeys = {kK, 3};  // the second sequence has 3 keys
// end constants
// The keys that query i sees: from lo[i] up to, not including, hi[i].
const std::vector<int> kFromFirst(kQ, 0), kToLast(kQ, kK);

// region plain
std::vector<double> plain(const std::vector<float>& q, const std::vector<float>& k,
                          const std::vector<float>& v, const std::vector<int>& lo,
                          const std::vector<int>& hi) {
  std::vector<double> out(kN * kQ * kValue);
  for (int n = 0; n < kN; ++n) {
    for (int i = 0; i < kQ; ++i) {
      const int first = lo[i], end = std::min(hi[i], kKeys[n]);
      std::vector<double> weight(kK);
      double largest = -INFINITY, sum = 0;
      for (int j = first; j < end; ++j) {
        double score = 0;
        for (int s = 0; s < kSize; ++s) {
          score += double(q[(n * kQ + i) * kSize + s]) * k[(n * kK + j) * kSize + s];
        }
        weight[j] = kScale * score;
        largest = std::max(largest, weight[j]);
      }
      for (int j = first; j < end; ++j) sum += weight[j] = std::exp(weight[j] - largest);
      for (int s = 0; s < kValue; ++s) {
        double& to = out[(n * kQ + i) * kValue + s];
        for (int j = first; j < end; ++j) to += weight[j] / sum * v[(n * kK + j) * kValue + s];
      }
    }
  }
  return out;
}
// end plain

// region sequence
/// Sequences of up to `steps` vectors of `size` values: all of the first sequence, then the next.
cudnnSeqDataDescriptor_t sequences(int steps, int size, const std::vector<int>& lengths) {
  int sizes[CUDNN_SEQDATA_DIM_COUNT];  // by name, whatever the order in memory
  sizes[CUDNN_SEQDATA_TIME_DIM] = steps;
  sizes[CUDNN_SEQDATA_BATCH_DIM] = kN;
  sizes[CUDNN_SEQDATA_BEAM_DIM] = 1;
  sizes[CUDNN_SEQDATA_VECT_DIM] = size;
  const cudnnSeqDataAxis_t order[] = {CUDNN_SEQDATA_BATCH_DIM, CUDNN_SEQDATA_BEAM_DIM,
                                      CUDNN_SEQDATA_TIME_DIM, CUDNN_SEQDATA_VECT_DIM};
  cudnnSeqDataDescriptor_t descriptor;
  CHECK(cudnnCreateSeqDataDescriptor(&descriptor));
  CHECK(cudnnSetSeqDataDescriptor(descriptor, CUDNN_DATA_FLOAT, CUDNN_SEQDATA_DIM_COUNT, sizes,
                                  order, lengths.size(), lengths.data(), nullptr));
  return descriptor;
}
// end sequence

// region describe
/// One head, and no projections: sizes of 0 leave them out.
cudnnStatus_t describe(cudnnAttnDescriptor_t attention, cudnnMathType_t math, int key_size) {
  return cudnnSetAttnDescriptor(attention, CUDNN_ATTN_QUERYMAP_ALL_TO_ONE, 1, kScale,
                                CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, math, nullptr, nullptr, kSize,
                                key_size, kValue, 0, 0, 0, 0, kQ, kK, kN, 1);
}
// end describe

// region math
/// FMA_MATH computes in float32. Where it is refused, the default may be TF32: 10 bits of a factor.
double set_math(cudnnAttnDescriptor_t attention) {
  if (describe(attention, CUDNN_FMA_MATH, kSize) == CUDNN_STATUS_SUCCESS) return 1e-5;
  std::printf("FMA_MATH is refused; the default may round factors to TF32\n");
  CHECK(describe(attention, CUDNN_DEFAULT_MATH, kSize));
  return 5e-3;
}
// end math

/// Compares a call with the plain loop, and then does `more` with what made the call.
template <class More>
void attend(const std::vector<int>& lo, const std::vector<int>& hi, More more) {
  const lesson::Handle cudnn;
  const auto q = lesson::random_values(kN * kQ * kSize, 1);
  const auto k = lesson::random_values(kN * kK * kSize, 2);
  const auto v = lesson::random_values(kN * kK * kValue, 3);
  const lesson::Array<float> qs(q), ks(k), vs(v), outs(kN * kQ * kValue);

  // region sizes
  const lesson::AttnDescriptor attention;
  const double allowed = set_math(attention);
  size_t weight_bytes = 0, work_bytes = 0;  // no reserve space is asked for: inference
  CHECK(cudnnGetMultiHeadAttnBuffers(cudnn, attention, &weight_bytes, &work_bytes, nullptr));
  std::printf("weights %zu bytes, workspace %zu bytes\n", weight_bytes, work_bytes);
  const lesson::Array<char> weights(weight_bytes), workspace(work_bytes);
  // end sizes

  // region forward
  const cudnnSeqDataDescriptor_t q_sequences = sequences(kQ, kSize, kQueries);
  const cudnnSeqDataDescriptor_t k_sequences = sequences(kK, kSize, kKeys);
  const cudnnSeqDataDescriptor_t v_sequences = sequences(kK, kValue, kKeys);
  const cudnnSeqDataDescriptor_t out_sequences = sequences(kQ, kValue, kQueries);
  const lesson::Array<int> queries(kQueries), keys(kKeys);  // the lengths again, on the GPU
  const auto forward = [&](int step) {                      // -1: all queries at once
    return cudnnMultiHeadAttnForward(
        cudnn, attention, step, lo.data(), hi.data(), queries.data(), keys.data(), q_sequences,
        qs.data(), nullptr, k_sequences, ks.data(), v_sequences, vs.data(), out_sequences,
        outs.data(), weight_bytes, weights.data(), work_bytes, workspace.data(), 0, nullptr);
  };
  CHECK(forward(-1));
  lesson::compare("softmax(q k^T * scale) v", outs.host(), plain(q, k, v, lo, hi), allowed);
  // end forward

  more(attention.get(), forward);
  for (const auto& sequence : {q_sequences, k_sequences, v_sequences, out_sequences}) {
    CHECK(cudnnDestroySeqDataDescriptor(sequence));
  }
}

void teach() {
  attend(kFromFirst, kToLast, [](cudnnAttnDescriptor_t attention, auto forward) {
    // region wrong
    SHOULD_FAIL(forward(kQ), CUDNN_STATUS_BAD_PARAM);  // there are queries 0 to kQ - 1
    SHOULD_FAIL(describe(attention, CUDNN_DEFAULT_MATH, kSize - 1), CUDNN_STATUS_BAD_PARAM);
    // end wrong
  });
}

int main() {
  return lesson::run("Lesson 15: attention",
                     "Computes softmax(q k^T * scale) v for two sequences, one of which has fewer "
                     "keys than the other.",
                     teach);
}
