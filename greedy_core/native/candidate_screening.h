// Algorithms 4 and 5: which items are worth an inner product.
//
// Each procedure fills scratch.candidates up with the first `budget` items of the greedy ranking (max_t z_jt descending,
// ties by id; items that no stored entry names come last, by id) and returns how many entries it read. Excluded items
// count as visited from the start; entries of items that are not eligible are passed over, as far as EligibleItems allows.
#pragma once

#include <algorithm>
#include <cstdint>

#include "joint_iterator.h"
#include "query_scratch.h"

namespace greedy {

// Marks the excluded items and the candidates that there are already, so that others follow them.
inline void begin_screening(QueryScratch& scratch, std::int64_t budget) {
  scratch.visited.begin(static_cast<std::size_t>(budget) + scratch.excluded.size());
  for (std::int32_t j : scratch.excluded) scratch.visited.exclude(j);
  for (std::int32_t j : scratch.candidates) scratch.visited.mark(j);
}

// What is left of the budget when all lists have run out (cut lists and many exclusions, or a query of zeros).
inline void fill_in_id_order(QueryScratch& scratch, std::int64_t n_items, std::int64_t budget) {
  begin_screening(scratch, budget);
  if (!scratch.eligible.all()) {
    EligibleCursor cursor(scratch.eligible, n_items);
    while (static_cast<std::int64_t>(scratch.candidates.size()) < budget) {
      const std::int32_t item = cursor.next();
      if (item < 0) return;
      if (scratch.visited.mark(item)) scratch.candidates.push_back(item);
    }
    return;
  }
  for (std::int64_t j = 0; j < n_items && static_cast<std::int64_t>(scratch.candidates.size()) < budget; ++j) {
    const auto item = static_cast<std::int32_t>(j);
    if (scratch.visited.mark(item)) scratch.candidates.push_back(item);
  }
}

// Algorithm 4: every entry goes through the queue. O(B k log k).
template <class Queue>
std::int64_t screen_original(QueryScratch& scratch, Queue& queue, std::int64_t depth, std::int64_t budget) {
  begin_screening(scratch, budget);
  const std::int64_t most = scratch.eligible.most_entries();
  std::int64_t entries_read = 0;
  JointIterator<Queue> joint_iter(scratch, queue, depth);
  while (static_cast<std::int64_t>(scratch.candidates.size()) < budget && !joint_iter.exhausted() && entries_read < most) {
    ++entries_read;
    const std::int32_t j = joint_iter.current().j;
    if (scratch.eligible.has(j) && scratch.visited.mark(j)) scratch.candidates.push_back(j);
    joint_iter.get_next();
  }
  return entries_read;
}

// Algorithm 5: entries of visited items are passed over before they reach the queue. O(B k).
template <class Queue>
std::int64_t screen_improved(QueryScratch& scratch, Queue& queue, std::int64_t depth, std::int64_t budget) {
  begin_screening(scratch, budget);
  preprocess_query(scratch, depth);
  queue.assign(scratch.heads);
  const std::int64_t most = scratch.eligible.most_entries();
  std::int64_t entries_read = static_cast<std::int64_t>(scratch.heads.size());
  while (static_cast<std::int64_t>(scratch.candidates.size()) < budget && !queue.empty() && entries_read < most) {
    const JointEntry entry = queue.top();
    if (scratch.eligible.has(entry.j) && scratch.visited.mark(entry.j)) scratch.candidates.push_back(entry.j);
    ConditionalIterator& iter = scratch.iters[static_cast<std::size_t>(entry.t)];
    bool pushed = false;
    while (!pushed && iter.has_next()) {
      const std::int32_t j = iter.get_next();
      ++entries_read;
      if (scratch.eligible.has(j) && !scratch.visited.contains(j)) {
        queue.replace_top({iter.z(), j, entry.t});
        pushed = true;
      }
    }
    if (!pushed) queue.remove_top();
  }
  return entries_read;
}

}  // namespace greedy
