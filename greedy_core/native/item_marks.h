// A mark for each item, a bit each: small enough to stay in the caches, cleared by undoing what was marked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace greedy {

class ItemMarks {
 public:
  // All marks must have been cleared.
  void reserve(std::int64_t n_items) {
    const auto words = static_cast<std::size_t>((n_items + 63) / 64);
    if (words_.size() < words) words_.resize(words, 0);
  }

  bool contains(std::int32_t item) const { return word(item) >> (item & 63) & 1; }

  // True if it was not marked before.
  bool mark(std::int32_t item) {
    std::uint64_t& bits = words_[static_cast<std::size_t>(item) / 64];
    const std::uint64_t bit = std::uint64_t{1} << (item & 63);
    const bool fresh = (bits & bit) == 0;
    bits |= bit;
    return fresh;
  }

  void clear(const std::int32_t* marked, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) words_[static_cast<std::size_t>(marked[i]) / 64] = 0;
  }

 private:
  std::uint64_t word(std::int32_t item) const { return words_[static_cast<std::size_t>(item) / 64]; }

  std::vector<std::uint64_t> words_;
};

}  // namespace greedy
