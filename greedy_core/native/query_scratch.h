// What one query writes to while it runs. One per thread, grown by the first queries, reused by all later ones.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "best_candidates.h"
#include "conditional_iterator.h"
#include "direction_lists.h"
#include "eligible_items.h"
#include "followed_lists.h"
#include "greedy_walk.h"
#include "item_marks.h"
#include "item_table.h"
#include "joint_entry.h"
#include "max_heap.h"
#include "selection_tree.h"
#include "sum_table.h"
#include "top_k.h"

namespace greedy {

struct QueryScratch {
  std::vector<float> query;    // w, padded like a row
  std::vector<float> weights;  // <w, d> for every axis
  std::vector<ActiveList> active;
  EligibleItems eligible;
  std::vector<std::int32_t> excluded;  // ascending, distinct, in range, eligible
  ItemMarks excluded_marks;

  std::vector<ConditionalIterator> iters;
  std::vector<std::int64_t> positions;  // how far each active list has been read
  std::vector<JointEntry> heads;
  MaxHeap heap;
  SelectionTree tree;
  ItemTable visited;

  std::vector<std::int32_t> candidates;

  // Threshold screening meets items out of order: their ids and the largest z of each.
  std::vector<std::int32_t> found;
  std::vector<double> largest;
  std::vector<std::int32_t> histogram;
  BestCandidates<double> best_by_largest;

  FollowedWeights followed;
  FollowedLists in_favour;
  FollowedLists against;
  SumTable sums;
  std::vector<std::int32_t> sum_keys;
  BestCandidates<std::int32_t> best_by_sum;

  WalkScratch walk;
  std::vector<std::int32_t> remembered;  // distinct, eligible, none excluded, the best first

  std::vector<float> scores;
  TopK top;

  // False if a value is not finite, or so large that an inner product could overflow.
  bool load_query(const float* w, std::int64_t n_dims, std::int64_t stride) {
    query.resize(static_cast<std::size_t>(stride));
    std::memcpy(query.data(), w, static_cast<std::size_t>(n_dims) * sizeof(float));
    std::fill(query.begin() + n_dims, query.end(), 0.0f);
    bool usable = true;
    for (float x : query) usable &= x >= -kMaxMagnitude && x <= kMaxMagnitude;
    return usable;
  }

  // After `eligible` is set.
  void load_excluded(const std::int32_t* ids, std::int64_t n, std::int64_t n_items) {
    excluded_marks.sort_distinct(ids, n, n_items, excluded);
    if (eligible.all()) return;
    const auto not_eligible = [&](std::int32_t item) { return !eligible.has(item); };
    excluded.erase(std::remove_if(excluded.begin(), excluded.end(), not_eligible), excluded.end());
  }

  // What a known query remembers, up to the first negative id. The items are excluded from then on: they are candidates already.
  void load_remembered(const std::int32_t* ids, std::int64_t n, std::int64_t n_items, std::int64_t most) {
    remembered.clear();
    if (n == 0) return;
    walk.seen.reserve(n_items);
    for (std::int64_t i = 0; i < n && ids[i] >= 0 && static_cast<std::int64_t>(remembered.size()) < most; ++i) {
      if (!eligible.has(ids[i]) || std::binary_search(excluded.begin(), excluded.end(), ids[i])) continue;
      if (walk.seen.mark(ids[i])) remembered.push_back(ids[i]);
    }
    walk.seen.clear(remembered.data(), remembered.size());
    // They fill the budget: nothing else is looked for, so nobody has to pass over them.
    if (static_cast<std::int64_t>(remembered.size()) == most) return;
    const auto n_excluded = static_cast<std::ptrdiff_t>(excluded.size());
    excluded.insert(excluded.end(), remembered.begin(), remembered.end());
    std::sort(excluded.begin() + n_excluded, excluded.end());
    std::inplace_merge(excluded.begin(), excluded.begin() + n_excluded, excluded.end());
  }
};

// The calling thread's own. Searches are re-entrant because nothing else is written.
inline QueryScratch& query_scratch() {
  thread_local QueryScratch scratch;
  return scratch;
}

}  // namespace greedy
