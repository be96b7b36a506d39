// One query from end to end: weights, active lists, screening, ranking.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "candidate_ranking.h"
#include "candidate_screening.h"
#include "direction_lists.h"
#include "followed_lists.h"
#include "inner_product.h"
#include "level_table.h"
#include "query_scratch.h"
#include "sum_screening.h"
#include "threshold_screening.h"

namespace greedy {

// The first four give the same candidates, the last one its own.
enum class Variant { threshold, improved_tree, improved_heap, original_tree, sum };

// A view of an index; the arrays belong to the caller and are never written.
struct IndexView {
  const float* rows = nullptr;
  std::int64_t n_items = 0;
  std::int64_t n_dims = 0;
  std::int64_t stride = 0;
  std::int64_t max_budget = 0;

  // Axis t of n_axes has two lists: 2t along it and 2t + 1 against it. Without a matrix the axes are the coordinates. A centre
  // has one list, and these are cut shorter.
  const float* axes = nullptr;
  std::int64_t n_axes = 0;
  DirectionLists lists;
  DirectionLists centre_lists;
  ListKnots knots;
  LevelTable levels;
  // Entries that screening by sums reads for each candidate: of a query, and of a query with a decomposition.
  std::int64_t reads = 0;
  std::int64_t decomposed_reads = 0;
};

enum class Status { ok, query_not_usable, budget_out_of_reach, decomposition_not_usable };

struct Request {
  const float* query;
  Decomposition decomposition;  // without weights, the query is its own decomposition
  std::int64_t top_k;
  std::int64_t budget;
  const std::int32_t* exclude;
  std::int64_t n_exclude;
  Variant variant;
};

struct Outcome {
  Status status = Status::ok;
  std::int64_t spent = 0;
  std::int64_t entries_read = 0;
  bool complete = false;
};

// <w, d> for every axis. With other axes than the coordinates this is a rotation of the query, not a part of its budget.
inline const float* weigh_axes(QueryScratch& scratch, const IndexView& index) {
  if (index.axes == nullptr) return scratch.query.data();
  scratch.weights.resize(static_cast<std::size_t>(index.n_axes));
  inner_product_kernel().score_block(index.axes, index.stride, scratch.query.data(), index.n_axes, scratch.weights.data());
  return scratch.weights.data();
}

// The lists that a query follows: of every axis the one that its sign picks.
inline void activate_lists(QueryScratch& scratch, const IndexView& index, const float* weights) {
  scratch.active.clear();
  for (std::int64_t t = 0; t < index.n_axes; ++t) {
    if (weights[t] == 0.0f) continue;
    const std::int64_t list = 2 * t + (weights[t] < 0.0f);
    const std::int64_t at = list * index.lists.depth;
    scratch.active.push_back({index.lists.ids + at, index.lists.values + at, index.knots.values(list),
                              std::abs(static_cast<double>(weights[t]))});
  }
}

// Whether a decomposition is of this index: weights that are numbers, centres that exist.
inline bool decomposition_usable(const IndexView& index, const Decomposition& decomposition) {
  bool usable = true;
  for (std::int64_t i = 0; i < decomposition.size(); ++i) usable &= std::fabs(decomposition.weights[i]) <= kMaxMagnitude;
  for (std::int64_t i = 0; i < decomposition.n_centres; ++i) {
    usable &= decomposition.centres[i] >= 0.0f && decomposition.centres[i] < static_cast<float>(index.centre_lists.n_lists);
  }
  return usable;
}

// By the sum rule, and then, for what is left of the budget when no list names another item, by the paper's.
inline std::int64_t screen_sum_first(QueryScratch& scratch, const IndexView& index, const Decomposition& given, std::int64_t budget,
                                     bool ordered) {
  const bool decomposed = given.weights != nullptr;
  const Decomposition decomposition = decomposed ? given : Decomposition{weigh_axes(scratch, index), index.n_axes};
  std::int64_t entries_read = screen_sum(scratch, index.lists, index.centre_lists, index.levels, decomposition, index.n_items,
                                         decomposed ? index.decomposed_reads : index.reads, budget, ordered);
  if (static_cast<std::int64_t>(scratch.candidates.size()) < budget) {
    activate_lists(scratch, index, weigh_axes(scratch, index));
    entries_read += screen_improved(scratch, scratch.tree, index.lists.depth, budget);
  }
  return entries_read;
}

// Fills scratch.candidates with C(w); in the greedy order if asked. Returns the entries read.
inline std::int64_t screen_candidates(QueryScratch& scratch, const IndexView& index, const Request& request, std::int64_t budget,
                                      bool ordered) {
  const std::int64_t depth = index.lists.depth;
  scratch.candidates.clear();
  if (request.variant != Variant::sum) activate_lists(scratch, index, weigh_axes(scratch, index));
  std::int64_t entries_read = 0;
  switch (request.variant) {
    case Variant::threshold:
      entries_read = screen_threshold(scratch, index.knots, depth, budget, ordered);
      break;
    case Variant::improved_tree:
      entries_read = screen_improved(scratch, scratch.tree, depth, budget);
      break;
    case Variant::improved_heap:
      entries_read = screen_improved(scratch, scratch.heap, depth, budget);
      break;
    case Variant::original_tree:
      entries_read = screen_original(scratch, scratch.tree, depth, budget);
      break;
    case Variant::sum:
      entries_read = screen_sum_first(scratch, index, request.decomposition, budget, ordered);
      break;
  }
  if (static_cast<std::int64_t>(scratch.candidates.size()) < budget) fill_in_id_order(scratch, index.n_items, budget);
  return entries_read;
}

// Loads the query and the exclusions and tells whether the budget can be spent. `eligible` is the number of items left.
inline Status begin_query(QueryScratch& scratch, const IndexView& index, const Request& request, std::int64_t& eligible) {
  if (!scratch.load_query(request.query, index.n_dims, index.stride)) return Status::query_not_usable;
  if (!decomposition_usable(index, request.decomposition)) return Status::decomposition_not_usable;
  scratch.load_excluded(request.exclude, request.n_exclude);
  eligible = index.n_items - static_cast<std::int64_t>(scratch.excluded.size());
  return request.budget > index.max_budget && request.budget < eligible ? Status::budget_out_of_reach : Status::ok;
}

// The results are left in scratch.top.
inline Outcome search(QueryScratch& scratch, const IndexView& index, const Request& request) {
  Outcome outcome;
  std::int64_t eligible = 0;
  outcome.status = begin_query(scratch, index, request, eligible);
  if (outcome.status != Status::ok) return outcome;
  if (request.budget >= eligible) {
    // All items fit into the budget, so screening has nothing to decide.
    outcome.spent = rank_all_items(scratch, index.rows, index.stride, index.n_items, request.top_k);
    outcome.complete = true;
    return outcome;
  }
  outcome.entries_read = screen_candidates(scratch, index, request, request.budget, false);
  rank_candidates(scratch, index.rows, index.stride, request.top_k);
  outcome.spent = static_cast<std::int64_t>(scratch.candidates.size());
  return outcome;
}

// Screening alone. The result is left in scratch.candidates; nothing is spent.
inline Outcome screen(QueryScratch& scratch, const IndexView& index, const Request& request, bool ordered) {
  Outcome outcome;
  std::int64_t eligible = 0;
  outcome.status = begin_query(scratch, index, request, eligible);
  if (outcome.status != Status::ok) return outcome;
  outcome.entries_read = screen_candidates(scratch, index, request, std::min(request.budget, eligible), ordered);
  return outcome;
}

}  // namespace greedy
