// External ids: from text to position, over the arrays of a bundle (see greedy_core/bundle/ids.py).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "blake2b.h"

namespace greedy {

// A view of arrays that belong to the caller: id i is text[offsets[i]] to text[offsets[i + 1]]; bucket b holds the ids
// positions[buckets[b]] to positions[buckets[b + 1]]. The top bits of an id's hash are the number of its bucket. Offsets, buckets
// and positions are known to lie inside of the arrays.
struct IdTable {
  const unsigned char* text = nullptr;
  const std::int64_t* offsets = nullptr;
  const std::int32_t* buckets = nullptr;
  const std::int32_t* positions = nullptr;
  std::int64_t n_ids = 0;
  int bits = 1;

  std::int64_t bucket_of(std::uint64_t digest) const { return static_cast<std::int64_t>(digest >> (64 - bits)); }

  Text id(std::int32_t position) const {
    return {text + offsets[position], static_cast<std::size_t>(offsets[position + 1] - offsets[position])};
  }

  // The position of an id that falls into this bucket, -1 if nobody has it.
  std::int32_t find_in(std::int64_t bucket, const Text& wanted) const {
    for (std::int32_t entry = buckets[bucket]; entry < buckets[bucket + 1]; ++entry) {
      const Text found = id(positions[entry]);
      if (found.length == wanted.length && std::memcmp(found.data, wanted.data, wanted.length) == 0) return positions[entry];
    }
    return -1;
  }

  // The positions of many ids. Every look-up goes through four arrays, each too large for a cache: a group of ids asks memory for
  // its next step together, so that the misses overlap.
  void find(const Text* wanted, std::int64_t n, std::int32_t* found) const {
    constexpr std::int64_t kGroup = 16;
    std::int64_t bucket[kGroup];
    std::uint64_t digests[kGroup];
    for (std::int64_t first = 0; first < n; first += kGroup) {
      const std::int64_t size = std::min(kGroup, n - first);
      const Text* const group = wanted + first;
      hash(group, size, digests);
      for (std::int64_t i = 0; i < size; ++i) {
        bucket[i] = group[i].data == nullptr ? -1 : bucket_of(digests[i]);
        if (bucket[i] >= 0) __builtin_prefetch(buckets + bucket[i]);
      }
      for (std::int64_t i = 0; i < size; ++i) {
        if (bucket[i] >= 0) __builtin_prefetch(positions + buckets[bucket[i]]);
      }
      for (std::int64_t i = 0; i < size; ++i) {
        if (bucket[i] >= 0 && buckets[bucket[i]] < n_ids) __builtin_prefetch(offsets + positions[buckets[bucket[i]]]);
      }
      for (std::int64_t i = 0; i < size; ++i) {
        if (bucket[i] >= 0 && buckets[bucket[i]] < n_ids) __builtin_prefetch(text + offsets[positions[buckets[bucket[i]]]]);
      }
      for (std::int64_t i = 0; i < size; ++i) found[first + i] = bucket[i] < 0 ? -1 : find_in(bucket[i], group[i]);
    }
  }

  // The digests of texts, four at a time; anything for a null.
  static void hash(const Text* texts, std::int64_t n, std::uint64_t* digests) {
    static constexpr unsigned char kNothing = 0;
    for (std::int64_t first = 0; first < n; first += 4) {
      Text four[4] = {{&kNothing, 0}, {&kNothing, 0}, {&kNothing, 0}, {&kNothing, 0}};
      std::uint64_t found[4];
      const std::int64_t size = std::min<std::int64_t>(4, n - first);
      for (std::int64_t i = 0; i < size; ++i) {
        if (texts[first + i].data != nullptr) four[i] = texts[first + i];
      }
      if (size == 1) {
        found[0] = blake2b_64(four[0]);
      } else {
        blake2b_64_of_four(four, found);
      }
      std::copy(found, found + size, digests + first);
    }
  }

  // The position of the first id that is empty, in a bucket that is not its own, in none, or equal to another; -1 if all is well.
  std::int64_t first_bad_id() const {
    std::vector<bool> met(static_cast<std::size_t>(n_ids), false);
    const std::int64_t n_buckets = std::int64_t{1} << bits;
    for (std::int64_t bucket = 0; bucket < n_buckets; ++bucket) {
      for (std::int32_t entry = buckets[bucket]; entry < buckets[bucket + 1]; ++entry) {
        const std::int32_t position = positions[entry];
        const Text own = id(position);
        if (met[static_cast<std::size_t>(position)] || own.length == 0) return position;
        if (bucket_of(blake2b_64(own)) != bucket || find_in(bucket, own) != position) return position;
        met[static_cast<std::size_t>(position)] = true;
      }
    }
    const auto missing = std::find(met.begin(), met.end(), false);
    return missing == met.end() ? -1 : missing - met.begin();
  }
};

}  // namespace greedy
