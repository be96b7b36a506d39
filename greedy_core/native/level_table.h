// How many entries of a list lie above a threshold, for thresholds a quarter of an octave apart.
//
// A query weighs list t with |w_t|, and log(|w_t| value) = log|w_t| + log(value): so the weight only shifts the levels, and the
// counts of all lists at all thresholds are sums of table rows. Nothing of the lists themselves is touched.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "direction_lists.h"

namespace greedy {

// An axis, the query's weight on it, and by how many levels that lifts the thresholds of its lists.
struct ShiftedAxis {
  std::int32_t t;
  std::int32_t shift;
  float weight;
};

class LevelTable {
 public:
  static constexpr std::int32_t kLevels = 64;  // sixteen octaves below the largest value

  void assign(const DirectionLists& lists) {
    top_ = 0.0f;
    for (std::int64_t list = 0; list < lists.n_lists; ++list) top_ = std::max(top_, lists.values[list * lists.depth]);
    counts_.assign(static_cast<std::size_t>(lists.n_lists * kLevels), 0);
    for (std::int64_t list = 0; list < lists.n_lists; ++list) {
      const float* values = lists.values + list * lists.depth;
      std::int64_t r = 0;
      for (std::int32_t level = 0; level < kLevels; ++level) {
        const float threshold = top_ * fraction(level);
        while (r < lists.depth && values[r] >= threshold && values[r] > 0.0f) ++r;
        counts_[static_cast<std::size_t>(list * kLevels + level)] = static_cast<std::int32_t>(r);
      }
    }
  }

  // The largest value in any list.
  float top() const { return top_; }
  // counts(list)[m]: how many entries of the list are >= top * 2^(-m/4), and positive.
  const std::int32_t* counts(std::int64_t list) const { return counts_.data() + list * kLevels; }

  // round(4 log2(largest / weight)): by how many levels a weight lifts the thresholds of its list. By comparisons and not by a
  // logarithm, so that every machine agrees.
  static std::int32_t shift(float largest, float weight) {
    const float ratio = largest / weight;
    std::int32_t bits;
    std::memcpy(&bits, &ratio, sizeof bits);
    const std::int32_t octaves = (bits >> 23) - 127;
    bits = (bits & 0x7fffff) | 0x3f800000;
    float mantissa;
    std::memcpy(&mantissa, &bits, sizeof mantissa);
    return 4 * octaves + (mantissa > 1.0905077f) + (mantissa > 1.2968396f) + (mantissa > 1.5422108f) + (mantissa > 1.8340081f);
  }

 private:
  // 2^(-level/4), exact up to the four constants.
  static float fraction(std::int32_t level) {
    constexpr float kQuarters[] = {1.0f, 0.8408964f, 0.70710677f, 0.59460354f};
    float scale = kQuarters[level % 4];
    for (std::int32_t octave = 0; octave < level / 4; ++octave) scale *= 0.5f;
    return scale;
  }

  float top_ = 0.0f;
  std::vector<std::int32_t> counts_;
};

}  // namespace greedy
