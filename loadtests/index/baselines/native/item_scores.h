// Scores that a sampling method collects for the items it meets, and the choice of the best of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "item_marks.h"

namespace baselines {

class ItemScores {
 public:
  explicit ItemScores(std::int64_t n_items) : marks_(n_items), score_(n_items, 0.0f) {}

  void add(std::int32_t item, float value) {
    if (marks_.mark(item)) {
      met_.push_back(item);
      score_[item] = value;
    } else {
      score_[item] += value;
    }
  }

  void prefetch(std::int32_t item) const { __builtin_prefetch(&score_[item], 1, 3); }

  // Hands over the `budget` items with the largest scores (ties by item) and forgets all of them.
  void take_best(std::int64_t budget, std::vector<std::int32_t>& best) {
    marks_.forget(met_);
    if (static_cast<std::int64_t>(met_.size()) > budget) {
      std::nth_element(met_.begin(), met_.begin() + budget, met_.end(), [this](std::int32_t a, std::int32_t b) {
        return score_[a] > score_[b] || (score_[a] == score_[b] && a < b);
      });
      met_.resize(static_cast<std::size_t>(budget));
    }
    best.swap(met_);
    met_.clear();
  }

 private:
  ItemMarks marks_;
  std::vector<float> score_;
  std::vector<std::int32_t> met_;
};

}  // namespace baselines
