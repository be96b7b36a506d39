// Past the paper: candidates by the sum of their largest products instead of by the largest one.
//
// All entries with |z_jt| >= tau are read, from both ends of every axis, and an item's estimate is the sum of those that are
// its own: the inner product but for its small terms. Candidates are chosen in rounds; round r lowers tau until about reads * B_r
// entries in favour and as many against have been read, and chooses up to B_r candidates. Rounds do not depend on the
// budget, which only says where to stop, so candidate sets are nested.
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

// The first round chooses up to 64 candidates, every further one four times as many: so a small budget reads little, and no
// round chooses many candidates before much is known of them.
constexpr std::int64_t kFirstRound = 64;
constexpr std::int64_t kRoundGrowth = 4;

// Clears the sums however the screening ends.
struct SumsInUse {
  QueryScratch& scratch;
  ~SumsInUse() { scratch.sums.end(scratch.candidates, scratch.excluded); }
};

// The axes that a query weighs, each with the shift of its levels.
inline void shift_axes(QueryScratch& scratch, const float* weights, std::int64_t n_axes, float largest) {
  scratch.shifted.clear();
  for (std::int64_t t = 0; t < n_axes; ++t) {
    const float weight = std::fabs(weights[t]);
    if (weight == 0.0f) continue;
    const std::int32_t shift = LevelTable::shift(largest, weight);
    if (shift < LevelTable::kLevels) scratch.shifted.push_back({static_cast<std::int32_t>(t), shift, weights[t]});
  }
}

// The list of an axis that speaks for its items, or the opposite one.
inline std::int64_t list_of(const ShiftedAxis& axis, bool against) {
  return 2 * axis.t + ((axis.weight < 0.0f) != against);
}

// For every level, how many entries of one end of all axes lie above it. Levels from kLevels on are there to add without a limit.
using LevelCounts = std::array<std::int32_t, 2 * LevelTable::kLevels>;

inline LevelCounts entries_above(const QueryScratch& scratch, const LevelTable& levels, bool against) {
  LevelCounts above{};
  for (const ShiftedAxis& axis : scratch.shifted) {
    const std::int32_t* counts = levels.counts(list_of(axis, against));
    std::int32_t* from = above.data() + axis.shift;
    for (std::int32_t level = 0; level < LevelTable::kLevels; ++level) from[level] += counts[level];
  }
  return above;
}

// The lowest level, from `level` to `limit`, above which no more than `entries` lie; `level` itself in any case.
inline std::int32_t lower(const LevelCounts& above, std::int32_t level, std::int32_t limit, std::int64_t entries) {
  while (level < limit && above[static_cast<std::size_t>(level + 1)] <= entries) ++level;
  return level;
}

// Calls visit(list, first entry, number of entries, scale) for what each axis has between two levels, at one of its ends.
template <class Visit>
std::int64_t read_levels(const QueryScratch& scratch, const LevelTable& levels, double unit, bool against,
                         std::int32_t from, std::int32_t to, Visit visit) {
  std::int64_t entries_read = 0;
  for (const ShiftedAxis& axis : scratch.shifted) {
    if (axis.shift > to) continue;
    const std::int64_t list = list_of(axis, against);
    const std::int32_t* counts = levels.counts(list);
    const std::int32_t start = from >= axis.shift ? counts[from - axis.shift] : 0;
    const std::int32_t n = counts[to - axis.shift] - start;
    if (n > 0) visit(list, start, n, std::fabs(axis.weight) * unit);
    entries_read += n;
  }
  return entries_read;
}

// `reads` entries of each end are read for each candidate of a round. Fewer than `budget` candidates are chosen when fewer items
// have a positive entry.
inline std::int64_t screen_sum(QueryScratch& scratch, const DirectionLists& lists, const LevelTable& levels,
                               const float* weights, std::int64_t n_axes, std::int64_t n_items, std::int64_t reads,
                               std::int64_t budget, bool ordered) {
  scratch.candidates.clear();
  float largest = 0.0f;
  for (std::int64_t t = 0; t < n_axes; ++t) largest = std::max(largest, std::fabs(weights[t]));
  if (largest == 0.0f || levels.top() == 0.0f) return 0;

  // The largest sum that can be, n_axes times the largest product, must fit beside the flags.
  const double unit = static_cast<double>(1 << 28) / (static_cast<double>(n_axes) * levels.top() * largest);
  shift_axes(scratch, weights, n_axes, largest);
  const LevelCounts in_favour = entries_above(scratch, levels, false), against = entries_above(scratch, levels, true);
  scratch.sums.begin(n_items);
  const SumsInUse cleared_at_the_end{scratch};
  for (std::int32_t j : scratch.excluded) scratch.sums.exclude(j);
  constexpr std::int32_t kLast = LevelTable::kLevels - 1;
  std::int64_t entries_read = 0;
  std::int32_t level = -1, level_against = -1;
  for (std::int64_t round = kFirstRound;; round *= kRoundGrowth) {
    const std::int32_t next = lower(in_favour, std::max(level, 0), kLast, reads * round);
    const std::int32_t next_against = lower(against, level_against, next, reads * round);
    const auto ids = [&](std::int64_t list, std::int32_t start) { return lists.ids + list * lists.depth + start; };
    const auto values = [&](std::int64_t list, std::int32_t start) { return lists.values + list * lists.depth + start; };
    const auto add = [&](std::int64_t list, std::int32_t start, std::int32_t n, double scale) {
      scratch.sums.add(ids(list, start), values(list, start), n, scale);
    };
    const auto subtract = [&](std::int64_t list, std::int32_t start, std::int32_t n, double scale) {
      scratch.sums.subtract<SumTable::kInSight>(ids(list, start), values(list, start), n, scale);
    };
    const auto catch_up = [&](std::int64_t list, std::int32_t start, std::int32_t n, double scale) {
      scratch.sums.subtract<SumTable::kFresh>(ids(list, start), values(list, start), n, scale);
    };
    entries_read += read_levels(scratch, levels, unit, false, level, next, add);
    // Entries against an item count only once it is in sight, so those of earlier rounds are read again for the newcomers.
    if (level_against >= 0) entries_read += read_levels(scratch, levels, unit, true, -1, level_against, catch_up);
    entries_read += read_levels(scratch, levels, unit, true, level_against, next_against, subtract);
    level = next;
    level_against = next_against;
    // With everything read there is nothing that a further round could know better.
    const bool last = budget <= round || (level == kLast && level_against == kLast);
    const std::int64_t goal = last ? budget : round;
    scratch.sums.end_round(scratch.sum_keys);
    const auto count = static_cast<std::size_t>(goal) - scratch.candidates.size();
    scratch.best_by_sum.take(scratch.sums.in_sight, scratch.sum_keys, count, ordered, scratch.candidates);
    if (last) return entries_read;
  }
}

}  // namespace greedy
