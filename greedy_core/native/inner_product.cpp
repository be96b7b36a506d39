#include "inner_product.h"

#include <cstring>

#if defined(__x86_64__) && defined(__GNUC__)
#define GREEDY_X86 1
#include <immintrin.h>
#endif

namespace greedy {
namespace {

// How many rows ahead of the one in work score_rows asks memory for: far enough to hide a miss, near enough that
// the lines are still in the first-level cache when their turn comes.
constexpr std::int64_t kPrefetchRows = 6;

// Behind each code.
constexpr std::int64_t kScaleBytes = 4;

inline void prefetch_row(const float* row, std::int64_t stride) {
  for (std::int64_t t = 0; t < stride; t += kLaneBlock) __builtin_prefetch(row + t, 0, 3);
}

// One definition of the two loops for each instruction set: `dot` is inlined only into a function of the same target.
#define GREEDY_DEFINE_SCORERS(set, target)                                                                       \
  target void score_block_##set(const float* rows, std::int64_t stride, const float* query, std::int64_t n,     \
                                float* out) {                                                                    \
    for (std::int64_t i = 0; i < n; ++i) out[i] = dot_##set(rows + i * stride, query, stride);                   \
  }                                                                                                              \
  target void score_rows_##set(const float* rows, std::int64_t stride, const float* query,                      \
                               const std::int32_t* ids, std::int64_t n, float* out) {                           \
    for (std::int64_t i = 0; i < n && i < kPrefetchRows; ++i) prefetch_row(rows + ids[i] * stride, stride);      \
    for (std::int64_t i = 0; i < n; ++i) {                                                                       \
      if (i + kPrefetchRows < n) prefetch_row(rows + ids[i + kPrefetchRows] * stride, stride);                   \
      out[i] = dot_##set(rows + ids[i] * stride, query, stride);                                                 \
    }                                                                                                            \
  }                                                                                                              \
  target void score_codes_##set(const std::uint8_t* rows, std::int64_t width, const std::int8_t* query,         \
                                const std::int32_t* ids, std::int64_t n, std::int32_t* out) {                   \
    for (std::int64_t i = 0; i < n; ++i) {                                                                       \
      out[i] = code_dot_##set(rows + ids[i] * (width + kScaleBytes), query, width);                              \
    }                                                                                                            \
  }                                                                                                              \
  constexpr InnerProductKernel k_##set = {#set, score_block_##set, score_rows_##set, score_codes_##set};

// ---- plain C++ -----------------------------------------------------------------------------------------------

#ifdef FP_FAST_FMAF
inline float fused_multiply_add(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
#else
// a * b + c rounded once, without the instruction. The product of two floats is exact in double; the sum is then
// rounded to odd (the last bit set when anything was lost), which makes the final rounding to float the only one.
inline float fused_multiply_add(float a, float b, float c) {
  const double product = static_cast<double>(a) * static_cast<double>(b);
  const double addend = c;
  double sum = product + addend;
  const double part = sum - product;
  const double lost = (product - (sum - part)) + (addend - part);
  std::int64_t bits;
  std::memcpy(&bits, &sum, sizeof bits);
  // Of the two doubles around the true sum, take the odd one: one step from an even `sum` towards what was lost.
  const bool inexact = lost != 0.0;
  const bool even = (bits & 1) == 0;
  const bool towards_zero = (lost < 0.0) != (sum < 0.0);
  if (inexact && even) bits += towards_zero ? -1 : 1;
  std::memcpy(&sum, &bits, sizeof sum);
  return static_cast<float>(sum);
}
#endif

inline float dot_plain(const float* row, const float* query, std::int64_t stride) {
  float lanes[2][kLaneBlock] = {};
  for (std::int64_t t = 0, half = 0; t < stride; t += kLaneBlock, half ^= 1) {
    for (std::int64_t lane = 0; lane < kLaneBlock; ++lane) {
      lanes[half][lane] = fused_multiply_add(row[t + lane], query[t + lane], lanes[half][lane]);
    }
  }
  for (std::int64_t lane = 0; lane < kLaneBlock; ++lane) lanes[0][lane] += lanes[1][lane];
  for (std::int64_t width = kLaneBlock / 2; width > 0; width /= 2) {
    for (std::int64_t lane = 0; lane < width; ++lane) lanes[0][lane] += lanes[0][lane + width];
  }
  return lanes[0][0];
}

inline std::int32_t code_dot_plain(const std::uint8_t* code, const std::int8_t* query, std::int64_t width) {
  std::int32_t sum = 0;
  for (std::int64_t k = 0; k < width; ++k) {
    for (std::int64_t part = 0; part < 4; ++part) {
      sum += static_cast<std::int32_t>(code[k] >> (2 * part) & 3) * query[part * width + k];
    }
  }
  return sum;
}

GREEDY_DEFINE_SCORERS(plain, )

#ifdef GREEDY_X86

#define GREEDY_AVX2 __attribute__((target("avx2,fma")))
#define GREEDY_AVX512 __attribute__((target("avx512f,avx512dq,avx2,fma")))

// ---- AVX2 + FMA ----------------------------------------------------------------------------------------------

// The last three levels of the tree: 8 lanes to 1.
GREEDY_AVX2 inline float reduce_8(__m256 lanes) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps(lanes, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

GREEDY_AVX2 inline float dot_avx2(const float* row, const float* query, std::int64_t stride) {
  __m256 low0 = _mm256_setzero_ps(), high0 = low0, low1 = low0, high1 = low0;
  std::int64_t t = 0;
  for (; t + 2 * kLaneBlock <= stride; t += 2 * kLaneBlock) {
    low0 = _mm256_fmadd_ps(_mm256_loadu_ps(row + t), _mm256_loadu_ps(query + t), low0);
    high0 = _mm256_fmadd_ps(_mm256_loadu_ps(row + t + 8), _mm256_loadu_ps(query + t + 8), high0);
    low1 = _mm256_fmadd_ps(_mm256_loadu_ps(row + t + 16), _mm256_loadu_ps(query + t + 16), low1);
    high1 = _mm256_fmadd_ps(_mm256_loadu_ps(row + t + 24), _mm256_loadu_ps(query + t + 24), high1);
  }
  if (t < stride) {
    low0 = _mm256_fmadd_ps(_mm256_loadu_ps(row + t), _mm256_loadu_ps(query + t), low0);
    high0 = _mm256_fmadd_ps(_mm256_loadu_ps(row + t + 8), _mm256_loadu_ps(query + t + 8), high0);
  }
  return reduce_8(_mm256_add_ps(_mm256_add_ps(low0, low1), _mm256_add_ps(high0, high1)));
}

// The products of 16 bytes, added up in pairs: at most 4 * 2 * 3 * 127 each.
GREEDY_AVX2 inline __m128i code_products_16(const std::uint8_t* code, const std::int8_t* query, std::int64_t width) {
  const __m128i low = _mm_set1_epi8(3);
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(code));
  const auto part = [&](__m128i shifted, std::int64_t at) GREEDY_AVX2 {
    return _mm_maddubs_epi16(_mm_and_si128(shifted, low),
                             _mm_loadu_si128(reinterpret_cast<const __m128i*>(query + at * width)));
  };
  return _mm_add_epi16(_mm_add_epi16(part(bytes, 0), part(_mm_srli_epi16(bytes, 2), 1)),
                       _mm_add_epi16(part(_mm_srli_epi16(bytes, 4), 2), part(_mm_srli_epi16(bytes, 6), 3)));
}

GREEDY_AVX2 inline __m256i code_products_32(const std::uint8_t* code, const std::int8_t* query, std::int64_t width) {
  const __m256i low = _mm256_set1_epi8(3);
  const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(code));
  const auto part = [&](__m256i shifted, std::int64_t at) GREEDY_AVX2 {
    return _mm256_maddubs_epi16(_mm256_and_si256(shifted, low),
                                _mm256_loadu_si256(reinterpret_cast<const __m256i*>(query + at * width)));
  };
  return _mm256_add_epi16(_mm256_add_epi16(part(bytes, 0), part(_mm256_srli_epi16(bytes, 2), 1)),
                          _mm256_add_epi16(part(_mm256_srli_epi16(bytes, 4), 2), part(_mm256_srli_epi16(bytes, 6), 3)));
}

GREEDY_AVX2 inline std::int32_t code_dot_avx2(const std::uint8_t* code, const std::int8_t* query, std::int64_t width) {
  __m128i sum = _mm_setzero_si128();
  std::int64_t k = 0;
  if (width >= 32) {
    __m256i wide = _mm256_setzero_si256();
    for (; k + 32 <= width; k += 32) {
      wide = _mm256_add_epi32(wide, _mm256_madd_epi16(code_products_32(code + k, query + k, width), _mm256_set1_epi16(1)));
    }
    sum = _mm_add_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1));
  }
  if (k < width) {
    sum = _mm_add_epi32(sum, _mm_madd_epi16(code_products_16(code + k, query + k, width), _mm_set1_epi16(1)));
  }
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xb1)));
}

GREEDY_DEFINE_SCORERS(avx2, GREEDY_AVX2)

// ---- AVX-512 -------------------------------------------------------------------------------------------------

GREEDY_AVX512 inline float dot_avx512(const float* row, const float* query, std::int64_t stride) {
  __m512 even = _mm512_setzero_ps(), odd = even;
  std::int64_t t = 0;
  for (; t + 2 * kLaneBlock <= stride; t += 2 * kLaneBlock) {
    even = _mm512_fmadd_ps(_mm512_loadu_ps(row + t), _mm512_loadu_ps(query + t), even);
    odd = _mm512_fmadd_ps(_mm512_loadu_ps(row + t + 16), _mm512_loadu_ps(query + t + 16), odd);
  }
  if (t < stride) even = _mm512_fmadd_ps(_mm512_loadu_ps(row + t), _mm512_loadu_ps(query + t), even);
  const __m512 lanes = _mm512_add_ps(even, odd);
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(lanes), _mm512_extractf32x8_ps(lanes, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

// Codes are too short for wider registers to pay.
GREEDY_AVX512 inline std::int32_t code_dot_avx512(const std::uint8_t* code, const std::int8_t* query, std::int64_t width) {
  return code_dot_avx2(code, query, width);
}

GREEDY_DEFINE_SCORERS(avx512, GREEDY_AVX512)

constexpr const InnerProductKernel* kKernels[] = {&k_avx512, &k_avx2, &k_plain};

bool supported(const InnerProductKernel* kernel) {
  if (kernel == &k_avx512) return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq");
  if (kernel == &k_avx2) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return true;
}

#else

constexpr const InnerProductKernel* kKernels[] = {&k_plain};

bool supported(const InnerProductKernel*) { return true; }

#endif  // GREEDY_X86

const InnerProductKernel* find(const char* name) {
  for (const InnerProductKernel* kernel : kKernels) {
    if (std::strcmp(kernel->name, name) == 0) return kernel;
  }
  return nullptr;
}

const InnerProductKernel* best() {
  for (const InnerProductKernel* kernel : kKernels) {
    if (supported(kernel)) return kernel;
  }
  return &k_plain;
}

const InnerProductKernel* active = best();

}  // namespace

const InnerProductKernel& inner_product_kernel() { return *active; }

const char* use_inner_product_kernel(const char* name) {
  const InnerProductKernel* kernel = find(name);
  // A name of another architecture's kernel is known, only not built here.
  if (kernel == nullptr) {
    return std::strcmp(name, "avx512") == 0 || std::strcmp(name, "avx2") == 0 ? "unsupported" : "unknown";
  }
  if (!supported(kernel)) return "unsupported";
  active = kernel;
  return nullptr;
}

const char* const* inner_product_kernel_names() {
  static const char* const names[] = {"avx512", "avx2", "plain", nullptr};
  return names;
}

bool inner_product_kernel_supported(const char* name) {
  const InnerProductKernel* kernel = find(name);
  return kernel != nullptr && supported(kernel);
}

}  // namespace greedy
