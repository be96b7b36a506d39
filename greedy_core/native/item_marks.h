// A bit for each item: small enough to stay in the caches, all zero between queries.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace greedy {

class ItemMarks {
 public:
  void reserve(std::int64_t n_items) {
    const auto words = static_cast<std::size_t>((n_items + 63) / 64);
    if (words_.size() < words) words_.resize(words, 0);
  }

  bool contains(std::int32_t item) const { return word(item) >> (item & 63) & 1; }

  // A bit for each item, the lowest of the first word for item 0.
  const std::uint64_t* words() const { return words_.data(); }

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

  // The items in ascending order, each once. All of them are below n_items.
  void sort_distinct(const std::int32_t* items, std::int64_t n, std::int64_t n_items, std::vector<std::int32_t>& sorted) {
    sorted.assign(items, items + n);
    // What a bundle stores is sorted already.
    bool ascending = true;
    for (std::int64_t i = 1; i < n; ++i) ascending &= items[i - 1] < items[i];
    if (ascending) return;
    // A pass over the bits of all items costs about as much as sorting one item out of every thousand.
    if (n < n_items / 1024) {
      std::sort(sorted.begin(), sorted.end());
      sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
      return;
    }
    reserve(n_items);
    const auto n_words = static_cast<std::size_t>((n_items + 63) / 64);
    for (std::int32_t item : sorted) words_[static_cast<std::size_t>(item) / 64] |= std::uint64_t{1} << (item % 64);
    sorted.clear();
    for (std::size_t at = 0; at < n_words; ++at) {
      // All bits are zero again afterwards.
      for (std::uint64_t word = std::exchange(words_[at], 0); word != 0; word &= word - 1) {
        sorted.push_back(static_cast<std::int32_t>(64 * at) + __builtin_ctzll(word));
      }
    }
  }

 private:
  std::uint64_t word(std::int32_t item) const { return words_[static_cast<std::size_t>(item) / 64]; }

  std::vector<std::uint64_t> words_;
};

}  // namespace greedy
