// Section 3.1: exact inner products of the candidates, and the best of them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "item_rows.h"
#include "query_scratch.h"

namespace greedy {

// Spends one inner product per candidate. The result is left in scratch.top.
inline void rank_candidates(QueryScratch& scratch, const ItemRows& rows, std::int64_t top_k) {
  const auto n = static_cast<std::int64_t>(scratch.candidates.size());
  scratch.scores.resize(scratch.candidates.size());
  rows.score_rows(scratch.query.data(), scratch.candidates.data(), n, scratch.scores.data());
  scratch.top.begin(std::min(top_k, n));
  for (std::size_t i = 0; i < scratch.candidates.size(); ++i) scratch.top.offer(scratch.scores[i], scratch.candidates[i]);
}

// Ranks all eligible items but the excluded, which are eligible. Returns the inner products spent.
inline std::int64_t rank_eligible_items(QueryScratch& scratch, const ItemRows& rows, std::int64_t n_items, std::int64_t top_k) {
  constexpr std::size_t kBlock = 256;
  const auto left = scratch.eligible.count - static_cast<std::int64_t>(scratch.excluded.size());
  scratch.scores.resize(kBlock);
  scratch.top.begin(std::min(top_k, left));
  auto skip = scratch.excluded.begin();
  EligibleCursor cursor(scratch.eligible, n_items);
  std::int32_t block[kBlock];
  for (bool more = left > 0; more;) {
    std::size_t n = 0;
    while (n < kBlock) {
      const std::int32_t item = cursor.next();
      more = item >= 0;
      if (!more) break;
      if (skip != scratch.excluded.end() && *skip == item) {
        ++skip;
      } else {
        block[n++] = item;
      }
    }
    rows.score_rows(scratch.query.data(), block, static_cast<std::int64_t>(n), scratch.scores.data());
    for (std::size_t i = 0; i < n; ++i) scratch.top.offer(scratch.scores[i], block[i]);
  }
  return left;
}

// Ranks all items but the excluded in one pass over the rows. Returns the inner products spent.
inline std::int64_t rank_all_items(QueryScratch& scratch, const ItemRows& rows, std::int64_t n_items, std::int64_t top_k) {
  constexpr std::int64_t kBlock = 256;
  const auto eligible = n_items - static_cast<std::int64_t>(scratch.excluded.size());
  scratch.scores.resize(kBlock);
  scratch.top.begin(std::min(top_k, eligible));
  auto skip = scratch.excluded.begin();
  for (std::int64_t first = 0; first < n_items;) {
    // A block ends before the next excluded item, which is then stepped over.
    std::int64_t last = std::min(first + kBlock, n_items);
    const bool at_excluded = skip != scratch.excluded.end() && *skip < last;
    if (at_excluded) last = *skip++;
    rows.score_block(first, scratch.query.data(), last - first, scratch.scores.data());
    for (std::int64_t i = 0; i < last - first; ++i) {
      scratch.top.offer(scratch.scores[static_cast<std::size_t>(i)], static_cast<std::int32_t>(first + i));
    }
    first = at_excluded ? last + 1 : last;
  }
  return eligible;
}

}  // namespace greedy
