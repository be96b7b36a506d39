// Past the paper: candidates by a greedy walk from item to item.
//
// Items are the nodes of a graph whose edges go to items that most queries score alike. The walk estimates the items that it meets by their
// compressed rows, looks closer at those that seem best, goes on from the best of these, and meets their neighbours. Of the items it
// went on from, the best become candidates, as many as the exact products' share in all that was spent allows.
//
// An item that seems best by two bits a coordinate was often lucky with its error. Two more bits of the few that come to the top cost
// little, and lead the walk and the choice of candidates by estimates with less than half of the error.
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
// The walk goes on from so many items at once: memory is asked for the neighbours of one while another's are looked at. Later, when the next
// few hardly depend on each other, it goes on from a sixteenth as many as it has gone on from before, up to the most.
constexpr std::size_t kAtOnce = 2, kMostAtOnce = 8, kGoneForOne = 16;
// Exact products are up to half of all that is spent, but not more than a first page and a small share.
constexpr std::int64_t kFirstShare = 16, kFirstPage = 8, kExactShare = 5, kShares = 32;

// A view of a graph; the arrays belong to the caller. An item has `degree` places for neighbours, the unused last ones -1.
struct ItemGraph {
  const std::int32_t* neighbours = nullptr;
  std::int64_t degree = 0;
  const std::int32_t* entries = nullptr;  // where a walk begins that nobody helps
  std::int64_t n_entries = 0;
  CodeTable codes;
  CodeTable details;
  Rotation rotation;
  float longest = 0;  // of the codes
  std::int64_t scanned = 0;  // of up to so many eligible items all are estimated, see filtered_walk.h
  bool guided = false;       // by items that are not eligible, see there

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
  std::vector<std::int32_t> passed;    // not eligible, in `seen` too
  std::vector<std::int32_t> passable;  // neighbours of one item
  std::vector<std::int32_t> products;  // with the codes of `met`
  KeyRanges ranges;
  std::vector<std::int32_t> fresh_ranges;  // of what was estimated last
  BucketQueue ahead;   // estimated, as places in `met`
  BucketQueue close;   // looked at closer, not gone on from
  BucketQueue behind;  // gone on from, no candidates yet
  BucketQueue aside;   // estimated and not eligible, under a filter
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
    scratch.close.clear();
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
    while (!scratch_.ahead.empty() || !scratch_.close.empty()) {
      if (!go_on()) return;
    }
    choose(true);
  }

 protected:
  // Notes those of the items that are new; negative ones are none.
  void look_at(const std::int32_t* items, std::int64_t n) {
    std::vector<std::int32_t>& all = scratch_.met;
    const std::size_t needed = n_met_ + static_cast<std::size_t>(n + kSpare);
    if (all.size() < needed) all.resize(2 * needed);
    std::int32_t* const met = all.data();
    const auto n_new = static_cast<std::size_t>(inner_product_kernel().find_unmarked(items, n, scratch_.seen.words(), met + n_met_));
    // The same item may be twice among them. Nobody can foretell: each is written, and the next one over it if it was not new.
    const CodeTable codes = graph_.codes;
    std::size_t end = n_met_;
    for (std::size_t i = n_met_; i < n_met_ + n_new; ++i) {
      const std::int32_t item = met[i];
      codes.prefetch(item);
      met[end] = item;
      end += scratch_.seen.mark(item);
    }
    n_met_ = end;
  }

  // Those that were met and are not estimated yet. False if the budget ended before all were.
  bool estimate() {
    const std::int32_t* const fresh = scratch_.met.data() + n_estimated_;
    const std::size_t n = std::min(n_met_ - n_estimated_, static_cast<std::size_t>(left_ / kCodeBits));
    spend(static_cast<std::int64_t>(n) * kCodeBits);
    const std::size_t room = scratch_.met.size() + static_cast<std::size_t>(kSpare);
    if (scratch_.products.size() < room) scratch_.products.resize(room);
    std::int32_t* const products = scratch_.products.data() + n_estimated_;
    const CodeTable codes = graph_.codes;
    inner_product_kernel().score_codes(codes.rows, codes.width, scratch_.query.values.data(), fresh,
                                       static_cast<std::int64_t>(n), products);
    if (scratch_.fresh_ranges.size() < room) scratch_.fresh_ranges.resize(room);
    std::int32_t* const ranges = scratch_.fresh_ranges.data();
    inner_product_kernel().range_codes(codes.rows, codes.width, fresh, static_cast<std::int64_t>(n), products, scratch_.query.offset,
                                       scratch_.ranges.top(), ranges);
    BucketQueue& ahead = scratch_.ahead;
    ahead.expect(n);
    for (std::size_t i = 0; i < n; ++i) {
      const std::int32_t range = ranges[i];
      // What is better than the last item gone on from is likely to be the next.
      if (range <= last_) {
        graph_.details.prefetch(fresh[i]);
        graph_.prefetch(fresh[i]);
      }
      ahead.push(range, static_cast<std::int32_t>(n_estimated_ + i));
    }
    n_estimated_ += n;
    return n_estimated_ == n_met_;
  }

  // At the best that were estimated, until one that was looked at is at least as good. False if the budget ended.
  bool look_closer() {
    BucketQueue &ahead = scratch_.ahead, &close = scratch_.close;
    while (!ahead.empty() && (close.empty() || ahead.best() < close.best())) {
      if (left_ < kCodeBits) return false;
      std::int32_t range;
      const auto place = static_cast<std::size_t>(ahead.pop(range));
      close.expect(1);
      close.push(scratch_.ranges(look_closer_at(place)), scratch_.met[place]);
    }
    return true;
  }

  // At the item in this place of `met`. Returns another estimate.
  float look_closer_at(std::size_t place) {
    const std::int32_t item = scratch_.met[place];
    std::int32_t product[1 + kSpare];
    spend(kCodeBits);
    inner_product_kernel().score_codes(graph_.details.rows, graph_.details.width, scratch_.query.values.data(), &item, 1, product);
    return scratch_.query.closer_estimate(scratch_.products[place], product[0], graph_.details.scale(item));
  }

  // From the best that were looked at. False if the budget ended.
  bool go_on() {
    std::int32_t items[kMostAtOnce];
    const std::size_t at_once = std::clamp(n_gone_ / kGoneForOne, kAtOnce, kMostAtOnce);
    std::size_t n = 0;
    scratch_.behind.expect(at_once);
    while (n < at_once) {
      if (!look_closer()) return false;
      if (scratch_.close.empty()) break;
      items[n] = scratch_.close.pop(last_);
      graph_.prefetch(items[n]);
      if (!scratch_.barred.contains(items[n])) scratch_.behind.push(last_, items[n]);
      ++n;
    }
    n_gone_ += n;
    if (!choose(false)) return false;
    for (std::size_t i = 0; i < n; ++i) look_at(graph_.row(items[i]), graph_.degree);
    return estimate();
  }

  // False if the budget ended before all were chosen that the share allows.
  bool choose(bool all) {
    while (!scratch_.behind.empty()) {
      const std::int64_t afterwards = spent_ + kRowBits;
      const std::int64_t most = std::min(kFirstShare * afterwards, kFirstPage * kShares * kRowBits + kExactShare * afterwards);
      if (!all && kShares * kRowBits * (chosen_ + 1) > most) return true;
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
  std::size_t n_gone_ = 0;  // items gone on from
  std::int32_t last_ = 0;  // the range of the last item gone on from
  std::int64_t spent_ = 0;   // by this walk
  std::int64_t chosen_ = 0;  // by this walk
};

}  // namespace greedy
