#include "blake2b.h"

#include <cstring>

namespace greedy {
namespace {

constexpr std::size_t kBlock = 128;
constexpr std::uint64_t kStart[8] = {
    0x6a09e667f3bcc908u, 0xbb67ae8584caa73bu, 0x3c6ef372fe94f82bu, 0xa54ff53a5f1d36f1u,
    0x510e527fade682d1u, 0x9b05688c2b3e6c1fu, 0x1f83d9abfb41bd6bu, 0x5be0cd19137e2179u,
};
// The parameters of an unkeyed hash with a digest of eight bytes.
constexpr std::uint64_t kParameters = 0x01010008u;
constexpr unsigned char kOrder[10][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
};

// Four hashes at once: lane i of every number belongs to text i.
using Lanes = std::uint64_t __attribute__((vector_size(32)));

#define GREEDY_INLINE inline __attribute__((always_inline))

template <class Word>
GREEDY_INLINE void rotate(Word& x, int right) {
  x = x >> right | x << (64 - right);
}

template <class Word>
GREEDY_INLINE void mix(Word& a, Word& b, Word& c, Word& d, const Word& x, const Word& y) {
  a += b + x;
  d ^= a;
  rotate(d, 32);
  c += d;
  b ^= c;
  rotate(b, 24);
  a += b + y;
  d ^= a;
  rotate(d, 16);
  c += d;
  b ^= c;
  rotate(b, 63);
}

// Changes `state` by one block. `counted` is how many bytes there were so far, `last` is all ones for the last block.
template <class Word>
GREEDY_INLINE void compress(Word* state, const Word* words, const Word& counted, std::uint64_t last) {
  Word v[16];
  for (int i = 0; i < 8; ++i) {
    v[i] = state[i];
    v[i + 8] = Word{} + kStart[i];
  }
  v[12] ^= counted;
  v[14] ^= Word{} + last;
#pragma GCC unroll 12
  for (int round = 0; round < 12; ++round) {
    const unsigned char* const order = kOrder[round % 10];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) mix(v[i], v[4 + i], v[8 + i], v[12 + i], words[order[2 * i]], words[order[2 * i + 1]]);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      mix(v[i], v[4 + (i + 1) % 4], v[8 + (i + 2) % 4], v[12 + (i + 3) % 4], words[order[8 + 2 * i]], words[order[9 + 2 * i]]);
    }
  }
  for (int i = 0; i < 8; ++i) state[i] ^= v[i] ^ v[i + 8];
}

// Word i of a block of up to 128 bytes, which is followed by zeros.
GREEDY_INLINE std::uint64_t word_of(const unsigned char* data, std::size_t length, std::size_t i) {
  std::uint64_t word = 0;
  const std::size_t end = length < 8 * i + 8 ? length : 8 * i + 8;
  for (std::size_t byte = end; byte > 8 * i; --byte) word = word << 8 | data[byte - 1];
  return word;
}

GREEDY_INLINE void four(const Text* texts, std::uint64_t* digests) {
  Lanes words[16] = {}, state[8], counted{};
  std::size_t longest = 0;
  for (int lane = 0; lane < 4; ++lane) {
    counted[lane] = texts[lane].length;
    longest = texts[lane].length > longest ? texts[lane].length : longest;
  }
  for (std::size_t i = 0; 8 * i < longest; ++i) {
    for (int lane = 0; lane < 4; ++lane) words[i][lane] = word_of(texts[lane].data, texts[lane].length, i);
  }
  for (int i = 0; i < 8; ++i) state[i] = Lanes{} + kStart[i];
  state[0] ^= Lanes{} + kParameters;
  compress(state, words, counted, ~std::uint64_t{0});
  for (int lane = 0; lane < 4; ++lane) digests[lane] = state[0][lane];
}

void four_plain(const Text* texts, std::uint64_t* digests) { four(texts, digests); }

#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("avx2"))) void four_avx2(const Text* texts, std::uint64_t* digests) { four(texts, digests); }
// Whole numbers: every instruction set gives the same, so there is nothing to choose but the fastest.
void (*const hash_four)(const Text*, std::uint64_t*) = __builtin_cpu_supports("avx2") ? four_avx2 : four_plain;
#else
void (*const hash_four)(const Text*, std::uint64_t*) = four_plain;
#endif

}  // namespace

std::uint64_t blake2b_64(const Text& text) {
  std::uint64_t state[8], words[16];
  std::memcpy(state, kStart, sizeof state);
  state[0] ^= kParameters;
  for (std::size_t done = 0;; done += kBlock) {
    const std::size_t left = text.length - done;
    const bool last = left <= kBlock;
    const std::size_t here = last ? left : kBlock;
    for (std::size_t i = 0; i < 16; ++i) words[i] = word_of(text.data + done, here, i);
    compress(state, words, static_cast<std::uint64_t>(done + here), last ? ~std::uint64_t{0} : 0);
    if (last) return state[0];
  }
}

void blake2b_64_of_four(const Text* texts, std::uint64_t* digests) {
  bool all_short = true;
  for (int i = 0; i < 4; ++i) all_short &= texts[i].length <= kBlock;
  if (all_short) return hash_four(texts, digests);
  for (int i = 0; i < 4; ++i) digests[i] = blake2b_64(texts[i]);
}

}  // namespace greedy
