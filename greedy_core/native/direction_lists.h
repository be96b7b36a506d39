// The index proper: for every direction a list of items, sorted by their projection on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace greedy {

// No value of an item or a query is larger, so that no inner product overflows.
constexpr float kMaxMagnitude = 1e15f;

// Entry r of a list is its r-th largest item: ids[r], values[r] = <h_ids[r], direction>. Equal values are in the order
// of their ids. Lists are cut to `depth` entries, which is all of the items when depth == n_items.
struct DirectionLists {
  const std::int32_t* ids = nullptr;
  const float* values = nullptr;
  std::int64_t n_lists = 0;
  std::int64_t depth = 0;
};

// A few values of every list, close together: enough to tell about how many entries lie above a threshold without
// touching the lists.
class ListKnots {
 public:
  void assign(const DirectionLists& lists) {
    ranks_.clear();
    // 0 1 2 3 5 7 11 15 23 31 ...: two to an octave, because values fall fast at first and slowly later.
    for (std::int64_t low = 1; low <= lists.depth; low *= 2) {
      ranks_.push_back(low - 1);
      if (low > 1 && low + low / 2 <= lists.depth) ranks_.push_back(low + low / 2 - 1);
    }
    if (ranks_.back() != lists.depth - 1) ranks_.push_back(lists.depth - 1);
    values_.clear();
    for (std::int64_t list = 0; list < lists.n_lists; ++list) {
      for (std::int64_t rank : ranks_) values_.push_back(lists.values[list * lists.depth + rank]);
    }
  }

  const std::vector<std::int64_t>& ranks() const { return ranks_; }
  const float* values(std::int64_t list) const { return values_.data() + list * static_cast<std::int64_t>(ranks_.size()); }

 private:
  std::vector<std::int64_t> ranks_;
  std::vector<float> values_;
};

// A list that a query follows, with the query's weight <w, direction> > 0. Directions of weight 0 are never active:
// they would compete with value 0 and bring in arbitrary items.
struct ActiveList {
  const std::int32_t* ids;
  const float* values;
  const float* knots;
  double weight;

  // z of entry r. Both factors are floats, so the product is exact in double: the joint ranking has no ties but true
  // ones, and within a list z falls exactly when the value does.
  double z(std::int64_t r) const { return weight * static_cast<double>(values[r]); }
};

}  // namespace greedy
