// Past the paper: candidates by the sum of their largest products instead of by the largest one.
//
// All entries with |z_jt| >= tau are read, from both ends of every axis, and an item's estimate is the sum of those that are
// its own: the inner product but for its small terms. Candidates are chosen in rounds; round r lowers tau until about reads * B_r
// entries in favour and as many against have been read, and chooses up to 3/2 B_r candidates in all. Rounds do not depend on the
// budget, which only says where to stop, so candidate sets are nested. Where a part of the items is eligible, as many more entries are
// read as it takes to see as many eligible items, up to the most that EligibleItems allows, and that is the last round.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "direction_lists.h"
#include "followed_lists.h"
#include "level_table.h"
#include "query_scratch.h"

namespace greedy {

// The first round reads for 32 candidates, every further one for twice as many: smaller steps would follow the budget closer, but every
// round looks at all items in sight again. Each chooses half as many more than it reads for, so that what is read for a budget is at
// most a third more or less than the budget's share.
constexpr std::int64_t kFirstRound = 32;
constexpr std::int64_t kRoundGrowth = 2;
inline std::int64_t most_chosen(std::int64_t round) { return round + round / 2; }

// Clears the sums however the screening ends.
struct SumsInUse {
  QueryScratch& scratch;
  ~SumsInUse() { scratch.sums.end(scratch.excluded); }
};

// `reads` entries of each side are read for each candidate of a round. Fewer than `budget` candidates are chosen when fewer items
// have an entry in favour.
inline std::int64_t screen_sum(QueryScratch& scratch, const DirectionLists& lists, const LevelTable& levels, const float* weights,
                               std::int64_t n_axes, std::int64_t n_items, std::int64_t reads, std::int64_t budget, bool ordered) {
  float largest = 0.0f;
  for (std::int64_t t = 0; t < n_axes; ++t) largest = std::max(largest, std::fabs(weights[t]));
  if (largest == 0.0f || levels.top() == 0.0f) return 0;

  // The largest sum that can be, as many times the largest product as there are axes, must fit beside the flag.
  const double unit = static_cast<double>(1 << 28) / (static_cast<double>(n_axes) * levels.top() * largest);
  FollowedWeights& followed = scratch.followed;
  followed.assign(weights, n_axes, largest);
  scratch.in_favour.assign(followed, levels, weights, false);
  scratch.against.assign(followed, levels, weights, true);
  scratch.sums.begin(n_items);
  const SumsInUse cleared_at_the_end{scratch};
  for (std::int32_t j : scratch.excluded) scratch.sums.exclude(j);
  const EligibleItems& eligible = scratch.eligible;
  const auto note = [&](std::int32_t list, std::int32_t start, std::int32_t n, float magnitude) {
    const std::int64_t at = list * lists.depth + start;
    const auto scale = static_cast<float>(std::min(magnitude * unit, 1e38));
    if (eligible.all()) {
      scratch.sums.note(lists.ids + at, lists.values + at, n, lists.n_lists * lists.depth - at, levels.tail(list), scale);
    } else {
      scratch.sums.note_eligible(lists.ids + at, lists.values + at, n, eligible.words, levels.tail(list), scale);
    }
  };
  constexpr std::int32_t kLast = LevelTable::kLevels - 1;
  if (!eligible.all()) reads *= (n_items + eligible.count - 1) / eligible.count;
  const std::int64_t most = eligible.most_entries() / 2;  // of each side
  std::int64_t entries_read = 0;
  std::int32_t level = -1, level_against = -1;
  for (std::int64_t round = kFirstRound;; round *= kRoundGrowth) {
    const std::int64_t wanted = std::min(reads * round, most);
    const std::int32_t next = scratch.in_favour.lower(followed, levels, std::max(level, 0), kLast, wanted);
    const std::int32_t next_against = scratch.against.lower(followed, levels, level_against, next, wanted);
    const std::int64_t entries = static_cast<std::int64_t>(scratch.in_favour.above(followed, levels, next)) +
                                 scratch.against.above(followed, levels, next_against);
    scratch.sums.expect(entries - entries_read);
    entries_read = entries;
    scratch.in_favour.read(followed, levels, level, next, note);
    scratch.sums.add();
    if (next_against > level_against) scratch.against.read(followed, levels, level_against, next_against, note);
    scratch.sums.subtract();
    level = next;
    level_against = next_against;
    // Once all entries are read, a further round would choose by the same sums.
    const bool everything = wanted == most || (level == kLast && level_against == kLast);
    const std::int64_t goal = everything ? budget : std::min(budget, most_chosen(round));
    scratch.sums.copy_sums(scratch.sum_keys);
    const auto count = static_cast<std::size_t>(goal) - scratch.candidates.size();
    scratch.best_by_sum.take(scratch.sums.in_sight, scratch.sum_keys, count, ordered, scratch.candidates);
    if (everything || static_cast<std::int64_t>(scratch.candidates.size()) == budget) return entries_read;
  }
}

}  // namespace greedy
