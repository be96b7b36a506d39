// How many entries of a list gain more than a threshold, for thresholds a quarter of an octave apart.
//
// The gain of an entry is its value minus the list's tail, the last value that the list holds (or 0). An item that is not in the
// list has about the tail's value, so only the gain distinguishes items; by values, a list of large and nearly equal ones would
// outweigh all others.
//
// A query weighs a list with |w|, and log(|w| value) = log|w| + log(value): so the weight only shifts the levels, and the counts
// of all lists at all thresholds are sums of table rows. Nothing of the lists themselves is touched.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "direction_lists.h"

namespace greedy {

class LevelTable {
 public:
  static constexpr std::int32_t kLevels = 64;  // sixteen octaves below the largest gain
  static constexpr std::int32_t kBlock = 16;   // levels that are added up together

  void assign(const DirectionLists& lists) {
    tails_.clear();
    rows_.clear();
    heads_.clear();
    top_ = 0.0f;
    measure(lists);
    count(lists);
  }

  // The largest gain in any list.
  float top() const { return top_; }
  // counts(list)[m]: how many entries of the list gain at least top * 2^(-m/4), and more than nothing. None do at the kBlock levels
  // before the first.
  const std::int32_t* counts(std::int32_t list) const { return rows_.data() + static_cast<std::size_t>(list) * kRow + kBlock; }
  // The first level with an entry.
  std::int32_t head(std::int32_t list) const { return heads_[static_cast<std::size_t>(list)]; }
  float tail(std::int32_t list) const { return tails_[static_cast<std::size_t>(list)]; }

  // round(4 log2(largest / weight)): by how many levels a weight lifts the thresholds of its list. By comparisons and not by a
  // logarithm, so that every machine agrees. A weight of zero is lifted above all levels.
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
  static constexpr std::size_t kRow = kBlock + kLevels;

  // The tails of lists, and the largest gain so far.
  void measure(const DirectionLists& lists) {
    for (std::int64_t list = 0; list < lists.n_lists; ++list) {
      const float* values = lists.values + list * lists.depth;
      tails_.push_back(std::max(values[lists.depth - 1], 0.0f));
      top_ = std::max(top_, values[0] - tails_.back());
    }
  }

  // The rows of lists, all of which have been measured.
  void count(const DirectionLists& lists) {
    for (std::int64_t list = 0; list < lists.n_lists; ++list) {
      const float* values = lists.values + list * lists.depth;
      const float tail = tails_[heads_.size()];
      heads_.push_back(kLevels);
      rows_.insert(rows_.end(), kBlock, 0);
      std::int32_t r = 0;
      for (std::int32_t level = 0; level < kLevels; ++level) {
        const float threshold = top_ * fraction(level);
        for (float gain; r < lists.depth && (gain = values[r] - tail) >= threshold && gain > 0.0f;) ++r;
        rows_.push_back(r);
        if (r > 0) heads_.back() = std::min(heads_.back(), level);
      }
    }
  }

  // 2^(-level/4), exact up to the four constants.
  static float fraction(std::int32_t level) {
    constexpr float kQuarters[] = {1.0f, 0.8408964f, 0.70710677f, 0.59460354f};
    float scale = kQuarters[level % 4];
    for (std::int32_t octave = 0; octave < level / 4; ++octave) scale *= 0.5f;
    return scale;
  }

  float top_ = 0.0f;
  std::vector<std::int32_t> rows_;
  std::vector<std::int32_t> heads_;
  std::vector<float> tails_;
};

}  // namespace greedy
