// The lists that a query reads. Along an axis with a positive weight an item's product is positive: the entry is in favour of
// the item. The list of the opposite direction holds the entries against.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "level_table.h"

namespace greedy {

// How much a query weighs each axis, and by how many levels that shifts the axis's lists.
struct FollowedWeights {
  std::size_t n = 0;
  std::vector<float> magnitudes;
  std::vector<std::int32_t> shifts;

  void assign(const float* weights, std::int64_t n_axes, float largest) {
    n = static_cast<std::size_t>(n_axes);
    magnitudes.resize(n);
    shifts.resize(n);
    float* const magnitude = magnitudes.data();
    std::int32_t* const shift = shifts.data();
    for (std::size_t i = 0; i < n; ++i) magnitude[i] = std::fabs(weights[i]);
    for (std::size_t i = 0; i < n; ++i) shift[i] = LevelTable::shift(largest, magnitude[i]);
  }
};

class FollowedLists {
 public:
  // Takes the list in favour, or the one against, of every axis.
  void assign(const FollowedWeights& followed, const LevelTable& levels, const float* weights, bool against) {
    lists_.resize(followed.n);
    firsts_.resize(followed.n);
    reached_.resize(followed.n);
    for (std::size_t t = 0; t < followed.n; ++t) {
      lists_[t] = static_cast<std::int32_t>(2 * t) + ((weights[t] < 0.0f) != against);
      firsts_[t] = followed.shifts[t] + levels.head(lists_[t]);
    }
    n_known_ = 0;
  }

  // The lowest level, from `level` to `limit`, above which no more than `entries` lie; `level` itself in any case.
  std::int32_t lower(const FollowedWeights& followed, const LevelTable& levels, std::int32_t level, std::int32_t limit,
                     std::int64_t entries) {
    while (level < limit && above(followed, levels, level + 1) <= entries) ++level;
    return level;
  }

  // How many entries of all lists lie above a level; none above level -1.
  std::int32_t above(const FollowedWeights& followed, const LevelTable& levels, std::int32_t level) {
    if (level < 0) return 0;
    while (n_known_ <= level) count_block(followed, levels);
    return above_[static_cast<std::size_t>(level)];
  }

  // Calls visit(list, first entry, number of entries, magnitude) for what each list has between two levels; perhaps nothing.
  template <class Visit>
  void read(const FollowedWeights& followed, const LevelTable& levels, std::int32_t from, std::int32_t to, Visit visit) {
    const std::size_t n = reach(to);
    for (std::size_t r = 0; r < n; ++r) {
      const auto i = static_cast<std::size_t>(reached_[r]);
      const std::int32_t* counts = levels.counts(lists_[i]);
      const std::int32_t start = counts[std::max(from - followed.shifts[i], -1)];
      visit(lists_[i], start, counts[to - followed.shifts[i]] - start, followed.magnitudes[i]);
    }
  }

 private:
  // Finds the lists with an entry above a level, without a branch: it would be mispredicted half of the time.
  std::size_t reach(std::int32_t level) {
    std::int32_t* const reached = reached_.data();
    const std::int32_t* const firsts = firsts_.data();
    std::size_t n = 0;
    for (std::size_t i = 0, end = firsts_.size(); i < end; ++i) {
      reached[n] = static_cast<std::int32_t>(i);
      n += firsts[i] <= level;
    }
    return n;
  }

  // Levels are counted in blocks and on demand: a small budget never gets to the deep ones, where all lists have entries.
  void count_block(const FollowedWeights& followed, const LevelTable& levels) {
    std::array<std::int32_t, LevelTable::kBlock> sums{};
    const std::size_t n = reach(n_known_ + LevelTable::kBlock - 1);
    for (std::size_t r = 0; r < n; ++r) {
      const auto i = static_cast<std::size_t>(reached_[r]);
      const std::int32_t* counts = levels.counts(lists_[i]) + (n_known_ - followed.shifts[i]);
      for (std::size_t m = 0; m < sums.size(); ++m) sums[m] += counts[m];
    }
    std::copy(sums.begin(), sums.end(), above_.begin() + n_known_);
    n_known_ += LevelTable::kBlock;
  }

  std::vector<std::int32_t> lists_;
  std::vector<std::int32_t> firsts_;  // the first level at which a list has an entry
  std::vector<std::int32_t> reached_;
  std::array<std::int32_t, LevelTable::kLevels> above_{};
  std::int32_t n_known_ = 0;  // how many levels are counted
};

}  // namespace greedy
