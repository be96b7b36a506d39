// Exact ranking of a candidate set: the last stage of every method that is compared (section 3.1 of the paper).
//
// It uses the search core's own inner product, so a method differs from ours by its screening and by nothing else.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "inner_product.h"

namespace baselines {

// Rows padded to whole cache lines. A method that partitions the items keeps its rows in the order of its cells;
// `item_of` then tells which item a position holds, and is null where position and item are the same.
struct RowTable {
  const float* rows;
  std::int64_t stride;
  std::int64_t n_rows;
  const std::int32_t* item_of;

  std::int32_t item(std::int32_t position) const { return item_of ? item_of[position] : position; }
};

struct Scored {
  float score;
  std::int32_t item;

  // Equal scores are ordered by item, so that an answer does not depend on the order of its candidates.
  bool operator<(const Scored& other) const {
    return score > other.score || (score == other.score && item < other.item);
  }
};

class Ranking {
 public:
  // Writes the best `top_k` of the candidates, best first; missing places get item -1 and score 0.
  void rank(const RowTable& table, const float* query, const std::vector<std::int32_t>& positions,
            std::int64_t top_k, std::int32_t* items, float* scores) {
    const auto n = static_cast<std::int64_t>(positions.size());
    products_.resize(positions.size());
    greedy::inner_product_kernel().score_rows(table.rows, table.stride, query, positions.data(), n,
                                              products_.data());
    best_.clear();
    for (std::int64_t i = 0; i < n; ++i) {
      const Scored entry{products_[i], table.item(positions[i])};
      if (static_cast<std::int64_t>(best_.size()) < top_k) {
        best_.push_back(entry);
        std::push_heap(best_.begin(), best_.end());
      } else if (top_k > 0 && entry < best_.front()) {
        std::pop_heap(best_.begin(), best_.end());
        best_.back() = entry;
        std::push_heap(best_.begin(), best_.end());
      }
    }
    std::sort_heap(best_.begin(), best_.end());
    for (std::int64_t i = 0; i < top_k; ++i) {
      const bool found = i < static_cast<std::int64_t>(best_.size());
      items[i] = found ? best_[i].item : -1;
      scores[i] = found ? best_[i].score : 0.0f;
    }
  }

 private:
  std::vector<float> products_;
  std::vector<Scored> best_;
};

// Runs queries one after the other: screening into a list of positions, then the exact ranking.
template <class Screening>
void search_batch(Screening& screening, const RowTable& table, const float* queries, std::int64_t n_queries,
                  std::int64_t top_k, std::int32_t* items, float* scores, std::int64_t* candidates) {
  std::vector<std::int32_t> found;
  Ranking ranking;
  for (std::int64_t q = 0; q < n_queries; ++q) {
    const float* query = queries + q * table.stride;
    found.clear();
    screening.screen(query, found);
    candidates[q] = static_cast<std::int64_t>(found.size());
    ranking.rank(table, query, found, top_k, items + q * top_k, scores + q * top_k);
  }
}

}  // namespace baselines
