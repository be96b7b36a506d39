// A walk to eligible items only.
//
// Few items are eligible: all are estimated, one after the other, and those that are best at a closer look become candidates. Many are: the
// walk begins at items that are spread over all that are eligible, so that it finds them wherever they lie, and goes on from the best in
// one of two ways.
//   - It meets eligible items alone, and where an item has too few eligible neighbours it looks at the neighbours of the others, which
//     costs no product.
//   - It is guided: it estimates all that it meets and goes on from others, too, since better ones stand on the way to the best that is
//     eligible. Where the filter has to do with what the query likes, these lead nowhere: so it goes on from them only while each
//     finds a quarter of the eligible items that an eligible one finds.
// The second is far quicker and finds more where estimates soon lead to the best of all items, and finds less where they don't: which
// one a model needs was measured when its graph was made. When nothing leads any further, or when looking for the way has cost as much as
// an exact scan of the eligible items, the rest is estimated one after the other.
//
// A page of candidates is chosen before anything is estimated: whoever may spend `page` products gets `page` items. Nothing else depends
// on what is asked, and nothing on the budget, which only says where to stop: candidate sets are nested.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "eligible_items.h"
#include "greedy_walk.h"
#include "inner_product.h"

namespace greedy {

// While items are estimated as they come, exact products are an eighth of what is spent: the best are likely still to come.
constexpr std::int64_t kScanShare = 4;
constexpr std::int64_t kScanBlock = 64;

// Added to an estimate, in units of an item's scale times the query's length: about the standard error. Where all that is eligible is bad,
// a long item may be much better than it looks, and a short one cannot.
constexpr float kOptimism = 0.75f;

// Where all was estimated, so many are looked at closer before so many are chosen.
constexpr std::size_t kLooks = 16, kChosen = 4;

// An item with fewer eligible neighbours than this has those behind its other neighbours looked at, too.
constexpr std::int64_t kEnough = 16;
// How many of these rows memory is asked for at once.
constexpr std::size_t kRowsAhead = 4;

// How many eligible items were met on the way from items of one kind. Nothing is known of a kind at first, so it is trusted a little.
class Yield {
 public:
  void count(std::int64_t found) {
    found_ += found;
    ++gone_on_;
  }
  bool is_quarter_of(const Yield& other) const { return 4 * found_ * other.gone_on_ >= other.found_ * gone_on_; }

 private:
  std::int64_t found_ = 8, gone_on_ = 1;
};

class FilteredWalk : private GreedyWalk {
 public:
  FilteredWalk(WalkScratch& scratch, const ItemGraph& graph, std::int64_t n_items, const std::vector<std::int32_t>& barred,
               std::int64_t& left, std::vector<std::int32_t>& candidates, const EligibleItems& eligible)
      : GreedyWalk(scratch, graph, n_items, barred, left, candidates), eligible_(eligible), n_items_(n_items) {
    scratch.passed.clear();
    scratch.aside.clear();
  }
  ~FilteredWalk() {
    scratch_.seen.clear(scratch_.passed.data(), scratch_.passed.size());
    scratch_.barred.clear(candidates_.data(), n_first_);
  }
  FilteredWalk(const FilteredWalk&) = delete;
  FilteredWalk& operator=(const FilteredWalk&) = delete;

  // `page` candidates that nothing is known of, if there are as many. They are no part of what is chosen by estimates.
  void begin(std::int64_t page) {
    const auto most = static_cast<std::size_t>(std::max<std::int64_t>(page, 0));
    const auto full = [&] { return n_first_ >= most || left_ < kRowBits; };
    for (std::int64_t i = 0; i < graph_.n_entries && !full(); ++i) offer(graph_.entries[i]);
    for (std::int64_t i = 0; i < eligible_.n_spread && !full(); ++i) offer(eligible_.spread[i]);
    EligibleCursor cursor(eligible_, n_items_);
    for (std::int32_t item; !full() && (item = cursor.next()) >= 0;) offer(item);
  }

  // From what the query remembers, eligible or not, and from items anywhere. Ends when the budget does, or when all eligible items are
  // candidates. Returns how many neighbours were looked at.
  std::int64_t from(const float* query, std::int64_t n_dims, const std::int32_t* remembered, std::int64_t n_remembered) {
    if (left_ < kCodeBits) return 0;
    scratch_.query.assign(graph_.rotation, query, n_dims);
    ranges_.begin(scratch_.query.length * graph_.longest);
    optimism_ = static_cast<std::int32_t>(std::lrint(kOptimism * scratch_.query.length));
    offset_ = scratch_.query.offset - optimism_;
    if (eligible_.count <= graph_.scanned || walk(remembered, n_remembered)) scan();
    return entries_read_;
  }

 private:
  void offer(std::int32_t item) {
    if (!eligible_.has(item) || !scratch_.barred.mark(item)) return;
    candidates_.push_back(item);
    left_ -= kRowBits;
    ++n_first_;
  }

  // False if the budget ended.
  bool walk(const std::int32_t* remembered, std::int64_t n_remembered) {
    meet(eligible_.spread, eligible_.n_spread);
    if (graph_.guided) {
      look_at(graph_.entries, graph_.n_entries);
      const auto ends = [](std::int32_t item) { return item < 0; };
      look_at(remembered, std::find_if(remembered, remembered + n_remembered, ends) - remembered);
    } else {
      meet(graph_.entries, graph_.n_entries);
      meet(remembered, n_remembered);
      pass(remembered, n_remembered, 4 * kEnough);
    }
    if (!estimate_met()) return false;
    while (entries_read_ < eligible_.most_entries()) {
      if (!go_on()) return false;
      if (scratch_.ahead.empty() && scratch_.close.empty() && scratch_.aside.empty()) break;
    }
    return true;
  }

  // Notes those of the items that are eligible and new, up to the first negative id. Returns how many are eligible.
  std::int64_t meet(const std::int32_t* items, std::int64_t n) {
    std::vector<std::int32_t>& all = scratch_.met;
    if (all.size() < n_met_ + static_cast<std::size_t>(n)) all.resize(2 * (n_met_ + static_cast<std::size_t>(n)));
    // Nobody can foretell which are eligible: each is written, and the next one over it if it was not. Then the same for those that are new.
    std::int32_t* const met = all.data() + n_met_;
    std::size_t found = 0, fresh = 0;
    for (std::int64_t i = 0; i < n && items[i] >= 0; ++i) {
      met[found] = items[i];
      found += eligible_.has(items[i]);
    }
    for (std::size_t i = 0; i < found; ++i) {
      met[fresh] = met[i];
      graph_.codes.prefetch(met[i]);
      fresh += scratch_.seen.mark(met[i]);
    }
    n_met_ += fresh;
    return static_cast<std::int64_t>(found);
  }

  // Notes what lies behind those of the items that are not eligible and were not passed before, until `wanted` are found.
  void pass(const std::int32_t* items, std::int64_t n, std::int64_t wanted) {
    if (wanted <= 0) return;
    std::vector<std::int32_t>& behind = scratch_.passable;
    if (behind.size() < static_cast<std::size_t>(n)) behind.resize(static_cast<std::size_t>(n));
    std::size_t n_behind = 0;
    for (std::int64_t i = 0; i < n && items[i] >= 0; ++i) {
      behind[n_behind] = items[i];
      n_behind += !eligible_.has(items[i]) & !scratch_.seen.contains(items[i]);
    }
    for (std::size_t i = 0; i < std::min(n_behind, kRowsAhead); ++i) graph_.prefetch(behind[i]);
    for (std::size_t i = 0; i < n_behind && wanted > 0; ++i) {
      if (i + kRowsAhead < n_behind) graph_.prefetch(behind[i + kRowsAhead]);
      if (!scratch_.seen.mark(behind[i])) continue;
      scratch_.passed.push_back(behind[i]);
      entries_read_ += graph_.degree;
      wanted -= meet(graph_.row(behind[i]), graph_.degree);
    }
  }

  // From the best of both kinds. False if the budget ended.
  bool go_on() {
    std::int32_t items[kMostAtOnce];
    Yield* yields[kMostAtOnce];
    const std::size_t at_once = std::clamp(n_gone_ / kGoneForOne, kAtOnce, kMostAtOnce);
    std::size_t n = 0;
    scratch_.behind.expect(at_once);
    for (; n < at_once; ++n) {
      if (!look_closer()) return false;
      if (others_are_next()) {
        items[n] = scratch_.aside.pop(last_);
        yields[n] = &of_others_;
      } else if (!scratch_.close.empty()) {
        items[n] = scratch_.close.pop(last_);
        yields[n] = &of_eligible_;
        if (!scratch_.barred.contains(items[n])) scratch_.behind.push(last_, items[n]);
      } else {
        break;
      }
      graph_.prefetch(items[n]);
    }
    n_gone_ += n;
    if (!choose(false)) return false;
    for (std::size_t i = 0; i < n; ++i) {
      const std::int32_t* const row = graph_.row(items[i]);
      entries_read_ += graph_.degree;
      if (graph_.guided) {
        yields[i]->count(look_at_all(row));
      } else {
        pass(row, graph_.degree, kEnough - meet(row, graph_.degree));
      }
    }
    return estimate_met();
  }

  bool others_are_next() {
    if (scratch_.aside.empty() || scratch_.close.empty()) return !scratch_.aside.empty();
    return scratch_.aside.best() <= scratch_.close.best() && of_others_.is_quarter_of(of_eligible_);
  }

  // Returns how many of an item's neighbours are eligible and new.
  std::int64_t look_at_all(const std::int32_t* row) {
    const std::size_t before = n_met_;
    look_at(row, graph_.degree);
    return std::count_if(scratch_.met.begin() + static_cast<std::ptrdiff_t>(before),
                         scratch_.met.begin() + static_cast<std::ptrdiff_t>(n_met_),
                         [&](std::int32_t item) { return eligible_.has(item); });
  }

  // Those that were met and are not estimated yet. False if the budget ended before all were.
  bool estimate_met() {
    const std::int32_t* const fresh = scratch_.met.data() + n_estimated_;
    const std::size_t room = scratch_.met.size() + static_cast<std::size_t>(kSpare);
    if (scratch_.products.size() < room) scratch_.products.resize(room);
    std::int32_t* const products = scratch_.products.data() + n_estimated_;
    const std::size_t n = score(graph_.codes, fresh, n_met_ - n_estimated_, products);
    scratch_.ahead.expect(n);
    scratch_.aside.expect(n);
    for (std::size_t i = 0; i < n; ++i) {
      const std::int32_t range = first_range(products[i], fresh[i]);
      const bool soon = range <= last_, is_eligible = eligible_.has(fresh[i]);
      if (soon) graph_.prefetch(fresh[i]);
      if (!is_eligible) {
        scratch_.aside.push(range, fresh[i]);
        continue;
      }
      if (soon) graph_.details.prefetch(fresh[i]);
      scratch_.ahead.push(range, static_cast<std::int32_t>(n_estimated_ + i));
    }
    n_estimated_ += n;
    return n_estimated_ == n_met_;
  }

  // Returns of how many items the budget allows the products with their codes, or with the details of these.
  std::size_t score(const CodeTable& codes, const std::int32_t* items, std::size_t wanted, std::int32_t* products) {
    const std::size_t n = std::min(wanted, static_cast<std::size_t>(left_ / kCodeBits));
    spend(static_cast<std::int64_t>(n) * kCodeBits);
    inner_product_kernel().score_codes(codes.rows, codes.width, scratch_.query.values.data(), items, static_cast<std::int64_t>(n),
                                       products);
    return n;
  }

  std::int32_t first_range(std::int32_t product, std::int32_t item) const {
    return ranges_(CodedQuery::estimate(product, offset_, graph_.codes.scale(item)));
  }

  // At the best eligible that were estimated, until one that was looked at is at least as good. False if the budget ended.
  bool look_closer() {
    BucketQueue &ahead = scratch_.ahead, &close = scratch_.close;
    while (!ahead.empty() && (close.empty() || ahead.best() < close.best())) {
      if (left_ < kCodeBits) return false;
      std::int32_t range;
      const auto place = static_cast<std::size_t>(ahead.pop(range));
      close.expect(1);
      close.push(ranges_(look_closer_at(place)), scratch_.met[place]);
    }
    return true;
  }

  // All that was not met, in ascending order; then whatever is left to choose.
  void scan() {
    // What was gone on from was looked at closer, too.
    BucketQueue &close = scratch_.close, &behind = scratch_.behind;
    for (std::int32_t range; !behind.empty();) {
      const std::int32_t item = behind.pop(range);
      close.expect(1);
      close.push(range, item);
    }
    EligibleCursor cursor(eligible_, n_items_);
    std::int32_t blocks[2][kScanBlock + kSpare];
    std::size_t n_taken, n_next_taken;
    std::size_t n = next_block(cursor, blocks[0], n_taken);
    for (int turn = 0; n_taken > 0; turn = 1 - turn) {
      // Memory is asked for the codes of the next block while this one is looked at.
      const std::size_t n_next = next_block(cursor, blocks[1 - turn], n_next_taken);
      if (!estimate_block(blocks[turn], n) || !choose_early()) return;
      n = n_next;
      n_taken = n_next_taken;
    }
    choose_closer();
  }

  // Of the next eligible items, `taken` of them, those that are neither met nor barred. Returns how many.
  std::size_t next_block(EligibleCursor& cursor, std::int32_t* block, std::size_t& taken) {
    std::int64_t n = 0;
    while (n < kScanBlock && (block[n] = cursor.next()) >= 0) ++n;
    taken = static_cast<std::size_t>(n);
    n = inner_product_kernel().find_unmarked(block, n, scratch_.barred.words(), block);
    if (n_met_ > 0) n = inner_product_kernel().find_unmarked(block, n, scratch_.seen.words(), block);
    const CodeTable codes = graph_.codes;
    for (std::int64_t i = 0; i < n; ++i) codes.prefetch(block[i]);
    return static_cast<std::size_t>(n);
  }

  // False if the budget ended before all were estimated. They stand behind what was met, though nothing marks them as seen.
  bool estimate_block(const std::int32_t* block, std::size_t wanted) {
    const std::size_t first = n_met_ + n_scanned_, room = first + wanted + static_cast<std::size_t>(kSpare);
    if (scratch_.met.size() < room) scratch_.met.resize(2 * room);
    if (scratch_.products.size() < room) scratch_.products.resize(2 * room);
    std::int32_t* const products = scratch_.products.data() + first;
    const std::size_t n = score(graph_.codes, block, wanted, products);
    std::copy(block, block + n, scratch_.met.begin() + static_cast<std::ptrdiff_t>(first));
    n_scanned_ += n;
    // Scales are gathered beforehand, and what is used is copied, so that the compiler can do several at once.
    float scales[kScanBlock];
    std::int32_t ranges[kScanBlock];
    const CodeTable codes = graph_.codes;
    for (std::size_t i = 0; i < n; ++i) scales[i] = codes.scale(block[i]);
    const SignedKeyRanges range = ranges_;
    const std::int32_t offset = offset_;
    for (std::size_t i = 0; i < n; ++i) ranges[i] = range(CodedQuery::estimate(products[i], offset, scales[i]));
    scratch_.ahead.push_each(ranges, n, static_cast<std::int32_t>(first));
    return n == wanted;
  }

  // Those that seem best, whether they were looked at closer or not, as many as their share allows. False if the budget ended before.
  bool choose_early() {
    BucketQueue &ahead = scratch_.ahead, &close = scratch_.close;
    while (kShares * kRowBits * (chosen_ + 1) <= kScanShare * (spent_ + kRowBits)) {
      if (ahead.empty() && close.empty()) return true;
      std::int32_t range, item;
      if (ahead.empty() || (!close.empty() && close.best() <= ahead.best())) {
        item = close.pop(range);
      } else {
        item = scratch_.met[static_cast<std::size_t>(ahead.pop(range))];
      }
      if (!choose_item(item)) return false;
    }
    return true;
  }

  // All, each time some of the best after a closer look at more of them. Ends when the budget does.
  void choose_closer() {
    do {
      if (!look_closer_at_some()) return;
      for (std::size_t n = 0; n < kChosen && !scratch_.close.empty(); ++n) {
        std::int32_t range;
        if (!choose_item(scratch_.close.pop(range))) return;
      }
    } while (!scratch_.ahead.empty() || !scratch_.close.empty());
  }

  // False if the budget ended.
  bool choose_item(std::int32_t item) {
    if (scratch_.barred.contains(item)) return true;
    if (left_ < kRowBits) return false;
    candidates_.push_back(item);
    spend(kRowBits);
    ++chosen_;
    return true;
  }

  // At the best that were estimated. False if the budget ended.
  bool look_closer_at_some() {
    std::int32_t places[kLooks], items[kLooks], details[kLooks + kSpare], range;
    std::size_t n = 0;
    for (; n < kLooks && !scratch_.ahead.empty(); ++n) {
      places[n] = scratch_.ahead.pop(range);
      items[n] = scratch_.met[static_cast<std::size_t>(places[n])];
      graph_.details.prefetch(items[n]);
    }
    const std::size_t affordable = score(graph_.details, items, n, details);
    scratch_.close.expect(affordable);
    for (std::size_t i = 0; i < affordable; ++i) {
      const std::int32_t product = 4 * scratch_.products[static_cast<std::size_t>(places[i])] + details[i];
      const float estimate = CodedQuery::estimate(product, 5 * scratch_.query.offset - optimism_, graph_.details.scale(items[i]));
      scratch_.close.push(ranges_(estimate), items[i]);
    }
    return affordable == n;
  }

  const EligibleItems& eligible_;
  std::int64_t n_items_;
  SignedKeyRanges ranges_;
  std::int32_t optimism_ = 0;
  std::int32_t offset_ = 0;  // of first estimates
  std::size_t n_first_ = 0;  // of the page that nothing was known of
  std::size_t n_scanned_ = 0;  // estimated as they came
  std::int64_t entries_read_ = 0;
  Yield of_eligible_, of_others_;
};

}  // namespace greedy
