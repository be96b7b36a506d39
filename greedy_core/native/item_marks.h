// A bit for each item: sorts many items, and drops those given twice, in one pass over the bits.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace greedy {

class ItemMarks {
 public:
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
    const auto n_words = static_cast<std::size_t>((n_items + 63) / 64);
    if (words_.size() < n_words) words_.resize(n_words, 0);
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
  std::vector<std::uint64_t> words_;
};

}  // namespace greedy
