// Past the paper: candidates by the sum of their largest products instead of by the largest one.
//
// All entries with |z_jt| >= tau are read, from both ends of every axis, and an item's estimate is the sum of those that are
// its own: the inner product but for its small terms. Candidates are chosen in rounds; round r lowers tau until about reads * B_r
// entries have been read and chooses up to B_r candidates. Rounds do not depend on the budget, which only says where
// to stop, so candidate sets are nested.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "direction_lists.h"
#include "level_table.h"
#include "query_scratch.h"

namespace greedy {

// Round r chooses candidates up to the first of these, then four times as many, and so on.
constexpr std::int64_t kFirstRound = 64;

// Clears the sums however the screening ends.
struct SumsInUse {
  QueryScratch& scratch;
  ~SumsInUse() { scratch.sums.end(scratch.candidates, scratch.excluded); }
};

// For every level, how many entries of all lists lie above it.
inline std::array<std::int64_t, LevelTable::kLevels> entries_above(const LevelTable& levels, const float* weights,
                                                                   std::int64_t n_axes, float largest) {
  std::array<std::int64_t, LevelTable::kLevels> above{};
  for (std::int64_t t = 0; t < n_axes; ++t) {
    if (weights[t] == 0.0f) continue;
    const std::int32_t shift = LevelTable::shift(largest, std::fabs(weights[t]));
    const std::int32_t* counts = levels.axis_counts(t);
    for (std::int32_t level = shift; level < LevelTable::kLevels; ++level) {
      above[static_cast<std::size_t>(level)] += counts[level - shift];
    }
  }
  return above;
}

// Adds the entries between two levels to the sums: what favours an item first, then what speaks against it. Returns how many.
inline std::int64_t read_levels(QueryScratch& scratch, const DirectionLists& lists, const LevelTable& levels,
                                const float* weights, std::int64_t n_axes, float largest, std::int32_t from, std::int32_t to) {
  // The largest sum that can be, n_axes times the largest product, must fit beside the flags.
  const double unit = static_cast<double>(1 << 28) / (static_cast<double>(n_axes) * levels.top() * largest);
  std::int64_t entries_read = 0;
  for (const bool against : {false, true}) {
    for (std::int64_t t = 0; t < n_axes; ++t) {
      if (weights[t] == 0.0f) continue;
      const float weight = std::fabs(weights[t]);
      const std::int32_t shift = LevelTable::shift(largest, weight);
      if (shift > to) continue;
      const std::int64_t list = 2 * t + ((weights[t] < 0.0f) != against);
      const std::int32_t* counts = levels.counts(list);
      const std::int32_t start = from >= shift ? counts[from - shift] : 0;
      const std::int32_t n = counts[to - shift] - start;
      if (n == 0) continue;
      const std::int64_t at = list * lists.depth + start;
      const double scale = weight * unit;
      if (against) {
        scratch.sums.subtract(lists.ids + at, lists.values + at, n, scale);
      } else {
        scratch.sums.add(lists.ids + at, lists.values + at, n, scale);
      }
      entries_read += n;
    }
  }
  return entries_read;
}

// `reads` entries are read for each candidate of a round. Fewer than `budget` candidates are chosen when fewer items have a
// positive entry.
inline std::int64_t screen_sum(QueryScratch& scratch, const DirectionLists& lists, const LevelTable& levels,
                               const float* weights, std::int64_t n_axes, std::int64_t n_items, std::int64_t reads,
                               std::int64_t budget, bool ordered) {
  scratch.candidates.clear();
  float largest = 0.0f;
  for (std::int64_t t = 0; t < n_axes; ++t) largest = std::max(largest, std::fabs(weights[t]));
  if (largest == 0.0f || levels.top() == 0.0f) return 0;

  const auto above = entries_above(levels, weights, n_axes, largest);
  scratch.sums.begin(n_items);
  const SumsInUse cleared_at_the_end{scratch};
  for (std::int32_t j : scratch.excluded) scratch.sums.exclude(j);
  std::int64_t entries_read = 0;
  std::int32_t level = -1;
  for (std::int64_t round = kFirstRound;; round *= 4) {
    std::int32_t next = std::max(level, 0);
    while (next + 1 < LevelTable::kLevels && above[static_cast<std::size_t>(next) + 1] <= reads * round) ++next;
    if (next > level) entries_read += read_levels(scratch, lists, levels, weights, n_axes, largest, level, next);
    level = next;
    // With everything read there is nothing that a further round could know better.
    const bool last = budget <= round || level == LevelTable::kLevels - 1;
    const std::int64_t goal = last ? budget : round;
    auto& in_sight = scratch.sums.in_sight;
    scratch.sum_keys.resize(in_sight.size());
    for (std::size_t i = 0; i < in_sight.size(); ++i) scratch.sum_keys[i] = scratch.sums.sum(in_sight[i]);
    const auto count = static_cast<std::size_t>(goal) - scratch.candidates.size();
    scratch.best_by_sum.take(in_sight, scratch.sum_keys, count, ordered, scratch.candidates);
    if (last) return entries_read;
  }
}

}  // namespace greedy
