// Lesson 30: random numbers: generators, their order in memory, the device side, the same bits on a CPU.
#include <curand.h>
#include <curand_kernel.h>

#include "../lesson.h"

constexpr unsigned long long kSeed = 42;
constexpr int kCount = 1 << 20;

// region plain
/// Philox4x32-10: four random words are a function of seed, sequence and position. No state.
struct Philox {
  uint32_t word[4];
};
__host__ __device__ Philox philox(uint64_t seed, uint64_t sequence, uint64_t position) {
  uint32_t c[4] = {uint32_t(position), uint32_t(position >> 32), uint32_t(sequence),
                   uint32_t(sequence >> 32)};
  uint32_t key[2] = {uint32_t(seed), uint32_t(seed >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * c[0], b = uint64_t{0xCD9E8D57} * c[2];
    const uint32_t c1 = c[1], c3 = c[3];
    c[0] = uint32_t(b >> 32) ^ c1 ^ key[0];
    c[1] = uint32_t(b);
    c[2] = uint32_t(a >> 32) ^ c3 ^ key[1];
    c[3] = uint32_t(a);
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return {{c[0], c[1], c[2], c[3]}};
}
// end plain

// region device
/// Each thread has a sequence of its own and draws four words twice.
__global__ void draw_kernel(uint4* words, int threads) {
  const int t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t >= threads) return;
  curandStatePhilox4_32_10_t state;
  curand_init(kSeed, t, 0, &state);
  words[t] = curand4(&state);
  words[threads + t] = curand4(&state);
}
// end device

/// The first words of a generator on the GPU, and of the same one on the CPU.
std::vector<uint32_t> words_of(curandGenerator_t generator, bool on_gpu) {
  std::vector<uint32_t> words(kCount);
  CHECK(curandSetPseudoRandomGeneratorSeed(generator, kSeed));
  CHECK(curandSetGeneratorOrdering(generator, CURAND_ORDERING_PSEUDO_LEGACY));
  if (!on_gpu) {
    CHECK(curandGenerate(generator, words.data(), kCount));
    return words;
  }
  const lesson::Array<uint32_t> memory(kCount);
  CHECK(curandGenerate(generator, memory.data(), kCount));
  return memory.host();
}

void teach() {
  // region both
  const struct {
    const char* name;
    curandRngType_t type;
  } types[] = {{"XORWOW", CURAND_RNG_PSEUDO_XORWOW},
               {"MRG32k3a", CURAND_RNG_PSEUDO_MRG32K3A},
               {"Philox", CURAND_RNG_PSEUDO_PHILOX4_32_10}};
  std::vector<uint32_t> of_philox;
  for (const auto& [name, type] : types) {
    curandGenerator_t gpu, cpu;
    CHECK(curandCreateGenerator(&gpu, type));
    CHECK(curandCreateGeneratorHost(&cpu, type));
    const std::vector<uint32_t> words = words_of(gpu, true);
    lesson::compare(name, words, words_of(cpu, false));
    if (type == CURAND_RNG_PSEUDO_PHILOX4_32_10) of_philox = words;
    const lesson::Array<float> uniform(kCount);
    const double us =
        lesson::microseconds([&] { CHECK(curandGenerateUniform(gpu, uniform.data(), kCount)); });
    std::printf("  %d uniform numbers in %.1f us\n", kCount, us);
    CHECK(curandDestroyGenerator(cpu));
    CHECK(curandDestroyGenerator(gpu));
  }
  // end both

  // region order
  // In the legacy order 65536 sequences take turns: four words of each, then four more of each.
  std::vector<uint32_t> expected;
  for (int i = 0; i < kCount; ++i) {
    expected.push_back(philox(kSeed, i / 4 % 65536, i / 4 / 65536).word[i % 4]);
  }
  lesson::compare("Philox from its definition", of_philox, expected);
  // end order

  // region launch
  const int threads = 1000;
  const lesson::Array<uint4> drawn(2 * threads);
  draw_kernel<<<(threads + 255) / 256, 256>>>(drawn.data(), threads);
  CHECK(cudaGetLastError());
  std::vector<uint32_t> words, sequences;
  for (const uint4& w : drawn.host()) words.insert(words.end(), {w.x, w.y, w.z, w.w});
  for (int i = 0; i < 8 * threads; ++i) {
    sequences.push_back(philox(kSeed, i / 4 % threads, i / 4 / threads).word[i % 4]);
  }
  lesson::compare("drawn in a kernel", words, sequences);
  // end launch

  // region wrong
  curandGenerator_t xorwow, sobol;
  CHECK(curandCreateGenerator(&xorwow, CURAND_RNG_PSEUDO_XORWOW));
  CHECK(curandCreateGenerator(&sobol, CURAND_RNG_QUASI_SOBOL32));
  const lesson::Array<float> normal(1001);
  // Normal numbers come in pairs, and 1001 is odd.
  SHOULD_FAIL(curandGenerateNormal(xorwow, normal.data(), 1001, 0, 1),
              CURAND_STATUS_LENGTH_NOT_MULTIPLE);
  // A quasi-random sequence is not random and has no seed.
  SHOULD_FAIL(curandSetPseudoRandomGeneratorSeed(sobol, kSeed), CURAND_STATUS_TYPE_ERROR);
  // end wrong
  CHECK(curandDestroyGenerator(sobol));
  CHECK(curandDestroyGenerator(xorwow));
}

int main() {
  return lesson::run("Lesson 30: random numbers",
                     "Draws words by three generators on the GPU and on the CPU, by Philox's "
                     "definition, and in a kernel, and compares their bits.",
                     teach);
}
