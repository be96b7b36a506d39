// Past the paper: candidates by a greedy walk from item to item.
//
// Items are the nodes of a graph whose edges go to items that most queries score alike. The walk keeps the best items seen, by the
// estimates of their compressed rows, goes on from the best of them, and estimates those of its neighbours that are new. Of the items
// it went on from, the best become candidates, as many as the exact products' share in all that was spent allows.
//
// Nothing in the walk depends on the budget, which only says where it stops, so candidate sets are nested. An excluded item is
// estimated and gone on from like any other, or the walk would end where a user has seen everything; it is never a candidate.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "bucket_queue.h"
#include "code_table.h"
#include "inner_product.h"
#include "item_marks.h"

namespace greedy {

// What a product with a row of float32 counts, in the units of kCodeBits.
constexpr std::int64_t kRowBits = 32;
// The walk goes on from so many items at once: memory is asked for the neighbours of one while another's are looked at.
constexpr std::size_t kAtOnce = 2;
// Exact products are a third of all that is spent, and half of it until there are candidates for a first page.
constexpr std::int64_t kExactShare = 11, kFirstShare = 16, kShares = 32;
constexpr std::int64_t kFirstPage = 8;

// A view of a graph; the arrays belong to the caller. An item has `degree` places for neighbours, the unused last ones -1.
struct ItemGraph {
  const std::int32_t* neighbours = nullptr;
  std::int64_t degree = 0;
  const std::int32_t* entries = nullptr;  // where a walk begins that nobody helps
  std::int64_t n_entries = 0;
  CodeTable codes;
  Rotation rotation;
  float longest = 0;  // of the codes

  const std::int32_t* row(std::int32_t item) const { return neighbours + item * degree; }
  void prefetch(std::int32_t item) const {
    const auto* first = reinterpret_cast<const char*>(row(item));
    for (std::int64_t at = 0; at < degree * static_cast<std::int64_t>(sizeof(std::int32_t)); at += 64) {
      __builtin_prefetch(first + at, 0, 3);
    }
  }
};

// The first item with a neighbour that is no item, n_items if an entry is none, or -1.
inline std::int64_t first_bad_item(const ItemGraph& graph, std::int64_t n_items) {
  for (std::int64_t e = 0; e < n_items * graph.degree; ++e) {
    if (graph.neighbours[e] < -1 || graph.neighbours[e] >= n_items) return e / graph.degree;
  }
  for (std::int64_t i = 0; i < graph.n_entries; ++i) {
    if (graph.entries[i] < 0 || graph.entries[i] >= n_items) return n_items;
  }
  return -1;
}

struct WalkScratch {
  CodedQuery query;
  ItemMarks seen;
  std::vector<std::int32_t> met;  // all that `seen` has, in the order of the walk, and room for more
  ItemMarks barred;               // from being candidates
  std::vector<std::int32_t> products;
  KeyRanges ranges;
  BucketQueue ahead;   // estimated, not gone on from
  BucketQueue behind;  // gone on from, no candidates yet
};

// One walk. `barred` items are never candidates; `left` is what the budget has left, in 32nds of a product, and at least one product;
// there are no candidates before.
class GreedyWalk {
 public:
  GreedyWalk(WalkScratch& scratch, const ItemGraph& graph, std::int64_t n_items, const std::vector<std::int32_t>& barred,
             std::int64_t& left, std::vector<std::int32_t>& candidates)
      : scratch_(scratch), graph_(graph), barred_(barred), left_(left), candidates_(candidates) {
    scratch.seen.reserve(n_items);
    scratch.barred.reserve(n_items);
    for (std::int32_t item : barred) scratch.barred.mark(item);
    scratch.ahead.clear();
    scratch.behind.clear();
  }
  ~GreedyWalk() {
    scratch_.seen.clear(scratch_.met.data(), n_met_);
    scratch_.barred.clear(barred_.data(), barred_.size());
    scratch_.barred.clear(candidates_.data(), std::min<std::size_t>(candidates_.size(), 1));
  }
  GreedyWalk(const GreedyWalk&) = delete;
  GreedyWalk& operator=(const GreedyWalk&) = delete;

  // Makes the first of these items, or else of all, that is not barred a candidate at once: estimates could use up a small budget, and
  // an answer has an item. There must be one.
  void begin(const std::int32_t* items, std::int64_t n) {
    const auto may_be = [&](std::int32_t item) { return !scratch_.barred.contains(item); };
    const std::int32_t* found = std::find_if(items, items + n, may_be);
    std::int32_t first = 0;
    if (found != items + n) {
      first = *found;
    } else {
      while (!may_be(first)) ++first;
    }
    scratch_.barred.mark(first);
    candidates_.push_back(first);
    spend(kRowBits);
    ++chosen_;
  }

  // From these items. Ends when the budget does, or when no neighbour is new and all items gone on from are candidates.
  void from(const float* query, std::int64_t n_dims, const std::int32_t* items, std::int64_t n) {
    scratch_.query.assign(graph_.rotation, query, n_dims);
    scratch_.ranges.begin(scratch_.query.length * graph_.longest);
    look_at(items, n);
    if (!estimate()) return;
    while (!scratch_.ahead.empty()) {
      if (!go_on()) return;
    }
    choose(true);
  }

 private:
  void look_at(const std::int32_t* items, std::int64_t n) {
    std::vector<std::int32_t>& all = scratch_.met;
    if (all.size() < n_met_ + static_cast<std::size_t>(n)) all.resize(2 * (n_met_ + static_cast<std::size_t>(n)));
    // Nobody can foretell which are new: each is written, and the next one over it if it was not.
    std::int32_t* const met = all.data();
    std::size_t end = n_met_;
    for (std::int64_t i = 0; i < n && items[i] >= 0; ++i) {
      met[end] = items[i];
      end += scratch_.seen.mark(items[i]);
    }
    const CodeTable codes = graph_.codes;
    for (std::size_t i = n_met_; i < end; ++i) codes.prefetch(met[i]);
    n_met_ = end;
  }

  // Those that were met and are not estimated yet. False if the budget ended before all were.
  bool estimate() {
    const std::int32_t* const fresh = scratch_.met.data() + n_estimated_;
    const std::size_t n = std::min(n_met_ - n_estimated_, static_cast<std::size_t>(left_ / kCodeBits));
    spend(static_cast<std::int64_t>(n) * kCodeBits);
    if (scratch_.products.size() < n) scratch_.products.resize(n);
    std::int32_t* const products = scratch_.products.data();
    const CodeTable codes = graph_.codes;
    inner_product_kernel().score_codes(codes.rows, codes.width, scratch_.query.values.data(), fresh,
                                       static_cast<std::int64_t>(n), products);
    const std::int32_t offset = scratch_.query.offset;
    const KeyRanges ranges = scratch_.ranges;
    for (std::size_t i = 0; i < n; ++i) {
      const std::int32_t range = ranges(CodedQuery::estimate(products[i], offset, codes.scale(fresh[i])));
      // What is better than the last item gone on from is likely to be the next.
      if (range <= last_) graph_.prefetch(fresh[i]);
      scratch_.ahead.push(range, fresh[i]);
    }
    n_estimated_ += n;
    return n_estimated_ == n_met_;
  }

  // From the best that were estimated. False if the budget ended.
  bool go_on() {
    std::int32_t items[kAtOnce];
    std::size_t n = 0;
    while (n < kAtOnce && !scratch_.ahead.empty()) {
      items[n] = scratch_.ahead.pop(last_);
      graph_.prefetch(items[n]);
      if (!scratch_.barred.contains(items[n])) scratch_.behind.push(last_, items[n]);
      ++n;
    }
    if (!choose(false)) return false;
    for (std::size_t i = 0; i < n; ++i) look_at(graph_.row(items[i]), graph_.degree);
    return estimate();
  }

  // False if the budget ended before all were chosen that the share allows.
  bool choose(bool all) {
    while (!scratch_.behind.empty()) {
      const std::int64_t share = chosen_ < kFirstPage ? kFirstShare : kExactShare;
      if (!all && kShares * kRowBits * (chosen_ + 1) > share * (spent_ + kRowBits)) return true;
      if (left_ < kRowBits) return false;
      std::int32_t range;
      candidates_.push_back(scratch_.behind.pop(range));
      spend(kRowBits);
      ++chosen_;
    }
    return true;
  }

  void spend(std::int64_t bits) {
    left_ -= bits;
    spent_ += bits;
  }

  WalkScratch& scratch_;
  const ItemGraph& graph_;
  const std::vector<std::int32_t>& barred_;
  std::int64_t& left_;
  std::vector<std::int32_t>& candidates_;
  std::size_t n_met_ = 0, n_estimated_ = 0;
  std::int32_t last_ = 0;  // the range of the last item gone on from
  std::int64_t spent_ = 0;   // by this walk
  std::int64_t chosen_ = 0;  // by this walk
};

}  // namespace greedy
