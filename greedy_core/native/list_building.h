// Section 4.2: the sorted index arrays, cut to the entries that a search can reach.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

#include "direction_lists.h"

namespace greedy {

// One integer that orders a value and its id: the float's bits, made monotonic, above the id's complement.
inline std::uint64_t sort_key(float value, std::int64_t j) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  bits = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return static_cast<std::uint64_t>(bits) << 32 | (0xFFFFFFFFu - static_cast<std::uint32_t>(j));
}

// A value that about twice as many as `depth` of sign * column[j] reach, from a sample of them; -infinity where most are wanted.
inline float likely_bound(const float* column, std::int64_t n_items, float sign, std::int64_t depth) {
  constexpr std::int64_t kSample = 8192, kEnough = 16;
  const std::int64_t wanted = 2 * depth * kSample / n_items;
  if (n_items < 2 * kSample || wanted < kEnough || wanted > kSample / 2) return -std::numeric_limits<float>::infinity();
  std::vector<float> sample(kSample);
  for (std::int64_t i = 0; i < kSample; ++i) sample[static_cast<std::size_t>(i)] = sign * column[i * n_items / kSample];
  std::nth_element(sample.begin(), sample.begin() + wanted, sample.end(), std::greater<>());
  return sample[static_cast<std::size_t>(wanted)];
}

// The `depth` largest of sign * column[j], ties by id, into ids and values.
inline void build_list(const float* column, std::int64_t n_items, float sign, std::int64_t depth, std::int32_t* ids,
                       float* values) {
  std::vector<std::uint64_t> keys;
  const auto collect = [&](float bound) {
    keys.clear();
    for (std::int64_t j = 0; j < n_items; ++j) {
      const float value = sign * column[j] + 0.0f;  // + 0 makes -0 equal to 0
      if (value >= bound) keys.push_back(sort_key(value, j));
    }
  };
  collect(likely_bound(column, n_items, sign, depth));
  // The bound of the sample was too high: take all items.
  if (static_cast<std::int64_t>(keys.size()) < depth) collect(-std::numeric_limits<float>::infinity());
  const auto cut = keys.begin() + depth;
  if (cut != keys.end()) std::nth_element(keys.begin(), cut, keys.end(), std::greater<>());
  std::sort(keys.begin(), cut, std::greater<>());
  for (std::int64_t r = 0; r < depth; ++r) {
    const auto j = static_cast<std::int32_t>(0xFFFFFFFFu - static_cast<std::uint32_t>(keys[static_cast<std::size_t>(r)]));
    ids[r] = j;
    values[r] = sign * column[j] + 0.0f;
  }
}

// A projection may be longer than any one value, by the root of the number of dimensions.
constexpr float kMaxValue = kMaxMagnitude * 65536;

// The first list with an entry that is out of range, out of order or names no item; -1 if there is none.
inline std::int64_t first_bad_list(const DirectionLists& lists, std::int64_t n_items) {
  for (std::int64_t list = 0; list < lists.n_lists; ++list) {
    const std::int32_t* ids = lists.ids + list * lists.depth;
    const float* values = lists.values + list * lists.depth;
    for (std::int64_t r = 0; r < lists.depth; ++r) {
      const bool names_an_item = ids[r] >= 0 && ids[r] < n_items;
      const bool in_range = std::fabs(values[r]) <= kMaxValue;
      const bool in_order = r == 0 || values[r - 1] > values[r] || (values[r - 1] == values[r] && ids[r - 1] < ids[r]);
      if (!(names_an_item && in_range && in_order)) return list;
    }
  }
  return -1;
}

}  // namespace greedy
