// One query from end to end: weights, active lists, screening, ranking.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "candidate_ranking.h"
#include "candidate_screening.h"
#include "direction_lists.h"
#include "eligible_items.h"
#include "filtered_walk.h"
#include "greedy_walk.h"
#include "inner_product.h"
#include "item_rows.h"
#include "level_table.h"
#include "query_scratch.h"
#include "sum_screening.h"
#include "threshold_screening.h"

namespace greedy {

// The first four give the same candidates, the others their own.
enum class Variant { threshold, improved_tree, improved_heap, original_tree, sum, walk };

// A view of an index; the arrays belong to the caller and are never written.
struct IndexView {
  ItemRows rows;
  std::int64_t n_items = 0;
  std::int64_t n_dims = 0;
  std::int64_t max_budget = 0;

  // Axis t of n_axes has two lists: 2t along it and 2t + 1 against it. Without a matrix the axes are the coordinates.
  const float* axes = nullptr;
  std::int64_t n_axes = 0;
  DirectionLists lists;
  ListKnots knots;
  LevelTable levels;
  // Entries that screening by sums reads for each candidate.
  std::int64_t reads = 0;
  // Without neighbours there is no graph, and nothing walks.
  ItemGraph graph;
};

enum class Status { ok, query_not_usable, budget_out_of_reach, nothing_to_walk_on };

struct Request {
  const float* query;
  const std::int32_t* remembered;  // items that were found for the query before, the best first; a negative id ends them
  std::int64_t n_remembered;
  std::int64_t top_k;
  std::int64_t page;  // so many items are found at least, under a filter; what else is found depends on it, but not on top_k
  std::int64_t budget;
  const std::int32_t* exclude;
  std::int64_t n_exclude;
  Variant variant;
  EligibleItems eligible;
};

struct Outcome {
  Status status = Status::ok;
  std::int64_t spent = 0;
  std::int64_t entries_read = 0;
  bool complete = false;
  std::int64_t eligible = 0;  // items that could have been found
};

// <w, d> for every axis. With other axes than the coordinates this is a rotation of the query, not a part of its budget.
inline const float* weigh_axes(QueryScratch& scratch, const IndexView& index) {
  if (index.axes == nullptr) return scratch.query.data();
  scratch.weights.resize(static_cast<std::size_t>(index.n_axes));
  inner_product_kernel().score_block(index.axes, index.rows.stride, scratch.query.data(), index.n_axes, scratch.weights.data());
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

// By the sum rule, and then, for what is left of the budget when no list names another item, by the paper's.
inline std::int64_t screen_sum_first(QueryScratch& scratch, const IndexView& index, std::int64_t budget, bool ordered) {
  const float* weights = weigh_axes(scratch, index);
  std::int64_t entries_read =
      screen_sum(scratch, index.lists, index.levels, weights, index.n_axes, index.n_items, index.reads, budget, ordered);
  if (static_cast<std::int64_t>(scratch.candidates.size()) < budget) {
    activate_lists(scratch, index, weights);
    entries_read += screen_improved(scratch, scratch.tree, index.lists.depth, budget);
  }
  return entries_read;
}

// By a walk from what is remembered, or from the graph's own entries. Returns what is spent, rounded up; candidates are a part of it.
inline std::int64_t screen_walk(QueryScratch& scratch, const IndexView& index, std::int64_t budget) {
  const std::vector<std::int32_t>& known = scratch.remembered;
  std::int64_t left = budget * kRowBits;
  {
    GreedyWalk walk(scratch.walk, index.graph, index.n_items, scratch.excluded, left, scratch.candidates);
    if (known.empty()) {
      walk.begin(index.graph.entries, index.graph.n_entries);
      walk.from(scratch.query.data(), index.n_dims, index.graph.entries, index.graph.n_entries);
    } else {
      walk.from(scratch.query.data(), index.n_dims, known.data(), static_cast<std::int64_t>(known.size()));
    }
  }
  // Where nothing leads any further, the rest is taken as it comes.
  const std::int64_t rest = left / kRowBits;
  const auto n = static_cast<std::int64_t>(scratch.candidates.size());
  if (rest > 0) fill_in_id_order(scratch, index.n_items, n + rest);
  left -= kRowBits * (static_cast<std::int64_t>(scratch.candidates.size()) - n);
  return budget - left / kRowBits;
}

// The same under a filter. `budget` is what is left of the request's after what is remembered.
inline std::int64_t screen_filtered_walk(QueryScratch& scratch, const IndexView& index, const Request& request, std::int64_t budget,
                                         std::int64_t& entries_read) {
  std::int64_t left = budget * kRowBits;
  FilteredWalk walk(scratch.walk, index.graph, index.n_items, scratch.excluded, left, scratch.candidates, scratch.eligible);
  walk.begin(request.page - static_cast<std::int64_t>(scratch.remembered.size()));
  entries_read = walk.from(scratch.query.data(), index.n_dims, request.remembered, request.n_remembered);
  return budget - left / kRowBits;
}

// By one of the rules that read lists: as many candidates as the budget allows.
inline void screen_lists(QueryScratch& scratch, const IndexView& index, Variant variant, std::int64_t budget, bool ordered,
                         Outcome& outcome) {
  const std::int64_t depth = index.lists.depth;
  if (variant == Variant::sum) {
    outcome.entries_read = screen_sum_first(scratch, index, budget, ordered);
  } else {
    activate_lists(scratch, index, weigh_axes(scratch, index));
    switch (variant) {
      case Variant::improved_tree:
        outcome.entries_read = screen_improved(scratch, scratch.tree, depth, budget);
        break;
      case Variant::improved_heap:
        outcome.entries_read = screen_improved(scratch, scratch.heap, depth, budget);
        break;
      case Variant::original_tree:
        outcome.entries_read = screen_original(scratch, scratch.tree, depth, budget);
        break;
      default:
        // The histogram of the entries knows nothing of filters, and the tree finds the same candidates.
        outcome.entries_read = !scratch.eligible.all() ? screen_improved(scratch, scratch.tree, depth, budget)
                                                       : screen_threshold(scratch, index.knots, depth, budget, ordered);
    }
  }
  if (static_cast<std::int64_t>(scratch.candidates.size()) < budget) fill_in_id_order(scratch, index.n_items, budget);
  outcome.spent = static_cast<std::int64_t>(scratch.candidates.size());
}

// Fills scratch.candidates with C(w), what is remembered first; otherwise in the greedy order if asked.
inline void screen_candidates(QueryScratch& scratch, const IndexView& index, const Request& request, std::int64_t budget, bool ordered,
                              Outcome& outcome) {
  scratch.candidates.clear();
  scratch.load_remembered(request.remembered, request.n_remembered, index.n_items, budget);
  const auto known = static_cast<std::int64_t>(scratch.remembered.size());
  if (known < budget) {
    if (request.variant == Variant::walk && !scratch.eligible.all()) {
      outcome.spent = screen_filtered_walk(scratch, index, request, budget - known, outcome.entries_read);
    } else if (request.variant == Variant::walk) {
      outcome.spent = screen_walk(scratch, index, budget - known);
    } else {
      screen_lists(scratch, index, request.variant, budget - known, ordered, outcome);
    }
  }
  outcome.spent += known;
  scratch.candidates.insert(scratch.candidates.begin(), scratch.remembered.begin(), scratch.remembered.end());
}

// Loads the query and the exclusions and tells whether the budget can be spent. `eligible` is the number of items left.
inline Status begin_query(QueryScratch& scratch, const IndexView& index, const Request& request, std::int64_t& eligible) {
  if (!scratch.load_query(request.query, index.n_dims, index.rows.stride)) return Status::query_not_usable;
  if (request.variant == Variant::walk && index.graph.neighbours == nullptr) return Status::nothing_to_walk_on;
  scratch.eligible = request.eligible;
  scratch.load_excluded(request.exclude, request.n_exclude, index.n_items);
  eligible = (request.eligible.all() ? index.n_items : request.eligible.count) - static_cast<std::int64_t>(scratch.excluded.size());
  return request.budget > index.max_budget && request.budget < eligible ? Status::budget_out_of_reach : Status::ok;
}

// The results are left in scratch.top.
inline Outcome search(QueryScratch& scratch, const IndexView& index, const Request& request) {
  Outcome outcome;
  outcome.status = begin_query(scratch, index, request, outcome.eligible);
  if (outcome.status != Status::ok) return outcome;
  if (request.budget >= outcome.eligible) {
    // All items fit into the budget, so screening has nothing to decide.
    const auto rank_all = request.eligible.all() ? rank_all_items : rank_eligible_items;
    outcome.spent = rank_all(scratch, index.rows, index.n_items, request.top_k);
    outcome.complete = true;
    return outcome;
  }
  screen_candidates(scratch, index, request, request.budget, false, outcome);
  rank_candidates(scratch, index.rows, request.top_k);
  return outcome;
}

// Screening alone. The result is left in scratch.candidates; nothing is spent but what a walk spends on compressed rows.
inline Outcome screen(QueryScratch& scratch, const IndexView& index, const Request& request, bool ordered) {
  Outcome outcome;
  outcome.status = begin_query(scratch, index, request, outcome.eligible);
  if (outcome.status != Status::ok) return outcome;
  screen_candidates(scratch, index, request, std::min(request.budget, outcome.eligible), ordered, outcome);
  return outcome;
}

}  // namespace greedy
