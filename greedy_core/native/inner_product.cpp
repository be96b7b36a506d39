#include "inner_product.h"

#include <cstring>

#include "bucket_queue.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define GREEDY_X86 1
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace greedy {
namespace {

// How many rows ahead of the one in work score_rows asks memory for: far enough to hide a miss, near enough that
// the lines are still in the first-level cache when their turn comes.
constexpr std::int64_t kPrefetchRows = 6;

// Behind each code.
constexpr std::int64_t kScaleBytes = 4;
// So many products with codes are added up together.
constexpr std::int64_t kCodesAtOnce = 8;
// More than so many at the end are filled up to as many: how many there are is hard to foretell, and costs more than the work.
constexpr std::int64_t kFewCodes = 2;

template <class Value>
inline void prefetch_row(const Value* row, std::int64_t stride) {
  constexpr std::int64_t kValues = 64 / sizeof(Value);
  for (std::int64_t t = 0; t < stride; t += kValues) __builtin_prefetch(row + t, 0, 3);
}

// One definition of the two loops for each instruction set and precision: `dot` is inlined only into a function of the same target.
#define GREEDY_DEFINE_ROW_SCORERS(set, target, precision)                                                        \
  target void score_block_##precision##_##set(const precision::Value* rows, std::int64_t stride, const float* query, \
                                              std::int64_t n, float* out) {                                      \
    for (std::int64_t i = 0; i < n; ++i) out[i] = dot_##set<precision>(rows + i * stride, query, stride);        \
  }                                                                                                              \
  target void score_rows_##precision##_##set(const precision::Value* rows, std::int64_t stride, const float* query, \
                                             const std::int32_t* ids, std::int64_t n, float* out) {              \
    for (std::int64_t i = 0; i < n && i < kPrefetchRows; ++i) prefetch_row(rows + ids[i] * stride, stride);      \
    for (std::int64_t i = 0; i < n; ++i) {                                                                       \
      if (i + kPrefetchRows < n) prefetch_row(rows + ids[i + kPrefetchRows] * stride, stride);                   \
      out[i] = dot_##set<precision>(rows + ids[i] * stride, query, stride);                                      \
    }                                                                                                            \
  }

#define GREEDY_DEFINE_SCORERS(set, target)                                                                       \
  GREEDY_DEFINE_ROW_SCORERS(set, target, Float32)                                                                \
  GREEDY_DEFINE_ROW_SCORERS(set, target, Float16)                                                                \
  GREEDY_DEFINE_ROW_SCORERS(set, target, BFloat16)                                                               \
  target void score_codes_##set(const std::uint8_t* rows, std::int64_t width, const std::int8_t* query,         \
                                const std::int32_t* ids, std::int64_t n, std::int32_t* out) {                   \
    std::int64_t i = 0;                                                                                          \
    for (; i + kCodesAtOnce <= n; i += kCodesAtOnce) {                                                           \
      const std::uint8_t* codes[kCodesAtOnce];                                                                   \
      for (std::int64_t j = 0; j < kCodesAtOnce; ++j) codes[j] = rows + ids[i + j] * (width + kScaleBytes);      \
      code_dots_##set(codes, query, width, out + i);                                                             \
    }                                                                                                            \
    if (n - i > kFewCodes) {                                                                                     \
      const std::uint8_t* codes[kCodesAtOnce];                                                                   \
      for (std::int64_t j = 0; j < kCodesAtOnce; ++j) codes[j] = rows + ids[i + j < n ? i + j : i] * (width + kScaleBytes); \
      code_dots_##set(codes, query, width, out + i);                                                             \
      i = n;                                                                                                     \
    }                                                                                                            \
    for (; i < n; ++i) out[i] = code_dot_##set(rows + ids[i] * (width + kScaleBytes), query, width);             \
  }                                                                                                              \
  constexpr InnerProductKernel k_##set = {#set,                                                                  \
                                          score_block_Float32_##set,                                             \
                                          score_rows_Float32_##set,                                              \
                                          score_block_Float16_##set,                                             \
                                          score_rows_Float16_##set,                                              \
                                          score_block_BFloat16_##set,                                            \
                                          score_rows_BFloat16_##set,                                             \
                                          score_codes_##set,                                                     \
                                          range_codes_##set,                                                     \
                                          find_unmarked_##set,                                                   \
                                          find_marked_##set};

#ifdef GREEDY_X86
#define GREEDY_AVX2 __attribute__((target("avx2,fma,f16c")))
#define GREEDY_AVX512 __attribute__((target("avx512f,avx512dq,avx2,fma,f16c")))
#endif

// ---- precisions ----------------------------------------------------------------------------------------------

inline float float_of(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// How each precision is widened, one value after the other, by 8 and by 16. Widening is exact, so all give the same.
struct Float32 {
  using Value = float;
  static float widen(float value) { return value; }
#ifdef GREEDY_X86
  GREEDY_AVX2 static __m256 widen_8(const float* row) { return _mm256_loadu_ps(row); }
  GREEDY_AVX512 static __m512 widen_16(const float* row) { return _mm512_loadu_ps(row); }
#endif
};

struct Float16 {
  using Value = std::uint16_t;
  static float widen(std::uint16_t half) {
    const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16, exponent = half >> 10 & 31u, fraction = half & 0x3ffu;
    if (exponent == 0) {
      // No leading one: a multiple of 2^-24.
      const float size = static_cast<float>(fraction) * 0x1p-24f;
      return sign == 0 ? size : -size;
    }
    // The exponents are biased by 15 and by 127; the largest stands for infinity and for what is no number.
    return float_of(sign | (exponent == 31 ? 255u : exponent + 112u) << 23 | fraction << 13);
  }
#ifdef GREEDY_X86
  GREEDY_AVX2 static __m256 widen_8(const std::uint16_t* row) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(row)));
  }
  GREEDY_AVX512 static __m512 widen_16(const std::uint16_t* row) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(row)));
  }
#endif
};

struct BFloat16 {
  using Value = std::uint16_t;
  static float widen(std::uint16_t upper) { return float_of(static_cast<std::uint32_t>(upper) << 16); }
#ifdef GREEDY_X86
  GREEDY_AVX2 static __m256 widen_8(const std::uint16_t* row) {
    const __m256i upper = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(row)));
    return _mm256_castsi256_ps(_mm256_slli_epi32(upper, 16));
  }
  GREEDY_AVX512 static __m512 widen_16(const std::uint16_t* row) {
    const __m512i upper = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(row)));
    return _mm512_castsi512_ps(_mm512_slli_epi32(upper, 16));
  }
#endif
};

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

template <class Precision>
inline float dot_plain(const typename Precision::Value* row, const float* query, std::int64_t stride) {
  float lanes[2][kLaneBlock] = {};
  for (std::int64_t t = 0, half = 0; t < stride; t += kLaneBlock, half ^= 1) {
    for (std::int64_t lane = 0; lane < kLaneBlock; ++lane) {
      lanes[half][lane] = fused_multiply_add(Precision::widen(row[t + lane]), query[t + lane], lanes[half][lane]);
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

inline void code_dots_plain(const std::uint8_t* const* codes, const std::int8_t* query, std::int64_t width, std::int32_t* out) {
  for (std::int64_t i = 0; i < kCodesAtOnce; ++i) out[i] = code_dot_plain(codes[i], query, width);
}

inline float scale_of(const std::uint8_t* rows, std::int64_t width, std::int64_t id) {
  float scale;
  std::memcpy(&scale, rows + id * (width + kScaleBytes) + width, sizeof scale);
  return scale;
}

inline void range_codes_plain(const std::uint8_t* rows, std::int64_t width, const std::int32_t* ids, std::int64_t n,
                              const std::int32_t* products, std::int32_t offset, std::int32_t top, std::int32_t* out) {
  for (std::int64_t i = 0; i < n; ++i) {
    out[i] = KeyRanges(top)(static_cast<float>(2 * products[i] - offset) * scale_of(rows, width, ids[i]));
  }
}

inline std::int64_t find_unmarked_plain(const std::int32_t* items, std::int64_t n, const std::uint64_t* marks, std::int32_t* out) {
  std::int64_t found = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    if (items[i] >= 0 && (marks[items[i] / 64] >> (items[i] % 64) & 1) == 0) out[found++] = items[i];
  }
  return found;
}

// Nobody can foretell which are marked: each is written, and the next one over it if it was not.
inline std::int64_t find_marked_plain(const std::int32_t* items, const float* values, std::int64_t n, const std::uint64_t* marks,
                                      std::int32_t* out, float* out_values) {
  std::int64_t found = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto item = static_cast<std::uint32_t>(items[i]);
    out[found] = items[i];
    out_values[found] = values[i];
    found += static_cast<std::int64_t>(marks[item / 64] >> (item % 64) & 1);
  }
  return found;
}

GREEDY_DEFINE_SCORERS(plain, )

#ifdef GREEDY_X86

// ---- AVX2 + FMA + F16C ----------------------------------------------------------------------------------------------

// The last three levels of the tree: 8 lanes to 1.
GREEDY_AVX2 inline float reduce_8(__m256 lanes) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps(lanes, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

template <class Precision>
GREEDY_AVX2 inline float dot_avx2(const typename Precision::Value* row, const float* query, std::int64_t stride) {
  __m256 low0 = _mm256_setzero_ps(), high0 = low0, low1 = low0, high1 = low0;
  std::int64_t t = 0;
  for (; t + 2 * kLaneBlock <= stride; t += 2 * kLaneBlock) {
    low0 = _mm256_fmadd_ps(Precision::widen_8(row + t), _mm256_loadu_ps(query + t), low0);
    high0 = _mm256_fmadd_ps(Precision::widen_8(row + t + 8), _mm256_loadu_ps(query + t + 8), high0);
    low1 = _mm256_fmadd_ps(Precision::widen_8(row + t + 16), _mm256_loadu_ps(query + t + 16), low1);
    high1 = _mm256_fmadd_ps(Precision::widen_8(row + t + 24), _mm256_loadu_ps(query + t + 24), high1);
  }
  if (t < stride) {
    low0 = _mm256_fmadd_ps(Precision::widen_8(row + t), _mm256_loadu_ps(query + t), low0);
    high0 = _mm256_fmadd_ps(Precision::widen_8(row + t + 8), _mm256_loadu_ps(query + t + 8), high0);
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

// Codes i and i + 4 share a register, 16 bytes of each at a time: one tree of sums for all eight.
GREEDY_AVX2 inline void code_dots_avx2(const std::uint8_t* const* codes, const std::int8_t* query, std::int64_t width,
                                       std::int32_t* out) {
  const auto load = [](const void* from) GREEDY_AVX2 { return _mm_loadu_si128(static_cast<const __m128i*>(from)); };
  const __m256i low = _mm256_set1_epi8(3), ones = _mm256_set1_epi16(1);
  __m256i sums[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()};
  for (std::int64_t k = 0; k < width; k += 16) {
    const __m256i query0 = _mm256_broadcastsi128_si256(load(query + k));
    const __m256i query1 = _mm256_broadcastsi128_si256(load(query + width + k));
    const __m256i query2 = _mm256_broadcastsi128_si256(load(query + 2 * width + k));
    const __m256i query3 = _mm256_broadcastsi128_si256(load(query + 3 * width + k));
    for (int i = 0; i < 4; ++i) {
      const __m256i bytes = _mm256_inserti128_si256(_mm256_castsi128_si256(load(codes[i] + k)), load(codes[i + 4] + k), 1);
      const __m256i first = _mm256_add_epi16(_mm256_maddubs_epi16(_mm256_and_si256(bytes, low), query0),
                                             _mm256_maddubs_epi16(_mm256_and_si256(_mm256_srli_epi16(bytes, 2), low), query1));
      const __m256i last = _mm256_add_epi16(_mm256_maddubs_epi16(_mm256_and_si256(_mm256_srli_epi16(bytes, 4), low), query2),
                                            _mm256_maddubs_epi16(_mm256_and_si256(_mm256_srli_epi16(bytes, 6), low), query3));
      sums[i] = _mm256_add_epi32(sums[i], _mm256_madd_epi16(_mm256_add_epi16(first, last), ones));
    }
  }
  const __m256i products = _mm256_hadd_epi32(_mm256_hadd_epi32(sums[0], sums[1]), _mm256_hadd_epi32(sums[2], sums[3]));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), products);
}

GREEDY_AVX2 inline void range_codes_avx2(const std::uint8_t* rows, std::int64_t width, const std::int32_t* ids, std::int64_t n,
                                         const std::int32_t* products, std::int32_t offset, std::int32_t top, std::int32_t* out) {
  for (std::int64_t i = 0; i < n; i += 8) {
    float scales[8];
    for (std::int64_t j = 0; j < 8; ++j) scales[j] = scale_of(rows, width, ids[i + j < n ? i + j : i]);
    const __m256i product = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(products + i));
    const __m256i twice = _mm256_sub_epi32(_mm256_slli_epi32(product, 1), _mm256_set1_epi32(offset));
    const __m256 estimate = _mm256_mul_ps(_mm256_cvtepi32_ps(twice), _mm256_loadu_ps(scales));
    // As KeyRanges does it.
    const __m256i bits = _mm256_max_epi32(_mm256_castps_si256(estimate), _mm256_setzero_si256());
    const __m256i range = _mm256_sub_epi32(_mm256_set1_epi32(top), _mm256_srli_epi32(bits, KeyRanges::kShift));
    const __m256i last = _mm256_set1_epi32(KeyRanges::kCount - 1);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), _mm256_max_epi32(_mm256_min_epi32(range, last), _mm256_setzero_si256()));
  }
}

// The lanes that are set in a mask of 8, moved to the front.
struct LanesInFront {
  std::int32_t lanes[256][8] = {};
  constexpr LanesInFront() {
    for (int mask = 0; mask < 256; ++mask) {
      for (int lane = 0, at = 0; lane < 8; ++lane) {
        if ((mask >> lane & 1) != 0) lanes[mask][at++] = lane;
      }
    }
  }
};
constexpr LanesInFront kInFront;

GREEDY_AVX2 inline std::int64_t find_unmarked_avx2(const std::int32_t* items, std::int64_t n, const std::uint64_t* marks,
                                                   std::int32_t* out) {
  const auto* halves = reinterpret_cast<const int*>(marks);  // the lower half of a word comes first
  const __m256i ones = _mm256_set1_epi32(-1);
  std::int64_t i = 0, found = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256i ids = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(items + i));
    // A negative one counts as marked, and nothing is read for it.
    const __m256i valid = _mm256_cmpgt_epi32(ids, ones);
    const __m256i words = _mm256_mask_i32gather_epi32(ones, halves, _mm256_srli_epi32(ids, 5), valid, 4);
    const __m256i bits = _mm256_sllv_epi32(words, _mm256_sub_epi32(_mm256_set1_epi32(31), _mm256_and_si256(ids, _mm256_set1_epi32(31))));
    const int fresh = _mm256_movemask_ps(_mm256_castsi256_ps(bits)) ^ 0xff;
    const __m256i order = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kInFront.lanes[fresh]));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + found), _mm256_permutevar8x32_epi32(ids, order));
    found += __builtin_popcount(static_cast<unsigned>(fresh));
  }
  return found + find_unmarked_plain(items + i, n - i, marks, out + found);
}

GREEDY_AVX2 inline std::int64_t find_marked_avx2(const std::int32_t* items, const float* values, std::int64_t n, const std::uint64_t* marks,
                                                 std::int32_t* out, float* out_values) {
  const auto* halves = reinterpret_cast<const int*>(marks);
  std::int64_t i = 0, found = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256i ids = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(items + i));
    const __m256i words = _mm256_i32gather_epi32(halves, _mm256_srli_epi32(ids, 5), 4);
    const __m256i bits = _mm256_sllv_epi32(words, _mm256_sub_epi32(_mm256_set1_epi32(31), _mm256_and_si256(ids, _mm256_set1_epi32(31))));
    const int marked = _mm256_movemask_ps(_mm256_castsi256_ps(bits));
    const __m256i order = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kInFront.lanes[marked]));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + found), _mm256_permutevar8x32_epi32(ids, order));
    _mm256_storeu_ps(out_values + found, _mm256_permutevar8x32_ps(_mm256_loadu_ps(values + i), order));
    found += __builtin_popcount(static_cast<unsigned>(marked));
  }
  return found + find_marked_plain(items + i, values + i, n - i, marks, out + found, out_values + found);
}

GREEDY_DEFINE_SCORERS(avx2, GREEDY_AVX2)

// ---- AVX-512 -------------------------------------------------------------------------------------------------

template <class Precision>
GREEDY_AVX512 inline float dot_avx512(const typename Precision::Value* row, const float* query, std::int64_t stride) {
  __m512 even = _mm512_setzero_ps(), odd = even;
  std::int64_t t = 0;
  for (; t + 2 * kLaneBlock <= stride; t += 2 * kLaneBlock) {
    even = _mm512_fmadd_ps(Precision::widen_16(row + t), _mm512_loadu_ps(query + t), even);
    odd = _mm512_fmadd_ps(Precision::widen_16(row + t + 16), _mm512_loadu_ps(query + t + 16), odd);
  }
  if (t < stride) even = _mm512_fmadd_ps(Precision::widen_16(row + t), _mm512_loadu_ps(query + t), even);
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

GREEDY_AVX512 inline void code_dots_avx512(const std::uint8_t* const* codes, const std::int8_t* query, std::int64_t width,
                                           std::int32_t* out) {
  code_dots_avx2(codes, query, width, out);
}

GREEDY_AVX512 inline void range_codes_avx512(const std::uint8_t* rows, std::int64_t width, const std::int32_t* ids, std::int64_t n,
                                             const std::int32_t* products, std::int32_t offset, std::int32_t top, std::int32_t* out) {
  range_codes_avx2(rows, width, ids, n, products, offset, top, out);
}

GREEDY_AVX512 inline std::int64_t find_unmarked_avx512(const std::int32_t* items, std::int64_t n, const std::uint64_t* marks,
                                                       std::int32_t* out) {
  const __m512i ones = _mm512_set1_epi32(-1);
  std::int64_t i = 0, found = 0;
  for (; i + 16 <= n; i += 16) {
    const __m512i ids = _mm512_loadu_si512(items + i);
    const __mmask16 valid = _mm512_cmpgt_epi32_mask(ids, ones);
    const __m512i words = _mm512_mask_i32gather_epi32(ones, valid, _mm512_srli_epi32(ids, 5), marks, 4);
    const __m512i bit = _mm512_sllv_epi32(_mm512_set1_epi32(1), _mm512_and_si512(ids, _mm512_set1_epi32(31)));
    const __mmask16 fresh = _mm512_testn_epi32_mask(words, bit);
    _mm512_storeu_si512(out + found, _mm512_maskz_compress_epi32(fresh, ids));
    found += __builtin_popcount(fresh);
  }
  return found + find_unmarked_avx2(items + i, n - i, marks, out + found);
}

GREEDY_AVX512 inline std::int64_t find_marked_avx512(const std::int32_t* items, const float* values, std::int64_t n,
                                                     const std::uint64_t* marks, std::int32_t* out, float* out_values) {
  std::int64_t found = 0;
  for (std::int64_t i = 0; i < n; i += 16) {
    const auto there = static_cast<__mmask16>(n - i >= 16 ? 0xffff : (1 << (n - i)) - 1);
    const __m512i ids = _mm512_maskz_loadu_epi32(there, items + i);
    const __m512i words = _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), there, _mm512_srli_epi32(ids, 5), marks, 4);
    const __m512i bit = _mm512_sllv_epi32(_mm512_set1_epi32(1), _mm512_and_si512(ids, _mm512_set1_epi32(31)));
    const __mmask16 marked = _mm512_test_epi32_mask(words, bit);
    _mm512_storeu_si512(out + found, _mm512_maskz_compress_epi32(marked, ids));
    _mm512_storeu_ps(out_values + found, _mm512_maskz_compress_ps(marked, _mm512_maskz_loadu_ps(there, values + i)));
    found += __builtin_popcount(marked);
  }
  return found;
}

GREEDY_DEFINE_SCORERS(avx512, GREEDY_AVX512)

constexpr const InnerProductKernel* kKernels[] = {&k_avx512, &k_avx2, &k_plain};

// Not every compiler knows it by name; bit 29 of the third register says it.
bool has_f16c() {
  unsigned a, b, c, d;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c >> 29 & 1) != 0;
}

bool supported(const InnerProductKernel* kernel) {
  if (kernel == &k_plain) return true;
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
  if (kernel == &k_avx2) return avx2;
  return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq");
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
