// The best top_k of a stream of scores: a bounded heap with the worst kept item at its root.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace greedy {

struct Scored {
  float score;
  std::int32_t id;
};

// The order of results: score descending, ties by item id.
inline bool better(const Scored& a, const Scored& b) { return a.score > b.score || (a.score == b.score && a.id < b.id); }

class TopK {
 public:
  void begin(std::int64_t top_k) {
    top_k_ = static_cast<std::size_t>(top_k);
    kept_.clear();
    kept_.reserve(top_k_);
    worst_ = -std::numeric_limits<float>::infinity();
  }

  void offer(float score, std::int32_t id) {
    if (!(score >= worst_)) return;  // nor a NaN, which a damaged row may give
    if (kept_.size() < top_k_) {
      kept_.push_back({score, id});
      std::push_heap(kept_.begin(), kept_.end(), better);
    } else if (better({score, id}, kept_.front())) {
      std::pop_heap(kept_.begin(), kept_.end(), better);
      kept_.back() = {score, id};
      std::push_heap(kept_.begin(), kept_.end(), better);
    }
    if (kept_.size() == top_k_) worst_ = kept_.front().score;
  }

  std::size_t size() const { return kept_.size(); }

  // Best first. Nothing may be offered afterwards.
  const std::vector<Scored>& sorted() {
    std::sort(kept_.begin(), kept_.end(), better);
    return kept_;
  }

 private:
  std::size_t top_k_ = 0;
  std::vector<Scored> kept_;
  float worst_ = 0;
};

}  // namespace greedy
