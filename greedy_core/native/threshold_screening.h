// Screening without a queue: the same candidates as algorithms 4 and 5, found by a threshold.
//
// Every item of C(w) has an entry z >= tau, where tau is the z of the last candidate. So guess a tau from the knots,
// take the prefix of each list down to it, remember each item's largest z, and keep the best B. A guess that was too high
// is lowered and the lists are read on from where they stopped; the result does not depend on the guess.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "candidate_screening.h"
#include "direction_lists.h"
#include "query_scratch.h"

namespace greedy {

// How many entries lie above a threshold, roughly: a histogram over the bits of a positive float, which are in the order of
// its value.
class EntryHistogram {
 public:
  explicit EntryHistogram(std::vector<std::int32_t>& counts) : counts_(counts) {}

  // Counts the entries of the active lists up to rank `limit`. False if none is positive: then the bits say nothing.
  bool assign(const std::vector<ActiveList>& active, const std::vector<std::int64_t>& ranks, std::int64_t limit) {
    float highest = 0.0f;
    for (const ActiveList& list : active) highest = std::max(highest, static_cast<float>(list.weight) * list.knots[0]);
    if (!(highest > kSmallest)) return false;
    top_ = bits(highest);
    const float floor = edge(kBuckets);
    counts_.assign(kBuckets + 1, 0);
    for (const ActiveList& list : active) {
      const auto weight = static_cast<float>(list.weight);
      float previous = weight * list.knots[0];
      if (previous <= floor) continue;
      ++counts_[bucket(previous)];
      for (std::size_t i = 1; i < ranks.size() && ranks[i - 1] <= limit; ++i) {
        const float z = weight * list.knots[i];
        // The entries between two knots are taken to lie half way.
        const float middle = 0.5f * (previous + z);
        if (middle <= floor) break;
        counts_[bucket(middle)] += static_cast<std::int32_t>(ranks[i] - ranks[i - 1]);
        previous = z;
      }
    }
    bucket_ = 0;
    estimate_ = 0;
    return true;
  }

  // Lowers the threshold until it is thought to have `entries` above it. False at the end of the range.
  bool lower_to(double entries) {
    if (bucket_ == kBuckets) return false;
    do {
      estimate_ += counts_[bucket_++];
    } while (bucket_ < kBuckets && static_cast<double>(estimate_) < entries);
    return true;
  }

  double threshold() const { return edge(bucket_); }
  double estimate() const { return static_cast<double>(estimate_); }

 private:
  static constexpr int kShift = 16;              // 128 buckets to an octave
  static constexpr std::size_t kBuckets = 1024;  // eight octaves below the highest entry
  static constexpr float kSmallest = 1e-30f;     // eight octaves below it there are still ordinary floats

  static std::uint32_t bits(float z) {
    std::uint32_t b;
    std::memcpy(&b, &z, sizeof b);
    return b >> kShift;
  }
  std::size_t bucket(float z) const { return top_ - bits(z); }
  // Everything in buckets below b is >= edge(b).
  float edge(std::size_t b) const {
    const std::uint32_t word = (top_ + 1 - static_cast<std::uint32_t>(b)) << kShift;
    float z;
    std::memcpy(&z, &word, sizeof z);
    return z;
  }

  std::vector<std::int32_t>& counts_;
  std::uint32_t top_ = 0;
  std::size_t bucket_ = 0;
  std::int64_t estimate_ = 0;
};

// Reads every list down to tau, but at most `limit` entries, and keeps each item's largest z. Returns the number of entries read.
inline std::int64_t collect_above(QueryScratch& scratch, std::int64_t limit, double tau) {
  std::int64_t entries_read = 0;
  for (std::size_t t = 0; t < scratch.active.size(); ++t) {
    const ActiveList& list = scratch.active[t];
    std::int64_t r = scratch.positions[t];
    const std::int64_t start = r;
    for (double z; r < limit && (z = list.z(r)) >= tau; ++r) {
      bool fresh;
      const auto next = static_cast<std::int32_t>(scratch.found.size());
      const std::int32_t position = scratch.visited.insert(list.ids[r], next, fresh);
      if (fresh) {
        scratch.found.push_back(list.ids[r]);
        scratch.largest.push_back(z);
      } else if (position != ItemTable::kExcluded) {
        double& largest = scratch.largest[static_cast<std::size_t>(position)];
        largest = std::max(largest, z);
      }
    }
    scratch.positions[t] = r;
    entries_read += r - start;
  }
  return entries_read;
}

inline std::int64_t screen_threshold(QueryScratch& scratch, const ListKnots& knots, std::int64_t depth,
                                     std::int64_t budget, bool ordered) {
  const auto wanted = static_cast<double>(budget);
  EntryHistogram histogram(scratch.histogram);
  std::int64_t entries_read = 0;
  // No list need be read past entry `budget`, the excluded items aside: what comes later has that many items before it.
  const std::int64_t limit = std::min(depth, budget + static_cast<std::int64_t>(scratch.excluded.size()));
  bool reachable = histogram.assign(scratch.active, knots.ranks(), limit);
  if (reachable) {
    begin_screening(scratch, budget + budget / 4);
    scratch.found.clear();
    scratch.largest.clear();
    scratch.positions.assign(scratch.active.size(), 0);
    double entries = 1.1 * wanted + 16;
    while (static_cast<std::int64_t>(scratch.found.size()) < budget && (reachable = histogram.lower_to(entries))) {
      entries_read += collect_above(scratch, limit, histogram.threshold());
      const auto found = static_cast<double>(scratch.found.size());
      // Some entries name an item again: ask for more of them in the proportion seen so far, but not for many at once.
      entries = histogram.estimate() * std::min(4.0, (1.1 * wanted + 16) / std::max(found, 1.0));
    }
  }
  // Entries that are not positive, or spread over more octaves than the histogram covers, are for the tree.
  if (!reachable) return entries_read + screen_improved(scratch, scratch.tree, depth, budget);
  scratch.best_by_largest.take(scratch.found, scratch.largest, static_cast<std::size_t>(budget), ordered, scratch.candidates);
  return entries_read;
}

}  // namespace greedy
